// A WebAssembly module being built, and its bytes: types, imports, functions, one memory, globals, a table, data.
// Knows the binary layout; knows nothing of kernels or the IR. Invariants: equal calls give equal bytes; an index is
// final when it is given out, which is why imports come before what they would shift.

import { IngotError } from '../../base/error.ts'
import { FunctionBody, type FuncType, type GlobalType, type Local, type Scope } from './body.ts'
import { Bytes } from './encode.ts'
import { typeCodes, writeInstruction } from './immediate.ts'
import { opcodes, type ValType } from './opcode.ts'

/** Sizes in pages of 64 KiB. A shared memory needs a maximum. */
export interface MemoryLimits {
  readonly min: number
  readonly max?: number
  readonly shared?: boolean
}

export type ImportedThing =
  | { readonly kind: 'func'; readonly type: number }
  | { readonly kind: 'memory'; readonly limits: MemoryLimits }
  | { readonly kind: 'global'; readonly global: GlobalType }
export type Import = { readonly module: string; readonly name: string } & ImportedThing

export interface DefinedFunction {
  readonly name: string
  readonly index: number
  readonly type: number
  readonly locals: readonly Local[]
  readonly code: Uint8Array
}

export interface DefinedGlobal extends GlobalType {
  readonly value: number | bigint
}

export interface DataSegment {
  readonly bytes: Uint8Array
  /** where it lies from the start; without it the segment waits for memory.init */
  readonly offset?: number
}

export const exportKinds = { func: 0, table: 1, memory: 2, global: 3 } as const
export interface Export {
  readonly name: string
  readonly kind: keyof typeof exportKinds
  readonly index: number
}

/** All that a module declares. */
export interface ModuleContents {
  readonly types: readonly FuncType[]
  readonly imports: readonly Import[]
  readonly functions: readonly DefinedFunction[]
  readonly globals: readonly DefinedGlobal[]
  readonly exports: readonly Export[]
  readonly data: readonly DataSegment[]
  readonly memory: MemoryLimits | undefined
  readonly table: readonly number[] | undefined
}

export interface FunctionOptions {
  readonly params?: readonly ValType[]
  readonly results?: readonly ValType[]
  /** also export it, under its own name */
  readonly export?: boolean
}

export interface ModuleOptions {
  /** check operand types while emitting; default true */
  readonly check?: boolean
}

const FUNCREF = 0x70

export class WasmModule {
  readonly #checked: boolean
  readonly #types: FuncType[] = []
  readonly #typeIndex = new Map<string, number>()
  readonly #imports: Import[] = []
  readonly #functionTypes: number[] = []
  readonly #functions: DefinedFunction[] = []
  readonly #globalTypes: GlobalType[] = []
  readonly #globals: DefinedGlobal[] = []
  readonly #exports: Export[] = []
  readonly #data: DataSegment[] = []
  #memory: MemoryLimits | undefined
  #hasMemory = false
  #table: readonly number[] | undefined
  readonly #scope: Scope

