// The searches behind the K-quants: scales that make the rounded values lie as near as can be to the true ones, by least squares.
// A scale decides how values round, and the rounded values decide which scale fits them best; so several scales around the
// obvious one are tried, each is fitted again, and the best is fitted once more. Plain squared error: no value counts more.

import { clampRound } from './encode.ts'

/** x ~ scale * q - offset, offset >= 0 */
export interface RangeFit { scale: number; offset: number }

/** how much longer or shorter the range is made, in quants, and the step between trials */
const SPREAD = 1
const STEP = 0.1
const REFITS = 2

/** The best scale and offset for quants 0..levels. Writes into `fit`. */
export function fitRange(x: Float32Array, from: number, count: number, levels: number, fit: RangeFit): void {
  let [least, most, sum, squares] = [0, x[from]!, 0, 0]
  for (let i = from; i < from + count; i++) {
    const value = x[i]!
    if (value < least) least = value
    if (value > most) most = value
    sum += value
    squares += value * value
  }
  fit.scale = 0
  fit.offset = -least
  if (!(most > least)) return
  let best = Infinity
  // Fits scale and offset to the quants that (1 / scale, offset) give; keeps them if they are the best yet.
  const attempt = (inverse: number, offset: number): void => {
    let [q1, q2, xq] = [0, 0, 0]
    for (let i = from; i < from + count; i++) {
      const value = x[i]!
      const raw = (value + offset) * inverse + 0.5
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
    if (!(error < best) || !(scale > 0)) return
    best = error
    fit.scale = scale
    fit.offset = lowest === 0 ? 0 : -lowest
  }
  for (let more = -SPREAD; more <= SPREAD; more += STEP) attempt((levels + more) / (most - least), -least)
  for (let i = 0; i < REFITS; i++) if (fit.scale > 0) attempt(1 / fit.scale, fit.offset)
}

/** The best scale, of either sign, for quants -levels..levels-1. */
export function fitScale(x: Float32Array, from: number, count: number, levels: number): number {
  let [size, most] = [0, 0]
  for (let i = from; i < from + count; i++) {
    const value = x[i]!
    if (Math.abs(value) > size) {
      size = Math.abs(value)
      most = value
    }
  }
  if (size === 0) return 0
  let [best, found] = [-1, 0]
  const attempt = (inverse: number): void => {
    let [xq, q2] = [0, 0]
    for (let i = from; i < from + count; i++) {
      const value = x[i]!
      const q = clampRound(value * inverse, -levels, levels - 1)
      xq += value * q
      q2 += q * q
    }
    // The error is the values' squares less this.
    const explained = q2 === 0 ? 0 : (xq * xq) / q2
    if (explained <= best || q2 === 0) return
    best = explained
    found = xq / q2
  }
  for (let more = -SPREAD; more <= SPREAD; more += STEP) attempt(-(levels + more) / most)
  for (let i = 0; i < REFITS; i++) if (found !== 0) attempt(1 / found)
  return found
}
