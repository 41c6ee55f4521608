// The one emitter of the C-like languages. It writes the statements of a lowered kernel in order (the last pass has decided
// what is named where) and asks a dialect how to spell each thing. It knows statements, names and scopes, no language.
// Invariant: the same kernel gives the same text.

import { type DType, type Scalar, isInteger, isTile, widthOf } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import { type BufferParam, type Kernel, type SharedArray, buffersOf, memoryOf, uniformsOf, uses } from '../ir/kernel.ts'
import { type Node, walk } from '../ir/node.ts'
import type { AtomicKind, IndexName, OpName } from '../ir/op.ts'
import { displacement } from '../ir/displacement.ts'
import { trailingZeros } from '../ir/pass/algebra.ts'
import type { Target } from '../ir/target.ts'
import { findLive, idOf } from './live.ts'
import { Names } from './name.ts'
import { BARE, LEVEL, type Manner, type Speaker, type Spelling, type Text, atom, within } from './text.ts'
import { wrap } from './wrap.ts'

/** One element, or `width` consecutive elements, of a buffer or a shared array. */
export interface Access {
  readonly memory: BufferParam | SharedArray
  readonly name: string
  readonly index: Text
  readonly width: number
  /** type of the value loaded or stored */
  readonly dtype: DType
  /** true if the index is certainly a multiple of the width */
  readonly aligned: boolean
  /** bytes from here to what will be loaded soon */
  readonly ahead: number | undefined
}

/** How a language says things. */
export interface Dialect {
  /** keywords, types and functions that no variable may hide */
  readonly reserved: ReadonlySet<string>
  /** the ops it has */
  readonly spell: Readonly<Partial<Record<OpName, Spelling>>>
  /** first line of an endless loop */
  readonly endless: string
  readonly constant: (value: number | boolean, scalar: Scalar, manner: Manner, speaker: Speaker) => Text
  readonly index: (name: IndexName | GlobalIndex, speaker: Speaker) => Text
  readonly uniform: (name: string) => Text
  readonly let: (dtype: DType, name: string, value: string) => string
  readonly var: (dtype: DType, name: string, value: string) => string
  readonly forLoop: (name: string, from: string, to: string, step: string) => string
  readonly unroll: (times: number | boolean) => string | undefined
  readonly barrier: (kind: 'workgroup' | 'subgroup', kernel: Kernel) => string
  readonly load: (access: Access, speaker: Speaker) => Text
  readonly store: (access: Access, value: Text, speaker: Speaker) => string
  readonly atomic: (access: Access, kind: AtomicKind, value: Text) => Text
  /** Statements that put the value of a tile operation into the variable `into`. */
  readonly tile?: (node: Node, into: string, memory: string, speaker: Speaker) => string
  readonly tileStore?: (node: Node, memory: string, speaker: Speaker) => string
  /** true if `(memory + base)[constant]` helps: the last addition of an index does not wrap, so the constant can be part of the address */
  readonly displaces: boolean
  /** true if a global index (workgroup id * size + lane id) has a name of its own */
  readonly globals: boolean
}

export type GlobalIndex = `global.${'x' | 'y' | 'z'}`

export interface Table {
  readonly name: string
  readonly dtype: DType
  readonly values: readonly number[]
  /** true for the sixteen bytes of a lookup */
  readonly bytes: boolean
}
/** A kernel's body as text, with what its surroundings must declare. */
export interface Body {
  readonly lines: readonly string[]
  readonly needs: ReadonlySet<string>
  readonly tables: readonly Table[]
  /** names of buffers and shared arrays, and of uniforms, in the text */
  readonly names: ReadonlyMap<string, string>
  readonly indices: ReadonlySet<IndexName | GlobalIndex>
  readonly uniforms: ReadonlySet<string>
  /** the buffers and shared arrays that are used */
  readonly memories: ReadonlySet<string>
}

