// Metal Shading Language as a dialect. Stays within what Metal 3.1 and the software Metal of the tests both know: no swizzles, no
// templates of our own. What stands around a kernel's body is in ../msl.ts.

import { type DType, type Storage, isTile, scalarOf, storageScalar, vector, widthOf } from '../../base/dtype.ts'
import { isShared } from '../../ir/kernel.ts'
import type { Node, NodeWith } from '../../ir/node.ts'
import { indexRecord } from '../../ir/op/position.ts'
import { pointer } from '../clike/clike.ts'
import type { Access, ConstantWords, Dialect } from '../clike/dialect.ts'
import {
  BARE,
  COMPONENTS,
  LEVEL,
  type Speaker,
  type Spelling,
  type Spellings,
  type Text,
  atom,
  callWithArg,
  choose,
  list,
  spread,
  unary,
  within,
} from '../clike/expression.ts'
import { words } from '../clike/name.ts'
import { sharesBuffers } from '../clike/program.ts'
import {
  type Parameter,
  calls,
  divide,
  dividesSafely,
  maskedShift,
  operators,
  selectCall,
  shaderScalar,
  shaderSpellings,
  subscript,
  tableEntry,
} from '../clike/spelling.ts'

/** What Metal calls a scalar, also one that exists in memory only. */
export const SCALAR_TYPE = {
  f32: 'float',
  f16: 'half',
  i32: 'int',
  u32: 'uint',
  bool: 'bool',
  i8: 'char',
  u8: 'uchar',
  i16: 'short',
  u16: 'ushort',
} as const

function typeName(dtype: DType): string {
  if (dtype === 'void') return 'void'
  if (isTile(dtype)) return dtype === 'f32t' ? 'simdgroup_float8x8' : 'simdgroup_half8x8'
  return SCALAR_TYPE[shaderScalar(scalarOf(dtype))] + (widthOf(dtype) === 1 ? '' : widthOf(dtype))
}

export function storageType(storage: Storage): string {
  return SCALAR_TYPE[shaderScalar(storageScalar(storage))] + (widthOf(storage) === 1 ? '' : widthOf(storage))
}

export const CONSTANTS: ConstantWords = {
  smallest: '(-2147483647 - 1)',
  bareBelow: Infinity,
  endless: { f32: ['INFINITY', '-INFINITY', 'NAN'], f16: ['half(INFINITY)', '-half(INFINITY)', 'half(NAN)'] },
}

/** A function that returns what the last line says. */
function define(name: string, parameters: readonly Parameter[], result: DType, value: string, ...before: readonly string[]): string[] {
  const given = parameters.map((each) => `${typeName(each.dtype)} ${each.name}`).join(', ')
  return [`inline ${typeName(result)} ${name}(${given}) {`, ...before.map((line) => `  ${line}`), `  return ${value};`, '}']
}

/** Lanes of vectors, one by one: there are no swizzles. Operands that are more than a name go through a helper. */
function regroup(what: string, { dtype, src }: NodeWith<1>, first: number, count: number, speaker: Speaker): Text {
  const value = (parts: readonly Text[]): string => {
    const lanes = parts.flatMap((part) => Array.from({ length: count }, (_, index) => component(part, first + index)))
    return `${typeName(dtype)}(${lanes.join(', ')})`
  }
  if (src.every(({ op }) => op === 'local' || op === 'get')) return atom(value(src.map((part) => speaker.say(part))))
  const name = `${what}_${src[0].dtype}_${dtype}`
  const parameters = src.map((part, at): Parameter => ({ name: src.length === 1 ? 'v' : at === 0 ? 'a' : 'b', dtype: part.dtype }))
  speaker.need(name, () => define(name, parameters, dtype, value(parameters.map((each) => atom(each.name)))))
  return atom(`${name}(${src.map((part) => speaker.say(part).text).join(', ')})`)
}

