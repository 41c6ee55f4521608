// Pass, for targets with subgroups but without 8x8 tiles: each lane of a subgroup of S holds 64 / S elements of a tile in
// scalars. Element e = 8 * row + column is held by lane e mod S, as its number e / S. Products fetch their operands from
// other lanes by shuffles.

import { isTile } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, memoryOf, uses } from '../kernel.ts'
import type { Node } from '../node.ts'
import type { Target } from '../target.ts'
import type { Value } from '../value.ts'
import { Writer, idOf, memOf, nameOf } from './writer.ts'

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
  readonly #each: number
  readonly #writer: Writer
  readonly #sublane: U32
  readonly #done = new Map<Node, Node>()
  /** the ids of the scalars that stand for a tile's name */
  readonly #ids = new Map<number, readonly number[]>()

  constructor(kernel: Kernel, lanes: number) {
    this.#kernel = kernel
    this.#lanes = lanes
    this.#each = (SIDE * SIDE) / lanes
    this.#writer = new Writer(kernel)
    this.#sublane = this.#writer.value(this.#writer.make('index', 'u32', [], 'sublane'))
  }

  run(): Kernel {
    this.#kernel.body.src.forEach(this.#statement)
    return this.#writer.finish(this.#kernel)
  }

  readonly #expression = (node: Node): Node => {
    const known = this.#done.get(node)
    if (known !== undefined) return known
    const made = this.#writer.make(node.op, node.dtype, node.src.map(this.#expression), node.arg)
    this.#done.set(node, made)
    return made
  }

  readonly #statement = (node: Node): void => {
    const { op, src, arg } = node
    const value = src.at(-1)
    if (value === undefined || !isTile(value.dtype)) return this.#writer.copy(node, this.#expression, this.#statement)
    if (op === 'tileStore') return this.#store(node)
    const ids = this.#idsOf(op === 'set' ? (arg as number) : idOf(arg))
    // what a tile operation reads is bound before anything of it is written
    return this.#elements(value).forEach((element, at) => {
      const id = ids[at] as number
      this.#writer.add(op, [element], op === 'set' ? id : { id, name: nameOf(arg) })
    })
  }

  /** This lane's elements of a tile; what must happen first is written before. */
  #elements(value: Node): readonly Node[] {
    const { op, src, arg } = value
    const scalar = value.dtype === 'f32t' ? 'f32' : 'f16'
    switch (op) {
      case 'local':
      case 'get':
        return this.#idsOf(arg as number).map((id) => this.#writer.make(op, scalar, [], id))
      case 'tileFill':
        return Array.from({ length: this.#each }, () => this.#expression(src[0] as Node))
      case 'tileLoad':
        return this.#places(value).map((index) => this.#writer.make('load', scalar, [index.node], { mem: memOf(arg) }))
      default:
        return this.#multiply(src)
    }
  }

  #idsOf(id: number): readonly number[] {
    let list = this.#ids.get(id)
    if (list === undefined) this.#ids.set(id, (list = Array.from({ length: this.#each }, () => this.#writer.freshId())))
    return list
  }

  /** Where this lane's elements are in memory. */
  #places({ src, arg }: Node): U32[] {
    const [index, row] = src.slice(0, 2).map((node) => this.#writer.value<'u32'>(this.#expression(node))) as [U32, U32]
    const { transposed } = arg as { transposed?: boolean }
    return Array.from({ length: this.#each }, (_, at) => {
      const element = this.#sublane.add(this.#lanes * at)
      const [r, c] = [element.div(SIDE), element.rem(SIDE)]
      return transposed === true ? index.add(c.mul(row)).add(r) : index.add(r.mul(row)).add(c)
    })
  }

  #store(node: Node): void {
    const elements = this.#elements(node.src[2] as Node)
    const storage = memoryOf(this.#kernel, memOf(node.arg))?.storage
    this.#places(node).forEach((index, at) => {
      const element = this.#writer.value<'f32'>(elements[at] as Node)
      this.#writer.store(memOf(node.arg), index, storage === 'f16' ? element.to('f16').node : element.node)
    })
  }

  /** a * b + c */
  #multiply(src: readonly Node[]): Node[] {
    const elements = (node: Node): F32[] => this.#elements(node).map((each) => this.#writer.value<'f32'>(each).to('f32'))
    const [a, b, c] = src.map(elements) as [F32[], F32[], F32[]]
    const known = new Map<string, F32>()
    const fetch = (from: F32[], at: number, lane: U32): F32 => {
      if (lane.node === this.#sublane.node) return from[at] as F32
      const key = `${from === a ? 'a' : 'b'} ${at} ${lane.node.id}`
      let value = known.get(key)
      if (value === undefined) {
        const shuffle = this.#writer.make('subShuffle', 'f32', [(from[at] as F32).node, lane.node])
        known.set(key, (value = this.#writer.value(this.#writer.bind('other', shuffle))))
      }
      return value
    }
    return c.map((sum, at) => {
      let total = sum
      for (let k = 0; k < SIDE; k++) total = fetch(a, ...this.#ofRow(at, k)).fma(fetch(b, ...this.#ofColumn(at, k)), total)
      return total.node
    })
  }

  /** Number and lane of element k in the row of this lane's element `at`. */
  #ofRow(at: number, k: number): [number, U32] {
    const lanes = this.#lanes
    if (lanes >= SIDE) return [at, this.#sublane.and(lanes - SIDE).add(k)]
    const element = SIDE * Math.floor((lanes * at) / SIDE) + k
    return [Math.floor(element / lanes), this.#writer.u32(element % lanes)]
  }

  /** Number and lane of element k in the column of this lane's element `at`. */
  #ofColumn(at: number, k: number): [number, U32] {
    const lanes = this.#lanes
    if (lanes >= SIDE) return [Math.floor((SIDE * k) / lanes), this.#sublane.rem(SIDE).add((SIDE * k) % lanes)]
    return [(SIDE * k + ((lanes * at) % SIDE)) / lanes, this.#sublane]
  }
}
