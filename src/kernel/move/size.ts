// What the families that move elements demand of the sizes they are given.

import { IngotError } from '../../base/error.ts'

/** Throws `bad-argument` unless all are whole numbers from 1 on: kernels are not launched for tensors without elements. */
export function checkSizes(op: string, sizes: Readonly<Record<string, number>>): void {
  if (Object.values(sizes).every((size) => Number.isInteger(size) && size >= 1)) return
  throw new IngotError('bad-argument', 'a size is no whole number from 1 on', { op, got: sizes, wanted: 'tensors with elements' })
}
