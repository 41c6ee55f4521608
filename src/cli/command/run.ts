// `ingot run`: continues a prompt. Text to stdout as it comes and nothing else there; statistics to stderr.

import type { Command } from 'commander'
import { printableJson } from '../../base/printable.ts'
import type { GenerationResult } from '../../llm/generation.ts'
import type { Model } from '../../llm/model.ts'
import { Failure } from '../failure.ts'
import { endedByCtrlC, interruptible } from '../interruption.ts'
import { tokenList } from '../option/number.ts'
import {
  type ModelFlags,
  type SampleFlags,
  addModelOptions,
  addSampleOptions,
  checkFile,
  generateOptions,
  loadWithBar,
} from '../option/shared.ts'
import { describeStats } from '../output/stats.ts'
import { styleFor, textFor } from '../output/style.ts'

interface RunFlags extends ModelFlags, SampleFlags {
  readonly prompt?: string
  readonly promptTokens?: readonly number[]
  readonly json?: true
  readonly stats?: true
}

export function define(command: Command): void {
  command
    .argument('[model]', 'a GGUF file (default: the small model that comes with Ingot)')
    .option('-p, --prompt <text>', 'the text to continue; - reads it from stdin')
    .option('--prompt-tokens <ids>', 'token ids instead of text: 1,2,3', tokenList)
  addSampleOptions(addModelOptions(command))
    .option('--json', 'print one JSON object with text, tokens and statistics, at the end')
    .option('--stats', 'print statistics to stderr, even if it is not a terminal')
    .action(run)
}

async function run(path: string | undefined, flags: RunFlags): Promise<void> {
  if (path !== undefined) await checkFile(path)
  const prompt = await readPrompt(flags)
  await interruptible(async ({ signal }) => {
    await using model = await loadWithBar(path, flags, signal)
    const result = await generate(model, prompt, flags, signal)
    if (flags.json === true) process.stdout.write(`${printableJson(summary(model, result))}\n`)
    if (flags.stats === true || (flags.json !== true && process.stderr.isTTY)) {
      process.stderr.write(`${styleFor(process.stderr).dim(describeStats(model, result.stats))}\n`)
    }
  })
}

/** Writes the text as it comes, unless JSON was asked for. */
async function generate(model: Model, prompt: string | readonly number[], flags: RunFlags, signal: AbortSignal): Promise<GenerationResult> {
  const generation = endedByCtrlC(() => model.generate(prompt, generateOptions(flags)))
  const stop = (): void => generation.cancel()
  signal.addEventListener('abort', stop)
  try {
    if (flags.json === true) return await generation
    for await (const piece of generation) process.stdout.write(textFor(process.stdout, piece))
    const result = await generation
    if (!model.hasTokenizer) process.stdout.write(`${result.tokens.join(',')}\n`)
    else if (process.stdout.isTTY && !result.text.endsWith('\n')) process.stdout.write('\n')
    return result
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function readPrompt({ prompt, promptTokens }: RunFlags): Promise<string | readonly number[]> {
  if (prompt !== undefined && promptTokens !== undefined) throw new Failure('--prompt and --prompt-tokens exclude each other')
  if (promptTokens !== undefined) return promptTokens
  if (prompt !== undefined && prompt !== '-') return prompt
  if (prompt === undefined && process.stdin.isTTY) throw new Failure('no prompt given; use -p "text", or pipe it in')
  const text = await readStdin()
  if (prompt === undefined && text === '') throw new Failure('the prompt from stdin is empty; use -p "text", or pipe it in')
  return text
}

/** All of stdin, without the newline that `echo` adds. */
async function readStdin(): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of process.stdin) parts.push(Buffer.from(part as Uint8Array))
  return Buffer.concat(parts)
    .toString('utf8')
    .replace(/\r?\n$/, '')
}

function summary(model: Model, { text, tokens, finishReason, stats }: GenerationResult): object {
  return {
    text,
    tokens,
    device: model.device.name,
    finishReason,
    stats: {
      loadMs: model.loadMs,
      promptTokens: stats.promptTokens,
      cachedTokens: stats.cachedTokens,
      prefillTokensPerSecond: stats.prefillTokensPerSecond,
      generatedTokens: stats.generatedTokens,
      decodeTokensPerSecond: stats.decodeTokensPerSecond,
      submissionsPerToken: stats.submissionsPerToken,
      dispatchesPerToken: stats.dispatchesPerToken,
      bytesPerToken: stats.bytesPerToken,
      fallbacks: model.fallbacks,
    },
  }
}
