// Random kernels that are legal, free of races and well conditioned, for comparing targets with the interpreter. The same seed
// and options always give the same kernel. Every lane writes its own elements of the outputs; what lanes exchange goes through
// shared memory between barriers, subgroup operations or atomics whose order does not matter.
import {
  type DType,
  type Storage,
  type Width,
  isFloat,
  registerOf,
  scalarOf,
  storageScalar,
  vector,
  widthOf,
} from '../../src/base/dtype.ts'
import { type ParamSpec, type Scope, type Var, buffer, kernel, uniform } from '../../src/ir/author.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import type { AtomicKind } from '../../src/ir/op.ts'
import { type RandomOutput, fill } from './random-data.ts'
import { Random } from './random-number.ts'
import { Expressions, type Input, type Known, type V } from './random-value.ts'

export { type RandomOutput, compareOutputs } from './random-data.ts'

export interface RandomOptions {
  /** lanes of a subgroup; 0 (the default): no subgroup operations */
  readonly subgroup?: number
  /** most lanes of a workgroup; 64 if not given */
  readonly workgroupMax?: number
  /** f16 registers and arithmetic; default true. Memory of f16 is used either way only with it. */
  readonly f16?: boolean
  /** f64 registers, arithmetic and memory; default false, since GPUs have none */
  readonly f64?: boolean
  /** memory of 8 and 16 bits, default true */
  readonly narrow?: boolean
  readonly shared?: boolean
  readonly atomics?: boolean
  /** 8x8 tiles, where there are subgroups; default false */
  readonly tiles?: boolean
  /** statements, about; 12 if not given */
  readonly size?: number
}

export interface RandomKernel {
  readonly kernel: Kernel
  /** fresh bytes for every buffer, always the same */
  readonly buffers: () => Record<string, Uint8Array>
  readonly uniforms: Readonly<Record<string, number>>
  readonly grid: readonly [number, number, number]
  readonly outputs: readonly RandomOutput[]
}

interface Memory extends Omit<Input, 'scalar' | 'width' | 'length'> {
  set(index: V, value: V): void
  store(index: V, value: V): void
  atomic(kind: AtomicKind, index: V, value: V): V
  tile(index: V, row: V): V
  setTile(index: V, row: V, tile: V): void
}
type Control = 'workgroup' | 'subgroup' | 'lane'

const WIDE: readonly Storage[] = ['f32', 'i32', 'u32', 'f32x4', 'u32x2', 'i32x4', 'f32x2']
const NARROW: readonly Storage[] = ['u8', 'i8', 'u16', 'i16']
const HALF: readonly Storage[] = ['f16', 'f16x4']
const DOUBLE: readonly Storage[] = ['f64', 'f64x2', 'f64x4']
/** What a variable of floats promises at all times. */
const PROMISE = { f32: { bound: 4, error: 2 ** -12 }, f16: { bound: 4, error: 2 ** -5 }, f64: { bound: 4, error: 2 ** -42 } } as const
const promiseOf = (dtype: DType): (typeof PROMISE)[keyof typeof PROMISE] => PROMISE[scalarOf(dtype) as keyof typeof PROMISE]
const COUNTERS = 16
/** Elements of each output that a lane may write. */
const SLOTS = 12

export function randomKernel(seed: number, options: RandomOptions = {}): RandomKernel {
  return new Writer(seed, options).write()
}

class Writer {
  readonly #random: Random
  readonly #options: Required<RandomOptions>
  readonly #seed: number
  readonly #lanes: number
  readonly #workgroup: readonly [number, number, number]
  readonly #grid: readonly [number, number, number]
  readonly #inputs: readonly { name: string; storage: Storage; length: number }[]
  /** Tolerance of each slot; a lane's slot s of an output is at lane * slots + s. */
  readonly #outputs: { name: string; storage: Storage; slots: number[] }[]
  readonly #uniforms: Record<string, number>
  #tileSlots = 0
  #shared = 0
  #x!: Expressions
  #k!: Scope
  #memory!: Readonly<Record<string, Memory>>
  #global!: V
  #variables: { readonly variable: Var<DType>; readonly dtype: DType }[] = []

