// Chooses the next token from logits. Options are checked and resolved once; the sampler that results keeps only its
// random state. What happens to the logits, in this order: bias, penalties, top-k, typical, top-p, min-p, temperature, draw.
//
// Exactly one random number is drawn per sampled token, whatever the filters leave, so equal seeds stay in step.

import { IngotError } from '../base/error.ts'
import type { DrawRule } from '../kernel/select/draw.ts'
import {
  type Candidates,
  ID_LIMIT,
  countUp,
  drawCandidate,
  findBestId,
  keepMinP,
  keepTopP,
  keepTypical,
  selectTop,
  selectTopP,
  sortCandidates,
} from './candidate.ts'
import { createRandom } from './random.ts'

export type { Candidates } from './candidate.ts'

/** How the next token is chosen. Values out of range throw `bad-argument` when a generation is made. */
export interface SampleOptions {
  /** divides the logits, so that more of it makes less probable tokens likelier; 0 takes the most probable one (default 0.8) */
  readonly temperature?: number
  /** only the k most probable tokens; 0 is off (default 40) */
  readonly topK?: number
  /** only the fewest tokens that together have this probability, above 0 to 1; 1 is off (default 0.95) */
  readonly topP?: number
  /** only tokens at least this many times as probable as the best, 0 to 1; 0 is off (default 0.05) */
  readonly minP?: number
  /** only locally typical tokens that together have this probability, above 0 to 1; 1 is off (default 1) */
  readonly typicalP?: number
  /** divides the positive logits of recent tokens, multiplies the negative ones; above 0, 1 is off (default 1) */
  readonly repetitionPenalty?: number
  /** how many of the last tokens, prompt included, the penalties see; -1 is all (default 64) */
  readonly repetitionWindow?: number
  /** subtracted once from the logits of recent tokens; 0 is off (default 0) */
  readonly presencePenalty?: number
  /** subtracted from the logits of recent tokens once per occurrence; 0 is off (default 0) */
  readonly frequencyPenalty?: number
  /** a whole number from 0; the same seed gives the same tokens (default: another one each time) */
  readonly seed?: number
  /** added to the logits of single tokens, by id; -Infinity forbids one */
  readonly logitBias?: ReadonlyMap<number, number> | Readonly<Record<number, number>>
}

/** Chooses tokens; keeps only its random state. Throws `bad-argument` for logits that are no numbers or forbid every token. */
export interface Sampler {
  /** Logits of the whole vocabulary, index = id. Does not change them. */
  (logits: Float32Array, history?: ArrayLike<number>): number
  /** The same from candidates that a device has selected; right where `needs` says that they suffice. */
  fromCandidates(candidates: Candidates): number
  /** What it must see. `start`: the position of the last token before the first one it chooses. */
  needs(start: number): SamplerNeeds
  readonly seed: number
}

/**
 * What a sampler must see: only the best token, the k best with their logits, or all logits. With a rule the device draws from the k
 * best itself: then the token is all that is needed.
 */
export type SamplerNeeds = 'argmax' | 'logits' | { readonly topK: number; readonly rule?: DrawRule }

/** What it is then given. */
export type SamplerInput =
  | { readonly kind: 'token'; readonly token: number }
  | ({ readonly kind: 'candidates' } & Candidates)
  | { readonly kind: 'logits'; readonly logits: Float32Array }

const DEFAULTS = {
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  typicalP: 1,
  repetitionPenalty: 1,
  repetitionWindow: 64,
  presencePenalty: 0,
  frequencyPenalty: 0,
} as const

type Resolved = { readonly [K in keyof typeof DEFAULTS]: number } & {
  readonly seed: number
  readonly bias: ReadonlyMap<number, number>
}

/** Throws `bad-argument` for options out of range. */
export function createSampler(options: SampleOptions = {}): Sampler {
  const resolved = resolve(options)
  const random = createRandom(resolved.seed)
  const adjusts = changesLogits(resolved)
  const { topK, temperature } = resolved

  const draw = (sorted: Candidates | undefined, all: Float32Array): number =>
    drawCandidate(narrow(sorted, all, resolved), temperature, random())

  const sample = (logits: Float32Array, history: ArrayLike<number> = []): number => {
    const adjusted = adjusts ? adjust(logits, history, resolved) : logits
    const best = findBest(adjusted)
    if (temperature === 0) return best
    return draw(topK > 0 ? selectTop(adjusted, topK) : undefined, adjusted)
  }
  const fromCandidates = (candidates: Candidates): number => {
    if (candidates.ids.length !== candidates.logits.length) {
      throw new IngotError('bad-argument', 'ids and logits differ in length', {
        op: 'sample',
        got: [candidates.ids.length, candidates.logits.length],
        wanted: 'equal lengths',
      })
    }
    for (const id of candidates.ids) {
      if (id < 0 || id >= ID_LIMIT) throw new IngotError('bad-argument', 'a candidate is no token', { op: 'sample', got: id })
    }
    findBest(candidates.logits)
    if (temperature === 0) return findBestId(candidates)
    const sorted = sortCandidates(candidates, topK > 0 ? topK : undefined)
    return draw(sorted, sorted.logits)
  }
  return Object.assign(sample, { fromCandidates, needs: (start: number) => needsOf(resolved, start), seed: resolved.seed })
}

