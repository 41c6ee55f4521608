// C11 with GNU vectors, over native/cpu/prelude.h, which names an operation after its type: `f32x8_max`. One function per
// kernel runs a range of workgroups:
//   void ingot_NAME(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch)
// Workgroups are numbered x first. Shared arrays lie in `scratch`, which must hold `scratchBytes` and be aligned to 64 bytes.
// Vectors of booleans are masks: 0 or -1 in lanes of i32. The compiler's flags are said in the prelude.

import { type DType, type Scalar, type Storage, isFloat, scalarOf, storageBytes, storageScalar, vector, widthOf } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import { type Kernel, buffersOf, lanesOf, uniformsOf } from '../ir/kernel.ts'
import type { Node } from '../ir/node.ts'
import type { OpName } from '../ir/op.ts'
import { lower } from '../ir/pass/index.ts'
import type { Target } from '../ir/target.ts'
import type { Source } from './caps.ts'
import { type Access, type Body, type Dialect, type Table, constantOf, describe, subscript, writeBody } from './clike.ts'
import { floatDigits, hex } from './literal.ts'
import { words } from './name.ts'
import {
  BARE,
  LEVEL,
  type Manner,
  type Speaker,
  type Spelling,
  type Text,
  atom,
  binary,
  choose,
  infix,
  pair,
  prefix,
  spread,
  unary,
  within,
} from './text.ts'

/** C of one or more kernels, one function each. */
export interface CSource extends Source {
  readonly entries: readonly string[]
  /** bytes of scratch that each function needs */
  readonly scratch: readonly number[]
}
export interface COptions {
  /** how the prelude is included; default `prelude.h` */
  readonly prelude?: string
}

const SCALAR_TYPE = {
  f32: 'float',
  f16: 'uint16_t',
  i32: 'int32_t',
  u32: 'uint32_t',
  bool: 'bool',
  i8: 'int8_t',
  u8: 'uint8_t',
  i16: 'int16_t',
  u16: 'uint16_t',
} as const
/** Places in scratch begin at multiples of this many bytes: one cache line, one wide vector. */
const LINE = 64

/** The prelude's name of a type, which begins the names of its operations. */
function short(dtype: DType): string {
  return scalarOf(dtype) === 'bool' ? `i32x${widthOf(dtype)}` : dtype
}

function typeName(dtype: DType): string {
  return widthOf(dtype) === 1 ? SCALAR_TYPE[scalarOf(dtype)] : short(dtype)
}

/** Vectors of halves have no type here: memory of them is memory of halves. */
function elementType(storage: Storage): string {
  return widthOf(storage) === 1 || storageScalar(storage) === 'f16' ? SCALAR_TYPE[storageScalar(storage)] : `${storage}_mem`
}

function constant(value: number | boolean, scalar: Scalar, { bare, hex: pattern }: Manner): Text {
  const number = Number(value)
  if (scalar === 'bool') return atom(number !== 0 ? 'true' : 'false')
  if (scalar === 'f32') {
    const text = Number.isNaN(number)
      ? 'NOT_A_NUMBER'
      : Number.isFinite(number)
        ? `${floatDigits(number)}f`
        : number < 0
          ? '-INFINITE'
          : 'INFINITE'
    return text.startsWith('-') ? unary(text) : atom(text)
  }
  if (number === -(2 ** 31)) return atom('INT32_MIN')
  if (number < 0) return unary(String(number))
  const digits = (pattern === true && number > 9) || number >= 2 ** 24 ? hex(number) : String(number)
  return atom(scalar === 'u32' && (bare !== true || number >= 2 ** 31) ? `${digits}u` : digits)
}

const operand = (node: Node, index = 0): Node => node.src[index] as Node
const operands = (node: Node, speaker: Speaker): string => node.src.map((part) => speaker.say(part).text).join(', ')
/** `f32x8_name(operands)`, by the type of the result. */
const typed =
  (name: string): Spelling =>
  (node, speaker) =>
    atom(`${short(node.dtype)}_${name}(${operands(node, speaker)})`)
