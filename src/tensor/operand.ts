// What operations ask of their operands, in one wording: types that kernels read as they are, shapes that fit each other, numbers that
// make sense. A kernel trusts sizes, so what is refused here would be read or written past an end. Looks at shapes, changes nothing.

import { checkOptions, describeKind } from '../base/argument.ts'
import { IngotError } from '../base/error.ts'
import type { Device } from '../device/device.ts'
import { formatOf } from '../quant/index.ts'
import type { GgmlType } from '../quant/type.ts'
import { ELEMENT_TYPES, type ElementType, isElementType } from '../base/element.ts'
import { type TensorNode, type TensorType, sizeOf } from './node.ts'

/** Kernels count elements in 32 bits. */
export const MOST_ELEMENTS = 2 ** 32 - 1

export function fail(op: string, what: string, got: unknown, wanted?: unknown, hint?: string): never {
  throw new IngotError('bad-argument', what, {
    op,
    got,
    ...(wanted === undefined ? {} : { wanted }),
    ...(hint === undefined ? {} : { hint }),
  })
}

/** A list, whatever is in it. */
export function checkList(op: string, name: string, value: readonly unknown[]): void {
  if (!Array.isArray(value)) fail(op, `${name} is no list`, describeKind(value), 'a list')
}

/** One of these words. */
export function checkWord(op: string, name: string, value: string, words: readonly string[]): void {
  if (!words.includes(value)) fail(op, `no such ${name}`, typeof value === 'string' ? value : describeKind(value), words.join(' or '))
}

export function checkElementType(op: string, type: ElementType): void {
  checkWord(op, 'type', type, ELEMENT_TYPES)
}

/** Options are an object; `null` is none. */
export function optionsOf<T extends object>(op: string, options: T): T {
  checkOptions(op, options)
  return options
}

export function show(node: TensorNode): string {
  return `${node.label ?? node.op}[${node.shape.join(',')}]`
}

/** A shape that kernels can walk: whole sizes from 1, and not too many elements. */
export function checkShape(op: string, shape: readonly number[]): void {
  checkList(op, 'the shape', shape)
  if (!shape.every((size) => Number.isSafeInteger(size) && size > 0)) fail(op, 'bad shape', shape, 'whole numbers from 1')
  if (sizeOf(shape) > MOST_ELEMENTS) fail(op, 'too many elements', shape, `at most ${MOST_ELEMENTS}`)
}

/** Elements that a kernel reads one after the other: computed, or a leaf that holds just these. */
export function checkType(op: string, name: string, node: TensorNode, ...types: readonly TensorType[]): void {
  if (isPlain(node) && types.includes(node.dtype)) return
  fail(op, `wrong type of ${name}`, `${show(node)} of ${node.dtype}`, types.join(' or '))
}

/** The type of a tensor of single elements. */
export function checkElements(op: string, name: string, node: TensorNode): ElementType {
  const { dtype } = node
  if (isElementType(dtype) && isPlain(node)) return dtype
  return fail(
    op,
    `wrong type of ${name}`,
    `${show(node)} of ${dtype}`,
    'a tensor of single elements',
    `.to('f32') gives the values of weights`,
  )
}

/** What can be added and multiplied. */
export function checkNumbers(op: string, type: ElementType): void {
  if (type === 'bool') fail(op, 'bools are no numbers', type, 'numbers', `.to('i32') first`)
}

function isPlain(node: TensorNode): boolean {
  return node.op !== 'leaf' || node.attrs.layout === 'plain'
}

/** Refuses 64-bit floats where the device has none: no other type holds what they do. */
export function checkDoubles(node: TensorNode, { name, caps }: Pick<Device, 'name' | 'caps'>): void {
  if (node.dtype !== 'f64' || caps.f64) return
  throw new IngotError('unsupported', `${name} has no 64-bit floats`, {
    op: node.op === 'leaf' ? 'tensor' : node.op,
    got: `${show(node)} of f64`,
    hint: `make it with dtype 'f32', or on the device 'cpu'`,
  })
}

/** One size per axis; an axis of `undefined` may have whatever size. */
export function checkAxes(op: string, name: string, node: TensorNode, wanted: readonly (number | undefined)[]): void {
  const { shape } = node
  if (shape.length === wanted.length && wanted.every((size, axis) => size === undefined || size === shape[axis])) return
  fail(op, `wrong shape of ${name}`, show(node), `[${wanted.map((size) => size ?? 'any').join(',')}]`)
}

/** As many elements as this, whatever the axes. */
export function checkSize(op: string, name: string, node: TensorNode, wanted: number): void {
  if (sizeOf(node.shape) !== wanted) fail(op, `wrong size of ${name}`, show(node), `${wanted} elements`)
}

/** The format of a matrix of any that kernels can read. */
export function checkMatrix(op: string, name: string, node: TensorNode): GgmlType {
  const { dtype } = node
  if (!isPlain(node) || dtype === 'u32' || dtype === 'i32' || dtype === 'u8' || dtype === 'bool')
    return fail(op, `wrong type of ${name}`, `${show(node)} of ${dtype}`, 'a weight')
  formatOf(dtype) // refuses those that no kernel reads
  checkAxes(op, name, node, [undefined, undefined])
  return dtype
}

export function checkWhole(op: string, name: string, value: number, least: number, most: number = MOST_ELEMENTS): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return
  fail(op, `${name} is out of range`, numberOrKind(value), `a whole number from ${least} to ${most}`)
}

export function checkFinite(op: string, name: string, value: number, least = -Infinity): void {
  if (Number.isFinite(value) && value >= least) return
  fail(op, `${name} is out of range`, numberOrKind(value), least === -Infinity ? 'a finite number' : `a finite number from ${least}`)
}

function numberOrKind(value: unknown): unknown {
  return typeof value === 'number' ? value : describeKind(value)
}
