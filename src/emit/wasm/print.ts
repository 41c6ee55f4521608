// A module as text in the WebAssembly text format, one instruction a line, indented by block.
// Reads the function bodies back from their bytes, so what is printed is what runs. Knows nothing of kernels.
// Invariant: the text is deterministic, and assembling it with any WAT assembler gives the same code.

import { IngotError } from '../../base/error.ts'
import type { FuncType, GlobalType } from './body.ts'
import { ByteReader } from './encode.ts'
import { NO_RESULT, typeCodes } from './immediate.ts'
import type { DataSegment, DefinedFunction, DefinedGlobal, Import, MemoryLimits, WasmModule } from './module.ts'
import { opcodes, type Immediate, type Opcode, type ValType } from './opcode.ts'

const keyOf = ({ prefix = 0, code }: Pick<Opcode, 'prefix' | 'code'>): number => prefix * 0x1000 + code
const byCode = new Map<number, Opcode>(Object.values<Opcode>(opcodes).map((op) => [keyOf(op), op]))
const typeNames = new Map<number, string>(Object.entries(typeCodes).map(([name, code]) => [code, name]))
/** 0xfc, 0xfd and 0xfe begin an instruction whose number follows. */
const FIRST_PREFIX = 0xfc

/** The names that instructions of one function refer to. */
interface Names {
  readonly locals: readonly string[]
  readonly functions: readonly string[]
  /** open blocks, outermost first */
  readonly labels: string[]
}

/** The module as WAT. */
export function printModule(module: WasmModule): string {
  const { types, imports, functions, globals, exports, data, memory, table } = module.contents
  const imported = imports.filter((item) => item.kind === 'func').map((item) => item.name)
  const names = distinct([...imported, ...functions.map((defined) => defined.name)])
  const importedGlobals = imports.filter((item) => item.kind === 'global').length
  let nextFunction = 0
  const lines = types.map((type, i) => `(type (;${i};) (func${printType(type)}))`)
  for (const item of imports) lines.push(printImport(item, item.kind === 'func' ? (names[nextFunction++] ?? '') : ''))
  if (table !== undefined) lines.push(`(table ${table.length} ${table.length} funcref)`)
  if (memory !== undefined) lines.push(`(memory ${printLimits(memory)})`)
  for (const [i, global] of globals.entries()) lines.push(printGlobal(global, importedGlobals + i))
  for (const { name, kind, index } of exports) {
    lines.push(`(export ${quote(name)} (${kind} ${kind === 'func' ? names[index] : index}))`)
  }
  if (table !== undefined) lines.push(`(elem (i32.const 0) func${table.map((index) => ` ${names[index]}`).join('')})`)
  for (const defined of functions) {
    const signature = types[defined.type]
    if (signature !== undefined) lines.push(...printFunction(defined, signature, names))
  }
  for (const segment of data) lines.push(printData(segment))
  return ['(module', ...lines.map((line) => `  ${line}`), ')', ''].join('\n')
}

function printFunction(defined: DefinedFunction, signature: FuncType, functions: readonly string[]): string[] {
  const { index, type, locals, code } = defined
  const { params, results } = signature
  const localNames = distinct(locals.map((local, i) => local.name ?? String(i)))
  const word = (i: number): string => (i < params.length ? 'param' : 'local')
  const head = locals.map((local, i) => `(${word(i)} ${localNames[i]} ${local.type})`)
  const parts = [`(func ${functions[index]}`, `(type ${type})`, ...head.slice(0, params.length)]
  if (results.length > 0) parts.push(`(result ${results.join(' ')})`)
  const body = printBody(code, { locals: localNames, functions, labels: [] })
  return [parts.join(' '), ...head.slice(params.length).map((line) => `  ${line}`), ...body, ')']
}

/** The instructions of a body, without its closing end. */
function printBody(code: Uint8Array, names: Names): string[] {
  const reader = new ByteReader(code)
  const lines: string[] = []
  let blocks = 0
  while (!reader.done) {
    const op = readOpcode(reader)
    const inner = names.labels.length
    if (op.name === 'end' && names.labels.pop() === undefined) break
    const text = `${op.name}${readers[op.immediate](reader, op, names)}`
    const depth = op.name === 'end' || op.name === 'else' ? inner - 1 : inner
    if (op.immediate === 'block') {
      const label = `$b${blocks++}`
      names.labels.push(label)
      lines.push(`${'  '.repeat(depth + 1)}${text.replace(op.name, `${op.name} ${label}`)}`)
    } else lines.push('  '.repeat(depth + 1) + text)
  }
  return lines
}

function readOpcode(reader: ByteReader): Opcode {
  const first = reader.u8()
  const key = first < FIRST_PREFIX ? { code: first } : { prefix: first, code: reader.u32() }
  const op = byCode.get(keyOf(key))
  if (op === undefined) throw new IngotError('bad-kernel', 'no such opcode', { op: 'printModule', got: key })
  return op
}

