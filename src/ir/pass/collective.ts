// Subgroup and tile operations written for targets without lanes: as stores, loads and loops over workgroup arrays. What is
// written here is still in terms of one lane; serialize.ts makes loops of it. `each` phases run for every lane, `lead` phases
// once per subgroup, as its first lane.

import { type DType, scalarOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Builder } from '../build.ts'
import type { Kernel } from '../kernel.ts'
import { type Node, type NodeOf, operand } from '../node.ts'
import { type OpFacts, opRecord } from '../op.ts'
import type { Value } from '../value.ts'
import { type LaneArrays, keep, recall } from './lane-array.ts'
import { repeat, u32, valueOf, when } from './rewrite.ts'

type U32 = Value<'u32'>
type Combining = NonNullable<OpFacts['reduces']>
const SIDE = 8
const ROW = { width: SIDE }

/** How a phase is run; a new phase begins where all lanes have ended the one before. */
export interface Phases {
  each(write: () => void): void
  lead(write: () => void): void
  /** ends the phase that is being written */
  split(): void
  /** the array that says which lanes are active; undefined: all */
  readonly mask: string | undefined
  /** an operand, its names of pure values replaced */
  expression(node: Node): Node
}

export class Collective {
  readonly #builder: Builder
  readonly #arrays: LaneArrays
  readonly #size: number
  readonly #subgroups: number
  readonly #tiles = new Map<number, string>()
  #count = 0

  constructor(builder: Builder, arrays: LaneArrays, kernel: Kernel, lanes: number) {
    this.#builder = builder
    this.#arrays = arrays
    this.#size = kernel.subgroup
    this.#subgroups = lanes / kernel.subgroup
  }

  #value(node: Node): U32 {
    return valueOf(this.#builder, node)
  }

