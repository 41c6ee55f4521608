// Pass, for targets whose memory is 32-bit words: elements of 8 and 16 bits are taken out of words by shifts and put into them
// by masks, and vectors of 32-bit elements move one by one. Elements that are read side by side share the loads of their words:
// a load is the dearest thing of all, and WebGPU checks the bounds of each.
//
// Several lanes may write to parts of one word, so a store of a part is two atomics, `and` to clear and `or` to set, and
// makes its buffer atomic. A store that is known to cover whole words is a plain one. Workgroup memory that is written in parts
// is not packed at all: one element per word is quicker than atomics.

import { type Narrow, type Scalar, type Storage, scalarOf, storageScalar, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Builder } from '../build.ts'
import { type BufferParam, type Kernel, type Param, type SharedArray, buffersOf } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf } from '../node.ts'
import type { Target } from '../target.ts'
import type { Value } from '../value.ts'
import { trailingZeros } from './algebra.ts'
import { round } from './half.ts'
import { type Form, type Packing, extract, extractRun, insert } from './packing.ts'
import { type Run, findRuns } from './run.ts'
import { builderFor, copy, finish, rebuilder, valueOf } from './rewrite.ts'
import { part } from './vector.ts'

const BITS: Partial<Record<Scalar | Narrow, Form>> = {
  u8: { bits: 8, kind: 'unsigned' },
  i8: { bits: 8, kind: 'signed' },
  u16: { bits: 16, kind: 'unsigned' },
  i16: { bits: 16, kind: 'signed' },
  f16: { bits: 16, kind: 'half' },
}

export function narrow(kernel: Kernel, target: Target): Kernel {
  return target.narrow ? kernel : new Narrower(kernel, target).run()
}

class Narrower {
  readonly #kernel: Kernel
  readonly #builder: Builder
  readonly #expression: (node: Node) => Node
  readonly #packings = new Map<string, Packing>()
  /** the run that a local is loaded in, and what it is once the run has been loaded */
  readonly #runs = new Map<number, Run>()
  readonly #loaded = new Map<number, Node>()
  /** zeros at the end of locals */
  readonly #zeros = new Map<number, number>()

  constructor(kernel: Kernel, target: Target) {
    this.#kernel = kernel
    this.#builder = builderFor(kernel)
    this.#expression = rebuilder(this.#builder)
    for (const memory of [...kernel.params, ...kernel.shared]) {
      if (!('storage' in memory)) continue
      const form = BITS[storageScalar(memory.storage)]
      if (form !== undefined && !(form.kind === 'half' && target.half)) {
        this.#packings.set(memory.name, { ...form, group: widthOf(memory.storage), isPacked: true, isAtomic: false })
      }
    }
  }

