// A kernel as text that reads like code: for people (errors, `--emit ir`, snapshots) and for hash.ts. Deterministic, and
// injective: two kernels with the same text mean the same. Does not know targets; what it prints is nobody's input.
//
// An operand that is large and used more than once is printed once, under a name `t1`, `t2`... where it is first used.

import { registerOf, scalarOf, vector, widthOf } from '../base/dtype.ts'
import { type Kernel, type Param, memoryOf } from './kernel.ts'
import { type Node, walk } from './node.ts'
import { type Arg, INDICES, type OpName, opRecord } from './op.ts'

/** Nodes of an expression tree above which a shared operand gets a name of its own. */
const LARGE = 8
const UNARY = 12
const ATOM = 15

/** Infix ops: how tightly they bind, and how they are written. */
const INFIX: Partial<Record<OpName, readonly [level: number, text: string, boolText?: string]>> = {
  or: [4, '|', '||'],
  xor: [5, '^'],
  and: [6, '&', '&&'],
  eq: [7, '=='],
  ne: [7, '!='],
  lt: [8, '<'],
  le: [8, '<='],
  gt: [8, '>'],
  ge: [8, '>='],
  shl: [9, '<<'],
  shr: [9, '>>'],
  add: [10, '+'],
  sub: [10, '-'],
  mul: [11, '*'],
  div: [11, '/'],
  rem: [11, '%'],
}

type Field = Readonly<Record<string, number | boolean | string | undefined>>
const fieldsOf = (arg: Arg): Field => (typeof arg === 'object' && arg !== null && !Array.isArray(arg) ? (arg as Field) : {})
const isStatement = (node: Node): boolean => opRecord(node.op).kind === 'statement'

/** The whole kernel as text. */
export function printKernel(kernel: Kernel): string {
  const size = kernel.workgroup.filter((_, axis) => axis === 0 || kernel.workgroup.slice(axis).some((rest) => rest !== 1))
  const head = `kernel ${kernel.name}(${kernel.params.map(printParam).join(', ')}) workgroup ${size.join('x')}`
  const lines = [`${head}${kernel.subgroup > 0 ? ` subgroup ${kernel.subgroup}` : ''} {`]
  for (const { name, storage, length, atomic } of kernel.shared) {
    lines.push(`  shared ${name}: ${atomic ? 'atomic ' : ''}${storage}[${length}]`)
  }
  const printer = new Printer(kernel)
  printer.block(kernel.body, '  ')
  return [...lines, ...printer.lines, '}', ''].join('\n')
}

/** One node, short enough for an error; what is deeper than a few levels becomes `…`. */
export function printNode(node: Node, kernel?: Kernel): string {
  return new Printer(kernel).brief(node)
}

function printParam(param: Param): string {
  if (param.kind === 'uniform') return `${param.name}: uniform ${param.dtype}`
  return `${param.name}: ${param.role} ${param.atomic ? 'atomic ' : ''}${param.storage}`
}

class Printer {
  readonly lines: string[] = []
  readonly #kernel: Kernel | undefined
  readonly #names = new Map<number, string>()
  readonly #params = new Set<string>()
  readonly #taken = new Set<string>()
  readonly #uses = new Map<Node, number>()
  readonly #sizes = new Map<Node, number>()
  readonly #named = new Map<Node, string>()
  #temporaries = 0
  #depth = Infinity