/** The same, by the type of the first operand. */
const typedByOperand =
  (name: string): Spelling =>
  (node, speaker) =>
    atom(`${short(operand(node).dtype)}_${name}(${operands(node, speaker)})`)
const castTo = (type: string, { text, level }: Text): Text => unary(`(${type})${within({ text, level }, LEVEL.unary)}`)
/** Operands of a packed operation as unsigned words. */
const asWords = (node: Node, speaker: Speaker): Text =>
  scalarOf(node.dtype) === 'u32' ? speaker.say(node) : castTo(typeName(vector('u32', widthOf(node.dtype))), speaker.say(node))

const shift =
  (operator: string): Spelling =>
  (node, speaker) => {
    const count = constantOf(operand(node, 1))
    const left = speaker.say(operand(node)) // alone gives the type
    if (count !== undefined) return binary(left, operator, atom(String(count & 31)), LEVEL.shift)
    const [, right] = spread(node, speaker)
    return binary(left, operator, binary(right, '&', atom(scalarOf(node.dtype) === 'u32' ? '31u' : '31'), LEVEL.bitAnd), LEVEL.shift)
  }

/** Integers divide through the prelude unless the divisor is a constant that cannot go wrong; x / 0 = x and x % 0 = 0. */
const divide =
  (operator: '/' | '%', name: string): Spelling =>
  (node, speaker) => {
    const divisor = constantOf(operand(node, 1))
    const safe = isFloat(node.dtype) || (divisor !== undefined && divisor !== 0 && divisor !== -1)
    return safe ? infix(operator, LEVEL.mul, spread)(node, speaker) : typed(name)(node, speaker)
  }

const cast: Spelling = (node, speaker) => {
  const from = operand(node)
  const [source, target] = [scalarOf(from.dtype), scalarOf(node.dtype)]
  const text = speaker.say(from)
  const isVector = widthOf(node.dtype) > 1
  if (source === target) return text
  if (target === 'bool')
    return binary(text, '!=', atom(source === 'f32' ? '0.0f' : source === 'u32' && isVector ? '0u' : '0'), LEVEL.compare)
  if (isVector && source === 'bool') {
    const ones = unary(`-${within(text, LEVEL.unary + 1)}`)
    return target === 'i32'
      ? ones
      : target === 'u32'
        ? castTo(typeName(node.dtype), ones)
        : atom(`${short(from.dtype)}_to_${node.dtype}(${ones.text})`)
  }
  if (source === 'f32' || (isVector && target === 'f32')) return atom(`${short(from.dtype)}_to_${node.dtype}(${text.text})`)
  return castTo(typeName(node.dtype), text)
}

const bitcast: Spelling = (node, speaker) => {
  const text = speaker.say(operand(node))
  const [source, target] = [scalarOf(operand(node).dtype), scalarOf(node.dtype)]
  if (widthOf(node.dtype) > 1) return castTo(typeName(node.dtype), text)
  if (source === 'f32') return target === 'u32' ? atom(`f32_bits(${text.text})`) : castTo('int32_t', atom(`f32_bits(${text.text})`))
  return target === 'f32' ? atom(`f32_of_bits(${text.text})`) : castTo(typeName(node.dtype), text)
}

/** An element of a vector of booleans is a mask. */
const element = (node: Node, speaker: Speaker): Text =>
  node.dtype === 'bool' ? unary(`-${within(castTo('int32_t', speaker.say(node)), LEVEL.unary)}`) : speaker.say(node)
const vec: Spelling = (node, speaker) =>
  atom(`(${typeName(node.dtype)}){${node.src.map((part) => element(part, speaker).text).join(', ')}}`)
const shuffle = (node: Node, speaker: Speaker, first: number, width: number): Text => {
  const [a, b = `(${typeName(operand(node).dtype)}){0}`] = node.src.map((part) => speaker.say(part).text) as [string, string?]
  return atom(`__builtin_shufflevector(${a}, ${b}, ${Array.from({ length: width }, (_, index) => first + index).join(', ')})`)
}
const logic =
  (scalarOperator: string, scalarLevel: number, operator: string, level: number): Spelling =>
  (node, speaker) =>
    (node.dtype === 'bool' ? infix(scalarOperator, scalarLevel) : infix(operator, level, scalarOf(node.dtype) === 'bool' ? pair : spread))(
      node,
      speaker,
    )
