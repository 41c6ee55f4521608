// Numbers on their way into a tensor and out of it: lists in lists, typed arrays, single numbers.

import { describeKind } from '../base/argument.ts'
import { type ElementType, encodeElements } from '../base/element.ts'
import { sizeOf } from './node.ts'
import { checkElementType, checkShape, fail } from './operand.ts'

/** Lists in lists that are deeper are no tensors: one of them may hold itself. */
const MOST_AXES = 32

type TypedArray =
  | Float32Array
  | Float64Array
  | Int32Array
  | Uint32Array
  | Int16Array
  | Uint16Array
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | BigInt64Array
/** Values of a tensor as lists in lists, one level for each axis. */
export type NestedNumbers = number | NestedNumbers[]
/** What a tensor can be made of. */
export type NumberSource = number | boolean | TypedArray | readonly NestedSource[]
type NestedSource = number | boolean | readonly NestedSource[]

export interface FromOptions {
  /** default: that of the lists, or one axis */
  readonly shape?: readonly number[]
  readonly dtype?: ElementType
}

export interface HostValues {
  readonly bytes: Uint8Array
  readonly shape: readonly number[]
  readonly dtype: ElementType
}

/** The types that hold the elements of typed arrays as they are, by the names of these. */
const SAME: Readonly<Record<string, ElementType>> = {
  Float32Array: 'f32',
  Float64Array: 'f64',
  Float16Array: 'f16',
  Int32Array: 'i32',
  Uint32Array: 'u32',
  Int8Array: 'i8',
  Uint8Array: 'u8',
  Uint8ClampedArray: 'u8',
  BigInt64Array: 'i64',
}
/** Those of arrays whose elements no type holds just so: doubles are made for few devices, and there are no integers of 16 bits. */
const WIDER: Readonly<Record<string, ElementType>> = { Float64Array: 'f32', Int16Array: 'i32', Uint16Array: 'i32' }

function isTypedArray(values: unknown): values is TypedArray {
  return ArrayBuffer.isView(values) && !(values instanceof DataView) && 'length' in values
}

/** The bytes of what a caller gave, which may change its own afterwards. */
export function hostValues(values: NumberSource, { shape, dtype }: FromOptions): HostValues {
  if (dtype !== undefined) checkElementType('from', dtype)
  if (isTypedArray(values)) {
    const name = values[Symbol.toStringTag]
    const own = SAME[name]
    const type =
      dtype ?? WIDER[name] ?? own ?? fail('from', 'no tensor holds the elements of this array', name, Object.keys(SAME).join(' '))
    const bytes =
      type === own ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength).slice() : encodeElements(type, numbersOf(values))
    return { bytes, shape: checkSize(shape ?? [values.length], values.length), dtype: type }
  }
  const flat: (number | boolean)[] = []
  const found = flatten(values, flat)
  const allBools = flat.length > 0 && flat.every((value) => typeof value === 'boolean')
  const type = dtype ?? (allBools ? 'bool' : 'f32')
  return { bytes: encodeElements(type, flat.map(Number)), shape: checkSize(shape ?? found, flat.length), dtype: type }
}

function numbersOf(values: TypedArray): ArrayLike<number> {
  return Array.from<number | bigint, number>(values, Number)
}

function checkSize(shape: readonly number[], count: number): readonly number[] {
  checkShape('from', shape)
  if (sizeOf(shape) !== count) fail('from', 'wrong number of values', count, `${sizeOf(shape)} for [${shape.join(',')}]`)
  return shape
}

/** Puts all numbers into `flat`; gives the shape of the lists, which must be alike. */
function flatten(values: unknown, flat: (number | boolean)[], depth = 0): number[] {
  if (typeof values === 'number' || typeof values === 'boolean') {
    flat.push(values)
    return []
  }
  if (!Array.isArray(values)) return fail('from', 'a value is no number', describeKind(values), 'numbers, lists of them, or a typed array')
  if (depth === MOST_AXES) fail('from', 'lists lie too deep', depth, `at most ${MOST_AXES} axes`)
  const shapes = values.map((value: unknown) => flatten(value, flat, depth + 1))
  const [first = []] = shapes
  const odd = shapes.findIndex((shape) => shape.join() !== first.join())
  if (odd >= 0) fail('from', 'lists differ in length', `[${shapes[odd]?.join(',')}] at ${odd}`, `[${first.join(',')}] as at 0`)
  return [values.length, ...first]
}

/** Values as lists in lists. */
export function nest(values: ArrayLike<number>, shape: readonly number[]): NestedNumbers {
  const [size, ...rest] = shape
  if (size === undefined) return values[0] ?? Number.NaN
  if (rest.length === 0) return Array.from(values)
  const each = sizeOf(rest)
  return Array.from({ length: size }, (_, i) =>
    nest(
      Array.from({ length: each }, (__, j) => values[i * each + j] ?? Number.NaN),
      rest,
    ),
  )
}