  #index(name: 'lane' | 'subgroup' | 'sublane'): U32 {
    return this.#value(this.#builder.index(name))
  }

  /** The value of a subgroup operation, as it is known to each lane in the phase that follows. */
  subgroup(phases: Phases, effect: Node, name: string, id: number): Node {
    const value = phases.expression(operand(effect, 0))
    const { dtype } = value
    // what one operation still reads, the next may already write: they take turns
    const turn = this.#count++ % 2
    const mem = this.#arrays.scratch(`value ${turn}`, dtype)
    phases.each(() => keep(this.#builder, mem, this.#index('lane'), value))
    const { reduces } = opRecord(effect.op)
    let [from, at] = [mem, this.#index('subgroup')]
    if (reduces === undefined) at = this.#source(effect, phases)
    else {
      from = this.#arrays.scratch(`result ${turn}`, dtype)
      phases.lead(() => this.#combine(phases, reduces, mem, from, dtype))
    }
    let result = value
    phases.split()
    phases.each(() => {
      result = recall(this.#builder, from, at, dtype, name, id)
    })
    return result
  }

  #combine(phases: Phases, op: Combining, mem: string, result: string, dtype: DType): void {
    const builder = this.#builder
    const id = builder.variable('all', this.#identity(op, dtype))
    const get = (): Node => builder.get('all', id, dtype)
    repeat(builder, 's', this.#size, 1, (s) => {
      const lane = this.#index('lane').add(s)
      const add = (): void => {
        const value = recall(builder, mem, lane, dtype, 'one')
        builder.set(id, builder.make(op, dtype, [get(), value]))
      }
      if (phases.mask === undefined) add()
      else when(builder, isActive(builder, phases.mask, lane), add)
    })
    keep(builder, result, this.#index('subgroup'), get())
  }

  /** What changes nothing that it is combined with. */
  #identity(op: Combining, dtype: DType): Node {
    const scalar = scalarOf(dtype)
    const [least, most] =
      scalar === 'i32' ? [-(2 ** 31), 2 ** 31 - 1] : scalar === 'u32' ? [0, 2 ** 32 - 1] : ([-Infinity, Infinity] as const)
    const values = { add: 0, or: 0, and: 1, max: least, min: most } as const satisfies Record<Combining, number>
    return this.#builder.constant(values[op], dtype)
  }

  /** Which lane of the workgroup a lane reads from. */
  #source(node: Node, phases: Phases): U32 {
    const size = this.#size
    const [lane, sublane] = [this.#index('lane'), this.#index('sublane')]
    const first = lane.sub(sublane)
    switch (node.op) {
      case 'subBroadcast':
        return first.add(node.arg)
      case 'subShuffleXor':
        return lane.xor(node.arg)
      case 'subShuffleDown':
        return first.add(sublane.add(node.arg).rem(size))
      case 'subShuffle':
        return first.add(this.#value(phases.expression(node.src[1])).rem(size))
      default:
        throw new IngotError('unsupported', `${node.op} has no form for a target that runs one lane at a time`, {
          op: this.#builder.kernel,
        })
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

  /** The array of a tile that has a name: tile operations are bound, so their operands are names. */
  #tileOf(node: Node): string {
    if (node.op === 'local' || node.op === 'get') return this.#tile(node.arg)
    throw new IngotError('bad-kernel', `${node.op} of a tile must be bound by a let`, { op: this.#builder.kernel })
  }

  #loadRow(mem: string, index: U32): Value<'f32x8'> {
    return valueOf(this.#builder, this.#builder.load(mem, index.node, 'f32x8', ROW))
  }

  /** Makes the tile known as `id` hold a value. */
  assign(phases: Phases, id: number, value: Node): void {
    const [builder, to] = [this.#builder, this.#tile(id)]
    const row = this.#rowOf(value, phases)
    phases.lead(() => repeat(builder, 'row', SIDE, 1, (at) => builder.store(to, this.#row(at).node, row(at).node, SIDE)))
  }

  store(phases: Phases, { src, arg }: NodeOf<'tileStore'>): void {
    const builder = this.#builder
    const [index, stride] = [this.#value(phases.expression(src[0])), this.#value(phases.expression(src[1]))]
    phases.lead(() =>
      repeat(builder, 'row', SIDE, 1, (row) => {
        const value = this.#loadRow(this.#tileOf(src[2]), this.#row(row))
        builder.store(arg.mem, index.add(row.mul(stride)).node, value.node, SIDE)
      }),
    )
  }

  /** How one row of a tile's value is computed. */
  #rowOf(value: Node, phases: Phases): (row: U32) => Value<'f32x8'> {
    switch (value.op) {
      case 'tileMma': {
        const [a, b, c] = value.src
        return (row) => this.#multiply(this.#tileOf(a), this.#tileOf(b), this.#tileOf(c), row)
      }
      case 'tileFill': {
        const filling = valueOf<'f32'>(this.#builder, phases.expression(value.src[0]))
        return () => filling.to('f32').splat(SIDE)
      }
      case 'tileLoad': {
        const { mem, transposed = false } = value.arg
        const [index, stride] = [this.#value(phases.expression(value.src[0])), this.#value(phases.expression(value.src[1]))]
        if (!transposed) return (row) => this.#loadRow(mem, index.add(row.mul(stride)))
        return (row) => this.#gather(mem, (column) => index.add(row).add(stride.mul(column)))
      }
      default:
        return (row) => this.#loadRow(this.#tileOf(value), this.#row(row))
    }
  }

  /** A row of elements that do not lie side by side. */
  #gather(mem: string, place: (column: number) => U32): Value<'f32x8'> {
    const lanes = Array.from({ length: SIDE }, (_, column) => this.#builder.load(mem, place(column).node, 'f32'))
    return valueOf(this.#builder, this.#builder.vec(lanes))
  }

  /** One row of a * b + c: multiples of the rows of b. */
  #multiply(a: string, b: string, c: string, row: U32): Value<'f32x8'> {
    const start = this.#row(row)
    const left = this.#loadRow(a, start)
    let sum = this.#loadRow(c, start)
    for (let k = 0; k < SIDE; k++) {
      const right = this.#loadRow(b, this.#row(u32(this.#builder, k)))
      sum = left.lane(k).splat(SIDE).fma(right, sum)
    }
    return sum
  }
}

/** Reads whether a lane is active. */
export function isActive(builder: Builder, mask: string, lane: U32): Node {
  return valueOf<'u32'>(builder, builder.load(mask, lane.node, 'u32')).ne(0).node
}
