// Candidates for the next token and the filters that narrow them: pure functions over parallel arrays. Knows nothing of
// options, randomness or history.
//
// Invariant: `sorted` lists run from the highest logit down, equal logits by rising id; filters keep the order.

export interface Candidates {
  readonly ids: Int32Array
  readonly logits: Float32Array
}

/** Up to here a heap of k beats sorting a copy. */
const SMALL_K = 256

/** The k highest logits, sorted; ties go to the lower id. Never sorts the whole list by comparison. */
export function selectTop(logits: Float32Array, k: number): Candidates {
  if (k >= logits.length) return sortCandidates({ ids: Int32Array.from(logits, (_, id) => id), logits })
  return k <= SMALL_K ? selectByHeap(logits, k) : selectByThreshold(logits, k)
}

/** Sorted, and cut to k where the list is longer. */
export function sortCandidates({ ids, logits }: Candidates, k = ids.length): Candidates {
  const order = Uint32Array.from(ids, (_, i) => i)
  order.sort((a, b) => logits[b]! - logits[a]! || ids[a]! - ids[b]!)
  return pick({ ids, logits }, order.subarray(0, k))
}

/** Softmax in double precision. */
export function softmax(logits: Float32Array, temperature = 1): Float64Array {
  let highest = -Infinity
  for (const logit of logits) if (logit > highest) highest = logit
  let sum = 0
  const weights = Float64Array.from(logits, (logit) => {
    const weight = Math.exp((logit - highest) / temperature)
    sum += weight
    return weight
  })
  return weights.map((weight) => weight / sum)
}

/** The shortest beginning of a sorted list whose probability reaches p; at least one. */
export function keepTopP(sorted: Candidates, p: number): Candidates {
  const probabilities = softmax(sorted.logits)
  let sum = 0
  let kept = 0
  while (kept < probabilities.length && (kept === 0 || sum < p)) sum += probabilities[kept++]!
  return first(sorted, kept)
}

/** The same from the logits of a whole vocabulary, sorting no more of it than it keeps needing. */
export function selectTopP(logits: Float32Array, p: number): Candidates {
  const probabilities = softmax(logits)
  for (let k = SMALL_K; ; k *= 16) {
    const top = selectTop(logits, k)
    let sum = 0
    for (let i = 0; i < top.ids.length; i++) {
      sum += probabilities[top.ids[i]!]!
      if (sum >= p) return first(top, i + 1)
    }
    if (k >= logits.length) return top
  }
}

/** Those at least p times as probable as the best. */
export function keepMinP(candidates: Candidates, p: number): Candidates {
  let highest = -Infinity
  for (const logit of candidates.logits) if (logit > highest) highest = logit
  const least = highest + Math.log(p)
  const kept: number[] = []
  candidates.logits.forEach((logit, i) => logit >= least && kept.push(i))
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
  const order = Uint32Array.from(strangeness, (_, i) => i)
  order.sort((a, b) => (strangeness[a] === strangeness[b] ? a - b : strangeness[a]! - strangeness[b]!))
  let sum = 0
  let kept = 0
  while (kept < order.length && (kept === 0 || sum < p)) sum += probabilities[order[kept++]!]!
  return sortCandidates(pick(candidates, order.subarray(0, kept)))
}

function first({ ids, logits }: Candidates, count: number): Candidates {
  return { ids: ids.subarray(0, count), logits: logits.subarray(0, count) }
}

function pick({ ids, logits }: Candidates, places: ArrayLike<number>): Candidates {
  const result = { ids: new Int32Array(places.length), logits: new Float32Array(places.length) }
  for (let i = 0; i < places.length; i++) {
    result.ids[i] = ids[places[i]!]!
    result.logits[i] = logits[places[i]!]!
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

/** A native sort of a copy tells the k-th highest logit; those above it are in, equals by rising id while room lasts. */
function selectByThreshold(logits: Float32Array, k: number): Candidates {
  const threshold = logits.slice().sort()[logits.length - k]!
  let above = 0
  for (const logit of logits) if (logit > threshold) above++
  let room = k - above
  const ids: number[] = []
  logits.forEach((logit, id) => {
    if (logit > threshold || (logit === threshold && room-- > 0)) ids.push(id)
  })
  return sortCandidates({ ids: Int32Array.from(ids), logits: Float32Array.from(ids, (id) => logits[id]!) })
}
