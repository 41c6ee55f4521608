// Pass, for targets whose vectors are short: a value wider than the target's widest vector becomes several of that width.
// A wide name becomes several names; a wide load or store, several one after the other; memory of wide vectors, memory of scalars.
// Fewer f64 than other scalars may fit a vector, so an op between two types is done in pieces that fit both.

import { type DType, type Storage, type Width, asWidth, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type BufferParam, type Kernel, type Param, type SharedArray, buffersOf, uses } from '../kernel.ts'
import { type Node, type NodeOf, idOf } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { builderFor, copy, finish, valueOf } from './rewrite.ts'
import { concat, part } from './vector.ts'

export function widen(kernel: Kernel, target: Target): Kernel {
  const limitOf = (dtype: DType | Storage): Width => (dtype.startsWith('f64') ? (target.double?.width ?? target.width) : target.width)
  const isWide = (dtype: DType | Storage): boolean => widthOf(dtype) > limitOf(dtype)
  if (!uses(kernel, ({ dtype }) => isWide(dtype))) return kernel
  const builder = builderFor(kernel)
  const done = new Map<Node, Pieces>()
  /** the ids that stand for a wide name */
  const ids = new Map<number, readonly number[]>()
  /** memories of vectors that are too wide */
  const scattered = new Set([...buffersOf(kernel), ...kernel.shared].filter(({ storage }) => isWide(storage)).map(({ name }) => name))

  const narrower = (dtype: DType): DType => vector(scalarOf(dtype), limitOf(dtype))
  const each = (dtype: DType, make: (from: number) => Node): Pieces => {
    const limit = limitOf(dtype)
    return new Pieces(Array.from({ length: widthOf(dtype) / limit }, (_, at) => make(at * limit)))
  }

  /** A value in pieces as wide as its type may be; a value that fits is one piece. */
  function pieces(node: Node): Pieces {
    const known = done.get(node)
    if (known !== undefined) return known
    const { op, dtype, src, arg } = node
    const made = isWide(dtype)
      ? split(node)
      : new Pieces([src.some((operand) => isWide(operand.dtype)) ? whole(node) : builder.make(op, dtype, src.map(expression), arg)])
    done.set(node, made)
    return made
  }

  function expression(node: Node): Node {
    return pieces(node).at(0)
  }

  /** A value that does not fit. */
  function split(node: Node): Pieces {
    const { op, dtype, src, arg } = node
    const [type, limit] = [narrower(dtype), limitOf(dtype)]
    switch (op) {
      case 'local':
        return new Pieces(idsOf(arg, dtype).map((id) => builder.local(id, type)))
      case 'splat':
        return each(dtype, () => builder.make('splat', type, [expression(src[0])]))
      case 'vec':
        return each(dtype, (from) => builder.make('vec', type, src.slice(from, from + limit).map(expression)))
      case 'join':
        return new Pieces(src.flatMap((half) => pieces(half).list))
      case 'slice':
        return each(dtype, (from) => cut(src[0], arg + from, limit))
      case 'zip': {
        const [a, b] = [pieces(src[0]), pieces(src[1])]
        const first = (arg * widthOf(dtype)) / limit // counted in halves of pieces
        return each(dtype, (from) => {
          const half = first + from / limit
          const piece = Math.floor(half / 2)
          return builder.make('zip', type, [a.at(piece), b.at(piece)], half % 2)
        })
      }
      default:
        return elementwise(node)
    }
  }

  /** A value that fits, of operands that do not. */
  function whole(node: Node): Node {
    const { op, dtype, src, arg } = node
    const [first] = src
    if (op === 'extract' || op === 'slice') return cut(src[0], arg, widthOf(dtype))
    const { reduces } = opRecord(op)
    if (first !== undefined && reduces !== undefined) {
      return builder.make(op, dtype, [pieces(first).list.reduce((a, b) => builder.make(reduces, a.dtype, [a, b]))])
    }
    return elementwise(node).at(0)
  }

  /** Done in parts that fit all its types; what fits the result's type together is joined again. */
  function elementwise({ op, dtype, src, arg }: Node): Pieces {
    const width = widthOf(dtype)
    const vectors = src.filter((operand) => widthOf(operand.dtype) > 1)
    const other = vectors.find((operand) => widthOf(operand.dtype) !== width)
    if (other !== undefined) {
      throw new IngotError('unsupported', `${op} needs vectors wider than ${target.name} has`, {
        op: kernel.name,
        got: other.dtype,
        wanted: `at most ${limitOf(other.dtype)}`,
      })
    }
    const count = Math.min(limitOf(dtype), ...vectors.map((operand) => limitOf(operand.dtype)))
    const parts = Array.from({ length: width / count }, (_, at) => {
      const operands = src.map((operand) => (widthOf(operand.dtype) === 1 ? expression(operand) : cut(operand, at * count, asWidth(count))))
      return builder.make(op, vector(scalarOf(dtype), asWidth(count)), operands, arg)
    })
    const together = Math.min(width, limitOf(dtype)) / count
    return new Pieces(
      Array.from({ length: parts.length / together }, (_, at) => concat(builder, parts.slice(at * together, (at + 1) * together))),
    )
  }

  /** `count` elements of a value from `from` on. */
  function cut(source: Node, from: number, count: 1 | Width): Node {
    const parts = pieces(source)
    const width = Math.min(widthOf(source.dtype), limitOf(source.dtype))
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
    if (list === undefined) ids.set(id, (list = Array.from({ length: widthOf(dtype) / limitOf(dtype) }, () => builder.freshId())))
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

  function store(node: NodeOf<'store'>): void {
    const [, value] = node.src
    const limit = limitOf(value.dtype)
    for (const [at, piece] of pieces(value).list.entries()) builder.store(node.arg.mem, place(node, value.dtype, at * limit), piece, limit)
  }

  function assign(node: NodeOf<'let' | 'var' | 'set'>): void {
    const [value] = node.src
    const list = idsOf(idOf(node), value.dtype)
    const values = effects(value)
    for (const [at, id] of list.entries()) builder.add(node.op, [values.at(at)], node.op === 'set' ? id : { id, name: node.arg.name })
  }

  /** Where element `from` of a wide load or store is. */
  function place({ src: [index], arg: { mem } }: NodeOf<'load' | 'store'>, dtype: DType, from: number): Node {
    const first = valueOf<'u32'>(builder, expression(index))
    return (scattered.has(mem) ? first.mul(widthOf(dtype)) : first).add(from).node
  }

  function effects(value: Node): Pieces {
    const { dtype } = value
    if (value.op === 'get') return new Pieces(idsOf(value.arg, dtype).map((id) => builder.make('get', narrower(dtype), [], id)))
    if (value.op !== 'load') return pieces(value)
    const { mem } = value.arg
    return each(dtype, (from) => builder.make('load', narrower(dtype), [place(value, dtype, from)], { mem, width: limitOf(dtype) }))
  }

  kernel.body.src.forEach(statement)
  return finish(builder, kernel, {
    params: kernel.params.map((param): Param => (param.kind === 'buffer' && scattered.has(param.name) ? scalars(param) : param)),
    shared: kernel.shared.map((array) =>
      scattered.has(array.name) ? { ...scalars(array), length: array.length * widthOf(array.storage) } : array,
    ),
  })
}

/** The same memory, of the scalars that its vectors are made of. */
function scalars<M extends BufferParam | SharedArray>(memory: M): M {
  // a vector in memory is one of scalars that memory holds
  return { ...memory, storage: memory.storage.slice(0, memory.storage.indexOf('x')) as Storage }
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