const dot =
  (name: string): Spelling =>
  (node, speaker) =>
    atom(
      `${node.dtype}_${name}(${asWords(operand(node), speaker).text}, ${asWords(operand(node, 1), speaker).text}, ${speaker.say(operand(node, 2)).text})`,
    )

const spell = {
  neg: prefix('-'),
  add: infix('+', LEVEL.add, spread),
  sub: infix('-', LEVEL.add, spread),
  mul: infix('*', LEVEL.mul, spread),
  div: divide('/', 'div'),
  rem: divide('%', 'rem'),
  min: typed('min'),
  max: typed('max'),
  fma: typed('fma'),
  abs: (node, speaker) => (scalarOf(node.dtype) === 'u32' ? speaker.say(operand(node)) : typed('abs')(node, speaker)),
  sqrt: typed('sqrt'),
  rsqrt: typed('rsqrt'),
  floor: typed('floor'),
  ceil: typed('ceil'),
  trunc: typed('trunc'),
  rint: typed('rint'),
  lt: infix('<', LEVEL.compare, spread),
  le: infix('<=', LEVEL.compare, spread),
  gt: infix('>', LEVEL.compare, spread),
  ge: infix('>=', LEVEL.compare, spread),
  eq: infix('==', LEVEL.compare, spread),
  ne: infix('!=', LEVEL.compare, spread),
  not: (node, speaker) => prefix(node.dtype === 'bool' ? '!' : '~')(node, speaker),
  and: logic('&&', LEVEL.and, '&', LEVEL.bitAnd),
  or: logic('||', LEVEL.or, '|', LEVEL.bitOr),
  xor: logic('!=', LEVEL.compare, '^', LEVEL.bitXor),
  shl: shift('<<'),
  shr: shift('>>'),
  popcount: typed('popcount'),
  select: (node, speaker) => {
    const [condition, yes, no] = node.src.map((part) => speaker.say(part)) as [Text, Text, Text]
    return widthOf(node.dtype) === 1 ? choose(condition, yes, no) : typed('select')(node, speaker)
  },
  cast,
  bitcast,
  vec,
  splat: (node, speaker) => atom(`${short(node.dtype)}_splat(${element(operand(node), speaker).text})`),
  extract: (node, speaker) => {
    const text = `${within(speaker.say(operand(node)), LEVEL.atom)}[${String(node.arg)}]`
    return node.dtype === 'bool' ? binary(atom(text), '!=', atom('0'), LEVEL.compare) : atom(text)
  },
  slice: (node, speaker) => shuffle(node, speaker, Number(node.arg), widthOf(node.dtype)),
  join: (node, speaker) => shuffle(node, speaker, 0, widthOf(node.dtype)),
  hsum: typedByOperand('hsum'),
  hmax: typedByOperand('hmax'),
  unpackU8: typedByOperand('unpackU8'),
  unpackI8: typedByOperand('unpackI8'),
  unpackF16: typedByOperand('unpackF16'),
  packI8: (node, speaker) => atom(`u32_packI8(${asWords(operand(node), speaker).text})`),
  packF16: (node, speaker) => atom(`u32_packF16(${speaker.say(operand(node)).text})`),
  lookup16: (node, speaker) => {
    const text = atom(`${vector('u32', widthOf(node.dtype))}_lookup16(${asWords(operand(node), speaker).text}, ${speaker.table(node)})`)
    return scalarOf(node.dtype) === 'u32' ? text : castTo(typeName(node.dtype), text)
  },
  dotI8: dot('dotI8'),
  dotU8I8: dot('dotU8I8'),
  dotU7I8: dot('dotU7I8'),
  table: (node, speaker) => subscript(speaker.table(node), speaker.say(operand(node), BARE)),
} as const satisfies Partial<Record<OpName, Spelling>>

