// Is an array what it should be? The measure of all kernel tests: normalised mean square error, after everything that is not
// a finite number has been compared by class. Knows nothing of kernels.

import type { NumberArray } from '../../base/element.ts'

/** Sum of squared differences over sum of squares of `want`; elements that are not finite in `want` do not count. */
export function nmse(got: NumberArray, want: NumberArray): number {
  let difference = 0
  let size = 0
  for (let i = 0; i < want.length; i++) {
    const w = want[i] ?? NaN
    if (!Number.isFinite(w)) continue
    difference += ((got[i] ?? NaN) - w) ** 2
    size += w * w
  }
  return difference === 0 ? 0 : size === 0 ? Infinity : difference / size
}

/** What is wrong with `got`, in one line, or nothing. `tolerance` is the largest NMSE; 0 wants the same bits. */
export function findDifference(got: NumberArray | undefined, want: NumberArray, tolerance: number): string | undefined {
  if (got === undefined) return 'there is no such result'
  if (got.length !== want.length) return `${got.length} elements instead of ${want.length}`
  for (let i = 0; i < want.length; i++) {
    const [g, w] = [got[i] ?? NaN, want[i] ?? NaN]
    const same = Number.isFinite(w) ? Number.isFinite(g) && (tolerance > 0 || Object.is(g, w)) : Object.is(g, w)
    if (!same) return `element ${i} is ${g} instead of ${w}`
  }
  const error = nmse(got, want)
  return error <= tolerance ? undefined : `NMSE ${error.toExponential(2)} instead of at most ${tolerance}; ${worst(got, want)}`
}

function worst(got: NumberArray, want: NumberArray): string {
  let at = 0
  const off = (i: number): number => Math.abs((got[i] ?? NaN) - (want[i] ?? NaN))
  for (let i = 1; i < want.length; i++) if (off(i) > off(at)) at = i
  return `worst is element ${at}: ${got[at]} instead of ${want[at]}`
}
