// Subgroup and tile operations written for targets without lanes: as stores, loads and loops over workgroup arrays. What is
// written here is still in terms of one lane; serialize.ts makes loops of it. `each` parts run for every lane, `lead` parts
// once per subgroup, as its first lane.

import { type DType, scalarOf } from '../../base/dtype.ts'
import type { Kernel } from '../kernel.ts'
import type { Node } from '../node.ts'
import type { OpName } from '../op.ts'
import type { Value } from '../value.ts'
import { type LaneArrays, keep, recall } from './lane-array.ts'
import { type Writer, memOf } from './writer.ts'

type U32 = Value<'u32'>
const SIDE = 8
const COMBINE: Partial<Record<OpName, OpName>> = { subSum: 'add', subMax: 'max', subMin: 'min', subAny: 'or', subAll: 'and' }

/** How a part is run; a new part begins where all lanes have ended the one before. */
export interface Parts {
  each(write: () => void): void
  lead(write: () => void): void
  /** ends the part that is being written */
  split(): void
  /** the array that says which lanes are active; undefined: all */
  readonly mask: string | undefined
  /** an operand, its names of pure values replaced */
  expression(node: Node): Node
}

export class Collective {
  readonly #writer: Writer
  readonly #arrays: LaneArrays
  readonly #size: number
  readonly #subgroups: number
  readonly #tiles = new Map<number, string>()
  #count = 0

  constructor(writer: Writer, arrays: LaneArrays, kernel: Kernel, lanes: number) {
    this.#writer = writer
    this.#arrays = arrays
    this.#size = kernel.subgroup
    this.#subgroups = lanes / kernel.subgroup
  }