type Read = (reader: ByteReader, op: Opcode, names: Names) => string

/** The text of an immediate with a space before it, or nothing. */
const readers: Readonly<Record<Immediate, Read>> = {
  none: () => '',
  zero: (reader, op) => skip(reader, op.width),
  segment: (reader, op) => ` ${reader.u32()}${skip(reader, op.width)}`,
  mem: readMemArg,
  lane: (reader) => ` ${reader.u8()}`,
  memlane: (reader, op, names) => `${readMemArg(reader, op, names)} ${reader.u8()}`,
  shuffle: (reader) => ` ${reader.take(16).join(' ')}`,
  local: (reader, _op, { locals }) => ` ${locals[reader.u32()]}`,
  global: (reader) => ` ${reader.u32()}`,
  func: (reader, _op, { functions }) => ` ${functions[reader.u32()]}`,
  indirect: (reader) => ` (type ${reader.u32()})${skip(reader, 1)}`,
  label: readLabel,
  labels: (reader, op, names) => {
    const count = reader.u32() + 1
    return Array.from({ length: count }, () => readLabel(reader, op, names)).join('')
  },
  block: (reader) => {
    const type = reader.u8()
    return type === NO_RESULT ? '' : ` (result ${typeNames.get(type)})`
  },
  'const.i32': (reader) => ` ${reader.i32()}`,
  'const.i64': (reader) => ` ${reader.i64()}`,
  'const.f32': (reader) => ` ${printFloat(reader.f32())}`,
  'const.f64': (reader) => ` ${printFloat(reader.f64())}`,
  'const.v128': (reader) => {
    const words = new Uint32Array(reader.take(16).slice().buffer)
    return ` i32x4 ${Array.from(words, (word) => `0x${word.toString(16).padStart(8, '0')}`).join(' ')}`
  },
}

function readLabel(reader: ByteReader, _op: Opcode, { labels }: Names): string {
  const distance = reader.u32()
  return ` ${labels.at(-1 - distance) ?? distance}`
}

/** Only what differs from the default: offset 0 and natural alignment. */
function readMemArg(reader: ByteReader, op: Opcode, _names: Names): string {
  const align = 2 ** reader.u32()
  const offset = reader.u32()
  return (offset === 0 ? '' : ` offset=${offset}`) + (align === op.width ? '' : ` align=${align}`)
}

function skip(reader: ByteReader, count: number): '' {
  reader.take(count)
  return ''
}

function printType({ params, results }: FuncType): string {
  const part = (word: string, types: readonly ValType[]): string => (types.length === 0 ? '' : ` (${word} ${types.join(' ')})`)
  return part('param', params) + part('result', results)
}

function printImport(item: Import, name: string): string {
  const from = `(import ${quote(item.module)} ${quote(item.name)}`
  if (item.kind === 'func') return `${from} (func ${name} (type ${item.type})))`
  if (item.kind === 'memory') return `${from} (memory ${printLimits(item.limits)}))`
  return `${from} (global ${printGlobalType(item.global)}))`
}

const printLimits = ({ min, max, shared = false }: MemoryLimits): string =>
  `${min}${max === undefined ? '' : ` ${max}`}${shared ? ' shared' : ''}`

const printGlobalType = ({ type, mutable }: GlobalType): string => (mutable ? `(mut ${type})` : type)

function printGlobal(global: DefinedGlobal, index: number): string {
  const { type, value } = global
  const text = type === 'f32' || type === 'f64' ? printFloat(Number(value)) : String(value)
  return `(global (;${index};) ${printGlobalType(global)} (${type}.const ${text}))`
}

function printData({ bytes, offset }: DataSegment): string {
  const text = Array.from(bytes, (byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')
  return `(data ${offset === undefined ? '' : `(i32.const ${offset}) `}"${text}")`
}

function printFloat(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  if (Object.is(value, -0)) return '-0'
  if (Math.abs(value) === Infinity) return value < 0 ? '-inf' : 'inf'
  return String(value)
}

/** A string of the text format; what is not plain ASCII is escaped byte by byte. */
function quote(text: string): string {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) =>
    byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c ? String.fromCharCode(byte) : `\\${byte.toString(16).padStart(2, '0')}`,
  )
  return `"${bytes.join('')}"`
}

/** Identifiers from names: legal, and each different; a name seen before gets its index. */
function distinct(names: readonly string[]): string[] {
  const seen = new Set<string>()
  return names.map((name, i) => {
    const legal = `$${name.replace(/[^\w!#$%&'*+\-./:<=>?@^|~]/g, '_')}`
    let id = legal
    for (let n = i; seen.has(id); n++) id = `${legal}_${n}`
    seen.add(id)
    return id
  })
}
