// A kernel as text that reads like code: for people (errors, `--emit ir`, snapshots) and for hash.ts. Deterministic, and
// injective: two kernels with the same text mean the same. Does not know targets; what it prints is nobody's input.
//
// An operand that is large and used more than once is printed once, under a name `t1`, `t2`... where it is first used.

import { type DType, isFloat, registerOf, scalarOf, vector, widthOf } from '../base/dtype.ts'
import { type Kernel, type Param, memoryOf } from './kernel.ts'
import { type Node, type NodeOf, blocksOf, isDeclaration, valuesOf, walk } from './node.ts'
import { type Arg, type OpName, opRecord } from './op.ts'
import { INDICES } from './op/position.ts'

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

const isStatement = (node: Node): boolean => opRecord(node.op).kind === 'statement'
const isBool = (dtype: DType): boolean => dtype !== 'void' && scalarOf(dtype) === 'bool'
/** True for a node that only a faulty pass makes: errors must still be able to show it. */
const isMalformed = ({ op, src, arg }: Node): boolean => {
  const { arity, arg: kind } = opRecord(op)
  return src.length < arity || kind?.wrong(arg) !== undefined
}
/** `..+4` after the index of an access to four elements. */
const span = (width: number | undefined): string => (width === undefined ? '' : `..+${width}`)

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
    for (const name of [...this.#params, ...Object.keys(INDICES)]) this.#taken.add(name)
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
      if (isDeclaration(node) && !isMalformed(node) && !this.#names.has(node.arg.id))
        this.#names.set(node.arg.id, this.#unique(node.arg.name))
      for (const inner of blocksOf(node)) this.#nameLocals(inner)
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
    const [a, b, c] = valuesOf(node).map((child) => this.#line(child, indent))
    const add = (text: string): void => {
      this.lines.push(indent + text)
    }
    if (isMalformed(node)) return add(this.#plain(node))
    switch (node.op) {
      case 'let':
      case 'var':
        return add(`${node.op} ${this.#name(node.arg.id, node.arg.name)}: ${node.src[0].dtype} = ${a}`)
      case 'set':
        return add(`${this.#name(node.arg)} = ${a}`)
      case 'store':
        return add(`${node.arg.mem}[${a}${span(node.arg.width)}] = ${b}`)
      case 'tileStore':
        return add(`${node.arg.mem}.tile(${a}, ${b}${node.arg.transposed === true ? ', transposed' : ''}) = ${c}`)
      case 'breakIf':
        return add(`break if ${a}`)
      case 'barrier':
        return add(`barrier ${node.arg}`)
      case 'if':
        add(`if (${a}) {`)
        this.#nest(node.src[1], indent)
        if (node.src[2] !== undefined) {
          add('} else {')
          this.#nest(node.src[2], indent)
        }
        return add('}')
      case 'for': {
        const { id, name, unroll } = node.arg
        add(`for ${this.#name(id, name)} = ${a}..${b} step ${c}${unroll === undefined ? '' : ` unroll ${unroll}`} {`)
        this.#nest(node.src[3], indent)
        return add('}')
      }
      case 'loop':
        add('loop {')
        this.#nest(node.src[0], indent)
        return add('}')
      case 'block':
        add('{')
        this.#nest(node, indent)
        return add('}')
      default:
        return add(this.#plain(node))
    }
  }

  /** The statements of a block inside another; `…` where brevity is wanted, or where no block stands. */
  #nest(block: Node, indent: string): void {
    const inner = `${indent}  `
    if (this.#depth === Infinity && block.op === 'block') this.block(block, inner)
    else this.lines.push(`${inner}…`)
  }

  /** What an id is called; one that nothing declares keeps its number. */
  #name(id: number, hint = ''): string {
    return this.#names.get(id) ?? `${hint}%${id}`
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
    if (isMalformed(node)) return [this.#plain(node), ATOM]
    const infix = INFIX[op]
    if (infix !== undefined) {
      const [level, text, boolText = text] = infix
      return [`${at(0, level)} ${isBool(dtype) ? boolText : text} ${at(1, level + 1)}`, level]
    }
    switch (op) {
      case 'const':
        return printConst(dtype, arg)
      case 'index':
        return [this.#params.has(arg) ? `index.${arg}` : arg, ATOM]
      case 'uniform':
        return [arg, ATOM]
      case 'local':
      case 'get':
        return [this.#name(arg), ATOM]
      case 'neg':
        return [`-${at(0, UNARY + 1)}`, UNARY]
      case 'not':
        return [`${isBool(dtype) ? '!' : '~'}${at(0, UNARY)}`, UNARY]
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
        return [`${at(0, ATOM)}[${arg}]`, ATOM]
      case 'slice':
        return [`${at(0, ATOM)}[${arg}${span(widthOf(dtype))}]`, ATOM]
      case 'table':
        return [`${dtype}[${arg.join(', ')}][${all()}]`, ATOM]
      case 'lookup16':
        return [`lookup16([${arg.join(', ')}], ${all()})`, ATOM]
      case 'load': {
        const ahead = arg.ahead === undefined ? '' : `, ahead ${arg.ahead}`
        return [`${arg.mem}[${all()}${span(arg.width)}${ahead}]${this.#odd(node)}`, ATOM]
      }
      case 'tileLoad':
        return [`${arg.mem}.tile(${all()}${arg.transposed === true ? ', transposed' : ''})${this.#odd(node)}`, ATOM]
      case 'atomic':
        return [`atomic ${arg.kind} ${arg.mem}[${at(0)}], ${at(1)}`, 1]
      default:
        return [this.#plain(node), ATOM]
    }
  }

  /** `op(operands, argument)` */
  #plain({ op, src, arg }: Node): string {
    const parts = src.map((child) => (child.op === 'block' ? '{…}' : this.#expression(child)))
    return `${op}(${[...parts, ...(arg === null ? [] : [JSON.stringify(arg)])].join(', ')})`
  }

  /** The type of a load that is not the natural one of its memory (f16 memory read as f32). */
  #odd(node: NodeOf<'load' | 'tileLoad'>): string {
    const memory = this.#kernel === undefined ? undefined : memoryOf(this.#kernel, node.arg.mem)
    if (memory === undefined) return ''
    const element = registerOf(memory.storage)
    const width = node.op === 'load' ? node.arg.width : undefined
    const natural = node.op === 'tileLoad' ? `${memory.storage}t` : width === undefined ? element : vector(scalarOf(element), width)
    return node.dtype === natural ? '' : `:${node.dtype}`
  }
}

const SUFFIX: Partial<Record<DType, string>> = { i32: 'i', f16: 'h', f64: 'd' }

/** `2` is u32, `2i` i32, `2.0` f32, `2.0h` f16, `2.0d` f64. */
function printConst(dtype: DType, arg: Arg): readonly [string, number] {
  if (dtype === 'bool') return [arg === true || arg === 1 ? 'true' : 'false', ATOM]
  const value = Number(arg)
  let text = Object.is(value, -0) ? '-0' : String(value)
  if (isFloat(dtype) && Number.isInteger(value) && !text.includes('e')) text += '.0'
  return [text + (SUFFIX[dtype] ?? ''), text.startsWith('-') ? UNARY : ATOM]
}
