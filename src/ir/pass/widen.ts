// Pass, for targets whose vectors are short: a value wider than the target's widest vector becomes several of that width.
// A wide name becomes several names; a wide load or store, several one after the other.

import { type DType, type Width, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, uses } from '../kernel.ts'
import type { Node } from '../node.ts'
import type { Target } from '../target.ts'
import { part } from './vector.ts'
import { Writer, idOf, memOf, nameOf, widthArg } from './writer.ts'

export function widen(kernel: Kernel, target: Target): Kernel {
  const { width } = target
  const isWide = (dtype: DType): boolean => widthOf(dtype) > width
  if (!uses(kernel, ({ dtype }) => isWide(dtype))) return kernel
  const writer = new Writer(kernel)
  const done = new Map<Node, readonly Node[]>()
  /** the ids that stand for a wide name */
  const ids = new Map<number, readonly number[]>()

  const narrower = (dtype: DType): DType => vector(scalarOf(dtype), width)
  const countOf = (dtype: DType): number => widthOf(dtype) / width
  const each = (dtype: DType, make: (at: number) => Node): Node[] => Array.from({ length: countOf(dtype) }, (_, at) => make(at))

  /** A value in pieces of the target's width; a value that fits is one piece. */
  function pieces(node: Node): readonly Node[] {
    const known = done.get(node)
    if (known !== undefined) return known
    const made = isWide(node.dtype) ? split(node) : [whole(node)]
    done.set(node, made)
    return made
  }

  function expression(node: Node): Node {
    return pieces(node)[0] as Node
  }

  function split(node: Node): readonly Node[] {
    const { op, dtype, src, arg } = node
    const type = narrower(dtype)
    switch (op) {
      case 'local':
        return idsOf(arg as number, dtype).map((id) => writer.make('local', type, [], id))
      case 'splat':
        return each(dtype, () => writer.make('splat', type, [expression(src[0] as Node)]))
      case 'vec':
        return each(dtype, (at) => writer.make('vec', type, src.slice(at * width, (at + 1) * width).map(expression)))
      case 'join':
        return src.flatMap(pieces)
      case 'slice':
        return each(dtype, (at) => cut(src[0] as Node, (arg as number) + at * width, width))
      default: {
        const operands = src.map(pieces)
        return each(dtype, (at) =>
          writer.make(
            op,
            type,
            operands.map((operand) => operand[at] as Node),
            arg,
          ),
        )
      }
    }
  }

  /** A value that fits, of operands that may not. */
  function whole(node: Node): Node {
    const { op, dtype, src, arg } = node
    const first = src[0]
    if (first === undefined || !isWide(first.dtype)) return writer.make(op, dtype, src.map(expression), arg)
    if (op === 'extract' || op === 'slice') return cut(first, arg as number, widthOf(dtype))
    if (op === 'hsum' || op === 'hmax') {
      const sum = pieces(first).reduce((a, b) => writer.make(op === 'hsum' ? 'add' : 'max', a.dtype, [a, b]))
      return writer.make(op, dtype, [sum])
    }
    throw new IngotError('unsupported', `${op} needs vectors wider than ${target.name} has`, {
      op: kernel.name,
      got: first.dtype,
      wanted: `at most ${width}`,
    })
  }

  /** `count` elements of a wide value from `from` on. */
  function cut(source: Node, from: number, count: 1 | Width): Node {
    const parts = pieces(source)
    const [first, last] = [Math.floor(from / width), Math.floor((from + count - 1) / width)]
    if (first === last) return part(writer.interner, parts[first] as Node, from % width, count)
    const scalar = scalarOf(source.dtype)
    const lanes = Array.from({ length: count }, (_, lane) =>
      writer.make('extract', scalar, [parts[Math.floor((from + lane) / width)] as Node], (from + lane) % width),
    )
    return writer.make('vec', vector(scalar, count), lanes)
  }

  function idsOf(id: number, dtype: DType): readonly number[] {
    let list = ids.get(id)
    if (list === undefined) ids.set(id, (list = Array.from({ length: countOf(dtype) }, () => writer.freshId())))
    return list
  }

  function statement(node: Node): void {
    const { op, src, arg } = node
    const value = src.at(-1)
    if (value === undefined || !isWide(value.dtype) || (op !== 'let' && op !== 'var' && op !== 'set' && op !== 'store')) {
      return writer.copy(node, expression, statement)
    }
    if (op === 'store') {
      return pieces(value).forEach((piece, at) => writer.store(memOf(arg), place(src[0] as Node, at), piece, width))
    }
    const list = idsOf(op === 'set' ? (arg as number) : idOf(arg), value.dtype)
    return effects(value).forEach((piece, at) => {
      const id = list[at] as number
      writer.add(op, [piece], op === 'set' ? id : { id, name: nameOf(arg) })
    })
  }

  /** Where the piece `at` of a wide load or store is. */
  function place(index: Node, at: number) {
    return writer.value<'u32'>(expression(index)).add(at * width)
  }

  function effects(value: Node): readonly Node[] {
    const { op, dtype, src, arg } = value
    if (op === 'get') return idsOf(arg as number, dtype).map((id) => writer.make('get', narrower(dtype), [], id))
    if (op !== 'load') return pieces(value)
    if (widthArg(arg) === undefined) {
      throw new IngotError('unsupported', `${memOf(arg)} holds vectors wider than ${target.name} has`, {
        op: kernel.name,
        got: dtype,
        wanted: `at most ${width}`,
      })
    }
    return each(dtype, (at) => writer.make('load', narrower(dtype), [place(src[0] as Node, at).node], { mem: memOf(arg), width }))
  }

  kernel.body.src.forEach(statement)
  return writer.finish(kernel)
}