const RESERVED = words(`
  auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short signed sizeof
  static struct switch typedef union unsigned void volatile while asm typeof bool true false unix linux main
  buffers uniforms grid begin end scratch group args abs min max floor ceil sqrt exp log pow sin cos tan y0 y1 yn j0 j1 jn index expect_soon`)

const halfVector = ({ memory }: Access): number => (storageScalar(memory.storage) === 'f16' ? widthOf(memory.storage) : 1)
const pointer = (access: Access): string => {
  const width = halfVector(access)
  return `&${access.name}[${(width === 1 ? access.index : binary(access.index, '*', atom(String(width)), LEVEL.mul)).text}]`
}
/** Elements that one access moves. */
const countOf = (access: Access): number => access.width * halfVector(access)
/** `f16x8`, `u8x4`: how the prelude calls this many elements of a memory. */
const memoryName = (access: Access): string => `${storageScalar(access.memory.storage)}x${countOf(access)}`

const dialect: Dialect = {
  reserved: RESERVED,
  spell,
  endless: 'while (true) {',
  globals: false,
  displaces: true,
  constant,
  index: (name) => {
    const [what, axis] = name.split('.')
    if (what === 'grid') return atom(`grid[${'xyz'.indexOf(axis ?? 'x')}]`)
    return what === 'workgroup' ? atom(`group_${axis}`) : atom('0u') // a workgroup has one lane here
  },
  uniform: (name) => atom(name),
  let: (dtype, name, value) => `const ${typeName(dtype)} ${name} = ${value};`,
  var: (dtype, name, value) => `${typeName(dtype)} ${name} = ${value};`,
  forLoop: (name, from, to, step) =>
    `for (uint32_t ${name} = ${from}; ${name} < ${to}; ${step === '1' ? `${name}++` : `${name} += ${step}`}) {`,
  unroll: (times) => `UNROLL(${times === true ? 16 : Number(times)})`,
  barrier: () => '// barrier: one lane',
  load: (access) => {
    const { memory, dtype } = access
    if (memory.atomic) return atom(`__atomic_load_n(${pointer(access)}, __ATOMIC_RELAXED)`)
    if (countOf(access) > 1) {
      const from = access.ahead === undefined ? pointer(access) : `expect_soon(${pointer(access)}, ${access.ahead})`
      return atom(`load_${memoryName(access)}(${from})`)
    }
    const value = subscript(access.name, access.index)
    if (storageScalar(memory.storage) === 'f16') return atom(`f16_to_f32(${value.text})`)
    return storageScalar(memory.storage) === scalarOf(dtype) ? value : castTo(typeName(dtype), value)
  },
  store: (access, value) => {
    const { memory, dtype } = access
    if (memory.atomic) return `__atomic_store_n(${pointer(access)}, ${value.text}, __ATOMIC_RELAXED);`
    if (countOf(access) > 1) return `store_${memoryName(access)}(${pointer(access)}, ${value.text});`
    const scalar = storageScalar(memory.storage)
    const text =
      scalar === 'f16' ? `f32_to_f16(${value.text})` : scalar === scalarOf(dtype) ? value.text : castTo(SCALAR_TYPE[scalar], value).text
    return `${access.name}[${access.index.text}] = ${text};`
  },
  atomic: (access, kind, value) => {
    if (kind === 'min' || kind === 'max')
      return atom(`${storageScalar(access.memory.storage)}_atomic_${kind}(${pointer(access)}, ${value.text})`)
    const name = kind === 'exchange' ? '__atomic_exchange_n' : `__atomic_fetch_${kind}`
    return atom(`${name}(${pointer(access)}, ${value.text}, __ATOMIC_RELAXED)`)
  },
}

/** What the passes must know about C. */
export const C_TARGET: Target = {
  name: 'c',
  spells: new Set(Object.keys(spell) as OpName[]),
  lanes: false,
  subgroup: 0,
  tiles: false,
  half: false,
  narrow: true,
  width: 16,
}

