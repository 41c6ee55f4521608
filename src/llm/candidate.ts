// Candidates for the next token and the filters that narrow them: pure functions over parallel arrays. Knows nothing of
// options, randomness or history.
//
// Invariant: `sorted` lists run from the highest logit down, equal logits by rising id; filters keep the order.

/* oxlint-disable typescript/no-non-null-assertion -- indices run over the arrays that they read, or are positions in them */

export interface Candidates {
  readonly ids: Int32Array
  readonly logits: Float32Array
}

/** Up to here a heap of k beats a native sort of all. */
const SMALL_K = 1024
/** Ids lie below this. A sort key is the logit's bits, turned so that higher comes first, times this, plus the id: exact in a double. */
export const ID_LIMIT = 2 ** 21

/** The k highest logits, sorted; ties go to the lower id. */
export function selectTop(logits: Float32Array, k: number): Candidates {
  if (k < logits.length && k <= SMALL_K) return selectByHeap(logits, k)
  return sortCandidates({ ids: countUp(logits.length), logits }, k)
}

/** Sorted, and cut to k where the list is longer. Sorts plain numbers: no comparison function. */
export function sortCandidates({ ids, logits }: Candidates, k = ids.length): Candidates {
  const bits = new Uint32Array(ids.length)
  const values = new Float32Array(bits.buffer)
  const keys = new Float64Array(ids.length)
  for (let i = 0; i < keys.length; i++) {
    values[i] = logits[i]! + 0 // -0 and 0 are equal logits
    const turned = bits[i]! >= 0x80000000 ? bits[i]! : 0x7fffffff - bits[i]!
    keys[i] = turned * ID_LIMIT + ids[i]!
  }
  keys.sort()
  const count = Math.min(k, keys.length)
  const sorted = new Int32Array(count)
  for (let i = 0; i < count; i++) {
    const turned = Math.floor(keys[i]! / ID_LIMIT)
    sorted[i] = keys[i]! - turned * ID_LIMIT
    bits[i] = turned >= 0x80000000 ? turned : 0x7fffffff - turned
  }
  return { ids: sorted, logits: values.slice(0, count) }
}

/** 0, 1, 2...: the ids of a whole vocabulary. */
export function countUp(length: number): Int32Array {
  const ids = new Int32Array(length)
  for (let id = 0; id < length; id++) ids[id] = id
  return ids
}

/** Softmax in double precision. */
export function softmax(logits: Float32Array, temperature = 1): Float64Array {
  const highest = findHighest(logits)
  const weights = new Float64Array(logits.length)
  let sum = 0
  for (let i = 0; i < weights.length; i++) sum += weights[i] = Math.exp((logits[i]! - highest) / temperature)
  for (let i = 0; i < weights.length; i++) weights[i]! /= sum
  return weights
}

function findHighest(logits: Float32Array): number {
  let highest = -Infinity
  for (let i = 0; i < logits.length; i++) if (logits[i]! > highest) highest = logits[i]!
  return highest
}

/** The shortest beginning of a sorted list whose probability reaches p; at least one. */
export function keepTopP(sorted: Candidates, p: number): Candidates {
  const probabilities = softmax(sorted.logits)
  let sum = 0
  let kept = 0
  while (kept < probabilities.length && (kept === 0 || sum < p)) sum += probabilities[kept++]!
  return takeFirst(sorted, kept)
}

/** The same from the logits of a whole vocabulary; sorts all of it only where a few do not reach p. */
export function selectTopP(logits: Float32Array, p: number): Candidates {
  const probabilities = softmax(logits)
  for (let k = SMALL_K; ; k = logits.length) {
    const top = selectTop(logits, k)
    let sum = 0
    for (let i = 0; i < top.ids.length; i++) {
      sum += probabilities[top.ids[i]!]!
      if (sum >= p) return takeFirst(top, i + 1)
    }
    if (k >= logits.length) return top
  }
}

/** Those at least p times as probable as the best. */
export function keepMinP(candidates: Candidates, p: number): Candidates {
  const least = findHighest(candidates.logits) + Math.log(p)
  const kept: number[] = []
  for (let i = 0; i < candidates.logits.length; i++) if (candidates.logits[i]! >= least) kept.push(i)
  return pick(candidates, kept)
}

/**
 * Locally typical sampling (Meister et al., 2022): those whose surprise is nearest to the expected surprise, until their
 * probability reaches p; sorted again.
 */
export function keepTypical(candidates: Candidates, p: number): Candidates {
  const probabilities = softmax(candidates.logits)
  const surprise = probabilities.map((probability) => -Math.log(probability))
  const entropy = probabilities.reduce((sum, each, i) => (each > 0 ? sum + each * surprise[i]! : sum), 0)
  const strangeness = surprise.map((each) => Math.abs(each - entropy))
  const typicalFirst = Uint32Array.from(strangeness, (_, i) => i)
  typicalFirst.sort((a, b) => (strangeness[a] === strangeness[b] ? a - b : strangeness[a]! - strangeness[b]!))
  let sum = 0
  let kept = 0
  while (kept < typicalFirst.length && (kept === 0 || sum < p)) sum += probabilities[typicalFirst[kept++]!]!
  return sortCandidates(pick(candidates, typicalFirst.subarray(0, kept)))
}

/** The id of one of the candidates, by their probabilities: the one at which their running sum passes `share`, from 0 to 1. */
export function drawCandidate({ ids, logits }: Candidates, temperature: number, share: number): number {
  const probabilities = softmax(logits, temperature)
  let left = share
  for (let i = 0; i < probabilities.length; i++) {
    left -= probabilities[i]!
    if (left < 0) return ids[i]!
  }
  // rounding: the probabilities summed to a hair below the share
  return ids[probabilities.findLastIndex((each) => each > 0)]!
}

/** The id of the highest logit, the lowest among equals; at least one candidate must be there. */
export function findBestId(candidates: Candidates): number {
  return sortCandidates(candidates, 1).ids[0]!
}

function takeFirst({ ids, logits }: Candidates, count: number): Candidates {
  return { ids: ids.subarray(0, count), logits: logits.subarray(0, count) }
}

function pick({ ids, logits }: Candidates, positions: ArrayLike<number>): Candidates {
  const result = { ids: new Int32Array(positions.length), logits: new Float32Array(positions.length) }
  for (let i = 0; i < positions.length; i++) {
    result.ids[i] = ids[positions[i]!]!
    result.logits[i] = logits[positions[i]!]!
  }
  return result
}

/** Keeps the best k in a heap with the worst on top; most logits are refused by one comparison. */
function selectByHeap(logits: Float32Array, k: number): Candidates {
  const heap = Int32Array.from({ length: k }, (_, id) => id)
  /** a later id with an equal logit is worse */
  const worse = (a: number, b: number): boolean => logits[a]! < logits[b]! || (logits[a] === logits[b] && a > b)
  const sink = (at: number): void => {
    const id = heap[at]!
    for (let child = 2 * at + 1; child < k; child = 2 * at + 1) {
      if (child + 1 < k && worse(heap[child + 1]!, heap[child]!)) child++
      if (!worse(heap[child]!, id)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = id
  }
  for (let at = (k >> 1) - 1; at >= 0; at--) sink(at)
  for (let id = k; id < logits.length; id++) {
    if (logits[id]! <= logits[heap[0]!]!) continue
    heap[0] = id
    sink(0)
  }
  return sortCandidates({ ids: heap, logits: Float32Array.from(heap, (id) => logits[id]!) })
}
