// A kernel as a WebAssembly module: one function that runs a range of the grid's workgroups, over an imported memory. What else it
// imports, functions of f64 (math.ts), `importsFor` gives.
//
//   run(args, scratch, begin, end): workgroups begin .. end-1 of the grid, counting x first.
//   args      address of the arguments: grid x, y, z; address of the tables; address of each buffer; the uniforms. 4 bytes each.
//   scratch   address of `scratchBytes` of this thread's own, for the workgroup's shared arrays
//
// Statements and locals are here; how ops are said is in spell.ts, memory in access.ts. Takes any kernel and lowers it first:
// after that there is one lane, and an expression that is used twice has a name. Emission is deterministic.
// Invariant: all memories that args name begin at 65536 or above (see access.ts).

import { storageBytes, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, type SharedArray, buffersOf, isShared, memoryOf, uniformsOf } from '../../ir/kernel.ts'
import { type Node, type NodeOf, type OneNode, memoryNameOf, walk } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import { AXES, indexRecord } from '../../ir/op/position.ts'
import { splatOf } from '../../ir/pass/constant.ts'
import { lower } from '../../ir/pass/index.ts'
import { type Access, accessWidth, atomic, load, loadSplat, sayIndex, store } from './access.ts'
import type { FunctionBody, Label } from './body.ts'
import type { WasmFeatures } from './features.ts'
import { importMath, mathSpellings } from './math.ts'
import { WasmModule } from './module.ts'
import type { ValType } from './opcode.ts'
import { MOST_PAGES } from './page.ts'
import { Pairs } from './pair.ts'
import { printModule } from './print.ts'
import { type MathName, type Speaker, type Spellings, valueType } from './speaker.ts'
import { sayTwice } from './spell-vector.ts'
import { spellings, tableLength, wasmTarget } from './spell.ts'
import { sayDots, sayProducts, saySum } from './sum.ts'

export interface WasmKernel {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** name of the exported function */
  readonly entry: string
  /** bytes of memory that each thread needs for itself */
  readonly scratchBytes: number
  /** constants that must lie in memory, at the address that args give; may be empty */
  readonly tables: Uint8Array<ArrayBuffer>
}

/** Where things lie in the block of arguments, in bytes. */
export const ARGS = { grid: 0, tables: 12, buffers: 16 } as const
const ENTRY = 'run'
/** which parameter is the address of this thread's own memory */
const SCRATCH = 1

/** The kernel as a module for an engine with these features; `features.threads` makes its memory a shared one. */
export function emitWasm(kernel: Kernel, features: WasmFeatures): WasmKernel {
  const { module, scratchBytes, tables } = build(kernel, features)
  return { bytes: module.encode(), entry: ENTRY, scratchBytes, tables }
}

/** The same module as text. */
export function printWat(kernel: Kernel, features: WasmFeatures): string {
  return printModule(build(kernel, features).module)
}

/** Bytes of the block of arguments. */
export function argsBytes(kernel: Kernel): number {
  return ARGS.buffers + 4 * kernel.params.length
}

/** Where the uniforms begin in the block of arguments. */
export function uniformsOffset(kernel: Kernel): number {
  return ARGS.buffers + 4 * buffersOf(kernel).length
}

function build(kernel: Kernel, features: WasmFeatures) {
  const module = new WasmModule()
  const { threads } = features
  module.importMemory('env', 'memory', threads ? { min: 1, max: MOST_PAGES, shared: true } : { min: 1 })
  const lowered = lower(kernel, wasmTarget)
  const math = importMath(module, lowered)
  let emitter: Emitter | undefined
  module.function(ENTRY, { params: ['i32', 'i32', 'i32', 'i32'], export: true }, (f) => {
    emitter = new Emitter(lowered, f, features, math)
    emitter.run()
  })
  const tables = emitter?.tables ?? []
  return { module, scratchBytes: emitter?.scratchBytes ?? 0, tables: new Uint8Array(Uint32Array.from(tables).buffer) }
}

/** More than these are not written out, whatever the author wishes. */
const MOST_ROUNDS = 16

/** The values of the counter of a loop that is to be written out. */
function unrolled({ arg, src }: NodeOf<'for'>): number[] | undefined {
  const [from, to, step] = [splatOf(src[0]), splatOf(src[1]), splatOf(src[2])]
  if (arg.unroll !== true || from === undefined || to === undefined || step === undefined) return undefined
  const rounds = Math.max(0, Math.ceil((to - from) / step))
  return rounds > MOST_ROUNDS ? undefined : Array.from({ length: rounds }, (_, round) => from + round * step)
}

const align = (value: number, to: number): number => Math.ceil(value / to) * to