  constructor({ check = true }: ModuleOptions = {}) {
    this.#checked = check
    const hasMemory = (): boolean => this.#hasMemory
    this.#scope = {
      get hasMemory() {
        return hasMemory()
      },
      functionType: (index) => this.#types[this.#functionTypes[index] ?? -1],
      typeAt: (index) => this.#types[index],
      globalType: (index) => this.#globalTypes[index],
    }
  }

  /** All that was declared, for the printer. */
  get contents(): ModuleContents {
    return {
      types: this.#types,
      imports: this.#imports,
      functions: this.#functions,
      globals: this.#globals,
      exports: this.#exports,
      data: this.#data,
      memory: this.#memory,
      table: this.#table,
    }
  }

  /** The index of a function type, the same for equal types. */
  type(params: readonly ValType[], results: readonly ValType[]): number {
    const key = `${params.join()}:${results.join()}`
    const known = this.#typeIndex.get(key)
    if (known !== undefined) return known
    const index = this.#types.push({ params: [...params], results: [...results] }) - 1
    this.#typeIndex.set(key, index)
    return index
  }

  importFunction(module: string, name: string, { params = [], results = [] }: FunctionOptions = {}): { index: number } {
    if (this.#functions.length > 0) throw refuse('importFunction', 'comes after a function', name)
    const type = this.type(params, results)
    this.#imports.push({ module, name, kind: 'func', type })
    return { index: this.#functionTypes.push(type) - 1 }
  }

  importMemory(module: string, name: string, limits: MemoryLimits): void {
    this.#claimMemory('importMemory', limits)
    this.#imports.push({ module, name, kind: 'memory', limits })
  }

  importGlobal(module: string, name: string, type: ValType, mutable = false): number {
    if (this.#globals.length > 0) throw refuse('importGlobal', 'comes after a global', name)
    const global = { type, mutable }
    this.#imports.push({ module, name, kind: 'global', global })
    return this.#globalTypes.push(global) - 1
  }

  memory(limits: MemoryLimits): void {
    this.#claimMemory('memory', limits)
    this.#memory = limits
  }

  /** A global with a constant start value (bigint for i64); returns its index. */
  global(type: Exclude<ValType, 'v128'>, value: number | bigint, mutable = true): number {
    if ((type === 'i64') !== (typeof value === 'bigint')) throw refuse('global', `bad value for ${type}`, String(value))
    this.#globals.push({ type, mutable, value })
    return this.#globalTypes.push({ type, mutable }) - 1
  }

  /** The one table, filled with these functions, for call_indirect. */
  table(functions: readonly { readonly index: number }[]): void {
    if (this.#table !== undefined) throw refuse('table', 'declared twice', 'a second table')
    this.#table = functions.map(({ index }) => index)
  }

  /** Bytes at an offset from the start, or without one for memory.init; returns the segment's index. */
  data(bytes: Uint8Array, offset?: number): number {
    return this.#data.push(offset === undefined ? { bytes } : { bytes, offset }) - 1
  }

  /** Defines a function; `write` emits its body. It may call itself and every function declared before. */
  function(name: string, options: FunctionOptions, write: (f: FunctionBody) => void): DefinedFunction {
    const signature: FuncType = { params: options.params ?? [], results: options.results ?? [] }
    const type = this.type(signature.params, signature.results)
    const index = this.#functionTypes.push(type) - 1
    // the place in the list is taken before the body is written, in case the body defines another function
    const at = this.#functions.push({ name, index, type, locals: [], code: new Uint8Array() }) - 1
    const body = new FunctionBody(name, index, signature, this.#scope, this.#checked)
    write(body)
    const defined = { name, index, type, locals: body.locals, code: body.finish() }
    this.#functions[at] = defined
    if (options.export === true) this.export(name, 'func', index)
    return defined
  }

  export(name: string, kind: Export['kind'], index = 0): void {
    if (this.#exports.some((other) => other.name === name)) throw refuse('export', 'name is taken', name)
    this.#exports.push({ name, kind, index })
  }

  /** The module's bytes. */
  encode(): Uint8Array<ArrayBuffer> {
    const out = new Bytes(1024)
    out.append([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00])
    writeList(out, 1, this.#types, writeType)
    writeList(out, 2, this.#imports, writeImport)
    writeList(out, 3, this.#functions, (to, { type }) => to.u32(type))
    if (this.#table !== undefined) writeList(out, 4, [this.#table.length], writeTable)
    if (this.#memory !== undefined) writeList(out, 5, [this.#memory], writeLimits)
    writeList(out, 6, this.#globals, writeGlobal)
    writeList(out, 7, this.#exports, writeExport)
    if (this.#table !== undefined) writeList(out, 9, [this.#table], writeElements)
    if (this.#data.length > 0) writeSection(out, 12, (to) => to.u32(this.#data.length))
    writeList(out, 10, this.#functions, (to, defined) => writeCode(to, defined, this.#types))
    writeList(out, 11, this.#data, writeData)
    if (this.#functions.length > 0) writeSection(out, 0, (to) => writeNames(to, this.#functions))
    return out.finish()
  }

  #claimMemory(op: string, { shared, max }: MemoryLimits): void {
    if (this.#hasMemory) throw refuse(op, 'declared twice', 'a second memory')
    if (shared === true && max === undefined) throw refuse(op, 'a shared memory needs a maximum', 'none')
    this.#hasMemory = true
  }
}

const refuse = (op: string, what: string, got: string): IngotError => new IngotError('bad-kernel', what, { op, got })

function writeSection(out: Bytes, id: number, write: (to: Bytes) => void): void {
  const content = new Bytes()
  write(content)
  out.u8(id)
  out.sized(content.finish())
}

/** A section that is a list; an empty one is left out. */
function writeList<T>(out: Bytes, id: number, items: readonly T[], write: (to: Bytes, item: T) => void): void {
  if (items.length === 0) return
  writeSection(out, id, (to) => {
    to.u32(items.length)
    for (const item of items) write(to, item)
  })
}

function writeType(to: Bytes, { params, results }: FuncType): void {
  to.u8(0x60)
  for (const types of [params, results]) {
    to.u32(types.length)
    for (const type of types) to.u8(typeCodes[type])
  }
}

function writeLimits(to: Bytes, { min, max, shared = false }: MemoryLimits): void {
  to.u8((max === undefined ? 0 : 1) | (shared ? 2 : 0))
  to.u32(min)
  if (max !== undefined) to.u32(max)
}

function writeGlobalType(to: Bytes, { type, mutable }: GlobalType): void {
  to.u8(typeCodes[type])
  to.u8(mutable ? 1 : 0)
}

function writeImport(to: Bytes, item: Import): void {
  to.name(item.module)
  to.name(item.name)
  to.u8(exportKinds[item.kind])
  if (item.kind === 'func') to.u32(item.type)
  else if (item.kind === 'memory') writeLimits(to, item.limits)
  else writeGlobalType(to, item.global)
}

function writeTable(to: Bytes, size: number): void {
  to.u8(FUNCREF)
  writeLimits(to, { min: size, max: size })
}

function writeGlobal(to: Bytes, global: DefinedGlobal): void {
  writeGlobalType(to, global)
  if (typeof global.value === 'bigint') writeInstruction(to, opcodes['i64.const'], [global.value])
  else if (global.type === 'f32') writeInstruction(to, opcodes['f32.const'], [global.value])
  else if (global.type === 'f64') writeInstruction(to, opcodes['f64.const'], [global.value])
  else writeInstruction(to, opcodes['i32.const'], [global.value])
  writeInstruction(to, opcodes.end, [])
}

function writeExport(to: Bytes, { name, kind, index }: Export): void {
  to.name(name)
  to.u8(exportKinds[kind])
  to.u32(index)
}

/** Active at the start of table 0. */
function writeElements(to: Bytes, functions: readonly number[]): void {
  to.u32(0)
  writeOffset(to, 0)
  to.u32(functions.length)
  for (const index of functions) to.u32(index)
}

function writeData(to: Bytes, { bytes, offset }: DataSegment): void {
  to.u32(offset === undefined ? 1 : 0)
  if (offset !== undefined) writeOffset(to, offset)
  to.sized(bytes)
}

function writeOffset(to: Bytes, offset: number): void {
  writeInstruction(to, opcodes['i32.const'], [offset])
  writeInstruction(to, opcodes.end, [])
}

/** Locals as runs of one type, then the instructions. */
function writeCode(to: Bytes, { type, locals, code }: DefinedFunction, types: readonly FuncType[]): void {
  const runs: { readonly type: ValType; count: number }[] = []
  for (const local of locals.slice(types[type]?.params.length)) {
    const last = runs.at(-1)
    if (last?.type === local.type) last.count++
    else runs.push({ type: local.type, count: 1 })
  }
  const body = new Bytes(code.length + 16)
  body.u32(runs.length)
  for (const run of runs) {
    body.u32(run.count)
    body.u8(typeCodes[run.type])
  }
  body.append(code)
  to.sized(body.finish())
}

/** The name section: stack traces and profilers then name our kernels. */
function writeNames(to: Bytes, functions: readonly DefinedFunction[]): void {
  to.name('name')
  const names = new Bytes()
  names.u32(functions.length)
  for (const { index, name } of functions) {
    names.u32(index)
    names.name(name)
  }
  to.u8(1)
  to.sized(names.finish())
}
