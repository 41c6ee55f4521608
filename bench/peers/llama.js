// node-llama-cpp as the bench uses it: a model, a context and its sequences, with the settings under test. Prebuilt binaries only:
// nothing is compiled or downloaded here.

import { LlamaLogLevel, getLlama } from 'node-llama-cpp'

/**
 * @typedef {{ threads?: number, batch?: number, flash?: boolean, gpu?: boolean, sequences?: number }} Settings
 * @typedef {Awaited<ReturnType<typeof openModel>>} Opened
 */

/** One native library per process; models come and go. @type {ReturnType<typeof getLlama> | undefined} */
let library

/** @param {string} path @param {number} context @param {Settings} settings */
export async function openModel(path, context, { threads, batch, flash, gpu = false, sequences = 1 }) {
  // maxThreads 0: no limit but the context's own number of threads.
  library ??= getLlama({
    gpu: gpu ? 'auto' : false,
    build: 'never',
    skipDownload: true,
    progressLogs: false,
    maxThreads: 0,
    logLevel: LlamaLogLevel.error,
  })
  const llama = await library
  const model = await llama.loadModel({ modelPath: path })
  const created = await model.createContext({
    contextSize: context,
    sequences,
    failedCreationRemedy: false,
    ...(threads === undefined ? {} : { threads: { ideal: threads, min: threads } }),
    ...(batch === undefined ? {} : { batchSize: Math.min(batch, context) }),
    ...(flash === undefined ? {} : { flashAttention: flash }),
  })
  const all = Array.from({ length: sequences }, () => created.getSequence())
  return { llama, model, context: created, sequence: /** @type {(typeof all)[0]} */ (all[0]), sequences: all }
}

/** Feeds tokens, yields greedy ones without end. @param {Opened['sequence']} sequence @param {number[]} tokens */
export function decode(sequence, tokens) {
  return sequence.evaluate(/** @type {any} */ (tokens), { temperature: 0, yieldEogToken: true })
}