/** Writes the body of a lowered kernel, indented by `indent` steps. */
export function writeBody(kernel: Kernel, dialect: Dialect, indent: number, taken: readonly string[] = []): Body {
  return new Writer(kernel, dialect, taken).write(indent)
}

const COMPOUND: Partial<Record<OpName, string>> = {
  add: '+=',
  sub: '-=',
  mul: '*=',
  div: '/=',
  and: '&=',
  or: '|=',
  xor: '^=',
}

const TILE_VALUES: ReadonlySet<OpName> = new Set(['tileFill', 'tileLoad', 'tileMma'])

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
  readonly #needs = new Set<string>()
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
      for (const child of node.src) if (child.op === 'local') this.#uses.set(idOf(child), (this.#uses.get(idOf(child)) ?? 0) + 1)
      if (node.op !== 'table' && node.op !== 'lookup16') return
      const key = tableKey(node)
      if (!this.#tables.has(key))
        this.#tables.set(key, {
          name: this.#names.declare('table'),
          dtype: node.dtype,
          values: node.arg as number[],
          bytes: node.op === 'lookup16',
        })
    })
  }

  write(indent: number): Body {
    this.#indent = indent
    this.#block(this.#kernel.body)
    return {
      lines: this.#lines,
      needs: this.#needs,
      tables: [...this.#tables.values()].filter((table) => this.#used.has(table)),
      names: this.#memory,
      indices: this.#indices,
      uniforms: this.#uniforms,
      memories: this.#memories,
    }
  }

  need(key: string): void {
    this.#needs.add(key)
  }

  table(node: Node): string {
    const table = this.#tables.get(tableKey(node))
    if (table === undefined) throw new IngotError('bad-kernel', 'a table appeared out of nowhere', { op: this.#kernel.name })
    this.#used.add(table)
    return table.name
  }

  say(node: Node, manner: Manner = {}): Text {
    const dialect = this.#dialect
    switch (node.op) {
      case 'const':
        return dialect.constant(node.arg as number | boolean, node.dtype as Scalar, manner, this)
      case 'local':
      case 'get':
        return atom(this.#local(idOf(node)))
      case 'uniform': {
        this.#uniforms.add(node.arg as string)
        return dialect.uniform(this.#memory.get(node.arg as string) ?? '')
      }
      case 'index':
        return this.#index(node.arg as IndexName)
      case 'load':
        return dialect.load(this.#access(node, node.dtype), this)
      case 'atomic': {
        const { kind } = node.arg as { kind: AtomicKind }
        return dialect.atomic(this.#access(node, node.dtype), kind, this.say(node.src[1] as Node))
      }
      default: {
        const axis = this.#globalAxis(node)
        if (axis !== undefined) return this.#index(`global.${axis}`)
        const spelling = dialect.spell[node.op]
        if (spelling === undefined) {
          throw new IngotError('unsupported', 'the target language has no such operation', {
            op: `${this.#kernel.name}: ${node.op}`,
            got: node.dtype,
          })
        }
        return spelling(node, this)
      }
    }
  }

  #local(id: number): string {
    const name = this.#locals.get(id)
    if (name === undefined)
      throw new IngotError('bad-kernel', 'a value is used before it is there', { op: this.#kernel.name, got: `local ${id}` })
    return name
  }

  #index(name: IndexName | GlobalIndex): Text {
    this.#indices.add(name)
    return this.#dialect.index(name, this)
  }

  /** `workgroup.x * size + lane.x` is the position in the whole grid. */
  #globalAxis(node: Node): 'x' | 'y' | 'z' | undefined {
    const [group, lane] = node.src
    if (!this.#dialect.globals || node.op !== 'add' || group?.op !== 'mul' || lane?.op !== 'index') return undefined
    const axis = (['x', 'y', 'z'] as const).find((name) => lane.arg === `lane.${name}`)
    const size = axis === undefined ? undefined : this.#kernel.workgroup[{ x: 0, y: 1, z: 2 }[axis]]
    const [id, factor] = group.src
    return id?.op === 'index' && id.arg === `workgroup.${axis}` && factor?.op === 'const' && factor.arg === size ? axis : undefined
  }

  #access(node: Node, dtype: DType): Access {
    const { mem, width, ahead } = node.arg as { mem: string; width?: number; ahead?: number }
    const memory = memoryOf(this.#kernel, mem)
    if (memory === undefined) throw new IngotError('bad-kernel', 'no such memory', { op: this.#kernel.name, got: mem })
    this.#memories.add(mem)
    const name = this.#memory.get(mem) ?? mem
    // an index counts whole elements: those of vectors are several of the pointer's
    const parts = this.#dialect.displaces && widthOf(memory.storage) === 1 ? displacement(node.src[0] as Node) : undefined
    return {
      memory,
      width: width ?? 1,
      dtype,
      ahead,
      aligned: this.#zerosOf(node.src[0] as Node) >= Math.log2(width ?? 1),
      name: parts === undefined ? name : `(${name} + ${within(this.say(parts.base), LEVEL.mul)})`,
      index: parts === undefined ? this.say(node.src[0] as Node, BARE) : atom(String(parts.plus)),
    }
  }

  #zerosOf(node: Node): number {
    return trailingZeros(node, ({ arg }) => this.#zeros.get(arg as number) ?? 0)
  }

  #line(text: string): void {
    for (const line of text.split('\n')) this.#lines.push(...wrap(line, 2 * this.#indent))
  }

  #inside(block: Node | undefined): void {
    this.#indent++
    if (block !== undefined) this.#block(block)
    this.#indent--
  }

  #block(block: Node): void {
    this.#names.open()
    block.src.forEach((statement, at) => this.#statement(statement, block.src[at + 1], block.src[at - 1]))
    this.#names.close()
  }

  #statement(statement: Node, next: Node | undefined, previous: Node | undefined): void {
    const [first, second] = statement.src
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
        return this.#line(dialect.tileStore?.(statement, this.#memoryName(statement), this) ?? '')
      case 'barrier':
        return this.#line(dialect.barrier(statement.arg as 'workgroup' | 'subgroup', this.#kernel))
      case 'breakIf': {
        this.#line(`if (${this.say(first as Node).text}) {`)
        this.#indent++
        this.#line('break;')
        this.#indent--
        return this.#line('}')
      }
      case 'loop': {
        this.#line(dialect.endless)
        this.#inside(first)
        return this.#line('}')
      }
      case 'for':
        return this.#for(statement)
      case 'if':
        return this.#if(statement, '')
      default:
        throw new IngotError('bad-kernel', 'not a statement', { op: this.#kernel.name, got: `${statement.op} ${second?.op ?? ''}` })
    }
  }

  #let(statement: Node, next: Node | undefined): void {
    const id = idOf(statement)
    const value = statement.src[0] as Node
    if (!this.#live.has(id)) return value.op === 'atomic' ? this.#line(`${this.say(value).text};`) : undefined
    if (TILE_VALUES.has(value.op)) return this.#tile(statement, next)
    if (value.dtype === 'u32') this.#zeros.set(id, this.#zerosOf(value))
    const { text } = this.say(value)
    this.#line(this.#dialect.let(value.dtype, this.#declare(statement), text))
  }

  /** A tile operation writes into a variable: the one that gets its value next, or a new one. */
  #tile(statement: Node, next: Node | undefined): void {
    const value = statement.src[0] as Node
    const memory = value.op === 'tileLoad' ? this.#memoryName(value) : ''
    if (next !== undefined && this.#takesOver(next, statement)) {
      if (next.op === 'set') this.#locals.set(idOf(statement), this.#local(idOf(next)))
      else this.#locals.set(idOf(statement), this.#declare(next))
    }
    const known = this.#locals.get(idOf(statement))
    const name = known ?? this.#declare(statement)
    const fill = value.op === 'tileFill' ? this.say(value).text : ''
    if (next?.op !== 'set' || known === undefined) this.#line(this.#dialect.var(value.dtype, name, fill))
    else if (fill !== '') this.#line(`${name} = ${fill};`)
    if (fill === '') this.#line(this.#dialect.tile?.(value, name, memory, this) ?? '')
  }

  /** True if `next` moves the tile that `statement` computes, and nothing else uses it. */
  #takesOver(next: Node, statement: Node): boolean {
    const value = next.src[0]
    return (
      (next.op === 'set' || next.op === 'var') &&
      value?.op === 'local' &&
      statement.op === 'let' &&
      idOf(value) === idOf(statement) &&
      this.#uses.get(idOf(statement)) === 1 &&
      TILE_VALUES.has(statement.src[0]?.op as OpName)
    )
  }

  #var(statement: Node, previous: Node | undefined): void {
    if (!this.#live.has(idOf(statement)) || (previous !== undefined && this.#takesOver(statement, previous))) return
    const value = statement.src[0] as Node
    const { text } = this.say(value)
    this.#line(this.#dialect.var(value.dtype, this.#declare(statement), text))
  }

  #set(statement: Node, previous: Node | undefined): void {
    if (!this.#live.has(idOf(statement)) || (previous !== undefined && this.#takesOver(statement, previous))) return
    const isTarget = (node: Node): boolean => node.op === 'get' && idOf(node) === idOf(statement)
    if (isTarget(statement.src[0] as Node)) return
    this.#assign(this.#local(idOf(statement)), statement.src[0] as Node, isTarget)
  }

  #store(statement: Node): void {
    const value = statement.src[1] as Node
    const access = this.#access(statement, value.dtype)
    const { memory, width } = access
    const plain = !memory.atomic && width === 1 && memory.storage === value.dtype
    if (!plain) return this.#line(this.#dialect.store(access, this.say(value), this))
    const isTarget = (node: Node): boolean =>
      node.op === 'load' && node.src[0] === statement.src[0] && (node.arg as { mem: string }).mem === memory.name
    this.#assign(this.#dialect.load(access, this).text, value, isTarget)
  }

  /** `target += operand;` if the value is the target combined with an operand, else `target = value;` */
  #assign(target: string, value: Node, isTarget: (node: Node) => boolean): void {
    const plain = isTile(value.dtype) || value.dtype.startsWith('bool') || (value.op === 'div' && isInteger(value.dtype))
    const operator = plain ? undefined : COMPOUND[value.op]
    const [left, right] = value.src
    if (operator !== undefined && left !== undefined && right !== undefined) {
      const other = isTarget(left) ? right : isTarget(right) && value.op !== 'sub' && value.op !== 'div' ? left : undefined
      if (other !== undefined) return this.#line(`${target} ${operator} ${this.say(other, widthOf(value.dtype) === 1 ? BARE : {}).text};`)
    }
    const { text } = this.say(value)
    if (text !== target) this.#line(`${target} = ${text};`) // a cast that changes nothing may leave `x = x`, which compilers complain about
  }

  #for(statement: Node): void {
    const [from, to, step, body] = statement.src as [Node, Node, Node, Node]
    const { unroll } = statement.arg as { unroll?: boolean | number }
    const hint = unroll === undefined || unroll === false ? undefined : this.#dialect.unroll(unroll)
    if (hint !== undefined) this.#line(hint)
    this.#names.open()
    const [first, end, stride] = [this.say(from, BARE).text, within(this.say(to, BARE), LEVEL.add), this.say(step, BARE).text]
    this.#zeros.set(idOf(statement), Math.min(this.#zerosOf(from), this.#zerosOf(step)))
    this.#line(this.#dialect.forLoop(this.#declare(statement), first, end, stride))
    this.#inside(body)
    this.#line('}')
    this.#names.close()
  }

  #if(statement: Node, lead: string): void {
    const [condition, then, otherwise] = statement.src as [Node, Node, Node | undefined]
    this.#line(`${lead}if (${this.say(condition).text}) {`)
    this.#inside(then)
    if (otherwise === undefined || otherwise.src.length === 0) return this.#line('}')
    const only = otherwise.src.length === 1 ? otherwise.src[0] : undefined
    if (only?.op === 'if') return this.#if(only, '} else ')
    this.#line('} else {')
    this.#inside(otherwise)
    this.#line('}')
  }

  /** A new name for what a `let`, `var` or `for` introduces. */
  #declare(statement: Node): string {
    const name = this.#names.declare(hintOf(statement))
    this.#locals.set(idOf(statement), name)
    return name
  }

  #memoryName(node: Node): string {
    const { mem } = node.arg as { mem: string }
    this.#memories.add(mem)
    return this.#memory.get(mem) ?? mem
  }
}