  constructor(kernel: Kernel | undefined) {
    this.#kernel = kernel
    if (kernel === undefined) return
    for (const { name } of [...kernel.params, ...kernel.shared]) this.#params.add(name)
    for (const name of [...this.#params, ...INDICES]) this.#taken.add(name)
    walk(kernel.body, (node) => {
      for (const child of node.src) this.#uses.set(child, (this.#uses.get(child) ?? 0) + 1)
      this.#sizes.set(
        node,
        Math.min(
          1e6,
          node.src.reduce((sum, child) => sum + (this.#sizes.get(child) ?? 0), 1),
        ),
      )
    })
    this.#nameLocals(kernel.body)
  }

  /** In the order of the text, so that names do not depend on the ids or on how the nodes were made. */
  #nameLocals(block: Node): void {
    for (const node of block.src) {
      const { id, name } = fieldsOf(node.arg)
      if (typeof id === 'number' && !this.#names.has(id)) this.#names.set(id, this.#unique(String(name ?? 'x')))
      for (const child of node.src) if (child.op === 'block') this.#nameLocals(child)
    }
  }

  #unique(hint: string): string {
    let name = hint
    for (let count = 1; this.#taken.has(name); count++) name = `${hint}${count}`
    this.#taken.add(name)
    return name
  }

  brief(node: Node): string {
    this.#depth = 4
    this.#uses.clear()
    if (!isStatement(node)) return this.#expression(node)
    this.#statement(node, '')
    const text = this.lines.join(' ').replaceAll(/\s+/g, ' ')
    return text.length > 120 ? `${text.slice(0, 119)}…` : text
  }

  block(block: Node, indent: string): void {
    const outside = new Set(this.#named.keys())
    for (const node of block.src) this.#statement(node, indent)
    for (const node of this.#named.keys()) if (!outside.has(node)) this.#named.delete(node)
  }

  #statement(node: Node, indent: string): void {
    const inner = `${indent}  `
    const [a, b, c] = node.src.map((child) => (child.op === 'block' ? '' : this.#line(child, indent)))
    const add = (text: string): void => {
      this.lines.push(indent + text)
    }
    const { id, name, unroll, mem, width, transposed } = fieldsOf(node.arg)
    const local = (number: unknown): string => this.#names.get(number as number) ?? `${String(name ?? '')}%${String(number)}`
    const nest = (child: Node | undefined): void => {
      if (this.#depth === Infinity && child?.op === 'block') this.block(child, inner)
      else this.lines.push(`${inner}…`)
    }
    switch (node.op) {
      case 'let':
      case 'var':
        return add(`${node.op} ${local(id)}: ${node.src[0]?.dtype ?? 'void'} = ${a}`)
      case 'set':
        return add(`${local(node.arg)} = ${a}`)
      case 'store':
        return add(`${String(mem)}[${a}${width === undefined ? '' : `..+${String(width)}`}] = ${b}`)
      case 'tileStore':
        return add(`${String(mem)}.tile(${a}, ${b}${transposed === true ? ', transposed' : ''}) = ${c}`)
      case 'breakIf':
        return add(`break if ${a}`)
      case 'barrier':
        return add(`barrier ${String(node.arg)}`)
      case 'if':
        add(`if (${a}) {`)
        nest(node.src[1])
        if (node.src.length > 2) {
          add('} else {')
          nest(node.src[2])
        }
        return add('}')
      case 'for':
        add(`for ${local(id)} = ${a}..${b} step ${c}${unroll === undefined ? '' : ` unroll ${String(unroll)}`} {`)
        nest(node.src[3])
        return add('}')
      case 'loop':
        add('loop {')
        nest(node.src[0])
        return add('}')
      case 'block':
        add('{')
        nest(node)
        return add('}')
      default:
        return add(`${node.op}(${node.src.map((child) => this.#line(child, indent)).join(', ')})`)
    }
  }

  /** An operand of a statement; what it shares with others is printed before it. */
  #line(node: Node, indent: string): string {
    this.#share(node, indent, new Set())
    return this.#expression(node)
  }

  #share(node: Node, indent: string, seen: Set<Node>): void {
    if (seen.has(node) || this.#named.has(node)) return
    seen.add(node)
    for (const child of node.src) this.#share(child, indent, seen)
    const large = (this.#sizes.get(node) ?? 0) > LARGE && (this.#uses.get(node) ?? 0) > 1
    if (!large || opRecord(node.op).kind !== 'pure') return
    const text = this.#expression(node)
    const name = this.#unique(`t${++this.#temporaries}`)
    this.#named.set(node, name)
    this.lines.push(`${indent}${name} = ${text}`)
  }

  #expression(node: Node, level = 0): string {
    const named = this.#named.get(node)
    if (named !== undefined) return named
    if (this.#depth === 0) return '…'
    this.#depth--
    const [text, own] = this.#spell(node)
    this.#depth++
    return own < level ? `(${text})` : text
  }

  #spell(node: Node): readonly [text: string, level: number] {
    const { op, dtype, src, arg } = node
    const at = (index: number, level = 0): string => {
      const child = src[index]
      return child === undefined ? '?' : this.#expression(child, level)
    }
    const all = (): string => src.map((_, index) => at(index)).join(', ')
    const infix = INFIX[op]
    if (infix !== undefined && src.length === 2) {
      const [level, text, boolText] = infix
      const isBool = boolText !== undefined && dtype.startsWith('bool')
      return [`${at(0, level)} ${isBool ? boolText : text} ${at(1, level + 1)}`, level]
    }
    const { mem, width, ahead, transposed, kind } = fieldsOf(arg)
    switch (op) {
      case 'const':
        return printConst(dtype, arg)
      case 'index':
        return [this.#params.has(String(arg)) ? `index.${String(arg)}` : String(arg), ATOM]
      case 'uniform':
        return [String(arg), ATOM]
      case 'local':
      case 'get':
        return [this.#names.get(arg as number) ?? `%${String(arg)}`, ATOM]
      case 'neg':
        return [`-${at(0, UNARY + 1)}`, UNARY]
      case 'not':
        return [`${dtype.startsWith('bool') ? '!' : '~'}${at(0, UNARY)}`, UNARY]
      case 'select':
        return [`${at(0, 2)} ? ${at(1, 2)} : ${at(2, 1)}`, 1]
      case 'cast':
      case 'vec':
        return [`${dtype}(${all()})`, ATOM]
      case 'bitcast':
        return [`bits<${dtype}>(${all()})`, ATOM]
      case 'splat':
        return [`splat${widthOf(dtype)}(${all()})`, ATOM]
      case 'extract':
        return [`${at(0, ATOM)}[${String(arg)}]`, ATOM]
      case 'slice':
        return [`${at(0, ATOM)}[${String(arg)}..+${widthOf(dtype)}]`, ATOM]
      case 'table':
        return [`${dtype}[${(arg as readonly number[]).join(', ')}][${all()}]`, ATOM]
      case 'lookup16':
        return [`lookup16([${(arg as readonly number[]).join(', ')}], ${all()})`, ATOM]
      case 'load':
        return [
          `${String(mem)}[${all()}${width === undefined ? '' : `..+${String(width)}`}${ahead === undefined ? '' : `, ahead ${String(ahead)}`}]${this.#odd(node)}`,
          ATOM,
        ]
      case 'tileLoad':
        return [`${String(mem)}.tile(${all()}${transposed === true ? ', transposed' : ''})${this.#odd(node)}`, ATOM]
      case 'atomic':
        return [`atomic ${String(kind)} ${String(mem)}[${at(0)}], ${at(1)}`, 1]
      default:
        return [`${op}(${all()}${arg === null ? '' : `, ${JSON.stringify(arg)}`})`, ATOM]
    }
  }

  /** The type of a load that is not the natural one of its memory (f16 memory read as f32). */
  #odd(node: Node): string {
    const { mem, width } = fieldsOf(node.arg)
    const memory = this.#kernel === undefined ? undefined : memoryOf(this.#kernel, String(mem))
    if (memory === undefined) return ''
    const element = registerOf(memory.storage)
    const natural = node.op === 'tileLoad' ? `${memory.storage}t` : width === undefined ? element : vector(scalarOf(element), width as 2)
    return node.dtype === natural ? '' : `:${node.dtype}`
  }
}

/** `2` is u32, `2i` i32, `2.0` f32, `2.0h` f16. */
function printConst(dtype: string, arg: Arg): readonly [string, number] {
  if (dtype === 'bool') return [arg === true || arg === 1 ? 'true' : 'false', ATOM]
  const value = Number(arg)
  const isFloat = dtype === 'f32' || dtype === 'f16'
  let text = Object.is(value, -0) ? '-0' : String(value)
  if (isFloat && Number.isInteger(value) && !text.includes('e')) text += '.0'
  const suffix = dtype === 'i32' ? 'i' : dtype === 'f16' ? 'h' : ''
  return [text + suffix, text.startsWith('-') ? UNARY : ATOM]
}
