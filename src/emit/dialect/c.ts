// C11 with GNU vectors as a dialect, over native/cpu/prelude.h, which names an operation after its type: `f32x8_max`. Vectors of
// booleans are masks: 0 or -1 in lanes of i32. What stands around a kernel's body is in ../c.ts.

import { type DType, type Storage, isFloat, isInteger, scalarOf, storageScalar, vector, widthOf } from '../../base/dtype.ts'
import type { Node, NodeWith, SomeNode } from '../../ir/node.ts'
import type { AtomicKind } from '../../ir/op.ts'
import { AXES, indexRecord } from '../../ir/op/position.ts'
import { pointer } from '../clike/clike.ts'
import type { Access, ConstantWords, Dialect } from '../clike/dialect.ts'
import {
  LEVEL,
  type Speaker,
  type Spelling,
  type Spellings,
  type Text,
  atom,
  binary,
  choose,
  infix,
  list,
  pair,
  prefix,
  spread,
  unary,
  within,
} from '../clike/expression.ts'
import { words } from '../clike/name.ts'
import { absolute, byName, divide, dividesSafely, maskedShift, operators, opsOf, subscript, tableEntry } from '../clike/spelling.ts'

/** What C calls a scalar, also one that exists in memory only. */
export const SCALAR_TYPE = {
  f32: 'float',
  f16: 'uint16_t',
  f64: 'double',
  i32: 'int32_t',
  u32: 'uint32_t',
  bool: 'bool',
  i8: 'int8_t',
  u8: 'uint8_t',
  i16: 'int16_t',
  u16: 'uint16_t',
} as const
/** The prelude's name of a type, which begins the names of its operations. */
function short(dtype: DType): string {
  return scalarOf(dtype) === 'bool' ? `i32x${widthOf(dtype)}` : dtype
}

function typeName(dtype: DType): string {
  return widthOf(dtype) === 1 ? SCALAR_TYPE[scalarOf(dtype)] : short(dtype)
}

/** Vectors of halves have no type here: memory of them is memory of halves. */
export function elementType(storage: Storage): string {
  return widthOf(storage) === 1 || storageScalar(storage) === 'f16' ? SCALAR_TYPE[storageScalar(storage)] : `${storage}_mem`
}

export const CONSTANTS: ConstantWords = {
  smallest: 'INT32_MIN',
  bareBelow: 2 ** 31,
  endless: {
    f32: ['INFINITE', '-INFINITE', 'NOT_A_NUMBER'],
    f16: ['INFINITE', '-INFINITE', 'NOT_A_NUMBER'],
    f64: ['INFINITE_F64', '-INFINITE_F64', 'NOT_A_NUMBER_F64'],
  },
}

/** `f32x8_name(operands)`, by the type of the result. */
const typed =
  (name: string) =>
  (node: SomeNode, speaker: Speaker): Text =>
    atom(`${short(node.dtype)}_${name}(${list(node, speaker)})`)
/** The same, by the type of the first operand. */
const typedByOperand =
  (name: string): Spelling =>
  (node, speaker) =>
    atom(`${short(node.src[0].dtype)}_${name}(${list(node, speaker)})`)
const castTo = (type: string, { text, level }: Text): Text => unary(`(${type})${within({ text, level }, LEVEL.unary)}`)
/** Operands of a packed operation as unsigned words. */
const asWords = (node: Node, speaker: Speaker): Text =>
  scalarOf(node.dtype) === 'u32' ? speaker.say(node) : castTo(typeName(vector('u32', widthOf(node.dtype))), speaker.say(node))

/** Vectors of f64 compare to masks of 64 bits. */
const narrowMask = (text: Text, compared: DType): Text =>
  scalarOf(compared) === 'f64' && widthOf(compared) > 1
    ? atom(`__builtin_convertvector(${text.text}, ${typeName(vector('bool', widthOf(compared)))})`)
    : text

const compare =
  (operator: string): Spelling<2> =>
  (node, speaker) =>
    narrowMask(infix(operator, LEVEL.compare, spread)(node, speaker), node.src[0].dtype)