class Emitter implements Speaker {
  readonly f: FunctionBody
  readonly features: WasmFeatures
  /** words of all tables */
  readonly tables: number[] = []
  readonly scratchBytes: number
  readonly #kernel: Kernel
  readonly #math: ReadonlyMap<MathName, { readonly index: number }>
  readonly #free: Record<ValType, number[]> = { i32: [], i64: [], f32: [], f64: [], v128: [] }
  /** locals of the open blocks, to be free again when they close */
  readonly #scopes: { type: ValType; local: number }[][] = []
  readonly #values = new Map<number, number>()
  /** factors in both halves of their lanes */
  readonly #twice = new Map<number, number>()
  /** names of vectors whose lanes are all the same */
  readonly #splats = new Set<number>()
  readonly #params = new Map<string, number>()
  readonly #indices = new Map<string, number>()
  readonly #tableOffsets = new Map<string, number>()
  readonly #shared = new Map<SharedArray, number>()
  /** undefined: dot products are summed in 32 bits at once */
  readonly #pairs: Pairs | undefined
  /** where sums are written that nobody reads */
  readonly #pinned: number
  #tableBase = -1
  #exit: Label | undefined

  constructor(kernel: Kernel, f: FunctionBody, features: WasmFeatures, math: ReadonlyMap<MathName, { readonly index: number }>) {
    this.#kernel = kernel
    this.#math = math
    this.f = f
    this.features = features
    let bytes = 0
    for (const array of kernel.shared) {
      this.#shared.set(array, bytes)
      bytes = align(bytes + array.length * storageBytes(array.storage), 16)
    }
    this.#pinned = bytes
    if (features.pairs) this.#pairs = new Pairs(kernel.body)
    this.scratchBytes = bytes + (this.#pairs?.hasPinned === true ? 16 : 0)
  }

  isSplat(node: Node): boolean {
    return node.op === 'splat' || (node.op === 'local' && this.#splats.has(node.arg))
  }

  run(): void {
    const { f } = this
    const args = f.param(0, 'args')
    f.param(SCRATCH, 'scratch')
    const [group, end] = [f.param(2, 'group'), f.param(3, 'end')]
    const used = this.#findUses()
    this.#readArgs(args, used)
    const steps = this.#startGrid(args, group, used)
    f.block((out) => {
      f.loop((next) => {
        f.localGet(group).localGet(end).emit('i32.ge_u').brIf(out)
        this.#block(this.#kernel.body)
        f.localGet(group).i32Const(1).emit('i32.add').localSet(group)
        this.#stepGrid(steps)
        f.br(next)
      })
    })
  }

  /** Names of parameters and indices, and `tables`, as far as the body mentions them. */
  #findUses(): Set<string> {
    const used = new Set<string>()
    walk(this.#kernel.body, (node) => {
      const name = node.op === 'index' || node.op === 'uniform' ? node.arg : node.op === 'table' ? 'tables' : memoryNameOf(node)
      if (name !== undefined) used.add(name)
    })
    return used
  }

