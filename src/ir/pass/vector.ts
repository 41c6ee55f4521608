// Rules for taking vectors apart and putting them together. Part of the Folder (fold.ts): a rule returns a simpler node or
// undefined.

import { type DType, scalarOf, vector, widthOf, type Width } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import type { Arg, OpName } from '../op.ts'
import type { Making } from './constant.ts'

export function simplifyVector(into: Making, op: OpName, dtype: DType, src: readonly Node[], arg: Arg): Node | undefined {
  const x = src[0] as Node
  switch (op) {
    case 'extract':
      return extract(into, dtype, x, arg as number)
    case 'slice':
      return slice(into, dtype, x, arg as number)
    case 'vec':
      return gather(into, dtype, src)
    case 'join':
      return join(into, dtype, x, src[1] as Node)
    default:
      return undefined
  }
}

function extract(into: Making, dtype: DType, x: Node, lane: number): Node | undefined {
  const [a, b] = x.src
  switch (x.op) {
    case 'vec':
      return x.src[lane]
    case 'splat':
      return a
    case 'slice':
      return into.make('extract', dtype, [a as Node], lane + (x.arg as number))
    case 'join': {
      const half = widthOf(x.dtype) / 2
      return into.make('extract', dtype, [(lane < half ? a : b) as Node], lane % half)
    }
    default:
      return undefined
  }
}

function slice(into: Making, dtype: DType, x: Node, from: number): Node | undefined {
  const [a, b] = x.src
  const width = widthOf(dtype)
  switch (x.op) {
    case 'vec':
      return into.make('vec', dtype, x.src.slice(from, from + width))
    case 'splat':
      return into.make('splat', dtype, [a as Node])
    case 'slice':
      return into.make('slice', dtype, [a as Node], from + (x.arg as number))
    case 'join': {
      const half = widthOf(x.dtype) / 2
      if (Math.floor(from / half) !== Math.floor((from + width - 1) / half)) return undefined
      const side = (from < half ? a : b) as Node
      return width === half ? side : into.make('slice', dtype, [side], from % half)
    }
    default:
      return undefined
  }
}

/** Elements that come from one place: all the same, or one after the other out of a vector. */
function gather(into: Making, dtype: DType, src: readonly Node[]): Node | undefined {
  const first = src[0] as Node
  if (src.every((node) => node === first)) return into.make('splat', dtype, [first])
  if (first.op !== 'extract') return undefined
  const whole = first.src[0] as Node
  const from = first.arg as number
  if (!src.every((node, lane) => node.op === 'extract' && node.src[0] === whole && node.arg === from + lane)) return undefined
  return whole.dtype === dtype ? whole : into.make('slice', dtype, [whole], from)
}

function join(into: Making, dtype: DType, a: Node, b: Node): Node | undefined {
  if (a.op === 'splat' && a === b) return into.make('splat', dtype, a.src)
  if (a.op === 'vec' && b.op === 'vec') return into.make('vec', dtype, [...a.src, ...b.src])
  if (a.op !== 'slice' || b.op !== 'slice' || a.src[0] !== b.src[0]) return undefined
  const [whole, from] = [a.src[0] as Node, a.arg as number]
  if (b.arg !== from + widthOf(a.dtype)) return undefined
  return whole.dtype === dtype ? whole : into.make('slice', dtype, [whole], from)
}

/** Several vectors (or scalars) of one type, end to end, as one. */
export function concat(into: Making, parts: readonly Node[]): Node {
  let list = [...parts]
  if (widthOf((list[0] as Node).dtype) === 1 && list.length > 1) {
    const scalar = scalarOf((list[0] as Node).dtype)
    return into.make('vec', vector(scalar, list.length as Width), list)
  }
  while (list.length > 1) {
    const pairs: Node[] = []
    for (let at = 0; at < list.length; at += 2) {
      const [a, b] = [list[at] as Node, list[at + 1] as Node]
      pairs.push(into.make('join', vector(scalarOf(a.dtype), (2 * widthOf(a.dtype)) as Width), [a, b]))
    }
    list = pairs
  }
  return list[0] as Node
}

/** `width` elements of a vector from lane `from` on; one element gives a scalar, all of them the vector itself. */
export function part(into: Making, whole: Node, from: number, width: 1 | Width): Node {
  if (width === widthOf(whole.dtype)) return whole
  const dtype = vector(scalarOf(whole.dtype), width)
  return into.make(width === 1 ? 'extract' : 'slice', dtype, [whole], from)
}