const cast: Spelling = (node, speaker) => {
  const [from] = node.src
  const [source, target] = [scalarOf(from.dtype), scalarOf(node.dtype)]
  const text = speaker.say(from)
  const isVector = widthOf(node.dtype) > 1
  if (source === target) return text
  if (target === 'bool') {
    const zero = source === 'f32' ? '0.0f' : source === 'f64' ? '0.0' : source === 'u32' && isVector ? '0u' : '0'
    return narrowMask(binary(text, '!=', atom(zero), LEVEL.compare), from.dtype)
  }
  if (isVector && source === 'bool') {
    const ones = unary(`-${within(text, LEVEL.unary + 1)}`)
    return target === 'i32'
      ? ones
      : target === 'u32'
        ? castTo(typeName(node.dtype), ones)
        : atom(`${short(from.dtype)}_to_${node.dtype}(${ones.text})`)
  }
  // what saturates, and what C converts by no operator
  const isCall = isFloat(from.dtype) ? isVector || isInteger(node.dtype) : isVector && isFloat(node.dtype)
  return isCall ? atom(`${short(from.dtype)}_to_${node.dtype}(${text.text})`) : castTo(typeName(node.dtype), text)
}

const bitcast: Spelling = (node, speaker) => {
  const [from] = node.src
  const text = speaker.say(from)
  const [source, target] = [scalarOf(from.dtype), scalarOf(node.dtype)]
  if (widthOf(node.dtype) > 1) return castTo(typeName(node.dtype), text)
  if (source === 'f32') return target === 'u32' ? atom(`f32_bits(${text.text})`) : castTo('int32_t', atom(`f32_bits(${text.text})`))
  return target === 'f32' ? atom(`f32_of_bits(${text.text})`) : castTo(typeName(node.dtype), text)
}

/** An element of a vector of booleans is a mask. */
const element = (node: Node, speaker: Speaker): Text =>
  node.dtype === 'bool' ? unary(`-${within(castTo('int32_t', speaker.say(node)), LEVEL.unary)}`) : speaker.say(node)
/** Elements of one or two vectors, which are numbered through. */
const shuffle = (node: NodeWith<1>, speaker: Speaker, from: (index: number) => number): Text => {
  const [a, b = `(${typeName(node.src[0].dtype)}){0}`] = node.src.map((part) => speaker.say(part).text)
  return atom(`__builtin_shufflevector(${a}, ${b}, ${Array.from({ length: widthOf(node.dtype) }, (_, index) => from(index)).join(', ')})`)
}
const dot =
  (name: string): Spelling<3> =>
  ({ dtype, src: [a, b, sum] }, speaker) =>
    atom(`${dtype}_${name}(${asWords(a, speaker).text}, ${asWords(b, speaker).text}, ${speaker.say(sum).text})`)
/** Of two words, or vectors of them, a third. */
const ofWords =
  (name: string): Spelling<2> =>
  ({ dtype, src: [a, b] }, speaker) => {
    const words = vector('u32', widthOf(dtype))
    const text = atom(`${words}_${name}(${asWords(a, speaker).text}, ${asWords(b, speaker).text})`)
    return dtype === words ? text : castTo(typeName(dtype), text)
  }

const countMask = (scalar: string): string => (scalar === 'u32' ? '31u' : '31')

const spell = {
  // vectors of booleans are masks: nothing can be spread beside them, and only bits turn them over
  ...operators({ compare: spread, bits: (dtype) => (scalarOf(dtype) === 'bool' ? pair : spread) }),
  lt: compare('<'),
  le: compare('<='),
  gt: compare('>'),
  ge: compare('>='),
  eq: compare('=='),
  ne: compare('!='),
  not: (node, speaker) => prefix(node.dtype === 'bool' ? '!' : '~')(node, speaker),
  div: divide('/', dividesSafely, typed('div')),
  rem: divide('%', dividesSafely, typed('rem')),
  shl: maskedShift('<<', countMask),
  shr: maskedShift('>>', countMask),
  ...byName(typed, 'min', 'max', 'fma', 'sqrt', 'rsqrt', 'floor', 'ceil', 'trunc', 'rint', 'popcount', 'packF16'),
  ...byName(typedByOperand, 'hsum', 'hmax', 'unpackU8', 'unpackI8', 'unpackF16'),
  ...byName(dot, 'dotI8', 'dotU8I8', 'dotU7I8', 'dotI16'),
  ...byName(ofWords, 'pairsU7I8', 'pairsI8', 'addPairs'),
  abs: absolute(typed('abs')),
  select: (node, speaker) => {
    const [condition, yes, no] = node.src
    if (widthOf(node.dtype) > 1) return typed('select')(node, speaker)
    return choose(speaker.say(condition), speaker.say(yes), speaker.say(no))
  },
  cast,
  bitcast,
  vec: (node, speaker) => atom(`(${typeName(node.dtype)}){${node.src.map((part) => element(part, speaker).text).join(', ')}}`),
  splat: (node, speaker) => atom(`${short(node.dtype)}_splat(${element(node.src[0], speaker).text})`),
  extract: (node, speaker) => {
    const text = `${within(speaker.say(node.src[0]), LEVEL.atom)}[${node.arg}]`
    return node.dtype === 'bool' ? binary(atom(text), '!=', atom('0'), LEVEL.compare) : atom(text)
  },
  slice: (node, speaker) => shuffle(node, speaker, (index) => node.arg + index),
  join: (node, speaker) => shuffle(node, speaker, (index) => index),
  zip: (node, speaker) => {
    const width = widthOf(node.dtype)
    return shuffle(node, speaker, (index) => (index % 2) * width + (node.arg * width) / 2 + (index >> 1))
  },
  packI8: (node, speaker) => atom(`u32_packI8(${asWords(node.src[0], speaker).text})`),
  lookup16: (node, speaker) => {
    const name = `${vector('u32', widthOf(node.dtype))}_lookup16`
    const text = atom(`${name}(${asWords(node.src[0], speaker).text}, ${speaker.table(node)})`)
    return scalarOf(node.dtype) === 'u32' ? text : castTo(typeName(node.dtype), text)
  },
  table: tableEntry,
} as const satisfies Spellings

