// The peer's process in `ingot bench --against node-llama-cpp`: stays alive and handles the requests of its IPC channel, one at a
// time. The requests and replies are those of src/bench/contender.ts.

import { readFileSync } from 'node:fs'
import { serve } from './channel.js'
import { decode, openModel } from './llama.js'

/**
 * @typedef {import('./llama.js').Settings} Settings
 * @typedef {{ id: number, kind: string, model: string, context: number, settings: Settings, tokens: number[], prompts: number[][], count: number }} Request
 */

const { version } = JSON.parse(readFileSync(new URL('./node_modules/node-llama-cpp/package.json', import.meta.url), 'utf8'))

/** @type {import('./llama.js').Opened | undefined} */
let opened

const handlers = {
  async open(/** @type {Request} */ { model, context, settings }) {
    await close()
    const begun = performance.now()
    opened = await openModel(model, context, settings)
    const ms = performance.now() - begun
    const { gpu } = opened.llama
    return { ms, info: { name: 'node-llama-cpp', version, device: gpu === false ? 'cpu' : gpu, detail: 'llama.cpp', gpu: gpu !== false } }
  },

  /** All tokens in, the first greedy token out. */
  async prefill(/** @type {Request} */ { tokens }) {
    const { sequence } = need()
    await sequence.clearHistory()
    const begun = performance.now()
    const generated = decode(sequence, tokens)
    await generated.next()
    const ms = performance.now() - begun
    await generated.return()
    return { ms }
  },

  /** `count` greedy tokens after a context that is kept from the last time if it is the same. */
  async decode(/** @type {Request} */ { tokens, count }) {
    const { sequence } = need()
    const kept = sharedLength(sequence.contextTokens, tokens)
    if (kept < sequence.nextTokenIndex) await sequence.eraseContextTokenRanges([{ start: kept, end: sequence.nextTokenIndex }])
    const generated = decode(sequence, tokens.slice(kept))
    await generated.next()
    const decoded = []
    const begun = performance.now()
    while (decoded.length < count) decoded.push(Number((await generated.next()).value))
    const ms = performance.now() - begun
    await generated.return()
    return { ms, tokens: decoded }
  },

  /** `count` greedy tokens after each prompt, all at the same time, from empty sequences; with the time of each token. */
  async parallel(/** @type {Request} */ { prompts, count }) {
    const { sequences } = need()
    for (const sequence of sequences) await sequence.clearHistory()
    const begun = performance.now()
    const times = await Promise.all(
      prompts.map(async (prompt, i) => {
        const own = []
        const generated = decode(/** @type {any} */ (sequences[i]), prompt)
        while (own.length < count) {
          await generated.next()
          own.push(performance.now() - begun)
        }
        await generated.return()
        return own
      }),
    )
    return { ms: performance.now() - begun, times }
  },

  async peak() {
    return { bytes: process.resourceUsage().maxRSS * 1024 }
  },
}

serve(handlers)

function need() {
  if (opened === undefined) throw new Error('no model is open')
  return opened
}

async function close() {
  await opened?.context.dispose()
  await opened?.model.dispose()
  opened = undefined
}

/**
 * How many tokens may stay; the last is fed again, to have its logits.
 * @param {readonly number[]} held
 * @param {readonly number[]} wanted
 */
function sharedLength(held, wanted) {
  let shared = 0
  while (shared < wanted.length - 1 && shared < held.length && held[shared] === wanted[shared]) shared++
  return shared
}