/** One lane of a vector. */
const component = (vectorText: Text, index: number): string => `${within(vectorText, LEVEL.atom)}.${COMPONENTS[index] ?? 'x'}`

/** Integers divide through a helper that knows x / 0 = x, x % 0 = 0 and MIN / -1. */
const guarded =
  (what: 'div' | 'rem'): Spelling<2> =>
  (node, speaker) => {
    const name = `${what}_${node.dtype}`
    speaker.need(name, () => guardedDivision(name, what, node.dtype))
    return atom(`${name}(${list(node, speaker)})`)
  }

function guardedDivision(name: string, what: 'div' | 'rem', dtype: DType): string[] {
  const isSigned = scalarOf(dtype) === 'i32'
  const parameters = [
    { name: 'a', dtype },
    { name: 'b', dtype },
  ]
  if (widthOf(dtype) === 1) {
    const value =
      what === 'div'
        ? `b == 0 ? a : ${isSigned ? 'b == -1 ? int(0u - uint(a)) : ' : ''}a / b`
        : `b == 0${isSigned ? ' || b == -1' : ''} ? 0 : a % b`
    return define(name, parameters, dtype, value)
  }
  const value = what === 'rem' ? 'a % safe' : isSigned ? 'select(a / safe, 0 - a, b == -1)' : 'a / safe'
  const bad = isSigned ? '(b == 0) | (b == -1)' : 'b == 0'
  return define(name, parameters, dtype, value, `${typeName(dtype)} safe = select(b, ${typeName(dtype)}(1), ${bad});`)
}

/** From f32 to integers: saturates, and NaN gives 0. */
function saturate(name: string, to: DType): string[] {
  const from = vector('f32', widthOf(to))
  const type = typeName(to)
  const [low, high, below, above] =
    scalarOf(to) === 'i32'
      ? (['(-2147483647 - 1)', '2147483647', '-2147483648.0f', '2147483648.0f'] as const)
      : (['0u', '0xffffffffu', '0.0f', '4294967296.0f'] as const)
  const parameters = [{ name: 'x', dtype: from }]
  if (widthOf(to) === 1) {
    const rest = scalarOf(to) === 'i32' ? `x >= ${below} ? int(x) : x < ${below} ? ${low} : 0` : 'x > 0.0f ? uint(x) : 0u'
    return define(name, parameters, to, `x >= ${above} ? ${high} : ${rest}`)
  }
  const value = `select(select(n, ${type}(${low}), x < ${below}), ${type}(${high}), x >= ${above})`
  const inside = `select(${typeName(from)}(0.0f), x, (x >= ${below}) & (x < ${above}))`
  return define(name, parameters, to, value, `${type} n = ${type}(${inside});`)
}

const asType = (type: string, node: Node, speaker: Speaker): string => `as_type<${type}>(${speaker.say(node).text})`
/** `uint4(as_type<uchar4>(word))` */
const unpack =
  (as: string): Spelling =>
  ({ dtype, src: [word] }, speaker) =>
    atom(`${typeName(dtype)}(${asType(as, word, speaker)})`)
/** `as_type<uint>(half2(values))` */
const pack = (as: string, { dtype, src: [values] }: NodeWith<1>, speaker: Speaker): Text =>
  atom(`as_type<${typeName(dtype)}>(${as}(${speaker.say(values).text}))`)