  constructor(seed: number, options: RandomOptions) {
    const random = new Random(seed)
    this.#random = random
    this.#seed = seed
    this.#options = {
      subgroup: 0,
      workgroupMax: 64,
      f16: true,
      f64: false,
      narrow: true,
      shared: true,
      atomics: true,
      tiles: false,
      size: 12,
      ...options,
    }
    const { subgroup, workgroupMax, f16, f64, narrow } = this.#options
    this.#workgroup = this.#shape(subgroup, workgroupMax)
    this.#lanes = this.#workgroup[0] * this.#workgroup[1] * this.#workgroup[2]
    this.#grid = [1 + random.below(3), 1 + random.below(2), 1 + random.below(2)]
    const storages = [...WIDE, ...(narrow ? NARROW : []), ...(f16 ? HALF : []), ...(f64 ? DOUBLE : [])]
    this.#inputs = ['a', 'b', 'c', ...(f64 ? ['d', 'e'] : [])].map((name, at) => ({
      name,
      storage: at === 0 ? 'f32' : random.pick(at < 3 ? storages : DOUBLE),
      length: 64 + 4 * random.below(16),
    }))
    this.#outputs = ['x', 'y', 'z', ...(f64 ? ['u', 'v'] : [])].map((name, at) => ({
      name,
      storage: at === 0 ? 'f32' : at === 1 ? 'u32' : random.pick(at === 2 ? storages : DOUBLE),
      slots: [],
    }))
    this.#uniforms = { n: random.below(6), m: random.word() | 0, r: (random.below(129) - 64) / 16 }
  }

  #shape(subgroup: number, most: number): readonly [number, number, number] {
    const random = this.#random
    if (subgroup > 0) return [subgroup, random.pick([1, 2, 3].filter((count) => count === 1 || count * subgroup <= most)), 1]
    if (random.chance(0.15)) return [1, 1, 1]
    const x = random.pick([1, 2, 4, 5, 8, 16, 32, 64].filter((size) => size <= most))
    const y = 1 + random.below(Math.max(1, Math.min(3, Math.floor(most / x))))
    return [x, y, random.chance(0.2) && 2 * x * y <= most ? 2 : 1]
  }

  write(): RandomKernel {
    const { subgroup, atomics, tiles } = this.#options
    const params: Record<string, ParamSpec> = {}
    for (const { name, storage } of this.#inputs) params[name] = buffer(storage, 'read')
    for (const { name, storage } of this.#outputs) params[name] = buffer(storage, 'readwrite')
    if (atomics) params.counter = buffer('u32', 'readwrite')
    if (tiles && subgroup > 0) params.tile = buffer('f32', 'write')
    Object.assign(params, { n: uniform('u32'), m: uniform('i32'), r: uniform('f32') })
    const written = kernel(`random${this.#seed}`, { params, workgroup: this.#workgroup, subgroup }, (handles, k) => this.#body(handles, k))
    const total = this.#lanes * this.#grid[0] * this.#grid[1] * this.#grid[2]
    const outputs: RandomOutput[] = this.#outputs.map(({ name, storage, slots }) => ({
      name,
      storage,
      tolerance: Array.from({ length: SLOTS }, (_, at) => slots[at] ?? 0),
    }))
    if (atomics) outputs.push({ name: 'counter', storage: 'u32', tolerance: [0] })
    if ('tile' in params) outputs.push({ name: 'tile', storage: 'f32', tolerance: [1e-3] })
    const lengths = new Map(this.#inputs.map(({ name, length }) => [name, length]))
    for (const { name, tolerance } of outputs) lengths.set(name, total * tolerance.length)
    lengths.set('counter', COUNTERS)
    lengths.set('tile', Math.max(1, this.#tileSlots) * 64 * (total / Math.max(1, subgroup)))
    const stored = [...this.#inputs, ...outputs]
    const buffers = (): Record<string, Uint8Array> =>
      Object.fromEntries(stored.map(({ name, storage }, at) => [name, fill(storage, lengths.get(name) ?? 1, this.#seed + at)]))
    return { kernel: written, buffers, uniforms: this.#uniforms, grid: this.#grid, outputs }
  }

  #body(handles: Readonly<Record<string, unknown>>, k: Scope): void {
    const { n, m, r } = handles as Readonly<Record<string, V>>
    this.#k = k
    this.#memory = handles as Readonly<Record<string, Memory>>
    const known = (v: V, bound = 0, grid = 0): Known => ({ v, bound, error: 0, grid })
    const indices = [k.lane, k.workgroupId.x, k.workgroupId.y, k.gridSize.x, k.laneId.x, k.laneId.y, k.laneId.z] as unknown as V[]
    const leaves = [known(n!), known(m!), known(r!, 4, 4), ...indices.map((v) => known(v))]
    const inputs = this.#inputs.map(({ name, storage, length }): Input => ({
      scalar: scalarOf(registerOf(storage)),
      width: widthOf(storage),
      length,
      at: (at) => this.#memory[name]!.at(at),
      load: (at, width) => this.#memory[name]!.load(at, width),
    }))
    this.#x = new Expressions(this.#random, k.lane.builder, inputs, leaves, this.#options)
    const { workgroupId: w, gridSize: g } = k
    this.#global = k.let('global', w.z.mul(g.y).add(w.y).mul(g.x).add(w.x).mul(this.#lanes).add(k.lane))
    this.#x.pool.push(known(this.#global))
    this.#block(this.#options.size, 'workgroup', 0)
    // Whatever happened, a few values of each kind are seen.
    for (const { variable, dtype } of this.#variables) this.#output(this.#get(variable, dtype))
    for (let last = 0; last < 3; last++) this.#output(this.#x.value(this.#x.anyType(), 2))
  }

  #block(size: number, control: Control, depth: number): void {
    const { pool } = this.#x
    const variables = this.#variables
    this.#x.pool = [...pool]
    this.#variables = [...variables]
    for (let count = 0; count < size; count++) this.#statement(control, depth)
    this.#x.pool = pool
    // Those of the outermost block are still read at the end.
    if (depth > 0) this.#variables = variables
  }

  #statement(control: Control, depth: number): void {
    const x = this.#x
    const { subgroup, shared, atomics, tiles } = this.#options
    switch (this.#random.below(14)) {
      case 0:
      case 1:
        return this.#let(x.value(x.anyType(), 3))
      case 2:
        return this.#declare()
      case 3:
      case 4:
        return this.#assign()
      case 5:
      case 6:
        return this.#output(x.value(x.anyType(), 3))
      case 7:
        return depth < 3 ? this.#when(control, depth) : undefined
      case 8:
        return depth < 3 ? this.#for(control, depth) : undefined
      case 9:
        return depth < 2 ? this.#loop(control, depth) : undefined
      case 10:
        return atomics ? this.#count() : undefined
      case 11:
        return shared && control === 'workgroup' ? this.#exchange() : undefined
      case 12:
        return shared && control === 'workgroup' ? this.#tally() : undefined
      default:
        if (subgroup === 0 || control === 'lane') return undefined
        return tiles && this.#random.chance(0.3) ? this.#tile() : this.#combine()
    }
  }

  #let(value: Known): void {
    this.#x.pool.push({ ...value, v: this.#k.let(this.#random.pick(['p', 'q', 't']), value.v) })
  }

  /** A value of the promise's size and accuracy. */
  #kept(dtype: DType, depth: number): V {
    const value = this.#x.value(dtype, depth)
    if (!isFloat(dtype)) return value.v
    const { bound, error } = promiseOf(dtype)
    if (value.error <= error) return this.#x.clamp(value, bound).v
    return this.#x.number(dtype, 0.25)
  }

  #declare(): void {
    const dtype = this.#x.anyType()
    const variable = this.#k.var(this.#random.pick(['u', 'v', 'w']), this.#kept(dtype, 2))
    this.#variables.push({ variable, dtype })
  }

  #get(variable: Var<DType>, dtype: DType): Known {
    const promise = isFloat(dtype) ? promiseOf(dtype) : { bound: 0, error: 0 }
    return { v: variable.get(), ...promise, grid: 99 }
  }

  #assign(): void {
    if (this.#variables.length === 0) return this.#declare()
    const { variable, dtype } = this.#random.pick(this.#variables)
    const now = this.#get(variable, dtype)
    this.#x.pool.push(now)
    if (!isFloat(dtype) || this.#random.chance(0.5)) return variable.set(this.#kept(dtype, 3))
    // half of the old and half of a new value: what loops add up stays as accurate as promised
    const half = this.#x.number(dtype, 0.5)
    return variable.set(this.#x.op('add', [this.#x.op('mul', [now.v, half]), this.#x.op('mul', [this.#exact(dtype), half])]))
  }

  #exact(dtype: DType): V {
    const value = this.#x.value(dtype, 2)
    return value.error === 0 ? this.#x.clamp(value, 2).v : this.#x.number(dtype, -0.75)
  }

  #condition(control: Control): { condition: V; inner: Control } {
    const x = this.#x
    const { subgroup } = this.#options
    if (control !== 'lane' && this.#random.chance(0.5)) {
      x.uniform = true
      const condition = x.op('ne', [x.op('and', [x.value('u32', 2).v, x.number('u32', 3)]), this.#memoryless('u32')])
      x.uniform = false
      return { condition, inner: control }
    }
    if (subgroup > 0 && control !== 'lane' && this.#random.chance(0.4)) {
      return { condition: x.op('eq', [this.#k.subgroupId, x.number('u32', this.#random.below(2))]), inner: 'subgroup' }
    }
    return { condition: x.value('bool', 2).v, inner: 'lane' }
  }
  /** Something uniform that is not always the same constant. */
  #memoryless(dtype: 'u32'): V {
    return this.#random.chance(0.5) ? (this.#memory.n as unknown as V) : this.#x.number(dtype, this.#random.below(4))
  }

  #when(control: Control, depth: number): void {
    const { condition, inner } = this.#condition(control)
    const block = (): void => this.#block(1 + this.#random.below(3), inner, depth + 1)
    this.#k.when(condition as never, block, this.#random.chance(0.5) ? block : undefined)
  }

  #for(control: Control, depth: number): void {
    const x = this.#x
    const lanes = this.#random.chance(0.3)
    const few = (v: V): V => x.op('and', [v, x.number('u32', 3)])
    const to = lanes ? few(x.value('u32', 2).v) : this.#memoryless('u32')
    const unroll = this.#random.chance(0.3) ? { unroll: this.#random.pick([true, 2, 4]) } : {}
    this.#k.for({ from: this.#random.below(2), to: to as never, step: 1 + this.#random.below(2), ...unroll }, (i) => {
      x.pool.push({ v: i, bound: 0, error: 0, grid: 0 })
      this.#block(1 + this.#random.below(3), lanes ? 'lane' : control, depth + 1)
      x.pool.pop()
    })
  }

  #loop(control: Control, depth: number): void {
    const x = this.#x
    const lanes = this.#random.chance(0.5)
    const limit = lanes ? x.op('and', [x.value('u32', 2).v, x.number('u32', 3)]) : this.#memoryless('u32')
    const turn = this.#k.var('turn', x.number('u32', 0))
    const inner = lanes ? 'lane' : control
    this.#k.loop((k) => {
      const now = turn.get()
      const stop = x.op('ge', [now, limit]) as never
      if (this.#random.chance(0.3)) this.#block(1, inner, depth + 1)
      if (this.#random.chance(0.3) && inner === 'lane') k.when(x.value('bool', 1).v as never, () => k.breakIf(stop))
      k.breakIf(stop)
      this.#block(1 + this.#random.below(2), inner, depth + 1)
      turn.set(x.op('add', [now, x.number('u32', 1)]))
    })
  }

  /** Stores a value, converted if need be, where only this lane writes. */
  #output(value: Known): void {
    const x = this.#x
    const { dtype } = value.v.node
    const fitting = this.#outputs.filter(({ storage }) => scalarOf(registerOf(storage)) === scalarOf(dtype))
    if (fitting.length === 0) {
      return this.#output({ ...value, v: x.op('cast', [value.v], vector(isFloat(dtype) ? 'f32' : 'u32', widthOf(dtype))) })
    }
    const { name, storage, slots } = this.#random.pick(fitting)
    const memory = this.#memory[name]!
    if (slots.length >= SLOTS) return undefined
    const width = widthOf(storage)
    const slot = x.op('add', [x.op('mul', [this.#global, x.number('u32', SLOTS)]), x.number('u32', slots.length)])
    const tolerance = storageScalar(storage) === 'f16' ? value.error + (value.bound + 2 ** -4) * 2 ** -10 : value.error
    if (width === 1 && widthOf(dtype) > 1 && slots.length + widthOf(dtype) <= SLOTS) {
      for (let e = 0; e < widthOf(dtype); e++) slots.push(tolerance)
      return memory.store(slot, value.v)
    }
    const fitted = this.#fit(value.v, width)
    slots.push(tolerance)
    memory.set(slot, fitted)
    // What this lane wrote, it may read again.
    if (tolerance === 0 && this.#random.chance(0.3)) x.pool.push({ ...value, v: memory.at(slot), grid: Math.max(value.grid, 0) })
    return undefined
  }

  #fit(v: V, width: 1 | Width): V {
    const has = widthOf(v.node.dtype)
    const scalar = scalarOf(v.node.dtype)
    if (has === width) return v
    if (width === 1) return this.#x.op('extract', [v], 'void', this.#random.below(has))
    if (has === 1) return this.#x.op('splat', [v], vector(scalar, width))
    return has > width ? this.#x.op('slice', [v], vector(scalar, width), 0) : this.#x.op('splat', [this.#fit(v, 1)], vector(scalar, width))
  }

  #count(): void {
    const x = this.#x
    // One kind of operation per element, so that their order does not matter.
    const kinds = ['add', 'max', 'min', 'and', 'or', 'xor'] as const
    const kind = this.#random.below(kinds.length)
    this.#memory.counter!.atomic(
      kinds[kind]!,
      x.op('add', [x.op('and', [x.value('u32', 1).v, x.number('u32', 1)]), x.number('u32', 2 * kind)]),
      x.value('u32', 2).v,
    )
  }

  /** Every lane writes its slot and reads another's. */
  #exchange(): void {
    if (this.#shared >= 6) return
    const x = this.#x
    const k = this.#k
    const { narrow, subgroup } = this.#options
    const value = x.value(x.anyType(), 2)
    const scalar = scalarOf(value.v.node.dtype)
    if (scalar === 'bool') return
    const narrowed: readonly Storage[] = scalar === 'u32' ? ['u8', 'u16'] : scalar === 'i32' ? ['i8', 'i16'] : []
    const storage = narrow && narrowed.length > 0 && this.#random.chance(0.4) ? this.#random.pick(narrowed) : scalar
    const width = widthOf(value.v.node.dtype)
    const whole = width === 1 || (storage === scalar && width <= 4 && this.#random.chance(0.5))
    const element = whole && width > 1 ? (vector(scalar, width) as Storage) : storage
    const memory = k.shared(`s${this.#shared++}`, element, whole ? this.#lanes : this.#lanes * width) as unknown as Memory
    const lane = k.lane as unknown as V
    const place = (v: V): V => (whole ? v : x.op('mul', [v, x.number('u32', width)]))
    if (whole) memory.set(lane, value.v)
    else memory.store(place(lane), value.v)
    const within = subgroup > 0 && this.#random.chance(0.3)
    const wait = (): void => (within ? k.subgroupBarrier() : k.barrier())
    wait()
    const other = within
      ? x.op('xor', [lane, x.number('u32', this.#random.below(subgroup))])
      : x.op('rem', [x.op('add', [lane, x.number('u32', this.#random.below(this.#lanes))]), x.number('u32', this.#lanes)])
    const got = whole ? memory.at(other) : memory.load(place(other), width)
    x.pool.push({ ...value, v: got })
    wait()
  }

  /** Counts in shared memory: cleared, added to by all, read by all. */
  #tally(): void {
    if (this.#shared >= 6 || !this.#options.atomics) return
    const x = this.#x
    const k = this.#k
    const memory = k.shared(`s${this.#shared++}`, 'u32', this.#lanes) as unknown as Memory
    memory.set(k.lane, x.number('u32', this.#random.below(9)))
    k.barrier()
    memory.atomic(this.#random.pick(['add', 'max', 'xor'] as const), x.index(this.#lanes, 1), x.value('u32', 2).v)
    k.barrier()
    x.pool.push({ v: memory.at(x.index(this.#lanes, 1)), bound: 0, error: 0, grid: 0 })
    k.barrier()
  }

  #combine(): void {
    const x = this.#x
    const k = this.#k
    const { subgroup, f16, f64 } = this.#options
    const types: readonly DType[] = [
      'u32',
      'i32',
      'f32',
      'u32x4',
      'f32x2',
      f16 ? 'f16' : 'f32',
      ...(f64 ? (['f64', 'f64x4'] as const) : []),
    ]
    const picked = x.value(this.#random.pick(types), 2)
    const value = isFloat(picked.v.node.dtype) ? x.clamp(picked, 1) : picked
    const { v } = value
    const add = (got: V, from: Known = value): void => {
      x.pool.push({ ...from, v: got })
    }
    const lane = this.#random.below(subgroup)
    switch (this.#random.below(8)) {
      case 0: {
        const sum = k.subSum(v)
        if (!isFloat(v.node.dtype)) return add(sum)
        const scalar = scalarOf(v.node.dtype)
        const [most, eps] = scalar === 'f16' ? [3, 2 ** -11] : scalar === 'f64' ? [40, 2 ** -51] : [12, 2 ** -22]
        const exact = value.error === 0 && value.grid <= most
        const error = exact ? 0 : subgroup * (value.error + subgroup * eps)
        const clamped = x.clamp({ v: sum, bound: subgroup, error, grid: value.grid }, 4)
        return add(clamped.v, clamped)
      }
      case 1:
        return add(this.#random.chance(0.5) ? k.subMax(v) : k.subMin(v))
      case 2:
        return add(k.subBroadcast(v, lane))
      case 3:
        return add(k.subShuffleXor(v, lane))
      case 4:
        return add(k.subShuffle(v, x.op('and', [x.value('u32', 1).v, x.number('u32', subgroup - 1)]) as never))
      case 5: {
        const moved = k.subShuffleDown(v, lane)
        const inside = x.op('lt', [x.op('add', [k.sublane, x.number('u32', lane)]), x.number('u32', subgroup)])
        const width = widthOf(v.node.dtype)
        return add(x.op('select', [width === 1 ? inside : x.op('splat', [inside], vector('bool', width)), moved, v]))
      }
      case 6:
        return add(k.subAny(x.value('bool', 2).v as never), x.known(v))
      default:
        return add(k.subAll(x.value('bool', 2).v as never), x.known(v))
    }
  }

  /** One product of tiles out of the first input; its numbers are exact. */
  #tile(): void {
    const x = this.#x
    const k = this.#k
    const number = (value: number): V => x.number('u32', value)
    if (this.#tileSlots > 0) return
    const load = (): V => this.#memory.a!.tile(number(this.#random.below(2)), number(this.#random.pick([0, 1, 7])))
    const sum = k.tileMma(load() as never, load() as never, k.tileFill('f32', this.#random.below(4)))
    this.#tileSlots = 1
    const groups = this.#lanes / this.#options.subgroup
    const group = x.op('add', [x.op('mul', [x.op('div', [this.#global, number(this.#lanes)]), number(groups)]), k.subgroupId])
    this.#memory.tile!.setTile(x.op('mul', [k.subBroadcast(group, 0), number(64)]), number(8), sum)
  }
}
