// Rules for taking vectors apart and putting them together. Part of the Folder (fold.ts): a rule returns a simpler node or
// undefined.

import { type DType, type Width, asWidth, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import type { Arg, OpName } from '../op.ts'
import { type Making, constantOf, elementsOf } from './constant.ts'

export function simplifyVector(into: Making, op: OpName, dtype: DType, src: readonly Node[], arg: Arg): Node | undefined {
  const [x, y] = src
  if (x === undefined) return undefined
  switch (op) {
    case 'extract':
      return extract(into, dtype, x, Number(arg))
    case 'slice':
      return slice(into, dtype, x, Number(arg))
    case 'vec':
      return gather(into, dtype, x, src)
    case 'join':
      return y === undefined ? undefined : join(into, dtype, x, y)
    case 'hany':
    case 'hall':
      return decide(into, op === 'hany' ? 1 : 0, x)
    default:
      return undefined
  }
}

function extract(into: Making, dtype: DType, x: Node, lane: number): Node | undefined {
  switch (x.op) {
    case 'vec':
      return x.src[lane]
    case 'splat':
      return x.src[0]
    case 'slice':
      return into.make('extract', dtype, [x.src[0]], lane + x.arg)
    case 'join': {
      const [a, b] = x.src
      const half = widthOf(x.dtype) / 2
      return into.make('extract', dtype, [lane < half ? a : b], lane % half)
    }
    default:
      return undefined
  }
}

function slice(into: Making, dtype: DType, x: Node, from: number): Node | undefined {
  const width = widthOf(dtype)
  switch (x.op) {
    case 'vec':
      return into.make('vec', dtype, x.src.slice(from, from + width))
    case 'splat':
      return into.make('splat', dtype, [x.src[0]])
    case 'slice':
      return into.make('slice', dtype, [x.src[0]], from + x.arg)
    case 'join': {
      const [a, b] = x.src
      const half = widthOf(x.dtype) / 2
      if (Math.floor(from / half) !== Math.floor((from + width - 1) / half)) return undefined
      const side = from < half ? a : b
      return width === half ? side : into.make('slice', dtype, [side], from % half)
    }
    default:
      return undefined
  }
}

/** A decision that constants make: one element that is `deciding`, or none. */
function decide(into: Making, deciding: 0 | 1, x: Node): Node | undefined {
  const elements = elementsOf(x)?.map(constantOf)
  if (elements?.includes(deciding) === true) return into.constant(deciding, 'bool')
  if (elements?.every((each) => each !== undefined) === true) return into.constant(1 - deciding, 'bool')
  return x.op === 'splat' ? x.src[0] : undefined
}

/** Elements that come from one place: all the same, or one after the other out of a vector. */
function gather(into: Making, dtype: DType, first: Node, src: readonly Node[]): Node | undefined {
  if (src.every((node) => node === first)) return into.make('splat', dtype, [first])
  if (first.op !== 'extract') return undefined
  const [whole] = first.src
  const from = first.arg
  if (!src.every((node, lane) => node.op === 'extract' && node.src[0] === whole && node.arg === from + lane)) return undefined
  return whole.dtype === dtype ? whole : into.make('slice', dtype, [whole], from)
}

function join(into: Making, dtype: DType, a: Node, b: Node): Node | undefined {
  if (a.op === 'splat' && a === b) return into.make('splat', dtype, a.src)
  if (a.op === 'vec' && b.op === 'vec') return into.make('vec', dtype, [...a.src, ...b.src])
  if (a.op !== 'slice' || b.op !== 'slice' || a.src[0] !== b.src[0]) return undefined
  const [whole] = a.src
  if (b.arg !== a.arg + widthOf(a.dtype)) return undefined
  return whole.dtype === dtype ? whole : into.make('slice', dtype, [whole], a.arg)
}

/** Vectors or scalars of one type, end to end, as one; there must be a power of two of them. */
export function concat(into: Making, parts: readonly Node[]): Node {
  const [first] = parts
  if (first === undefined) throw new TypeError('no vector without elements')
  if (parts.length === 1) return first
  const [scalar, width] = [scalarOf(first.dtype), widthOf(first.dtype)]
  if (width === 1) return into.make('vec', vector(scalar, asWidth(parts.length)), parts)
  const pairs = Array.from({ length: parts.length / 2 }, (_, at) => parts.slice(2 * at, 2 * at + 2))
  return concat(
    into,
    pairs.map((pair) => into.make('join', vector(scalar, asWidth(2 * width)), pair)),
  )
}

/** `width` elements of a vector from lane `from` on; one element gives a scalar, all of them the vector itself. */
export function part(into: Making, whole: Node, from: number, width: 1 | Width): Node {
  if (width === widthOf(whole.dtype)) return whole
  const dtype = vector(scalarOf(whole.dtype), width)
  return into.make(width === 1 ? 'extract' : 'slice', dtype, [whole], from)
}
