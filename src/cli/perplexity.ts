// How well a model predicts a text: the exponential of the mean surprise per token. The text is cut into windows of the context
// length that do not overlap; each begins with BOS where the tokenizer puts one, else its first token is not scored. Knows nothing of
// the terminal.

import { IngotError } from '../base/error.ts'
import type { Model } from '../llm/model.ts'
import { endedByCtrlC } from './interruption.ts'

export interface Perplexity {
  readonly perplexity: number
  /** mean over the scored tokens, in nats */
  readonly loss: number
  /** tokens that were scored */
  readonly tokens: number
  readonly windows: number
  readonly contextLength: number
  readonly ms: number
}

export interface PerplexityOptions {
  readonly signal?: AbortSignal
  readonly onProgress?: (done: number, total: number) => void
}

export async function measurePerplexity(model: Model, text: string, options: PerplexityOptions = {}): Promise<Perplexity> {
  const { signal, onProgress } = options
  const begun = performance.now()
  const { contextLength, tokenizer, vocabulary } = model
  const start = tokenizer.addsBos && tokenizer.bos !== undefined ? [tokenizer.bos] : []
  const tokens = endedByCtrlC(() => model.tokenize(text))
  const windows = cutWindows(tokens, contextLength, start)
  const total = windows.reduce((sum, window) => sum + window.length, 0)
  let [loss, scored, done] = [0, 0, 0]
  for (const window of windows) {
    await model.evaluate(
      window,
      (logits, from) => {
        const rows = logits.length / vocabulary
        for (let row = 0; row < rows; row++) {
          const next = window[from + row + 1]
          if (next === undefined) break
          loss += surprise(logits.subarray(row * vocabulary, (row + 1) * vocabulary), next)
          scored++
        }
        onProgress?.(done + from + rows, total)
      },
      signal === undefined ? {} : { signal },
    )
    done += window.length
  }
  const mean = loss / scored
  if (!Number.isFinite(Math.exp(mean)))
    throw new IngotError('bad-argument', 'the text has no finite perplexity', { op: 'eval', got: `a mean surprise of ${mean}` })
  return { perplexity: Math.exp(mean), loss: mean, tokens: scored, windows: windows.length, contextLength, ms: performance.now() - begun }
}

/** Windows of at most `length` tokens, each beginning with `start`; one in which nothing can be scored is left out. */
export function cutWindows(tokens: readonly number[], length: number, start: readonly number[]): number[][] {
  const stride = length - start.length
  if (stride < 1 || length < 2)
    throw new IngotError('bad-argument', 'the context is too short for perplexity', { op: 'eval', got: length, wanted: 'at least 2' })
  const windows: number[][] = []
  for (let at = 0; at < tokens.length; at += stride) windows.push([...start, ...tokens.slice(at, at + stride)])
  const kept = windows.filter((window) => window.length > 1)
  if (kept.length === 0)
    throw new IngotError('bad-argument', 'the text is too short for perplexity', { op: 'eval', got: `${tokens.length} tokens` })
  return kept
}

/** -ln of the probability that the logits give a token. */
function surprise(logits: Float32Array, token: number): number {
  let highest = -Infinity
  for (const logit of logits) if (logit > highest) highest = logit
  let sum = 0
  for (const logit of logits) sum += Math.exp(logit - highest)
  return Math.log(sum) + highest - (logits[token] ?? -Infinity)
}
