// What operations ask of their operands, in one wording: types that kernels read as they are, shapes that fit each other, numbers that
// make sense. A kernel trusts sizes, so what is refused here would be read or written past an end. Looks at shapes, changes nothing.

import { IngotError } from '../base/error.ts'
import { formatOf } from '../quant/index.ts'
import { type StoredType, type TensorNode, leafOf, sizeOf } from './node.ts'

/** Kernels count elements in 32 bits. */
const MOST_ELEMENTS = 2 ** 32 - 1

export function fail(op: string, what: string, got: unknown, wanted?: unknown, hint?: string): never {
  throw new IngotError('bad-argument', what, {
    op,
    got,
    ...(wanted === undefined ? {} : { wanted }),
    ...(hint === undefined ? {} : { hint }),
  })
}

export function show(node: TensorNode): string {
  return `${node.label ?? node.op}[${node.shape.join(',')}]`
}

/** A shape that kernels can walk: whole sizes from 1, and not too many elements. */
export function checkShape(op: string, shape: readonly number[]): void {
  if (!shape.every((size) => Number.isSafeInteger(size) && size > 0)) fail(op, 'bad shape', shape, 'whole numbers from 1')
  if (sizeOf(shape) > MOST_ELEMENTS) fail(op, 'too many elements', shape, `at most ${MOST_ELEMENTS}`)
}

/** Operands by number, as many as the operation has. */
export function checkCount(op: string, src: readonly TensorNode[], wanted: number): void {
  if (src.length !== wanted) fail(op, 'wrong number of operands', src.length, wanted)
}

/** Elements that a kernel reads as what they are: computed, or a leaf that holds just these. */
export function checkType(op: string, name: string, node: TensorNode, ...types: readonly StoredType[]): void {
  const leaf = leafOf(node)
  const plain = leaf === undefined || (leaf.layout !== 'packed' && leaf.format === (node.type === 'u32' ? 'i32' : node.type))
  if (plain && types.includes(node.type)) return
  fail(op, `wrong type of ${name}`, `${show(node)} of ${leaf?.format ?? node.type}`, types.join(' or '))
}

/** One size per axis; undefined: any. */
export function checkAxes(op: string, name: string, node: TensorNode, wanted: readonly (number | undefined)[]): void {
  const { shape } = node
  if (shape.length === wanted.length && wanted.every((size, axis) => size === undefined || size === shape[axis])) return
  fail(op, `wrong shape of ${name}`, show(node), `[${wanted.map((size) => size ?? 'any').join(',')}]`)
}

/** As many elements as this, whatever the axes. */
export function checkSize(op: string, name: string, node: TensorNode, wanted: number): void {
  if (sizeOf(node.shape) !== wanted) fail(op, `wrong size of ${name}`, show(node), `${wanted} elements`)
}

/** A matrix of any format that kernels can read, as the file has it; or one that was computed. */
export function checkMatrix(op: string, name: string, node: TensorNode): void {
  const leaf = leafOf(node)
  if (leaf === undefined) checkType(op, name, node, 'f32', 'f16')
  else if (leaf.layout !== 'file') fail(op, `${name} is packed`, show(node), 'the layout of the file')
  else formatOf(leaf.format) // refuses those that no kernel reads
  checkAxes(op, name, node, [undefined, undefined])
}

export function checkWhole(op: string, name: string, value: number, least: number, most: number = MOST_ELEMENTS): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return
  fail(op, `${name} is out of range`, value, `a whole number from ${least} to ${most}`)
}

export function checkFinite(op: string, name: string, value: number, least = -Infinity): void {
  if (Number.isFinite(value) && value >= least) return
  fail(op, `${name} is out of range`, value, least === -Infinity ? 'a finite number' : `a finite number from ${least}`)
}