export const spell = {
  ...operators({ compare: spread, bits: () => spread }),
  ...shaderSpellings({ typeName, define, saturate }),
  ...calls({ rsqrt: 'rsqrt', rint: 'rint', popcount: 'popcount' }),
  ...calls({ tanh: 'precise::tanh' }), // the fast one gives NaN for large values
  ...calls({ subSum: 'simd_sum', subMax: 'simd_max', subMin: 'simd_min', subAny: 'simd_any', subAll: 'simd_all' }),
  ...calls({ subShuffle: 'simd_shuffle' }),
  subBroadcast: callWithArg('simd_broadcast'),
  subShuffleXor: callWithArg('simd_shuffle_xor'),
  subShuffleDown: callWithArg('simd_shuffle_down'),
  div: divide('/', dividesSafely, guarded('div')),
  rem: divide('%', dividesSafely, guarded('rem')),
  shl: maskedShift('<<', () => '31'),
  shr: maskedShift('>>', () => '31'),
  select: (node, speaker) => {
    const [condition, yes, no] = node.src
    if (widthOf(node.dtype) > 1) return selectCall(node, speaker)
    return choose(speaker.say(condition), speaker.say(yes), speaker.say(no))
  },
  bitcast: (node, speaker) => atom(asType(typeName(node.dtype), node.src[0], speaker)),
  extract: (node, speaker) => atom(component(speaker.say(node.src[0]), node.arg)),
  slice: (node, speaker) => regroup(`slice${node.arg}`, node, node.arg, widthOf(node.dtype), speaker),
  join: (node, speaker) => regroup('join', node, 0, widthOf(node.src[0].dtype), speaker),
  unpackU8: unpack('uchar4'),
  unpackI8: unpack('char4'),
  unpackF16: unpack('half2'),
  packI8: (node, speaker) => pack(node.src[0].dtype === 'i32x4' ? 'char4' : 'uchar4', node, speaker),
  packF16: (node, speaker) => pack('half2', node, speaker),
  table: tableEntry,
  tileFill: ({ src: [value] }, speaker) => atom(`make_filled_simdgroup_matrix<${typeName(value.dtype)}, 8, 8>(${speaker.say(value).text})`),
} as const satisfies Spellings

/** Positions along axes: what a parameter is called, and the attribute that fills it. */
export const POSITION = {
  global: { name: 'gid', attribute: 'thread_position_in_grid' },
  workgroup: { name: 'group', attribute: 'threadgroup_position_in_grid' },
  grid: { name: 'grid', attribute: 'threadgroups_per_grid' },
  lane: { name: 'tid', attribute: 'thread_position_in_threadgroup' },
} as const
/** Positions over all axes. */
export const SINGLE = {
  lane: { name: 'lane', attribute: 'thread_index_in_threadgroup' },
  subgroup: { name: 'simdgroup', attribute: 'simdgroup_index_in_threadgroup' },
  sublane: { name: 'sublane', attribute: 'thread_index_in_simdgroup' },
} as const

const spaceOf = ({ memory }: Access): string => (isShared(memory) ? 'threadgroup' : 'device')

/** Consecutive elements are a vector where that is sure to be aligned (buffers and arrays are), else a packed one, which need not be. */
function consecutive(access: Access, constness: string): string {
  return `*(${spaceOf(access)} ${constness}${access.aligned ? '' : 'packed_'}${narrowed(access)}*)${pointer(access)}`
}

/** `dtype` as the memory holds it: `uchar4` for four bytes in registers of 32 bits. */
const narrowed = ({ memory, width }: Access): string =>
  SCALAR_TYPE[shaderScalar(storageScalar(memory.storage))] + (width === 1 ? '' : width)

const RESERVED = words(`
  alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype default
  delete do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new not
  nullptr operator or private protected public register return short signed sizeof static struct switch template this throw true
  try typedef typeid typename union unsigned using virtual void volatile while xor device constant threadgroup thread kernel
  vertex fragment half uint uchar ushort ulong bfloat size_t vec packed metal simd quad access sampler texture atomic args main
  group grid gid tid lane sublane simdgroup abs min max clamp sign floor ceil round rint trunc fract fmod sqrt rsqrt exp exp2
  exp10 log log2 log10 pow sin cos tan asin acos atan tanh sinh cosh fma select dot length mix step saturate popcount clz ctz any
  all cross distance normalize isnan isinf ldexp as_type NAN INFINITY bool2 bool4 char2 char4 uchar2 uchar4 short2 short4 ushort2
  ushort4 int2 int4 uint2 uint4 half2 half4 float2 float4 M_PI_F`)