/** Lookups of one table at different widths share it. */
function tableKey({ op, dtype, arg }: Node): string {
  return JSON.stringify([op, op === 'table' ? dtype : '', arg])
}

function hintOf(statement: Node): string {
  return (statement.arg as { name?: string }).name ?? 'value'
}

/** `base[index]` */
export function subscript(base: string, index: Text): Text {
  return atom(`${base}[${index.text}]`)
}

/** How the first line of every program describes its kernel. */
export function describe({ name, workgroup, subgroup }: Kernel): string {
  const [x, y, z] = workgroup
  const lanes = z > 1 ? `${x} x ${y} x ${z} lanes` : y > 1 ? `${x} x ${y} lanes` : x === 1 ? '1 lane' : `${x} lanes`
  return `${name}: workgroups of ${lanes}${subgroup > 0 ? `, subgroups of ${subgroup}` : ''}`
}

/** True if a barrier must also order accesses to buffers: some buffer is both read and written. */
export function sharesBuffers(kernel: Kernel): boolean {
  return buffersOf(kernel).some(({ role, atomic }) => role === 'readwrite' && !atomic)
}

const SUBGROUP_OPS: ReadonlySet<OpName> = new Set([
  'subSum',
  'subMax',
  'subMin',
  'subAny',
  'subAll',
  'subBroadcast',
  'subShuffle',
  'subShuffleXor',
  'subShuffleDown',
  ...TILE_VALUES,
  'tileStore',
])

