// Pass, for targets whose vectors are short: a value wider than the target's widest vector becomes several of that width.
// A wide name becomes several names; a wide load or store, several one after the other.

import { type DType, type Width, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, uses } from '../kernel.ts'
import { type Node, type NodeOf, idOf } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { builderFor, copy, finish, valueOf } from './rewrite.ts'
import { part } from './vector.ts'

export function widen(kernel: Kernel, target: Target): Kernel {
  const { width } = target
  const isWide = (dtype: DType): boolean => widthOf(dtype) > width
  if (!uses(kernel, ({ dtype }) => isWide(dtype))) return kernel
  const builder = builderFor(kernel)
  const done = new Map<Node, Pieces>()
  /** the ids that stand for a wide name */
  const ids = new Map<number, readonly number[]>()

  const narrower = (dtype: DType): DType => vector(scalarOf(dtype), width)
  const countOf = (dtype: DType): number => widthOf(dtype) / width
  const each = (dtype: DType, make: (at: number) => Node): Pieces => new Pieces(Array.from({ length: countOf(dtype) }, (_, at) => make(at)))

  /** A value in pieces of the target's width; a value that fits is one piece. */
  function pieces(node: Node): Pieces {
    const known = done.get(node)
    if (known !== undefined) return known
    const made = isWide(node.dtype) ? split(node) : new Pieces([whole(node)])
    done.set(node, made)
    return made
  }

  function expression(node: Node): Node {
    return pieces(node).at(0)
  }

  function split(node: Node): Pieces {
    const { op, dtype, src, arg } = node
    const type = narrower(dtype)
    switch (op) {
      case 'local':
        return new Pieces(idsOf(arg, dtype).map((id) => builder.local(id, type)))
      case 'splat':
        return each(dtype, () => builder.make('splat', type, [expression(src[0])]))
      case 'vec':
        return each(dtype, (at) => builder.make('vec', type, src.slice(at * width, (at + 1) * width).map(expression)))
      case 'join':
        return new Pieces(src.flatMap((half) => pieces(half).list))
      case 'slice':
        return each(dtype, (at) => cut(src[0], arg + at * width, width))
      default: {
        const operands = src.map(pieces)
        return each(dtype, (at) =>
          builder.make(
            op,
            type,
            operands.map((operand) => operand.at(at)),
            arg,
          ),
        )
      }
    }
  }

  /** A value that fits, of operands that may not. */
  function whole(node: Node): Node {
    const { op, dtype, src, arg } = node
    const [first] = src
    if (first === undefined || !isWide(first.dtype)) return builder.make(op, dtype, src.map(expression), arg)
    if (op === 'extract' || op === 'slice') return cut(first, arg, widthOf(dtype))
    const { reduces } = opRecord(op)
    if (reduces !== undefined) {
      return builder.make(op, dtype, [pieces(first).list.reduce((a, b) => builder.make(reduces, a.dtype, [a, b]))])
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
    if (first === last) return part(builder, parts.at(first), from % width, count)
    const scalar = scalarOf(source.dtype)
    const lanes = Array.from({ length: count }, (_, lane) =>
      builder.make('extract', scalar, [parts.at(Math.floor((from + lane) / width))], (from + lane) % width),
    )
    return builder.make('vec', vector(scalar, count), lanes)
  }

  function idsOf(id: number, dtype: DType): readonly number[] {
    let list = ids.get(id)
    if (list === undefined) ids.set(id, (list = Array.from({ length: countOf(dtype) }, () => builder.freshId())))
    return list
  }

  function statement(node: Node): void {
    switch (node.op) {
      case 'let':
      case 'var':
      case 'set':
        return isWide(node.src[0].dtype) ? assign(node) : copy(builder, node, expression, statement)
      case 'store':
        return isWide(node.src[1].dtype) ? store(node) : copy(builder, node, expression, statement)
      default:
        return copy(builder, node, expression, statement)
    }
  }

  function store({ src: [index, value], arg: { mem } }: NodeOf<'store'>): void {
    for (const [at, piece] of pieces(value).list.entries()) builder.store(mem, place(index, at), piece, width)
  }

  function assign(node: NodeOf<'let' | 'var' | 'set'>): void {
    const [value] = node.src
    const list = idsOf(idOf(node), value.dtype)
    const values = effects(value)
    for (const [at, id] of list.entries()) builder.add(node.op, [values.at(at)], node.op === 'set' ? id : { id, name: node.arg.name })
  }

  /** Where the piece `at` of a wide load or store is. */
  function place(index: Node, at: number): Node {
    return valueOf<'u32'>(builder, expression(index)).add(at * width).node
  }

  function effects(value: Node): Pieces {
    const { dtype } = value
    if (value.op === 'get') return new Pieces(idsOf(value.arg, dtype).map((id) => builder.make('get', narrower(dtype), [], id)))
    if (value.op !== 'load') return pieces(value)
    const [index] = value.src
    const { mem } = value.arg
    if (value.arg.width === undefined) {
      throw new IngotError('unsupported', `${mem} holds vectors wider than ${target.name} has`, {
        op: kernel.name,
        got: dtype,
        wanted: `at most ${width}`,
      })
    }
    return each(dtype, (at) => builder.make('load', narrower(dtype), [place(index, at)], { mem, width }))
  }

  kernel.body.src.forEach(statement)
  return finish(builder, kernel)
}

/** Parts of one value, in order. */
class Pieces {
  readonly list: readonly Node[]

  constructor(list: readonly Node[]) {
    this.list = list
  }

  at(index: number): Node {
    const piece = this.list[index]
    if (piece === undefined) throw new RangeError(`a value of ${this.list.length} pieces has no piece ${index}`)
    return piece
  }
}
