// `ingot eval`: what a model predicts over given tokens. With --tokens, the logits of every position as raw little-endian f32, row by
// row; with --text, the perplexity of a file. Does not generate.

import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { printableJson } from '../../base/printable.ts'
import type { Model } from '../../llm/model.ts'
import type { Output } from '../../weights/output.ts'
import type { ByteSink } from '../../weights/sink.ts'
import { Failure } from '../failure.ts'
import { type Interruption, interruptible } from '../interruption.ts'
import { tokenList } from '../option/number.ts'
import { type ModelFlags, addModelOptions, checkFile, checkModelPath, loadWithBar } from '../option/shared.ts'
import { type Perplexity, measurePerplexity } from '../perplexity.ts'
import { checkOutput, openOutput } from '../output/file.ts'
import { showProgress } from '../output/progress.ts'
import { writeOut } from '../output/style.ts'

interface EvalFlags extends ModelFlags {
  readonly tokens?: readonly number[]
  readonly out?: string
  readonly force?: true
  readonly text?: string
  readonly json?: true
}

export function define(command: Command): void {
  command
    .argument('[model]', 'a GGUF file')
    .option('--tokens <ids>', 'write the logits of every position of these token ids: 1,2,3', tokenList)
    .option('-o, --out <file>', 'file for the logits (default: stdout, unless it is a terminal)')
    .option('-f, --force', 'replace an existing file')
    .option('--text <file>', 'print the perplexity of this file, in windows of --ctx tokens')
  addModelOptions(command).option('--json', 'print the summary as one JSON object').action(evaluate)
}

async function evaluate(path: string | undefined, flags: EvalFlags): Promise<void> {
  const { tokens, text } = flags
  const file = await checkModelPath('eval', path)
  if ((tokens === undefined) === (text === undefined)) throw new Failure('use either --tokens 1,2,3 or --text FILE')
  if (text !== undefined && flags.out !== undefined) throw new Failure('--out is for the logits of --tokens')
  if (tokens !== undefined && flags.out === undefined) {
    if (flags.json === true) throw new Failure('--json needs --out: stdout cannot hold the logits as well')
    if (process.stdout.isTTY) throw new Failure('logits are raw bytes; use --out FILE, or redirect stdout')
  }
  if (text !== undefined) await checkFile(text)
  const out = flags.out === undefined ? undefined : await checkOutput(flags.out, { force: flags.force === true, inputs: [file] })
  await interruptible(async (interruption) => {
    if (tokens !== undefined) await writeLogits(file, tokens, out, flags, interruption)
    else if (text !== undefined) await printPerplexity(file, await readFile(text, 'utf8'), flags, interruption)
  })
}

async function writeLogits(
  file: string,
  tokens: readonly number[],
  out: Output | undefined,
  flags: EvalFlags,
  { signal }: Interruption,
): Promise<void> {
  await using model = await loadWithBar(file, flags, signal)
  const sink: ByteSink = out === undefined ? { write: (bytes) => writeOut(process.stdout, bytes) } : openOutput(out)
  const bar = showProgress('evaluating')
  const begun = performance.now()
  let bytes = 0
  try {
    await model.evaluate(
      tokens,
      async (logits, from) => {
        bytes += logits.byteLength
        await sink.write(new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength))
        bar.update(from, tokens.length)
      },
      { signal },
    )
    await sink.finish?.()
  } catch (error) {
    await sink.abort?.().catch(() => {})
    throw error
  } finally {
    bar.end()
  }
  if (flags.json !== true) return
  const summary = {
    device: model.device.name,
    tokens: tokens.length,
    vocabulary: model.vocabulary,
    out: flags.out,
    bytes,
    ms: performance.now() - begun,
  }
  process.stdout.write(`${printableJson(summary)}\n`)
}

async function printPerplexity(file: string, input: string, flags: EvalFlags, { signal }: Interruption): Promise<void> {
  await using model = await loadWithBar(file, flags, signal)
  const bar = showProgress('evaluating')
  let result: Perplexity
  try {
    result = await measurePerplexity(model, input, { signal, onProgress: (done, total) => bar.update(done, total) })
  } finally {
    bar.end()
  }
  const text = flags.json === true ? printableJson({ device: model.device.name, ...result }) : describe(model, result)
  process.stdout.write(`${text}\n`)
}

function describe(model: Model, { perplexity, tokens, windows, contextLength, ms }: Perplexity): string {
  const scored = `${tokens} tokens in ${windows} window${windows === 1 ? '' : 's'} of ${contextLength}`
  const speed = Math.round((tokens / ms) * 1000)
  return `perplexity ${perplexity.toFixed(4)} (${scored}, ${model.device.name}, ${speed} tok/s)`
}