/** Of f64 only, through libm: for other types these are decomposed, so that they are vectors. */
const functions = byName(typed, 'exp', 'exp2', 'log', 'log2', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'tanh', 'pow')

/** The ops that C has, and those that it has for f64 alone. */
export const SPELLS = opsOf(spell)
export const DOUBLE_SPELLS = opsOf(functions)

const RESERVED = words(`
  auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
  return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool true false unix linux
  main buffers uniforms grid begin end scratch group args abs min max floor ceil sqrt exp log pow sin cos tan y0 y1 yn j0 j1 jn
  index expect_soon`)

const halfVector = ({ memory }: Access): number => (storageScalar(memory.storage) === 'f16' ? widthOf(memory.storage) : 1)
/** Where an access begins, counted in what the pointer's type holds. */
const start = (access: Access): string => {
  const width = halfVector(access)
  return pointer(width === 1 ? access : { name: access.name, index: binary(access.index, '*', atom(String(width)), LEVEL.mul) })
}
/** Elements that one access moves. */
const countOf = (access: Access): number => access.width * halfVector(access)
/** `f16x8`, `u8x4`: how the prelude calls this many elements of a memory. */
const memoryName = (access: Access): string => `${storageScalar(access.memory.storage)}x${countOf(access)}`

/** Atomics of the prelude, which are loops. */
const UNORDERED: ReadonlySet<AtomicKind> = new Set(['min', 'max'])

export const cDialect: Dialect = {
  reserved: RESERVED,
  spell: { ...spell, ...functions },
  constants: CONSTANTS,
  atomics: {
    load: '__atomic_load_n',
    store: '__atomic_store_n',
    change: (kind, storage) =>
      kind === 'exchange' ? '__atomic_exchange_n' : UNORDERED.has(kind) ? `${storage}_atomic_${kind}` : `__atomic_fetch_${kind}`,
    order: ', __ATOMIC_RELAXED',
    unordered: UNORDERED,
  },
  endless: 'while (true) {',
  displaces: true,
  uniform: '',
  index: (name) => {
    const { of, axis = 'x' } = indexRecord(name)
    if (of === 'grid') return atom(`grid[${AXES.indexOf(axis)}]`)
    return atom(of === 'workgroup' ? `group_${axis}` : '0u') // a workgroup has one lane here
  },
  let: (dtype, name, value) => `const ${typeName(dtype)} ${name} = ${value};`,
  var: (dtype, name, value) => `${typeName(dtype)} ${name} = ${value};`,
  counter: (name) => `uint32_t ${name}`,
  unroll: (times) => `UNROLL(${times === true ? 16 : Number(times)})`,
  barrier: () => '// barrier: one lane',
  load: (access) => {
    const { memory, dtype } = access
    if (countOf(access) > 1) {
      const from = access.ahead === undefined ? start(access) : `expect_soon(${start(access)}, ${access.ahead})`
      return atom(`load_${memoryName(access)}(${from})`)
    }
    const value = subscript(access.name, access.index)
    if (storageScalar(memory.storage) === 'f16') return atom(`f16_to_f32(${value.text})`)
    return storageScalar(memory.storage) === scalarOf(dtype) ? value : castTo(typeName(dtype), value)
  },
  store: (access, value) => {
    const { memory, dtype } = access
    if (countOf(access) > 1) return `store_${memoryName(access)}(${start(access)}, ${value.text});`
    const scalar = storageScalar(memory.storage)
    const text =
      scalar === 'f16' ? `f32_to_f16(${value.text})` : scalar === scalarOf(dtype) ? value.text : castTo(SCALAR_TYPE[scalar], value).text
    return `${subscript(access.name, access.index).text} = ${text};`
  },
}