/** True if lanes of a subgroup work together, or know their place in it. */
export function usesSubgroups(kernel: Kernel): boolean {
  return uses(kernel, ({ op, arg }) => SUBGROUP_OPS.has(op) || (op === 'index' && arg === 'sublane'))
}

/**
 * The target to lower a kernel for. A kernel written for subgroups of another size than the machine has still runs, and runs right:
 * the lanes of its workgroup become loops in one lane.
 */
export function targetFor(kernel: Kernel, target: Target): Target {
  return kernel.subgroup === target.subgroup || !usesSubgroups(kernel) ? target : { ...target, lanes: false }
}

/** The constant that an operand certainly is, alone or in every element. */
export function constantOf(node: Node): number | undefined {
  const scalar = node.op === 'splat' ? node.src[0] : node
  if (scalar?.op === 'table' && scalar.src[0]?.op === 'const') return (scalar.arg as readonly number[])[Number(scalar.src[0].arg)]
  return scalar?.op === 'const' ? Number(scalar.arg) : undefined
}

/** True if a float is clamped between constants, so that converting it to this integer type cannot overflow. */
export function fitsInteger(node: Node, to: Scalar): boolean {
  const [inner, bound] = node.src
  if (inner === undefined) return false
  if (node.op === 'splat' || node.op === 'floor' || node.op === 'rint' || node.op === 'trunc' || node.op === 'ceil')
    return fitsInteger(inner, to)
  if ((node.op !== 'min' && node.op !== 'max') || inner.op !== (node.op === 'min' ? 'max' : 'min')) return false
  const limits = [bound, inner.src[1]].map((limit) => (limit === undefined ? undefined : constantOf(limit)))
  return limits.every(
    (limit) => limit !== undefined && (to === 'u32' ? limit >= 0 && limit < 2 ** 32 : limit >= -(2 ** 31) && limit < 2 ** 31),
  )
}
