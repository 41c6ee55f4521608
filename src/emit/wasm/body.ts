// The body of one WebAssembly function, written instruction by instruction: locals, structured blocks by callback,
// branches to label values. Writes bytes as it goes and checks operand types while writing.
// Knows its module only through `Scope`. Invariant: blocks are closed by construction, and a branch can only name a
// block that is open.

import { IngotError } from '../../base/error.ts'
import { StackCheck } from './check.ts'
import { Bytes } from './encode.ts'
import { packLanes, writeInstruction, type Immediates, type VectorShape } from './immediate.ts'
import { needsMemory, opcodes, type ImmediateOf, type Opcode, type OpName, type ValType } from './opcode.ts'

export interface FuncType {
  readonly params: readonly ValType[]
  readonly results: readonly ValType[]
}

export interface GlobalType {
  readonly type: ValType
  readonly mutable: boolean
}

/** What a body asks of its module. An index that does not exist gives undefined. */
export interface Scope {
  readonly hasMemory: boolean
  functionType(index: number): FuncType | undefined
  typeAt(index: number): FuncType | undefined
  globalType(index: number): GlobalType | undefined
}

export interface Local {
  readonly type: ValType
  readonly name?: string
}

/** An open block, to branch to: the end of a block or if, the start of a loop. */
export interface Label {
  readonly depth: number
  /** the values a branch carries */
  readonly carries: readonly ValType[]
}

/** Blocks and branches have methods of their own. */
type Structural = 'block' | 'loop' | 'if' | 'else' | 'end' | 'br' | 'br_if' | 'br_table'
export type PlainName = Exclude<OpName, Structural>

export class FunctionBody {
  readonly name: string
  readonly type: FuncType
  readonly index: number
  readonly #scope: Scope
  readonly #out = new Bytes(256)
  readonly #locals: Local[]
  readonly #labels: Label[] = []
  readonly #check: StackCheck | undefined

  constructor(name: string, index: number, type: FuncType, scope: Scope, checked: boolean) {
    this.name = name
    this.index = index
    this.type = type
    this.#scope = scope
    this.#locals = type.params.map((param) => ({ type: param }))
    this.#check = checked ? new StackCheck(name, type.results) : undefined
  }

  /** Parameters first, then what `local` declared. */
  get locals(): readonly Local[] {
    return this.#locals
  }

  /** Declares a zeroed local and returns its index. The name shows in printed text. */
  local(type: ValType, name?: string): number {
    return this.#locals.push(name === undefined ? { type } : { type, name }) - 1
  }

  /** Names a parameter in printed text, and returns its index. */
  param(index: number, name: string): number {
    const type = this.type.params[index]
    const count = this.type.params.length
    if (type === undefined) throw this.#refuse('param', 'no such parameter', index, `${count} parameters`)
    this.#locals[index] = { type, name }
    return index
  }