  #index(name: 'lane' | 'subgroup' | 'sublane'): U32 {
    return this.#writer.value(this.#writer.make('index', 'u32', [], name))
  }

  /** The value of a subgroup operation, as it is known to each lane in the part that follows. */
  subgroup(parts: Parts, effect: Node, name: string, id: number): Node {
    const value = parts.expression(effect.src[0] as Node)
    const { dtype } = value
    // what one operation still reads, the next may already write: they take turns
    const turn = this.#count++ % 2
    const mem = this.#arrays.scratch(`value ${turn}`, dtype)
    parts.each(() => keep(this.#writer, mem, this.#index('lane'), value))
    const combine = COMBINE[effect.op]
    let [from, at] = [mem, this.#index('subgroup')]
    if (combine === undefined) at = this.#source(effect, parts)
    else {
      from = this.#arrays.scratch(`result ${turn}`, dtype)
      parts.lead(() => this.#combine(parts, combine, mem, from, dtype))
    }
    let result: Node | undefined
    parts.split()
    parts.each(() => {
      result = recall(this.#writer, from, at, dtype, name, id)
    })
    return result as Node
  }

  #combine(parts: Parts, op: OpName, mem: string, result: string, dtype: DType): void {
    const writer = this.#writer
    const id = writer.freshId()
    writer.add('var', [this.#identity(op, dtype)], { id, name: 'all' })
    const get = (): Node => writer.bind('all', writer.make('get', dtype, [], id))
    writer.repeat('s', this.#size, 1, (s) => {
      const lane = this.#index('lane').add(s)
      const step = (): void => {
        const value = recall(writer, mem, lane, dtype, 'one')
        writer.add('set', [writer.make(op, dtype, [get(), value])], id)
      }
      if (parts.mask === undefined) step()
      else writer.if(isActive(writer, parts.mask, lane), step)
    })
    keep(writer, result, this.#index('subgroup'), get())
  }

  #identity(op: OpName, dtype: DType): Node {
    const scalar = scalarOf(dtype)
    const ends = scalar === 'i32' ? [-(2 ** 31), 2 ** 31 - 1] : scalar === 'u32' ? [0, 2 ** 32 - 1] : [-Infinity, Infinity]
    const value = op === 'max' ? ends[0] : op === 'min' ? ends[1] : op === 'and' ? 1 : 0
    return this.#writer.interner.constant(value as number, dtype)
  }

  /** Which lane of the workgroup a lane reads from. */
  #source({ op, src, arg }: Node, parts: Parts): U32 {
    const size = this.#size
    const [lane, sublane] = [this.#index('lane'), this.#index('sublane')]
    const first = lane.sub(sublane)
    switch (op) {
      case 'subBroadcast':
        return first.add(arg as number)
      case 'subShuffleXor':
        return lane.xor(arg as number)
      case 'subShuffleDown':
        return first.add(sublane.add(arg as number).rem(size))
      default:
        return first.add(this.#writer.value<'u32'>(parts.expression(src[1] as Node)).rem(size))
    }
  }

  /** Where row `row` of a tile's array begins for this lane's subgroup. */
  #row(row: U32): U32 {
    return this.#index('subgroup').mul(SIDE).add(row).mul(SIDE)
  }

  #tile(id: number): string {
    let name = this.#tiles.get(id)
    if (name === undefined) this.#tiles.set(id, (name = this.#arrays.make('tile', 'f32', this.#subgroups * SIDE * SIDE)))
    return name
  }

  /** Makes the tile known as `id` hold a value. */
  assign(parts: Parts, id: number, value: Node): void {
    const [writer, to] = [this.#writer, this.#tile(id)]
    const operands = value.op === 'tileMma' ? [] : value.src.map((node) => parts.expression(node))
    parts.lead(() =>
      writer.repeat('row', SIDE, 1, (row) => {
        writer.store(to, this.#row(row), this.#rowOf(value, operands, row), SIDE)
      }),
    )
  }

  store(parts: Parts, { src, arg }: Node): void {
    const writer = this.#writer
    const [index, stride] = src.slice(0, 2).map((node) => writer.value<'u32'>(parts.expression(node))) as [U32, U32]
    const tile = src[2] as Node
    parts.lead(() =>
      writer.repeat('row', SIDE, 1, (row) => {
        const value = writer.load(this.#tile(tile.arg as number), this.#row(row), 'f32x8', SIDE)
        writer.store(memOf(arg), index.add(row.mul(stride)), value, SIDE)
      }),
    )
  }

  #rowOf(value: Node, operands: readonly Node[], row: U32): Node {
    const writer = this.#writer
    const { op, arg } = value
    if (op === 'local' || op === 'get') return writer.load(this.#tile(arg as number), this.#row(row), 'f32x8', SIDE)
    if (op === 'tileMma')
      return this.#multiply(
        value.src.map((node) => this.#tile(node.arg as number)),
        row,
      )
    if (op === 'tileFill')
      return writer
        .value<'f32'>(operands[0] as Node)
        .to('f32')
        .splat(SIDE).node
    const [index, stride] = operands.map((node) => writer.value<'u32'>(node)) as [U32, U32]
    const mem = memOf(arg)
    if ((arg as { transposed?: boolean }).transposed !== true) return writer.load(mem, index.add(row.mul(stride)), 'f32x8', SIDE)
    const lanes = Array.from({ length: SIDE }, (_, column) => writer.load(mem, index.add(row).add(stride.mul(column)), 'f32'))
    return writer.make('vec', 'f32x8', lanes)
  }

  /** One row of a * b + c: multiples of the rows of b. */
  #multiply([a, b, c]: readonly string[], row: U32): Node {
    const writer = this.#writer
    const start = this.#row(row)
    const left = writer.value<'f32x8'>(writer.load(a as string, start, 'f32x8', SIDE))
    let sum = writer.value<'f32x8'>(writer.load(c as string, start, 'f32x8', SIDE))
    for (let k = 0; k < SIDE; k++) {
      const right = writer.value<'f32x8'>(writer.load(b as string, this.#row(writer.u32(k)), 'f32x8', SIDE))
      sum = left.lane(k).splat(SIDE).fma(right, sum) as typeof sum
    }
    return sum.node
  }
}

/** Reads whether a lane is active. */
export function isActive(writer: Writer, mask: string, lane: U32): Node {
  return writer.value<'u32'>(writer.load(mask, lane, 'u32')).ne(0).node
}
