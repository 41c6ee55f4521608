// Other ways to see memory that is there: the strides of a tensor after it was permuted, expanded, sliced or given another shape. Pure
// arithmetic on shapes; rewrite/view.ts decides who can read such a view, and who needs a copy.

import type { View } from '../kernel/map/walk.ts'
import { contiguous } from '../kernel/map/walk.ts'

/** A tensor of some shape in some memory. */
export interface Seen extends View {
  readonly shape: readonly number[]
  readonly offset: number
}

/** All of a buffer, row by row. */
export function seenWhole(shape: readonly number[]): Seen {
  return { shape, strides: contiguous(shape), offset: 0 }
}

/** Whether a view is all of a buffer of its size, row by row. */
export function isWhole({ shape, strides, offset }: Seen): boolean {
  return offset === 0 && contiguous(shape).every((step, axis) => shape[axis] === 1 || step === strides[axis])
}

/** Axis i of the result is axis `axes[i]`. */
export function permuted({ shape, strides, offset }: Seen, axes: readonly number[]): Seen {
  return { shape: axes.map((axis) => shape[axis] ?? 1), strides: axes.map((axis) => strides[axis] ?? 0), offset }
}

/** Axes of size 1 repeated, new ones in front. */
export function expanded({ shape, strides, offset }: Seen, to: readonly number[]): Seen {
  const before = to.length - shape.length
  const steps = to.map((size, axis) => (axis < before || (shape[axis - before] === 1 && size !== 1) ? 0 : (strides[axis - before] ?? 0)))
  return { shape: to, strides: steps, offset }
}

/** From `starts` on, `sizes` elements along each axis, in `steps` that may go backwards. */
export function sliced(
  { strides, offset }: Seen,
  { starts, sizes, steps }: { readonly starts: readonly number[]; readonly sizes: readonly number[]; readonly steps: readonly number[] },
): Seen {
  return {
    shape: sizes,
    strides: strides.map((step, axis) => step * (steps[axis] ?? 1)),
    offset: starts.reduce((sum, start, axis) => sum + start * (strides[axis] ?? 0), offset),
  }
}

/**
 * The same elements in another shape; undefined where no strides say it. Each run of axes that can be walked as one is cut into the new
 * axes that have as many elements.
 */
export function reshaped({ shape, strides, offset }: Seen, to: readonly number[]): Seen | undefined {
  const axes = shape.flatMap((size, axis) => (size === 1 ? [] : [{ size, step: strides[axis] ?? 0 }]))
  const steps = to.map(() => 0)
  let next = 0
  for (let axis = 0; axis < to.length;) {
    if (to[axis] === 1) {
      axis++
      continue
    }
    const first = axis
    let [wanted, found] = [to[axis++] ?? 1, axes[next]?.size ?? 1]
    const from = next++
    while (wanted !== found) {
      if (wanted < found) wanted *= to[axis++] ?? 1
      else found *= axes[next++]?.size ?? 1
    }
    const run = axes.slice(from, next)
    const isRun = run.every(({ step }, i) => {
      const inner = run[i + 1]
      return inner === undefined || step === inner.step * inner.size
    })
    if (!isRun) return undefined
    let step = run.at(-1)?.step ?? 0
    for (let at = axis - 1; at >= first; at--) {
      steps[at] = step
      step *= to[at] ?? 1
    }
  }
  return { shape: to, strides: steps, offset }
}
