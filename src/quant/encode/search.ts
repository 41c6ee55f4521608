// The searches behind the K-quants: scales that make the rounded values lie as near as can be to the true ones, by least squares.
// A scale decides how values round, and the rounded values decide which scale fits them best; so several scales around the
// obvious one are tried, each is fitted again, and the best is fitted once more. Plain squared error: no value counts more.
// These loops are where `ingot quantize` spends its time: no closures, no allocation.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder is given whole blocks, and its counters stay within them */

/** x ~ scale * q - offset, offset >= 0 */
export interface RangeFit {
  scale: number
  offset: number
  /** the sum of squares that it leaves */
  error: number
}

/** how much longer or shorter the range is made, in quants, and the step between trials */
const SPREAD = 1
const STEP = 0.1
const REFITS = 2

/** The best scale and offset for quants 0..levels. Writes into `fit`. */
export function fitRange(x: Float32Array, from: number, count: number, levels: number, fit: RangeFit): void {
  let least = 0
  let most = x[from]!
  let sum = 0
  let squares = 0
  for (let i = from; i < from + count; i++) {
    const value = x[i]!
    if (value < least) least = value
    if (value > most) most = value
    sum += value
    squares += value * value
  }
  fit.scale = 0
  fit.offset = -least
  fit.error = Infinity
  if (!(most > least)) return
  for (let more = -SPREAD; more <= SPREAD; more += STEP)
    improveRange(x, from, count, levels, sum, squares, (levels + more) / (most - least), -least, fit)
  for (let i = 0; i < REFITS; i++) if (fit.scale > 0) improveRange(x, from, count, levels, sum, squares, 1 / fit.scale, fit.offset, fit)
}

/** Fits scale and offset to the quants that (1 / inverse, offset) give; keeps them in `fit` if they are better than what is there. */
function improveRange(
  x: Float32Array,
  from: number,
  count: number,
  levels: number,
  sum: number,
  squares: number,
  inverse: number,
  offset: number,
  fit: RangeFit,
): void {
  let q1 = 0
  let q2 = 0
  let xq = 0
  const shift = offset * inverse + 0.5
  for (let i = from; i < from + count; i++) {
    const value = x[i]!
    const raw = value * inverse + shift
    const q = raw < levels ? (raw > 0 ? raw | 0 : 0) : levels
    q1 += q
    q2 += q * q
    xq += value * q
  }
  if (q2 === 0) return
  const determinant = count * q2 - q1 * q1
  let scale = determinant > 0 ? (count * xq - sum * q1) / determinant : 0
  let lowest = determinant > 0 ? (q2 * sum - q1 * xq) / determinant : 1
  if (lowest > 0) {
    lowest = 0
    scale = xq / q2
  }
  const error = squares - scale * xq - lowest * sum
  if (!(error < fit.error) || !(scale > 0)) return
  fit.error = error
  fit.scale = scale
  fit.offset = lowest === 0 ? 0 : -lowest
}

/** The best scale, of either sign, for quants -levels..levels-1. */
export function fitScale(x: Float32Array, from: number, count: number, levels: number): number {
  let size = 0
  let most = 0
  for (let i = from; i < from + count; i++) {
    const value = x[i]!
    if (Math.abs(value) > size) {
      size = Math.abs(value)
      most = value
    }
  }
  if (size === 0) return 0
  let best = 0
  let found = 0
  for (let trial = 0; trial <= (2 * SPREAD) / STEP + REFITS; trial++) {
    const more = -SPREAD + trial * STEP
    const inverse = more <= SPREAD + STEP / 2 ? -(levels + more) / most : 1 / found
    let xq = 0
    let q2 = 0
    for (let i = from; i < from + count; i++) {
      const value = x[i]!
      const raw = value * inverse + (levels + 0.5)
      const q = (raw < 2 * levels ? (raw > 0 ? raw | 0 : 0) : 2 * levels - 1) - levels
      xq += value * q
      q2 += q * q
    }
    // The error is the values' squares less this.
    const explained = q2 === 0 ? 0 : (xq * xq) / q2
    if (explained <= best) continue
    best = explained
    found = xq / q2
  }
  return found
}