/** Metal for a kernel; `flat`: it uses only the x axis of positions, so that they are plain numbers. */
export const mslDialect = (flat: boolean): Dialect => ({
  reserved: RESERVED,
  spell,
  constants: CONSTANTS,
  atomics: {
    load: 'atomic_load_explicit',
    store: 'atomic_store_explicit',
    change: (kind) => (kind === 'exchange' ? 'atomic_exchange_explicit' : `atomic_fetch_${kind}_explicit`),
    order: ', memory_order_relaxed',
  },
  endless: 'while (true) {',
  displaces: false,
  uniform: 'args.',
  index: (name) => {
    const { of, axis } = indexRecord(name)
    return axis === undefined ? atom(SINGLE[of].name) : positionText(POSITION[of].name, axis, flat)
  },
  global: (axis) => positionText(POSITION.global.name, axis, flat),
  let: (dtype, name, value) => `${typeName(dtype)} ${name} = ${value};`,
  var: (dtype, name, value) => (value === '' ? `${typeName(dtype)} ${name};` : `${typeName(dtype)} ${name} = ${value};`),
  counter: (name) => `uint ${name}`,
  unroll: (times) => (typeof times === 'number' ? `#pragma unroll(${times})` : '#pragma unroll'),
  barrier: (kind, kernel) => {
    const device = kind === 'workgroup' && sharesBuffers(kernel)
    const flags = device ? 'mem_flags::mem_device | mem_flags::mem_threadgroup' : 'mem_flags::mem_threadgroup'
    return `${kind === 'workgroup' ? 'threadgroup' : 'simdgroup'}_barrier(${flags});`
  },
  load: (access) => {
    const { memory, dtype, width } = access
    const narrow = storageScalar(memory.storage) !== scalarOf(dtype)
    if (width === 1) return narrow ? atom(`${typeName(dtype)}(${access.name}[${access.index.text}])`) : subscript(access.name, access.index)
    const text = consecutive(access, isShared(memory) ? '' : 'const ')
    if (access.aligned) return narrow ? atom(`${typeName(dtype)}(${text})`) : unary(text)
    return atom(narrow ? `${typeName(dtype)}(${narrowed(access)}(${text}))` : `${typeName(dtype)}(${text})`)
  },
  store: (access, value) => {
    const narrow = storageScalar(access.memory.storage) !== scalarOf(access.dtype)
    const text = narrow ? `${access.width === 1 ? storageType(access.memory.storage) : narrowed(access)}(${value.text})` : value.text
    return access.width === 1
      ? `${access.name}[${access.index.text}] = ${text};`
      : `${consecutive(access, '')} = ${access.aligned ? text : `packed_${narrowed(access)}(${text})`};`
  },
  tile: (node, into, memory, speaker) => {
    const say = (operand: Node): Text => speaker.say(operand, BARE)
    if (node.op === 'tileMma') return `simdgroup_multiply_accumulate(${into}, ${node.src.map((part) => say(part).text).join(', ')});`
    const transposed = node.arg.transposed === true ? ', ulong2(0, 0), true' : ''
    return `simdgroup_load(${into}, ${pointer({ name: memory, index: say(node.src[0]) })}, ${say(node.src[1]).text}${transposed});`
  },
  tileStore: ({ src: [index, row, tile] }, memory, speaker) => {
    const at = pointer({ name: memory, index: speaker.say(index, BARE) })
    return `simdgroup_store(${speaker.say(tile, BARE).text}, ${at}, ${speaker.say(row, BARE).text});`
  },
})

/** `gid.x`, or `gid` where that is a plain number. */
function positionText(name: string, axis: string, flat: boolean): Text {
  return atom(flat ? name : `${name}.${axis}`)
}