/** One or more kernels as a C file. */
export function emitC(kernels: Kernel | readonly Kernel[], options: COptions = {}): CSource {
  const list = 'body' in kernels ? [kernels] : kernels
  const lowered = list.map((kernel) => lower(kernel, C_TARGET))
  const entries = lowered.map(({ name }) => `ingot_${name}`)
  const text = [`#include "${options.prelude ?? 'prelude.h'}"`, '', ...lowered.flatMap((kernel) => [...writeFunction(kernel), ''])].join(
    '\n',
  )
  return { text, entry: entries[0] ?? '', workgroup: [1, 1, 1], entries, scratch: lowered.map((kernel) => placeShared(kernel).bytes) }
}

/** Bytes of scratch that the function of a kernel needs. */
export function scratchBytes(kernel: Kernel): number {
  return placeShared(lower(kernel, C_TARGET)).bytes
}

function placeShared(kernel: Kernel): { bytes: number; offsets: number[] } {
  let bytes = 0
  const offsets = kernel.shared.map(({ storage, length }) => {
    const at = bytes
    bytes += Math.ceil((length * storageBytes(storage)) / LINE) * LINE
    return at
  })
  return { bytes, offsets }
}

function writeFunction(kernel: Kernel): string[] {
  if (lanesOf(kernel) !== 1)
    throw new IngotError('unsupported', 'C runs one lane per workgroup', { op: kernel.name, got: kernel.workgroup })
  const body = writeBody(kernel, dialect, 2)
  const lines = [
    `// ${describe(kernel)}`,
    `void ingot_${kernel.name}(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch);`,
    `void ingot_${kernel.name}(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch) {`,
  ]
  const axes = (['x', 'y', 'z'] as const).filter((axis) => body.indices.has(`workgroup.${axis}`))
  const unused = [
    ...(buffersOf(kernel).some(({ name }) => body.memories.has(name)) ? [] : ['buffers']),
    ...(body.uniforms.size === 0 ? ['uniforms'] : []),
    ...(axes.length === 0 && ![...body.indices].some((name) => name.startsWith('grid.')) ? ['grid'] : []),
    ...(kernel.shared.some(({ name }) => body.memories.has(name)) ? [] : ['scratch']),
  ]
  if (unused.length > 0) lines.push(`  ${unused.map((name) => `(void)${name};`).join(' ')}`)
  lines.push(...body.tables.map((table) => `  ${tableLine(table)}`), ...memoryLines(kernel, body).map((line) => `  ${line}`))
  lines.push('  for (uint32_t group = begin; group < end; group++) {')
  const position = { x: 'group % grid[0]', y: 'group / grid[0] % grid[1]', z: 'group / grid[0] / grid[1]' }
  for (const axis of axes) lines.push(`    const uint32_t group_${axis} = ${position[axis]};`)
  return [...lines, ...body.lines, '  }', '}']
}

function memoryLines(kernel: Kernel, body: Body): string[] {
  const lines = buffersOf(kernel).flatMap(({ name, storage, role, atomic }, index) => {
    const local = body.names.get(name)
    const type = `${role === 'read' && !atomic ? 'const ' : ''}${elementType(storage)} *`
    return body.memories.has(name) ? [`${type}${local} = buffers[${index}];`] : []
  })
  uniformsOf(kernel).forEach(({ name, dtype }, field) => {
    if (body.uniforms.has(name))
      lines.push(`const ${SCALAR_TYPE[dtype]} ${body.names.get(name)} = ((const ${SCALAR_TYPE[dtype]} *)uniforms)[${field}];`)
  })
  const { offsets } = placeShared(kernel)
  kernel.shared.forEach(({ name, storage }, at) => {
    if (body.memories.has(name))
      lines.push(`${elementType(storage)} *${body.names.get(name)} = (void *)((char *)scratch + ${offsets[at]});`)
  })
  return lines
}

function tableLine({ name, dtype, values, bytes }: Table): string {
  const items = values.map((value) => (bytes ? String(value & 255) : constant(value, scalarOf(dtype), {}).text))
  return `static const ${bytes ? 'uint8_t' : typeName(dtype)} ${name}[${values.length}] = {${items.join(', ')}};`
}
