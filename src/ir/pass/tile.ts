// Pass, for targets with subgroups but without 8x8 tiles: each lane of a subgroup of S holds 64 / S elements of a tile in
// scalars. Element e = 8 * row + column is held by lane e mod S, as its number e / S. Products fetch their operands from
// other lanes by shuffles.

import { isTile } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Builder } from '../build.ts'
import { type Kernel, memoryOf, uses } from '../kernel.ts'
import { type Node, type NodeOf, idOf } from '../node.ts'
import type { Target } from '../target.ts'
import type { Value } from '../value.ts'
import { builderFor, copy, finish, rebuilder, u32, valueOf } from './rewrite.ts'

type U32 = Value<'u32'>
type F32 = Value<'f32'>
const SIDE = 8

export function tile(kernel: Kernel, target: Target): Kernel {
  if (target.tiles || !uses(kernel, ({ dtype }) => isTile(dtype))) return kernel
  const lanes = kernel.subgroup
  if (lanes < 2 || lanes > 64) {
    throw new IngotError('unsupported', `${target.name} has no tiles for this subgroup size`, {
      op: kernel.name,
      got: lanes,
      wanted: '2 to 64',
    })
  }
  return new Tiler(kernel, lanes).run()
}

class Tiler {
  readonly #kernel: Kernel
  readonly #lanes: number
  /** elements of a tile that a lane holds */
  readonly #each: number
  readonly #builder: Builder
  readonly #sublane: U32
  readonly #expression: (node: Node) => Node
  /** the ids of the scalars that stand for a tile's name */
  readonly #ids = new Map<number, readonly number[]>()

  constructor(kernel: Kernel, lanes: number) {
    this.#kernel = kernel
    this.#lanes = lanes
    this.#each = (SIDE * SIDE) / lanes
    this.#builder = builderFor(kernel)
    this.#expression = rebuilder(this.#builder)
    this.#sublane = valueOf(this.#builder, this.#builder.index('sublane'))
  }

  run(): Kernel {
    this.#kernel.body.src.forEach(this.#statement)
    return finish(this.#builder, this.#kernel)
  }

  readonly #statement = (node: Node): void => {
    const { op, src } = node
    const isBinding = (op === 'let' || op === 'var' || op === 'set') && isTile(src[0].dtype)
    if (isBinding) this.#assign(node)
    else if (op === 'tileStore') this.#store(node)
    else copy(this.#builder, node, this.#expression, this.#statement)
  }

  #assign(node: NodeOf<'let' | 'var' | 'set'>): void {
    // what a tile operation reads is bound before anything of it is written
    const elements = this.#elements(node.src[0])
    for (const [at, id] of this.#idsOf(idOf(node)).entries()) {
      const element = elements[at]
      if (element !== undefined) this.#builder.add(node.op, [element], node.op === 'set' ? id : { id, name: node.arg.name })
    }
  }

  /** This lane's elements of a tile; what must happen first is written before. */
  #elements(value: Node): readonly Node[] {
    const builder = this.#builder
    const scalar = value.dtype === 'f32t' ? 'f32' : 'f16'
    switch (value.op) {
      case 'local':
      case 'get':
        return this.#idsOf(value.arg).map((id) => builder.make(value.op, scalar, [], id))
      case 'tileFill': {
        const filling = this.#expression(value.src[0])
        return Array.from({ length: this.#each }, () => filling)
      }
      case 'tileLoad':
        return this.#places(value).map((index) => builder.make('load', scalar, [index.node], { mem: value.arg.mem }))
      case 'tileMma':
        return this.#multiply(value)
      default:
        throw new IngotError('bad-kernel', `${value.op} gives no tile`, { op: this.#kernel.name })
    }
  }

  #idsOf(id: number): readonly number[] {
    let list = this.#ids.get(id)
    if (list === undefined) this.#ids.set(id, (list = Array.from({ length: this.#each }, () => this.#builder.freshId())))
    return list
  }

  /** Where this lane's elements are in memory. */
  #places({ src, arg }: NodeOf<'tileLoad' | 'tileStore'>): U32[] {
    const value = (node: Node): U32 => valueOf(this.#builder, this.#expression(node))
    const [index, row] = [value(src[0]), value(src[1])]
    return Array.from({ length: this.#each }, (_, at) => {
      const element = this.#sublane.add(this.#lanes * at)
      const [r, c] = [element.div(SIDE), element.rem(SIDE)]
      return arg.transposed === true ? index.add(c.mul(row)).add(r) : index.add(r.mul(row)).add(c)
    })
  }

  #store(node: NodeOf<'tileStore'>): void {
    const elements = this.#elements(node.src[2])
    const { mem } = node.arg
    const isHalf = memoryOf(this.#kernel, mem)?.storage === 'f16'
    for (const [at, index] of this.#places(node).entries()) {
      const element = elements[at]
      if (element === undefined) continue
      this.#builder.store(mem, index.node, isHalf ? valueOf<'f32'>(this.#builder, element).to('f16').node : element)
    }
  }

  /** a * b + c */
  #multiply({ src: [left, right, sum] }: NodeOf<'tileMma'>): Node[] {
    const a = new Held(this.#builder, this.#sublane, this.#floats(left))
    const b = new Held(this.#builder, this.#sublane, this.#floats(right))
    return this.#floats(sum).map((start, at) => {
      let total = start
      for (let k = 0; k < SIDE; k++) total = a.fetch(...this.#ofRow(at, k)).fma(b.fetch(...this.#ofColumn(at, k)), total)
      return total.node
    })
  }

  #floats(tile: Node): F32[] {
    return this.#elements(tile).map((each) => valueOf<'f32'>(this.#builder, each).to('f32'))
  }

  /** Number and lane of element k in the row of this lane's element `at`. */
  #ofRow(at: number, k: number): [number, U32] {
    const lanes = this.#lanes
    if (lanes >= SIDE) return [at, this.#sublane.and(lanes - SIDE).add(k)]
    const element = SIDE * Math.floor((lanes * at) / SIDE) + k
    return [Math.floor(element / lanes), u32(this.#builder, element % lanes)]
  }

  /** Number and lane of element k in the column of this lane's element `at`. */
  #ofColumn(at: number, k: number): [number, U32] {
    const lanes = this.#lanes
    if (lanes >= SIDE) return [Math.floor((SIDE * k) / lanes), this.#sublane.rem(SIDE).add((SIDE * k) % lanes)]
    return [(SIDE * k + ((lanes * at) % SIDE)) / lanes, this.#sublane]
  }
}

/** The elements of one tile, as the lanes of a subgroup hold them. */
class Held {
  readonly #builder: Builder
  readonly #sublane: U32
  readonly #elements: readonly F32[]
  readonly #fetched = new Map<string, F32>()

  constructor(builder: Builder, sublane: U32, elements: readonly F32[]) {
    this.#builder = builder
    this.#sublane = sublane
    this.#elements = elements
  }

  /** Element number `at` of a lane; that of another lane is fetched once. */
  fetch(at: number, lane: U32): F32 {
    const own = this.#elements[at]
    if (own === undefined) throw new RangeError(`a lane holds ${this.#elements.length} elements of a tile, not ${at + 1}`)
    if (lane.node === this.#sublane.node) return own
    const key = `${at} ${lane.node.id}`
    let value = this.#fetched.get(key)
    if (value === undefined) {
      const shuffle = this.#builder.effect('other', 'subShuffle', [own.node, lane.node])
      this.#fetched.set(key, (value = valueOf(this.#builder, shuffle)))
    }
    return value
  }
}