  /** Writes one instruction with its immediates: `emit('i32.add')`, `emit('f32.load', { offset: 4 })`. */
  emit<N extends PlainName>(name: N, ...args: Immediates[ImmediateOf<N>]): this {
    const op: Opcode<ImmediateOf<N>> = opcodes[name]
    if (this.#check !== undefined) this.#apply(this.#check, op, args[0])
    writeInstruction(this.#out, op, args)
    return this
  }

  localGet(index: number): this {
    return this.emit('local.get', index)
  }

  localSet(index: number): this {
    return this.emit('local.set', index)
  }

  localTee(index: number): this {
    return this.emit('local.tee', index)
  }

  i32Const(value: number): this {
    return this.emit('i32.const', value)
  }

  i64Const(value: bigint): this {
    return this.emit('i64.const', value)
  }

  f32Const(value: number): this {
    return this.emit('f32.const', value)
  }

  f64Const(value: number): this {
    return this.emit('f64.const', value)
  }

  v128Const(shape: VectorShape, lanes: readonly number[]): this {
    return this.emit('v128.const', packLanes(shape, lanes))
  }

  call(func: { readonly index: number }): this {
    return this.emit('call', func.index)
  }

  /** A block; a branch to its label goes to its end, carrying the result. */
  block(body: (label: Label) => void, result?: ValType): this {
    return this.#nest(opcodes.block, body, result)
  }

  /** A loop; a branch to its label starts the next round. Without a branch it runs once. */
  loop(body: (label: Label) => void, result?: ValType): this {
    return this.#nest(opcodes.loop, body, result)
  }

  /** Takes an i32 condition; with a result, both arms are needed. */
  if(then: (label: Label) => void, otherwise?: (label: Label) => void, result?: ValType): this {
    if (result !== undefined && otherwise === undefined) throw this.#refuse('if', 'no else arm', 'one arm', 'two arms')
    this.#check?.pop(['i32'], 'if')
    if (otherwise === undefined) return this.#nest(opcodes.if, then, result)
    return this.#nest(
      opcodes.if,
      (label) => {
        then(label)
        this.#check?.turn('else')
        writeInstruction(this.#out, opcodes.else, [])
        otherwise(label)
      },
      result,
    )
  }

  br(label: Label): this {
    this.#check?.pop(label.carries, 'br')
    this.#check?.die()
    writeInstruction(this.#out, opcodes.br, [this.#distance('br', label)])
    return this
  }

  brIf(label: Label): this {
    this.#check?.pop(['i32'], 'br_if')
    this.#check?.pop(label.carries, 'br_if')
    this.#check?.push(label.carries)
    writeInstruction(this.#out, opcodes.br_if, [this.#distance('br_if', label)])
    return this
  }

  /** Takes an i32 and branches to that label, or to `otherwise` when it is past the last. */
  brTable(labels: readonly Label[], otherwise: Label): this {
    const wrong = labels.find((label) => label.carries.join() !== otherwise.carries.join())
    if (wrong !== undefined) throw this.#refuse('br_table', 'labels differ', [...wrong.carries], [...otherwise.carries])
    this.#check?.pop(['i32'], 'br_table')
    this.#check?.pop(otherwise.carries, 'br_table')
    this.#check?.die()
    const distances = labels.map((label) => this.#distance('br_table', label))
    writeInstruction(this.#out, opcodes.br_table, [distances, this.#distance('br_table', otherwise)])
    return this
  }

  /** Ends the body and returns its instructions; called once, by the module. */
  finish(): Uint8Array<ArrayBuffer> {
    this.#check?.end('end')
    writeInstruction(this.#out, opcodes.end, [])
    return this.#out.finish()
  }

  #nest(op: Opcode<'block'>, body: (label: Label) => void, result: ValType | undefined): this {
    const results = result === undefined ? [] : [result]
    const label: Label = { depth: this.#labels.length, carries: op.name === 'loop' ? [] : results }
    this.#labels.push(label)
    this.#check?.enter(results)
    writeInstruction(this.#out, op, [result])
    body(label)
    this.#check?.leave(`${op.name} end`)
    writeInstruction(this.#out, opcodes.end, [])
    this.#labels.pop()
    return this
  }

  #distance(at: string, label: Label): number {
    if (this.#labels[label.depth] !== label) {
      throw this.#refuse(at, 'its label is of a block that is closed', `depth ${label.depth}`, 'a block around it')
    }
    return this.#labels.length - 1 - label.depth
  }

  /** Takes and gives what the instruction does; `first` is its first immediate. */
  #apply(check: StackCheck, op: Opcode, first: unknown): void {
    const at = op.name
    if (!op.special) {
      if (needsMemory(op) && !this.#scope.hasMemory) {
        throw this.#refuse(at, 'the module has no memory', 'none', 'memory or importMemory before the function')
      }
      check.pop(op.pops, at)
      check.push(op.pushes)
      return
    }
    const index = typeof first === 'number' ? first : -1
    if (op.immediate === 'local') this.#applyLocal(check, at, index)
    else if (op.immediate === 'global') this.#applyGlobal(check, at, index)
    else if (op.immediate === 'func') this.#applyCall(check, at, this.#scope.functionType(index), index)
    else if (op.immediate === 'indirect') {
      check.pop(['i32'], at)
      this.#applyCall(check, at, this.#scope.typeAt(index), index)
    } else if (at === 'drop') check.popOne(at)
    else if (at === 'select') check.select()
    else if (at === 'return') {
      check.pop(this.type.results, at)
      check.die()
    } else if (at === 'unreachable') check.die()
  }

  #applyLocal(check: StackCheck, at: string, index: number): void {
    const local = this.#locals[index]
    if (local === undefined) throw this.#refuse(at, 'no such local', index, `${this.#locals.length} locals`)
    const types = [local.type]
    if (at !== 'local.get') check.pop(types, at)
    if (at !== 'local.set') check.push(types)
  }

  #applyGlobal(check: StackCheck, at: string, index: number): void {
    const global = this.#scope.globalType(index)
    if (global === undefined) throw this.#refuse(at, 'no such global', index, 'a declared global')
    if (at === 'global.get') check.push([global.type])
    else if (global.mutable) check.pop([global.type], at)
    else throw this.#refuse(at, 'the global is constant', index, 'a mutable global')
  }

  #applyCall(check: StackCheck, at: string, type: FuncType | undefined, index: number): void {
    if (type === undefined) throw this.#refuse(at, 'no such function or type', index, 'a declared one')
    check.pop(type.params, at)
    check.push(type.results)
  }

  #refuse(at: string, what: string, got: unknown, wanted: unknown): IngotError {
    return new IngotError('bad-kernel', `${at}: ${what}`, { op: this.name, got, wanted })
  }
}
