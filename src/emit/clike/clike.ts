// The one emitter of the C-like languages. It writes the statements of a lowered kernel in order (the last pass has decided
// what is named where) and asks a dialect how to spell each thing. It knows statements, names and scopes, no language.
// Invariant: the same kernel gives the same text.

import { type DType, isInteger, isTile, scalarOf, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { displacement } from '../../ir/displacement.ts'
import { type Kernel, buffersOf, memoryOf, uniformsOf } from '../../ir/kernel.ts'
import { type Node, type NodeOf, type OneNode, changesMemory, idOf, walk } from '../../ir/node.ts'
import { type IndexName, type OpName, opRecord } from '../../ir/op.ts'
import { AXES, type Axis } from '../../ir/op/position.ts'
import { trailingZeros } from '../../ir/pass/algebra.ts'
import { constantText } from './constant.ts'
import type { Access, Body, Dialect, GlobalIndex, Table } from './dialect.ts'
import { BARE, type Helper, LEVEL, type Manner, type Speaker, type Text, atom, within } from './expression.ts'
import { findLive } from './live.ts'
import { Names } from './name.ts'
import { subscript } from './spelling.ts'
import { wrap } from './wrap.ts'

/** Writes the body of a lowered kernel, indented by `indent` steps. */
export function writeBody(kernel: Kernel, dialect: Dialect, indent: number, taken: readonly string[] = []): Body {
  return new Writer(kernel, dialect, taken).write(indent)
}

/** `x = x + y` as `x += y`. */
const COMPOUND: Partial<Record<OpName, string>> = {
  add: '+=',
  sub: '-=',
  mul: '*=',
  div: '/=',
  and: '&=',
  or: '|=',
  xor: '^=',
}

/** Tile operations that compute a tile: they write into a variable instead of giving a value. */
function isTileValue(node: Node): node is NodeOf<'tileFill' | 'tileLoad' | 'tileMma'> {
  const { tile, kind } = opRecord(node.op)
  return tile === true && kind === 'effect'
}

class Writer implements Speaker {
  readonly #kernel: Kernel
  readonly #dialect: Dialect
  readonly #names: Names
  readonly #memory = new Map<string, string>()
  readonly #locals = new Map<number, string>()
  readonly #uses = new Map<number, number>()
  /** low bits that are certainly zero, of names that are indices */
  readonly #zeros = new Map<number, number>()
  readonly #live: ReadonlySet<number>
  readonly #helpers = new Map<string, Helper>()
  readonly #tables = new Map<string, Table>()
  readonly #used = new Set<Table>()
  readonly #indices = new Set<IndexName | GlobalIndex>()
  readonly #uniforms = new Set<string>()
  readonly #memories = new Set<string>()
  readonly #lines: string[] = []
  #indent = 0

  constructor(kernel: Kernel, dialect: Dialect, taken: readonly string[]) {
    this.#kernel = kernel
    this.#dialect = dialect
    this.#names = new Names(dialect.reserved)
    this.#live = findLive(kernel.body)
    for (const name of taken) this.#names.declare(name)
    for (const { name } of [...buffersOf(kernel), ...uniformsOf(kernel), ...kernel.shared])
      this.#memory.set(name, this.#names.declare(name))
    walk(kernel.body, (node) => {
      for (const child of node.src) if (child.op === 'local') this.#uses.set(child.arg, (this.#uses.get(child.arg) ?? 0) + 1)
      if (node.op === 'table' || node.op === 'lookup16')
        this.#tables.set(tableKey(node), this.#tables.get(tableKey(node)) ?? this.#table(node))
    })
  }

  write(indent: number): Body {
    this.#indent = indent
    this.#block(this.#kernel.body)
    return {
      lines: this.#lines,
      helpers: [...this.#helpers].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, helper]) => helper()),
      tables: [...this.#tables.values()].filter((table) => this.#used.has(table)),
      names: this.#memory,
      indices: this.#indices,
      uniforms: this.#uniforms,
      memories: this.#memories,
    }
  }

  need(name: string, helper: Helper): void {
    this.#helpers.set(name, helper)
  }

  table(node: NodeOf<'table' | 'lookup16'>): string {
    const table = this.#tables.get(tableKey(node))
    if (table === undefined) {
      throw new IngotError('bad-kernel', 'a spelling asks for a table that is in no node of the kernel', {
        op: `${this.#kernel.name}: ${node.op}`,
        hint: 'a spelling may ask for the table of a node that it was given, not of one that it made',
      })
    }
    this.#used.add(table)
    return table.name
  }

  #table({ op, dtype, arg }: NodeOf<'table' | 'lookup16'>): Table {
    return { name: this.#names.declare('table'), scalar: scalarOf(dtype), values: arg, bytes: op === 'lookup16' }
  }

  say(node: Node, manner: Manner = {}): Text {
    const dialect = this.#dialect
    switch (node.op) {
      case 'const':
        return constantText(dialect.constants, node.arg, scalarOf(node.dtype), manner, this)
      case 'local':
      case 'get':
        return atom(this.#local(node.arg))
      case 'uniform': {
        this.#uniforms.add(node.arg)
        return atom(dialect.uniform + (this.#memory.get(node.arg) ?? ''))
      }
      case 'index':
        this.#indices.add(node.arg)
        return dialect.index(node.arg)
      case 'load':
        return this.#load(this.#access(node, node.dtype))
      case 'atomic':
        return this.#atomic(node)
      default:
        return this.#global(node) ?? this.#spell(node)
    }
  }

  #spell<O extends OpName>(node: OneNode<O>): Text {
    const spelling = this.#dialect.spell[node.op]
    if (spelling === undefined) {
      throw new IngotError('unsupported', 'the target language has no such operation', {
        op: `${this.#kernel.name}: ${node.op}`,
        got: node.dtype,
      })
    }
    return spelling(node, this)
  }

  #load(access: Access): Text {
    const { load, order } = this.#dialect.atomics
    return access.memory.atomic ? atom(`${load}(${pointer(access)}${order})`) : this.#dialect.load(access)
  }

  #atomic(node: NodeOf<'atomic'>): Text {
    const { change, order, unordered } = this.#dialect.atomics
    const { kind } = node.arg
    const access = this.#access(node, node.dtype)
    const name = change(kind, access.memory.storage)
    return atom(`${name}(${pointer(access)}, ${this.say(node.src[1]).text}${unordered?.has(kind) === true ? '' : order})`)
  }

  #local(id: number): string {
    const name = this.#locals.get(id)
    if (name === undefined)
      throw new IngotError('bad-kernel', 'a value is used before the statement that names it', { op: this.#kernel.name, got: `id ${id}` })
    return name
  }

  /** `workgroup.x * size + lane.x` is the position in the whole grid. */
  #global({ op, src }: Node): Text | undefined {
    const { global } = this.#dialect
    if (global === undefined || op !== 'add') return undefined
    const [group, lane] = src
    if (group.op !== 'mul' || lane.op !== 'index') return undefined
    const [id, size] = group.src
    if (id.op !== 'index' || size.op !== 'const') return undefined
    const isPosition = (name: Axis, at: number): boolean =>
      lane.arg === `lane.${name}` && id.arg === `workgroup.${name}` && size.arg === this.#kernel.workgroup[at]
    const axis = AXES.find(isPosition)
    if (axis === undefined) return undefined
    this.#indices.add(`global.${axis}`)
    return global(axis)
  }

  #access(node: NodeOf<'load' | 'store' | 'atomic'>, dtype: DType): Access {
    const [index] = node.src
    const { mem } = node.arg
    const { width = 1, ahead } = node.op === 'atomic' ? {} : node.arg
    const memory = memoryOf(this.#kernel, mem)
    if (memory === undefined) throw new IngotError('bad-kernel', 'no such memory', { op: this.#kernel.name, got: mem })
    this.#memories.add(mem)
    const name = this.#memory.get(mem) ?? mem
    // an index counts whole elements: those of vectors are several of the pointer's
    const parts = this.#dialect.displaces && widthOf(memory.storage) === 1 ? displacement(index) : undefined
    return {
      memory,
      width,
      dtype,
      ahead,
      aligned: this.#zerosOf(index) >= Math.log2(width),
      name: parts === undefined ? name : `(${name} + ${within(this.say(parts.base), LEVEL.mul)})`,
      index: parts === undefined ? this.say(index, BARE) : atom(String(parts.plus)),
    }
  }

  #zerosOf(node: Node): number {
    return trailingZeros(node, ({ arg }) => this.#zeros.get(arg) ?? 0)
  }

  #line(text: string): void {
    for (const line of text.split('\n')) this.#lines.push(...wrap(line, 2 * this.#indent))
  }

  #inside(block: Node): void {
    this.#indent++
    this.#block(block)
    this.#indent--
  }

  #block(block: Node): void {
    this.#names.open()
    block.src.forEach((statement, at) => this.#statement(statement, block.src[at + 1], block.src[at - 1]))
    this.#names.close()
  }

  #statement(statement: Node, next: Node | undefined, previous: Node | undefined): void {
    const dialect = this.#dialect
    switch (statement.op) {
      case 'block':
        return this.#block(statement)
      case 'let':
        return this.#let(statement, next)
      case 'var':
        return this.#var(statement, previous)
      case 'set':
        return this.#set(statement, previous)
      case 'store':
        return this.#store(statement)
      case 'tileStore':
        return this.#line(dialect.tileStore?.(statement, this.#memoryName(statement.arg.mem), this) ?? '')
      case 'barrier':
        return this.#line(dialect.barrier(statement.arg, this.#kernel))
      case 'breakIf': {
        this.#line(`if (${this.say(statement.src[0]).text}) {`)
        this.#indent++
        this.#line('break;')
        this.#indent--
        return this.#line('}')
      }
      case 'loop': {
        this.#line(dialect.endless)
        this.#inside(statement.src[0])
        return this.#line('}')
      }
      case 'for':
        return this.#for(statement)
      case 'if':
        return this.#if(statement, '')
      default:
        throw new IngotError('bad-kernel', 'a block may hold statements only', { op: this.#kernel.name, got: statement.op })
    }
  }

  #let(statement: NodeOf<'let'>, next: Node | undefined): void {
    const [value] = statement.src
    const { id } = statement.arg
    if (!this.#live.has(id)) return changesMemory(value) ? this.#line(`${this.say(value).text};`) : undefined
    if (isTileValue(value)) return this.#tile(id, value, statement, next)
    if (value.dtype === 'u32') this.#zeros.set(id, this.#zerosOf(value))
    const { text } = this.say(value)
    return this.#line(this.#dialect.let(value.dtype, this.#declare(statement), text))
  }

  /** A tile operation writes into a variable: the one that gets its value next, or a new one. */
  #tile(id: number, value: NodeOf<'tileFill' | 'tileLoad' | 'tileMma'>, statement: NodeOf<'let'>, next: Node | undefined): void {
    const memory = value.op === 'tileLoad' ? this.#memoryName(value.arg.mem) : ''
    if (next !== undefined && this.#takesOver(next, statement)) {
      this.#locals.set(id, next.op === 'set' ? this.#local(next.arg) : this.#declare(next))
    }
    const known = this.#locals.get(id)
    const name = known ?? this.#declare(statement)
    const fill = value.op === 'tileFill' ? this.say(value).text : ''
    if (next?.op !== 'set' || known === undefined) this.#line(this.#dialect.var(value.dtype, name, fill))
    else if (fill !== '') this.#line(`${name} = ${fill};`)
    if (value.op !== 'tileFill') this.#line(this.#dialect.tile?.(value, name, memory, this) ?? '')
  }

  /** True if `next` moves the tile that `statement` computes, and nothing else uses it. */
  #takesOver(next: Node, statement: Node): next is NodeOf<'set' | 'var'> {
    if ((next.op !== 'set' && next.op !== 'var') || statement.op !== 'let') return false
    const [moved] = next.src
    const { id } = statement.arg
    return moved.op === 'local' && moved.arg === id && this.#uses.get(id) === 1 && isTileValue(statement.src[0])
  }

  #var(statement: NodeOf<'var'>, previous: Node | undefined): void {
    if (this.#isLeftOut(statement, previous)) return
    const [value] = statement.src
    const { text } = this.say(value)
    this.#line(this.#dialect.var(value.dtype, this.#declare(statement), text))
  }

  #set(statement: NodeOf<'set'>, previous: Node | undefined): void {
    if (this.#isLeftOut(statement, previous)) return
    const [value] = statement.src
    const isTarget = (node: Node): boolean => node.op === 'get' && node.arg === statement.arg
    if (!isTarget(value)) this.#assign(this.#local(statement.arg), value, isTarget)
  }

  /** Nobody reads it, or the statement before has done it already. */
  #isLeftOut(statement: NodeOf<'set' | 'var'>, previous: Node | undefined): boolean {
    return !this.#live.has(idOf(statement)) || (previous !== undefined && this.#takesOver(statement, previous))
  }

  #store(statement: NodeOf<'store'>): void {
    const [index, value] = statement.src
    const access = this.#access(statement, value.dtype)
    const { memory, width } = access
    if (memory.atomic) {
      const { store, order } = this.#dialect.atomics
      return this.#line(`${store}(${pointer(access)}, ${this.say(value).text}${order});`)
    }
    if (width > 1 || memory.storage !== value.dtype) return this.#line(this.#dialect.store(access, this.say(value)))
    const isTarget = (node: Node): boolean => node.op === 'load' && node.src[0] === index && node.arg.mem === memory.name
    return this.#assign(this.#dialect.load(access).text, value, isTarget)
  }

  /** `target += operand;` if the value is the target combined with an operand, else `target = value;` */
  #assign(target: string, value: Node, isTarget: (node: Node) => boolean): void {
    const { dtype } = value
    const plain = isTile(dtype) || scalarOf(dtype) === 'bool' || (value.op === 'div' && isInteger(dtype))
    const operator = plain ? undefined : COMPOUND[value.op]
    const [left, right] = value.src
    if (operator !== undefined && left !== undefined && right !== undefined) {
      const isEither = opRecord(value.op).commutative === true
      const other = isTarget(left) ? right : isEither && isTarget(right) ? left : undefined
      if (other !== undefined) return this.#line(`${target} ${operator} ${this.say(other, widthOf(dtype) === 1 ? BARE : {}).text};`)
    }
    const { text } = this.say(value)
    // a cast that changes nothing may leave `x = x`, which compilers complain about
    return text === target ? undefined : this.#line(`${target} = ${text};`)
  }

  #for(statement: NodeOf<'for'>): void {
    const [from, to, step, body] = statement.src
    const { id, unroll = false } = statement.arg
    const hint = unroll === false ? undefined : this.#dialect.unroll(unroll)
    if (hint !== undefined) this.#line(hint)
    this.#names.open()
    const [first, end, stride] = [this.say(from, BARE).text, within(this.say(to, BARE), LEVEL.add), this.say(step, BARE).text]
    this.#zeros.set(id, Math.min(this.#zerosOf(from), this.#zerosOf(step)))
    const name = this.#declare(statement)
    const next = stride === '1' ? `${name}++` : `${name} += ${stride}`
    this.#line(`for (${this.#dialect.counter(name)} = ${first}; ${name} < ${end}; ${next}) {`)
    this.#inside(body)
    this.#line('}')
    this.#names.close()
  }

  #if({ src: [condition, then, otherwise] }: NodeOf<'if'>, lead: string): void {
    this.#line(`${lead}if (${this.say(condition).text}) {`)
    this.#inside(then)
    if (otherwise === undefined || otherwise.src.length === 0) return this.#line('}')
    const [only] = otherwise.src
    if (otherwise.src.length === 1 && only?.op === 'if') return this.#if(only, '} else ')
    this.#line('} else {')
    this.#inside(otherwise)
    return this.#line('}')
  }

  /** A new name for what a statement introduces. */
  #declare(statement: NodeOf<'let' | 'var' | 'for'>): string {
    const name = this.#names.declare(statement.arg.name)
    this.#locals.set(statement.arg.id, name)
    return name
  }

  #memoryName(mem: string): string {
    this.#memories.add(mem)
    return this.#memory.get(mem) ?? mem
  }
}

/** Lookups of one table at different widths share it. */
function tableKey({ op, dtype, arg }: NodeOf<'table' | 'lookup16'>): string {
  return JSON.stringify([op, op === 'table' ? dtype : '', arg])
}

/** `&memory[index]` */
export function pointer({ name, index }: { readonly name: string; readonly index: Text }): string {
  return `&${subscript(name, index).text}`
}