function needsOf(resolved: Resolved, start: number): SamplerNeeds {
  const { temperature, topK, topP, minP, typicalP, seed } = resolved
  if (changesLogits(resolved)) return 'logits'
  if (temperature === 0 || topK === 1) return 'argmax'
  if (topK === 0) return 'logits'
  return typicalP < 1 ? { topK } : { topK, rule: { temperature, topP, minP, seed, start, count: topK } }
}

function changesLogits(resolved: Resolved): boolean {
  const { bias, repetitionPenalty, repetitionWindow, presencePenalty, frequencyPenalty } = resolved
  const penalises = repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0
  return bias.size > 0 || (penalises && repetitionWindow !== 0)
}

/** All filters after top-k; each is skipped when off. Without a sorted list, the logits are those of the vocabulary. */
function narrow(sorted: Candidates | undefined, logits: Float32Array, { typicalP, topP, minP }: Resolved): Candidates {
  let left = sorted
  if (typicalP < 1) left = keepTypical(left ?? everything(logits), typicalP)
  if (topP < 1) left = left === undefined ? selectTopP(logits, topP) : keepTopP(left, topP)
  left ??= everything(logits)
  return minP > 0 ? keepMinP(left, minP) : left
}

/** In the order of the ids: drawing needs no order. */
function everything(logits: Float32Array): Candidates {
  return { ids: countUp(logits.length), logits }
}

/** What is said of results that are no numbers, wherever it is noticed. */
export function noNumber(what: string, got: number): IngotError {
  return new IngotError('bad-argument', `${what} is not a number below infinity`, {
    op: 'sample',
    got,
    hint: 'the model computed garbage: try another device or a smaller context',
  })
}

/** The id of the highest logit, the lowest among equals. Refuses logits that are no probabilities: NaN, infinity, or none. */
export function findBest(logits: Float32Array): number {
  let [best, highest, id] = [-1, -Infinity, 0]
  for (const logit of logits) {
    if (!(logit < Infinity)) throw noNumber(`logit ${id}`, logit)
    if (logit > highest) {
      highest = logit
      best = id
    }
    id++
  }
  if (best < 0) throw new IngotError('bad-argument', 'no token is possible', { op: 'sample', got: `${logits.length} logits` })
  return best
}

function adjust(logits: Float32Array, history: ArrayLike<number>, resolved: Resolved): Float32Array {
  const { bias, repetitionPenalty, repetitionWindow, presencePenalty, frequencyPenalty } = resolved
  const adjusted = logits.slice()
  for (const [id, value] of bias) if (id < adjusted.length) adjusted[id] = value + (adjusted[id] ?? 0)
  const counts = new Map<number, number>()
  const from = repetitionWindow < 0 ? 0 : Math.max(0, history.length - repetitionWindow)
  for (const id of Array.from(history).slice(from)) counts.set(id, (counts.get(id) ?? 0) + 1)
  for (const [id, count] of counts) {
    const logit = adjusted[id]
    if (logit === undefined) continue
    const repeated = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty
    adjusted[id] = repeated - count * frequencyPenalty - presencePenalty
  }
  return adjusted
}

// ---- options ----

function resolve(options: SampleOptions): Resolved {
  const value = (name: keyof typeof DEFAULTS, wanted: string, holds: (x: number) => boolean): number => {
    const given = options[name] ?? DEFAULTS[name]
    if (typeof given === 'number' && holds(given)) return given
    throw new IngotError('bad-argument', `${name} is out of range`, { op: 'sample', got: given, wanted })
  }
  const whole = Number.isSafeInteger
  const seed = options.seed ?? Math.floor(Math.random() * 2 ** 32)
  if (!whole(seed) || seed < 0) {
    throw new IngotError('bad-argument', 'seed is out of range', { op: 'sample', got: seed, wanted: 'a whole number from 0' })
  }
  return {
    temperature: value('temperature', 'a finite number from 0', (x) => x >= 0 && x < Infinity),
    topK: value('topK', 'a whole number from 0', (x) => whole(x) && x >= 0),
    topP: value('topP', 'above 0, up to 1', (x) => x > 0 && x <= 1),
    minP: value('minP', 'from 0 to 1', (x) => x >= 0 && x <= 1),
    typicalP: value('typicalP', 'above 0, up to 1', (x) => x > 0 && x <= 1),
    repetitionPenalty: value('repetitionPenalty', 'a finite number above 0', (x) => x > 0 && x < Infinity),
    repetitionWindow: value('repetitionWindow', 'a whole number from -1', (x) => whole(x) && x >= -1),
    presencePenalty: value('presencePenalty', 'a finite number', Number.isFinite),
    frequencyPenalty: value('frequencyPenalty', 'a finite number', Number.isFinite),
    seed,
    bias: readBias(options.logitBias),
  }
}

function readBias(given: SampleOptions['logitBias']): ReadonlyMap<number, number> {
  const listed = (record: object): [number, number][] => Object.entries(record).map(([id, value]) => [Number(id), value])
  const entries = given instanceof Map ? [...given] : listed(given ?? {})
  for (const [id, value] of entries) {
    if (Number.isSafeInteger(id) && id >= 0 && typeof value === 'number' && value < Infinity) continue
    const wanted = 'token ids with numbers below infinity'
    throw new IngotError('bad-argument', 'logitBias is malformed', { op: 'sample', got: [id, value], wanted })
  }
  return new Map(entries)
}
