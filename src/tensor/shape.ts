// Shapes that meet: broadcasting, and the strides of walking a smaller tensor along a larger one.

import { fail } from './operand.ts'

export const last = (shape: readonly number[]): number => shape.at(-1) ?? 1

export function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, axis) => size === b[axis])
}

/** The common shape of operands whose axes are equal or 1, aligned at the last axis. */
export function broadcast(op: string, shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length))
  return Array.from({ length: rank }, (_, axis) => {
    const sizes = shapes.map((shape) => shape[axis - rank + shape.length] ?? 1)
    const size = sizes.find((s) => s !== 1) ?? 1
    if (sizes.some((s) => s !== 1 && s !== size)) fail(op, 'shapes do not broadcast', shapes.map((s) => `[${s.join(',')}]`).join(' and '))
    return size
  })
}

/** Elements to step per axis of `out` to walk a contiguous tensor of `shape` that broadcasts to it; 0 where it repeats. */
export function stridesFor(shape: readonly number[], out: readonly number[]): number[] {
  const strides = Array.from({ length: out.length }, () => 0)
  let step = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const size = shape[axis] ?? 1
    if (size !== 1) strides[axis + out.length - shape.length] = step
    step *= size
  }
  return strides
}