  run(): Kernel {
    const shared = new Set(this.#kernel.shared.map(({ name }) => name))
    this.#surveyBlock(this.#kernel.body, shared)
    this.#kernel.body.src.forEach(this.#statement)
    return finish(this.#builder, this.#kernel, {
      params: this.#kernel.params.map((param): Param => (param.kind === 'buffer' ? this.#memory(param) : param)),
      shared: this.#kernel.shared.map((array): SharedArray => {
        const packing = this.#packings.get(array.name)
        const length = packing?.isPacked === true ? Math.ceil((array.length * packing.group * packing.bits) / 32) : array.length
        return { ...this.#memory(array), length }
      }),
    })
  }

  #surveyBlock({ src }: Node, shared: ReadonlySet<string>): void {
    for (const run of findRuns(src, (mem) => this.#isConstant(mem))) for (const id of run.ids.flat()) this.#runs.set(id, run)
    for (const node of src) this.#survey(node, shared)
  }

  /** Packed, by single scalars, and nobody writes to it. */
  #isConstant(mem: string): boolean {
    const buffer = buffersOf(this.#kernel).find(({ name }) => name === mem)
    return buffer?.role === 'read' && !buffer.atomic && this.#packings.get(mem)?.group === 1
  }

  /** Learns how locals are aligned, and which memories are written in parts. */
  #survey(node: Node, shared: ReadonlySet<string>): void {
    switch (node.op) {
      case 'for':
        this.#zeros.set(node.arg.id, Math.min(this.#zerosOf(node.src[0]), this.#zerosOf(node.src[2])))
        break
      case 'let': {
        const [value] = node.src
        if (value.dtype === 'u32') this.#zeros.set(node.arg.id, this.#zerosOf(value))
        if (value.op === 'tileLoad') this.#refuseTiles(value.arg.mem)
        break
      }
      case 'tileStore':
        this.#refuseTiles(node.arg.mem)
        break
      case 'store':
        this.#surveyStore(node, shared)
        break
      default:
    }
    for (const block of blocksOf(node)) this.#surveyBlock(block, shared)
  }

  #surveyStore({ src: [index], arg: { mem, width } }: NodeOf<'store'>, shared: ReadonlySet<string>): void {
    const packing = this.#packings.get(mem)
    if (packing === undefined || this.#isWhole(packing, index, width ?? 1)) return
    if (shared.has(mem)) packing.isPacked = false
    else packing.isAtomic = true
  }

  #zerosOf(node: Node): number {
    return trailingZeros(node, ({ arg }) => this.#zeros.get(arg) ?? 0)
  }

  #refuseTiles(mem: string): void {
    if (!this.#packings.has(mem)) return
    throw new IngotError('unsupported', `a tile in ${mem}, whose elements this target packs into 32-bit words`, {
      op: this.#kernel.name,
      wanted: 'f32 memory',
    })
  }

  /** True if `count` elements from `index` on certainly fill whole words. */
  #isWhole({ bits, group }: Packing, index: Node, count: number): boolean {
    return (count * group * bits) % 32 === 0 && this.#alignment(index, group) * bits >= 32
  }

  /** The largest power of two (up to 2^30) that divides the number of the first scalar. */
  #alignment(index: Node, group: number): number {
    return group * 2 ** Math.min(30, this.#zerosOf(index))
  }

  #memory<M extends BufferParam | SharedArray>(memory: M): M {
    const packing = this.#packings.get(memory.name)
    if (packing === undefined) return memory
    const plain: Storage = packing.kind === 'half' ? 'f32' : packing.kind === 'signed' ? 'i32' : 'u32'
    return { ...memory, storage: packing.isPacked ? 'u32' : plain, atomic: memory.atomic || packing.isAtomic }
  }

  readonly #statement = (node: Node): void => {
    const [value] = node.src
    if (node.op === 'let' && value?.op === 'load' && this.#isAffected(value)) {
      // the name stays, though what it names is now an expression
      return this.#builder.add('let', [this.#loadInRun(node.arg.id) ?? this.#load(value)], node.arg)
    }
    if (node.op === 'store' && this.#isAffected(node)) return this.#store(node)
    return copy(this.#builder, node, this.#expression, this.#statement)
  }

  #isAffected({ arg: { mem, width } }: NodeOf<'load' | 'store'>): boolean {
    return this.#packings.has(mem) || width !== undefined
  }

  #value(node: Node): Value<'u32'> {
    return valueOf(this.#builder, node)
  }

  #load({ src, arg: { mem }, dtype }: NodeOf<'load'>): Node {
    const index = this.#value(this.#expression(src[0]))
    const packing = this.#packings.get(mem)
    if (packing === undefined || !packing.isPacked) {
      const scalar = packing?.kind === 'half' ? 'f32' : scalarOf(dtype)
      const element = (lane: number): Node => this.#builder.load(mem, index.add(lane).node, scalar)
      const width = widthOf(dtype)
      return width === 1
        ? element(0)
        : this.#builder.make(
            'vec',
            dtype,
            Array.from({ length: width }, (_, lane) => element(lane)),
          )
    }
    const words = new Map<Node, Value<'u32'>>()
    const word = (at: Value<'u32'>): Value<'u32'> => {
      let known = words.get(at.node)
      if (known === undefined) words.set(at.node, (known = this.#word(mem, at)))
      return known
    }
    const first = index.mul(packing.group)
    return extract(this.#builder, packing, word, first, this.#alignment(src[0], packing.group), widthOf(dtype))
  }

  /** The element for a local that belongs to a run, all of which is loaded where the first of it is needed. */
  #loadInRun(id: number): Node | undefined {
    const run = this.#runs.get(id)
    const packing = run && this.#packings.get(run.mem)
    if (run === undefined || packing === undefined) return undefined
    if (!this.#loaded.has(id)) {
      const first = this.#value(this.#expression(run.first))
      const word = (at: Value<'u32'>): Value<'u32'> => this.#word(run.mem, at)
      const elements = extractRun(this.#builder, packing, word, first, this.#alignment(run.first, 1), run.ids.length)
      for (const [at, element] of elements.entries()) for (const each of run.ids[at] ?? []) this.#loaded.set(each, element)
    }
    return this.#loaded.get(id)
  }

  #word(mem: string, at: Value<'u32'>): Value<'u32'> {
    return this.#value(this.#builder.load(mem, at.node, 'u32'))
  }

  #store({ src, arg: { mem } }: NodeOf<'store'>): void {
    const index = this.#value(this.#expression(src[0]))
    const value = this.#expression(src[1])
    const packing = this.#packings.get(mem)
    if (packing?.isPacked === true) {
      return this.#storePacked(mem, packing, index.mul(packing.group), this.#alignment(src[0], packing.group), value)
    }
    const exact = packing === undefined ? value : this.#cut(packing, value)
    for (let lane = 0; lane < widthOf(value.dtype); lane++) {
      this.#builder.store(mem, index.add(lane).node, part(this.#builder, exact, lane, 1))
    }
    return undefined
  }

  /** What memory of that type would keep of a value, though it is kept in a word of its own. */
  #cut({ bits, kind }: Packing, node: Node): Node {
    if (kind === 'half') return round(this.#builder, node)
    const value = this.#value(node)
    return (kind === 'unsigned' ? value.and(2 ** bits - 1) : value.shl(32 - bits).shr(32 - bits)).node
  }

  #storePacked(mem: string, packing: Packing, first: Value<'u32'>, alignment: number, value: Node): void {
    const atomic = (kind: 'and' | 'or', at: Value<'u32'>, bits: Value<'u32'>): void => {
      this.#builder.effect('old', 'atomic', [at.node, bits.node], { mem, kind }, 'u32')
    }
    insert(this.#builder, packing, first, alignment, value, {
      whole: (at, bits) => this.#builder.store(mem, at.node, bits.node),
      partial: (at, bits, mask) => {
        atomic('and', at, mask.not())
        atomic('or', at, bits)
      },
    })
  }
}
