// Pass, for targets whose memory is 32-bit words: elements of 8 and 16 bits are taken out of words by shifts and put into them
// by masks, and vectors of 32-bit elements move one by one. Elements that are read side by side share the loads of their words:
// a load is the dearest thing of all, and WebGPU checks the bounds of each.
//
// Several lanes may write to parts of one word, so a store of a part is two atomics, `and` to clear and `or` to set, and
// makes its buffer atomic. A store that is known to cover whole words is a plain one. Workgroup memory that is written in parts
// is not packed at all: one element per word is quicker than atomics.

import { type DType, type Storage, scalarOf, storageScalar, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type BufferParam, type Kernel, type Param, type SharedArray, buffersOf } from '../kernel.ts'
import type { Node } from '../node.ts'
import type { Target } from '../target.ts'
import type { Value } from '../value.ts'
import { trailingZeros } from './algebra.ts'
import { round } from './half.ts'
import { type Form, type Packing, extract, extractRun, insert } from './packing.ts'
import { type Run, findRuns } from './run.ts'
import { part } from './vector.ts'
import { Writer, idOf, memOf, widthArg } from './writer.ts'

const BITS: Partial<Record<string, Form>> = {
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
  readonly #writer: Writer
  readonly #done = new Map<Node, Node>()
  readonly #packings = new Map<string, Packing>()
  /** the run that a local is loaded in, and what it is once the run has been loaded */
  readonly #runs = new Map<number, Run>()
  readonly #loaded = new Map<number, Node>()
  /** zeros at the end of locals */
  readonly #zeros = new Map<number, number>()

  constructor(kernel: Kernel, target: Target) {
    this.#kernel = kernel
    this.#writer = new Writer(kernel)
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
    return this.#writer.finish(this.#kernel, {
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
    const { op, src, arg } = node
    if (op === 'for') this.#zeros.set(idOf(arg), Math.min(this.#zerosOf(src[0] as Node), this.#zerosOf(src[2] as Node)))
    if (op === 'let' && src[0]?.dtype === 'u32') this.#zeros.set(idOf(arg), this.#zerosOf(src[0]))
    if (op === 'tileStore') this.#refuseTiles(memOf(arg))
    if (op === 'let' && src[0]?.op === 'tileLoad') this.#refuseTiles(memOf(src[0].arg))
    if (op === 'store') this.#surveyStore(node, shared)
    for (const child of src) if (child.op === 'block') this.#surveyBlock(child, shared)
  }

  #surveyStore({ src, arg }: Node, shared: ReadonlySet<string>): void {
    const packing = this.#packings.get(memOf(arg))
    if (packing === undefined || this.#isWhole(packing, src[0] as Node, widthArg(arg) ?? 1)) return
    if (shared.has(memOf(arg))) packing.isPacked = false
    else packing.isAtomic = true
  }

  #zerosOf(node: Node): number {
    return trailingZeros(node, (local) => this.#zeros.get(local.arg as number) ?? 0)
  }

  #refuseTiles(mem: string): void {
    if (!this.#packings.has(mem)) return
    throw new IngotError('unsupported', 'tiles in memory of 32-bit words', { op: this.#kernel.name, got: mem, wanted: 'f32' })
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

  readonly #expression = (node: Node): Node => {
    const known = this.#done.get(node)
    if (known !== undefined) return known
    const made = this.#writer.make(node.op, node.dtype, node.src.map(this.#expression), node.arg)
    this.#done.set(node, made)
    return made
  }

  readonly #statement = (node: Node): void => {
    const { op, src, arg } = node
    const value = src[0]
    if (op === 'let' && value?.op === 'load' && this.#isAffected(value)) {
      // the name stays, though what it names is now an expression
      this.#writer.add('let', [this.#loadInRun(idOf(arg)) ?? this.#load(value)], arg)
      return
    }
    if (op === 'store' && this.#isAffected(node)) return this.#store(node)
    return this.#writer.copy(node, this.#expression, this.#statement)
  }

  #isAffected({ arg }: Node): boolean {
    return this.#packings.has(memOf(arg)) || widthArg(arg) !== undefined
  }

  #load({ src, arg, dtype }: Node): Node {
    const mem = memOf(arg)
    const index = this.#writer.value<'u32'>(this.#expression(src[0] as Node))
    const packing = this.#packings.get(mem)
    if (packing === undefined || !packing.isPacked) {
      const lanes = Array.from({ length: widthOf(dtype) }, (_, lane) =>
        this.#element(mem, index.add(lane), packing?.kind === 'half' ? 'f32' : scalarOf(dtype)),
      )
      return lanes.length === 1 ? (lanes[0] as Node) : this.#writer.make('vec', dtype, lanes)
    }
    const words = new Map<Node, Value<'u32'>>()
    const word = (at: Value<'u32'>): Value<'u32'> => {
      let known = words.get(at.node)
      if (known === undefined) words.set(at.node, (known = this.#writer.value(this.#element(mem, at, 'u32'))))
      return known
    }
    const first = index.mul(packing.group)
    return extract(this.#writer, packing, word, first, this.#alignment(src[0] as Node, packing.group), widthOf(dtype))
  }

  /** The element for a local that belongs to a run, all of which is loaded where the first of it is needed. */
  #loadInRun(id: number): Node | undefined {
    const run = this.#runs.get(id)
    const packing = run && this.#packings.get(run.mem)
    if (run === undefined || packing === undefined) return undefined
    if (!this.#loaded.has(id)) {
      const first = this.#writer.value<'u32'>(this.#expression(run.first))
      const word = (at: Value<'u32'>): Value<'u32'> => this.#writer.value(this.#element(run.mem, at, 'u32'))
      const elements = extractRun(this.#writer, packing, word, first, this.#alignment(run.first, 1), run.ids.length)
      run.ids.forEach((ids, at) => {
        for (const each of ids) this.#loaded.set(each, elements[at] as Node)
      })
    }
    return this.#loaded.get(id)
  }

  #element(mem: string, index: Value<'u32'>, dtype: DType): Node {
    return this.#writer.load(mem, index, dtype)
  }

  #store({ src, arg }: Node): void {
    const mem = memOf(arg)
    const index = this.#writer.value<'u32'>(this.#expression(src[0] as Node))
    const value = this.#expression(src[1] as Node)
    const packing = this.#packings.get(mem)
    if (packing?.isPacked === true) {
      return this.#storePacked(mem, packing, index.mul(packing.group), this.#alignment(src[0] as Node, packing.group), value)
    }
    const width = widthOf(value.dtype)
    const exact = packing === undefined ? value : this.#cut(packing, value)
    for (let lane = 0; lane < width; lane++) {
      this.#writer.store(mem, index.add(lane), part(this.#writer.interner, exact, lane, 1))
    }
    return undefined
  }

  /** What memory of that type would keep of a value, though it is kept in a word of its own. */
  #cut({ bits, kind }: Packing, node: Node): Node {
    if (kind === 'half') return round(this.#writer.interner, node)
    const value = this.#writer.value<'u32'>(node)
    return (kind === 'unsigned' ? value.and(2 ** bits - 1) : value.shl(32 - bits).shr(32 - bits)).node
  }

  #storePacked(mem: string, packing: Packing, first: Value<'u32'>, alignment: number, value: Node): void {
    const atomic = (kind: 'and' | 'or', at: Value<'u32'>, bits: Value<'u32'>): void => {
      this.#writer.bind('old', this.#writer.make('atomic', 'u32', [at.node, bits.node], { mem, kind }))
    }
    insert(this.#writer, packing, first, alignment, value, {
      whole: (at, bits) => this.#writer.store(mem, at, bits.node),
      partial: (at, bits, mask) => {
        atomic('and', at, mask.not())
        atomic('or', at, bits)
      },
    })
  }
}