  #readArgs(args: number, used: ReadonlySet<string>): void {
    const { f } = this
    const read = (name: string, offset: number, type: 'i32' | 'f32' = 'i32'): number => {
      const local = f.local(type, name)
      f.localGet(args)
        .emit(type === 'f32' ? 'f32.load' : 'i32.load', { offset })
        .localSet(local)
      return local
    }
    if (used.has('tables')) this.#tableBase = read('tables', ARGS.tables)
    buffersOf(this.#kernel).forEach(({ name }, index) => {
      if (used.has(name)) this.#params.set(name, read(name, ARGS.buffers + 4 * index))
    })
    uniformsOf(this.#kernel).forEach(({ name, dtype }, index) => {
      if (used.has(name)) this.#params.set(name, read(name, uniformsOffset(this.#kernel) + 4 * index, dtype === 'f32' ? 'f32' : 'i32'))
    })
    AXES.forEach((axis, index) => {
      if (used.has(`grid.${axis}`)) this.#indices.set(`grid.${axis}`, read(`grid.${axis}`, ARGS.grid + 4 * index))
    })
  }

  /** Locals that hold the workgroup's place along each axis, up to the last that is used, and the size of that axis. */
  #startGrid(args: number, group: number, used: ReadonlySet<string>): { at: number; size: number | undefined }[] {
    const { f } = this
    const last = AXES.findLastIndex((axis) => used.has(`workgroup.${axis}`))
    if (last < 0) return []
    const rest = f.local('i32', 'rest')
    f.localGet(group).localSet(rest)
    return AXES.slice(0, last + 1).map((axis, index) => {
      const at = f.local('i32', `group.${axis}`)
      this.#indices.set(`workgroup.${axis}`, at)
      if (axis === 'z') {
        f.localGet(rest).localSet(at)
        return { at, size: undefined }
      }
      const size = f.local('i32', `size.${axis}`)
      f.localGet(args)
        .emit('i32.load', { offset: ARGS.grid + 4 * index })
        .localSet(size)
      // an empty grid has no workgroups, but its code runs up to here
      f.localGet(size)
        .emit('i32.eqz')
        .if(() => f.emit('return'))
      f.localGet(rest).localGet(size).emit('i32.rem_u').localSet(at)
      if (index < last) f.localGet(rest).localGet(size).emit('i32.div_u').localSet(rest)
      return { at, size }
    })
  }

  #stepGrid([first, ...others]: readonly { at: number; size: number | undefined }[]): void {
    const { f } = this
    if (first === undefined) return
    f.localGet(first.at).i32Const(1).emit('i32.add')
    const { size } = first
    if (size === undefined) return void f.localSet(first.at)
    f.localTee(first.at)
      .localGet(size)
      .emit('i32.eq')
      .if(() => {
        f.i32Const(0).localSet(first.at)
        this.#stepGrid(others)
      })
  }

  // ---- values

  say(node: Node): void {
    const { f } = this
    switch (node.op) {
      case 'local':
      case 'get':
        return void f.localGet(this.#known(this.#values.get(node.arg), node))
      case 'add':
        return this.#pairs?.isSumOfProducts(node) === true ? saySum(this, this.#pairs, node) : spellings.add(this, node)
      case 'mul': {
        const product = this.#pairs?.productOf(node)
        return product === undefined ? spellings.mul(this, node) : sayProducts(this, [product], false)
      }
      case 'dotU7I8':
        return this.#pairs === undefined || widthOf(node.dtype) === 1 ? spellings.dotU7I8(this, node) : sayDots(this, this.#pairs, node)
      case 'uniform':
        return void f.localGet(this.#known(this.#params.get(node.arg), node))
      case 'index':
        return this.#sayIndexName(node)
      case 'load':
        return load(this, this.#access(node))
      case 'splat':
        return node.src[0].op === 'load' ? loadSplat(this, this.#access(node.src[0])) : spellings.splat(this, node)
      case 'atomic':
        return atomic(this, node, this.#access(node))
      default:
        return this.#spell(node)
    }
  }

  #spell<O extends OpName>(node: OneNode<O>): void {
    const table: Spellings = spellings
    const spelling = table[node.op] ?? mathSpellings[node.op]
    if (spelling === undefined)
      throw new IngotError('unsupported', `no spelling of ${node.op} in WebAssembly`, { op: this.#kernel.name, got: node.dtype })
    spelling(this, node)
  }

  #sayIndexName(node: NodeOf<'index'>): void {
    // one lane: it is the first of everything
    if (indexRecord(node.arg).uniform === 'workgroup') this.f.localGet(this.#known(this.#indices.get(node.arg), node))
    else this.f.i32Const(0)
  }

  /**
   * Writes a sum to memory that nobody reads, so that it is computed here: V8 puts off whatever is not needed at once, and would load all that
   * comes after it before, into registers that it does not have.
   */
  #pin(local: number): void {
    this.f.localGet(SCRATCH).localGet(local).emit('v128.store', { offset: this.#pinned, align: 16 })
  }

  #known(local: number | undefined, { op, arg }: Node): number {
    if (local === undefined)
      throw new IngotError('bad-kernel', 'a value is used before the statement that names it', {
        op: this.#kernel.name,
        got: `${op} ${JSON.stringify(arg)}`,
      })
    return local
  }

  /** Leaves the address of an access. */
  #access(node: NodeOf<'load' | 'store' | 'atomic'>): Access {
    const { mem } = node.arg
    const width = node.op === 'atomic' ? undefined : node.arg.width
    const memory = memoryOf(this.#kernel, mem)
    if (memory === undefined) throw new IngotError('bad-kernel', 'no such memory', { op: this.#kernel.name, got: mem })
    const { storage } = memory
    const start = isShared(memory) ? (this.#shared.get(memory) ?? 0) : 0
    this.f.localGet(isShared(memory) ? SCRATCH : this.#known(this.#params.get(mem), node))
    const offset = start + sayIndex(this, node.src[0], storageBytes(storage))
    return { storage, width: accessWidth(storage, width), offset, atomic: memory.atomic }
  }

  lend(type: ValType, use: (local: number) => void): void {
    const local = this.#free[type].pop() ?? this.f.local(type)
    use(local)
    this.#free[type].push(local)
  }

  table(node: NodeOf<'table'>): number {
    const values = node.arg
    const key = `${node.dtype} ${values.join()}`
    let offset = this.#tableOffsets.get(key)
    if (offset === undefined) {
      offset = 4 * this.tables.length
      this.#tableOffsets.set(key, offset)
      const words = node.dtype === 'f32' ? new Uint32Array(Float32Array.from(values).buffer) : Uint32Array.from(values)
      for (let at = 0; at < tableLength(node); at++) this.tables.push(words[at] ?? 0)
    }
    this.f.localGet(this.#tableBase)
    return offset
  }

  callMath(name: MathName): void {
    const found = this.#math.get(name)
    if (found === undefined)
      throw new IngotError('bad-kernel', 'a function is called that was not imported', { op: this.#kernel.name, got: name })
    this.f.call(found)
  }

  // ---- statements

  /** A local for a name of this block; free again when the block ends. */
  #declare(id: number, type: ValType, name: string): number {
    const local = this.#take(type, name)
    this.#values.set(id, local)
    return local
  }

  #take(type: ValType, name: string): number {
    const local = this.#free[type].pop() ?? this.f.local(type, name)
    this.#scopes.at(-1)?.push({ type, local })
    return local
  }

  /** A factor in both halves of its lanes, beside itself: engines drop what is not used. */
  #keepTwice(id: number, value: Node): void {
    sayTwice(this, value)
    const local = this.#take('v128', 'twice')
    this.f.localSet(local)
    this.#twice.set(id, local)
  }

  twiceOf(node: Node): number | undefined {
    return node.op === 'local' ? this.#twice.get(node.arg) : undefined
  }

  #block(block: Node): void {
    this.#scopes.push([])
    for (const statement of block.src) this.#statement(statement)
    for (const { type, local } of this.#scopes.pop()?.toReversed() ?? []) this.#free[type].push(local)
  }

  #statement(node: Node): void {
    const { f } = this
    switch (node.op) {
      case 'let':
      case 'var': {
        const [value] = node.src
        if (node.op === 'let' && this.isSplat(value)) this.#splats.add(node.arg.id)
        this.say(value)
        f.localSet(this.#declare(node.arg.id, valueType(value.dtype), node.arg.name))
        return this.#pairs?.isFactor(node.arg.id) === true ? this.#keepTwice(node.arg.id, value) : undefined
      }
      case 'set': {
        const [value] = node.src
        const local = this.#known(this.#values.get(node.arg), node)
        this.say(value)
        f.localSet(local)
        return this.#pairs?.isPinned(value) === true ? this.#pin(local) : undefined
      }
      case 'store': {
        const access = this.#access(node)
        this.say(node.src[1])
        return store(this, access)
      }
      case 'if': {
        const [condition, then, otherwise] = node.src
        this.say(condition)
        return void f.if(() => this.#block(then), otherwise === undefined ? undefined : () => this.#block(otherwise))
      }
      case 'for':
        return this.#for(node)
      case 'loop':
        return this.#loop(node)
      case 'breakIf':
        this.say(node.src[0])
        if (this.#exit === undefined) throw new IngotError('bad-kernel', 'breakIf outside of a loop', { op: this.#kernel.name })
        return void f.brIf(this.#exit)
      case 'block':
        return this.#block(node)
      case 'barrier':
        return undefined // one lane waits for nobody
      default:
        throw new IngotError('unsupported', 'no such statement in WebAssembly', { op: this.#kernel.name, got: node.op })
    }
  }

  /** Rounds one after the other if the author asked for it and there are few; else the condition stands at the end of each. */
  #for(node: NodeOf<'for'>): void {
    const { f } = this
    const [from, to, step, body] = node.src
    this.#scopes.push([])
    const counter = this.#declare(node.arg.id, 'i32', node.arg.name)
    const rounds = unrolled(node)
    if (rounds === undefined) this.#count(counter, from, to, step, body)
    for (const round of rounds ?? []) {
      f.i32Const(round).localSet(counter)
      this.#block(body)
    }
    for (const { type, local } of this.#scopes.pop() ?? []) this.#free[type].push(local)
  }

  #count(counter: number, from: Node, to: Node, step: Node, body: Node): void {
    const { f } = this
    this.say(from)
    f.localTee(counter)
    this.say(to)
    f.emit('i32.lt_u').if(() => {
      f.loop((next) => {
        this.#block(body)
        f.localGet(counter)
        this.say(step)
        f.emit('i32.add').localTee(counter)
        this.say(to)
        f.emit('i32.lt_u').brIf(next)
      })
    })
  }

  #loop({ src: [body] }: NodeOf<'loop'>): void {
    const outer = this.#exit
    this.f.block((out) => {
      this.#exit = out
      this.f.loop((next) => {
        this.#block(body)
        this.f.br(next)
      })
    })
    this.#exit = outer
  }
}
