// Finds stop strings in text that arrives in pieces. Text is passed on as soon as it cannot be the beginning of a stop
// string any more; the stop string itself never is. Knows nothing of tokens.
//
// Generation stops at the first place where any stop string is complete; of several complete there, the longest counts.
// So the result does not depend on how the text was cut. Work is linear in the text, times the number of stop strings.

import { IngotError } from '../base/error.ts'

export interface StopResult {
  /** text that is now certain not to belong to a stop string */
  readonly emit: string
  /** the stop string that was found; from then on every push is ignored */
  readonly stopped?: string
}

export interface StopMatcher {
  push(text: string): StopResult
  /** What was held back, for the end of the text; nothing after a stop. The matcher can be used again. */
  flush(): string
}

/** One stop string and how much of it the text so far ends with. */
interface Watch {
  readonly stop: string
  /** for each length matched: the longest shorter beginning that is also an end of it */
  readonly fallback: Int32Array
  matched: number
}

export function createStopMatcher(stops: readonly string[]): StopMatcher {
  for (const stop of stops) {
    if (typeof stop !== 'string' || stop.length === 0) {
      throw new IngotError('bad-argument', 'a stop string must not be empty', { op: 'stop', got: JSON.stringify(stop) })
    }
  }
  const watches: readonly Watch[] = [...new Set(stops)].map((stop) => ({ stop, fallback: buildFallback(stop), matched: 0 }))
  let held = ''
  let stopped: string | undefined

  return {
    push(text) {
      if (stopped !== undefined) return { emit: '', stopped }
      for (let i = 0; i < text.length; i++) {
        const found = advance(watches, text.charCodeAt(i))
        if (found === undefined) continue
        stopped = found
        const seen = held + text.slice(0, i + 1)
        held = ''
        return { emit: seen.slice(0, seen.length - found.length), stopped }
      }
      const all = held + text
      const keep = watches.reduce((most, { matched }) => Math.max(most, matched), 0)
      held = all.slice(all.length - keep)
      return { emit: all.slice(0, all.length - keep) }
    },
    flush() {
      const rest = held
      held = ''
      stopped = undefined
      for (const watch of watches) watch.matched = 0
      return rest
    },
  }
}

/** Takes one more UTF-16 unit; returns the longest stop string that it completes. */
function advance(watches: readonly Watch[], unit: number): string | undefined {
  let found: string | undefined
  for (const watch of watches) {
    const { stop, fallback } = watch
    while (watch.matched > 0 && stop.charCodeAt(watch.matched) !== unit) watch.matched = fallback[watch.matched] ?? 0
    if (stop.charCodeAt(watch.matched) === unit) watch.matched++
    if (watch.matched === stop.length && (found === undefined || stop.length > found.length)) found = stop
  }
  return found
}

/** The failure function of Knuth, Morris and Pratt. */
function buildFallback(stop: string): Int32Array {
  const fallback = new Int32Array(stop.length + 1)
  for (let length = 2, shorter = 0; length <= stop.length; length++) {
    while (shorter > 0 && stop[shorter] !== stop[length - 1]) shorter = fallback[shorter] ?? 0
    if (stop[shorter] === stop[length - 1]) shorter++
    fallback[length] = shorter
  }
  return fallback
}
