// Metal Shading Language: how a kernel is said to an Apple GPU. Stays within what Metal 3.1 and the software Metal of the
// tests both know: no swizzles, no templates of our own. The device sets the language version and the maths mode.

import {
  type DType,
  type Scalar,
  type Storage,
  isFloat,
  isInteger,
  isTile,
  scalarOf,
  storageScalar,
  vector,
  widthOf,
} from '../base/dtype.ts'
import { type Kernel, type SharedArray, buffersOf, isShared, lanesOf, uniformsOf, uses } from '../ir/kernel.ts'
import type { Node } from '../ir/node.ts'
import type { OpName } from '../ir/op.ts'
import { lower } from '../ir/pass/index.ts'
import type { Target } from '../ir/target.ts'
import type { Caps, Source } from './caps.ts'
import {
  type Access,
  type Body,
  type Dialect,
  type Table,
  constantOf,
  describe,
  fitsInteger,
  targetFor,
  sharesBuffers,
  subscript,
  writeBody,
} from './clike.ts'
import { floatDigits, halfDigits, hex } from './literal.ts'
import { words } from './name.ts'
import {
  AXES,
  BARE,
  LEVEL,
  type Manner,
  type Speaker,
  type Spelling,
  type Text,
  atom,
  binary,
  call,
  callWithArg,
  choose,
  infix,
  prefix,
  spread,
  unary,
  within,
} from './text.ts'

const SCALAR_TYPE = {
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
  return SCALAR_TYPE[scalarOf(dtype)] + (widthOf(dtype) === 1 ? '' : widthOf(dtype))
}

function storageType(storage: Storage): string {
  return SCALAR_TYPE[storageScalar(storage)] + (widthOf(storage) === 1 ? '' : widthOf(storage))
}

function constant(value: number | boolean, scalar: Scalar, { bare, hex: pattern }: Manner): Text {
  const number = Number(value)
  if (scalar === 'bool') return atom(number !== 0 ? 'true' : 'false')
  if (scalar === 'f32' || scalar === 'f16') {
    const digits = Number.isFinite(number) ? (scalar === 'f32' ? floatDigits(number) : halfDigits(number)) : undefined
    const type = scalar === 'f32' ? '' : 'half'
    const text =
      digits !== undefined
        ? digits + (scalar === 'f32' ? 'f' : 'h')
        : `${number < 0 ? '-' : ''}${type === '' ? '' : `${type}(`}${Number.isNaN(number) ? 'NAN' : 'INFINITY'}${type === '' ? '' : ')'}`
    return text.startsWith('-') ? unary(text) : atom(text)
  }
  if (scalar === 'i32' && number === -(2 ** 31)) return atom('(-2147483647 - 1)')
  if (number < 0) return unary(String(number))
  const digits = (pattern === true && number > 9) || number >= 2 ** 24 ? hex(number) : String(number)
  return atom(scalar === 'u32' && bare !== true ? `${digits}u` : digits)
}

/** A scalar of `v`'s lane; vectors are indexed by name of axis. */
const lane = (vectorText: Text, index: number): string => `${within(vectorText, LEVEL.atom)}.${AXES[index] ?? 'x'}`
const operand = (node: Node, index = 0): Node => node.src[index] as Node
/** Several different constants together are a pattern of bits. */
const construct = (node: Node, speaker: Speaker): Text =>
  atom(`${typeName(node.dtype)}(${node.src.map((part) => speaker.say(part, { hex: node.op === 'vec' }).text).join(', ')})`)
const reinterpret = (node: Node, speaker: Speaker): Text => atom(`as_type<${typeName(node.dtype)}>(${speaker.say(operand(node)).text})`)

/** Lanes of vectors, one by one: there are no swizzles. Operands that are more than a name go through a helper. */
function regroup(node: Node, speaker: Speaker, what: string): Text {
  const parts = node.src.map((part) => speaker.say(part))
  if (node.src.every(({ op }) => op === 'local' || op === 'get')) return atom(lanesText(node.dtype, operand(node).dtype, what, parts))
  const name = `${what}_${operand(node).dtype}_${node.dtype}`
  speaker.need(name)
  return atom(`${name}(${parts.map(({ text }) => text).join(', ')})`)
}

function lanesText(to: DType, from: DType, what: string, parts: readonly Text[]): string {
  const first = what === 'join' ? 0 : Number(what.slice('slice'.length))
  const perPart = what === 'join' ? widthOf(from) : widthOf(to)
  const lanes = parts.flatMap((part) => Array.from({ length: perPart }, (_, index) => lane(part, first + index)))
  return `${typeName(to)}(${lanes.join(', ')})`
}

/** The sum of a product's elements is a dot product; any other sum is a helper. */
const hsum: Spelling = (node, speaker) => {
  const from = operand(node)
  if (from.op === 'mul' && isFloat(node.dtype)) return call('dot')(from, speaker)
  const name = `sum_${from.dtype}`
  speaker.need(name)
  return call(name)(node, speaker)
}

const shift =
  (operator: string): Spelling =>
  (node, speaker) => {
    const count = constantOf(operand(node, 1))
    const left = speaker.say(operand(node)) // alone gives the type
    if (count !== undefined) return binary(left, operator, atom(String(count & 31)), LEVEL.shift)
    const [, right] = spread(node, speaker)
    return binary(left, operator, binary(right, '&', atom('31'), LEVEL.bitAnd), LEVEL.shift)
  }

/** Integers divide through a helper unless the divisor is a constant that cannot go wrong; x / 0 = x and x % 0 = 0. */
const divide =
  (operator: '/' | '%'): Spelling =>
  (node, speaker) => {
    const divisor = constantOf(operand(node, 1))
    const safe = isFloat(node.dtype) || (divisor !== undefined && divisor !== 0 && divisor !== -1)
    if (safe) return infix(operator, LEVEL.mul, spread)(node, speaker)
    const name = `${operator === '/' ? 'div' : 'rem'}_${node.dtype}`
    speaker.need(name)
    return atom(`${name}(${node.src.map((part) => speaker.say(part).text).join(', ')})`)
  }

const cast: Spelling = (node, speaker) => {
  const from = operand(node)
  if (!isInteger(node.dtype) || !isFloat(from.dtype) || fitsInteger(from, scalarOf(node.dtype))) return construct(node, speaker)
  const name = `to_${node.dtype}`
  speaker.need(name)
  const { text } = speaker.say(from)
  return atom(`${name}(${scalarOf(from.dtype) === 'f16' ? `${typeName(vector('f32', widthOf(from.dtype)))}(${text})` : text})`)
}

const logic =
  (scalarOperator: string, scalarLevel: number, operator: string, level: number): Spelling =>
  (node, speaker) =>
    (node.dtype === 'bool' ? infix(scalarOperator, scalarLevel) : infix(operator, level, spread))(node, speaker)

const spell = {
  neg: prefix('-'),
  add: infix('+', LEVEL.add, spread),
  sub: infix('-', LEVEL.add, spread),
  mul: infix('*', LEVEL.mul, spread),
  div: divide('/'),
  rem: divide('%'),
  min: call('min'),
  max: call('max'),
  fma: call('fma'),
  abs: (node, speaker) => (scalarOf(node.dtype) === 'u32' ? speaker.say(operand(node)) : call('abs')(node, speaker)),
  sqrt: call('sqrt'),
  rsqrt: call('rsqrt'),
  exp: call('exp'),
  exp2: call('exp2'),
  log: call('log'),
  log2: call('log2'),
  sin: call('sin'),
  cos: call('cos'),
  tan: call('tan'),
  asin: call('asin'),
  acos: call('acos'),
  atan: call('atan'),
  tanh: call('precise::tanh'), // the fast one gives NaN for large values
  pow: call('pow'),
  floor: call('floor'),
  ceil: call('ceil'),
  trunc: call('trunc'),
  rint: call('rint'),
  lt: infix('<', LEVEL.compare, spread),
  le: infix('<=', LEVEL.compare, spread),
  gt: infix('>', LEVEL.compare, spread),
  ge: infix('>=', LEVEL.compare, spread),
  eq: infix('==', LEVEL.compare, spread),
  ne: infix('!=', LEVEL.compare, spread),
  not: (node, speaker) => prefix(scalarOf(node.dtype) === 'bool' ? '!' : '~')(node, speaker),
  and: logic('&&', LEVEL.and, '&', LEVEL.bitAnd),
  or: logic('||', LEVEL.or, '|', LEVEL.bitOr),
  xor: logic('!=', LEVEL.compare, '^', LEVEL.bitXor),
  shl: shift('<<'),
  shr: shift('>>'),
  popcount: call('popcount'),
  select: (node, speaker) => {
    const [condition, yes, no] = node.src.map((part) => speaker.say(part)) as [Text, Text, Text]
    return widthOf(node.dtype) === 1 ? choose(condition, yes, no) : atom(`select(${no.text}, ${yes.text}, ${condition.text})`)
  },
  cast,
  bitcast: reinterpret,
  splat: construct,
  vec: construct,
  extract: (node, speaker) => atom(lane(speaker.say(operand(node)), Number(node.arg))),
  slice: (node, speaker) => regroup(node, speaker, `slice${String(node.arg)}`),
  join: (node, speaker) => regroup(node, speaker, 'join'),
  hsum,
  unpackU8: (node, speaker) => atom(`uint4(as_type<uchar4>(${speaker.say(operand(node)).text}))`),
  unpackI8: (node, speaker) => atom(`int4(as_type<char4>(${speaker.say(operand(node)).text}))`),
  packI8: (node, speaker) =>
    atom(`as_type<uint>(${operand(node).dtype === 'i32x4' ? 'char4' : 'uchar4'}(${speaker.say(operand(node)).text}))`),
  unpackF16: (node, speaker) => atom(`float2(as_type<half2>(${speaker.say(operand(node)).text}))`),
  packF16: (node, speaker) => atom(`as_type<uint>(half2(${speaker.say(operand(node)).text}))`),
  table: (node, speaker) => subscript(speaker.table(node), speaker.say(operand(node), BARE)),
  subSum: call('simd_sum'),
  subMax: call('simd_max'),
  subMin: call('simd_min'),
  subAny: call('simd_any'),
  subAll: call('simd_all'),
  subBroadcast: callWithArg('simd_broadcast'),
  subShuffle: call('simd_shuffle'),
  subShuffleXor: callWithArg('simd_shuffle_xor'),
  subShuffleDown: callWithArg('simd_shuffle_down'),
  tileFill: (node, speaker) =>
    atom(`make_filled_simdgroup_matrix<${typeName(operand(node).dtype)}, 8, 8>(${speaker.say(operand(node)).text})`),
} as const satisfies Partial<Record<OpName, Spelling>>

const POSITION = {
  global: ['gid', 'thread_position_in_grid'],
  workgroup: ['group', 'threadgroup_position_in_grid'],
  grid: ['grid', 'threadgroups_per_grid'],
  lane: ['tid', 'thread_position_in_threadgroup'],
} as const
const SINGLE = {
  lane: ['lane', 'thread_index_in_threadgroup'],
  subgroup: ['simdgroup', 'simdgroup_index_in_threadgroup'],
  sublane: ['sublane', 'thread_index_in_simdgroup'],
} as const

const spaceOf = ({ memory }: Access): string => (isShared(memory) ? 'threadgroup' : 'device')
const pointer = ({ name, index }: Pick<Access, 'name' | 'index'>): string => `&${name}[${index.text}]`

/** Consecutive elements are a vector where that is sure to be aligned (buffers and arrays are), else a packed one, which need not be. */
function consecutive(access: Access, constness: string): string {
  return `*(${spaceOf(access)} ${constness}${access.aligned ? '' : 'packed_'}${narrowed(access)}*)${pointer(access)}`
}

/** `dtype` as the memory holds it: `uchar4` for four bytes in registers of 32 bits. */
const narrowed = ({ memory, width }: Access): string => SCALAR_TYPE[storageScalar(memory.storage)] + (width === 1 ? '' : width)

const RESERVED = words(
  `
    alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype default delete do double else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new not nullptr operator or private protected public register
    return short signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned using virtual void volatile while
    xor device constant threadgroup thread kernel vertex fragment half uint uchar ushort ulong bfloat size_t vec packed metal
    simd quad access sampler texture atomic args main group grid gid tid lane sublane simdgroup
    abs min max clamp sign floor ceil round rint trunc fract fmod sqrt rsqrt exp exp2 exp10 log log2 log10 pow sin cos tan asin acos atan tanh sinh cosh
    fma select dot length mix step saturate popcount clz ctz any all cross distance normalize isnan isinf ldexp as_type NAN INFINITY`,
  'bool2 bool4 char2 char4 uchar2 uchar4 short2 short4 ushort2 ushort4 int2 int4 uint2 uint4 half2 half4 float2 float4 M_PI_F',
)

/** `flat`: the kernel uses only the x axis of positions, so that they are plain numbers. */
const dialectFor = (flat: boolean): Dialect => ({
  reserved: RESERVED,
  spell,
  endless: 'while (true) {',
  globals: true,
  displaces: false,
  constant,
  index: (name) => {
    const [what, axis] = name.split('.') as [keyof typeof POSITION, string | undefined]
    return atom(axis === undefined ? SINGLE[what as 'lane'][0] : flat ? POSITION[what][0] : `${POSITION[what][0]}.${axis}`)
  },
  uniform: (name) => atom(`args.${name}`),
  let: (dtype, name, value) => `${typeName(dtype)} ${name} = ${value};`,
  var: (dtype, name, value) => (value === '' ? `${typeName(dtype)} ${name};` : `${typeName(dtype)} ${name} = ${value};`),
  forLoop: (name, from, to, step) =>
    `for (uint ${name} = ${from}; ${name} < ${to}; ${step === '1' ? `${name}++` : `${name} += ${step}`}) {`,
  unroll: (times) => (typeof times === 'number' ? `#pragma unroll(${times})` : '#pragma unroll'),
  barrier: (kind, kernel) => {
    const device = kind === 'workgroup' && sharesBuffers(kernel)
    const flags = device ? 'mem_flags::mem_device | mem_flags::mem_threadgroup' : 'mem_flags::mem_threadgroup'
    return `${kind === 'workgroup' ? 'threadgroup' : 'simdgroup'}_barrier(${flags});`
  },
  load: (access) => {
    const { memory, dtype, width } = access
    if (memory.atomic) return atom(`atomic_load_explicit(${pointer(access)}, memory_order_relaxed)`)
    const narrow = storageScalar(memory.storage) !== scalarOf(dtype)
    if (width === 1) return narrow ? atom(`${typeName(dtype)}(${access.name}[${access.index.text}])`) : subscript(access.name, access.index)
    const text = consecutive(access, isShared(memory) ? '' : 'const ')
    if (access.aligned) return narrow ? atom(`${typeName(dtype)}(${text})`) : unary(text)
    return atom(narrow ? `${typeName(dtype)}(${narrowed(access)}(${text}))` : `${typeName(dtype)}(${text})`)
  },
  store: (access, value) => {
    if (access.memory.atomic) return `atomic_store_explicit(${pointer(access)}, ${value.text}, memory_order_relaxed);`
    const narrow = storageScalar(access.memory.storage) !== scalarOf(access.dtype)
    const text = narrow ? `${access.width === 1 ? storageType(access.memory.storage) : narrowed(access)}(${value.text})` : value.text
    return access.width === 1
      ? `${access.name}[${access.index.text}] = ${text};`
      : `${consecutive(access, '')} = ${access.aligned ? text : `packed_${narrowed(access)}(${text})`};`
  },
  atomic: (access, kind, value) => {
    const name = kind === 'exchange' ? 'atomic_exchange_explicit' : `atomic_fetch_${kind}_explicit`
    return atom(`${name}(${pointer(access)}, ${value.text}, memory_order_relaxed)`)
  },
  tile: (node, into, memory, speaker) => {
    const [a, b, c] = node.src.map((part) => speaker.say(part, BARE)) as [Text, Text, Text]
    if (node.op === 'tileMma') return `simdgroup_multiply_accumulate(${into}, ${a.text}, ${b.text}, ${c.text});`
    const transposed = (node.arg as { transposed?: boolean }).transposed === true ? ', ulong2(0, 0), true' : ''
    return `simdgroup_load(${into}, ${pointer({ name: memory, index: a })}, ${b.text}${transposed});`
  },
  tileStore: (node, memory, speaker) => {
    const [index, row, tile] = node.src.map((part) => speaker.say(part, BARE)) as [Text, Text, Text]
    return `simdgroup_store(${tile.text}, ${pointer({ name: memory, index })}, ${row.text});`
  },
})

/** What the passes must know about Metal. */
export function mslTarget(caps: Partial<Caps> = {}): Target {
  return {
    name: 'msl',
    spells: new Set(Object.keys(spell) as OpName[]),
    lanes: true,
    subgroup: caps.subgroup ?? 32,
    tiles: caps.tiles ?? true,
    half: caps.f16 ?? true,
    narrow: true,
    width: 4,
  }
}

/** A kernel as a complete MSL program with one entry point. */
export function emitMsl(kernel: Kernel, caps: Partial<Caps> = {}): Source {
  return writeMsl(lower(kernel, targetFor(kernel, mslTarget(caps))))
}

/** The text of a kernel that is lowered already. */
export function writeMsl(kernel: Kernel): Source {
  const flat = !uses(kernel, ({ op, arg }) => op === 'index' && /\.[yz]$/.test(String(arg)))
  const body = writeBody(kernel, dialectFor(flat), 1, [kernel.name])
  const uniforms = uniformsOf(kernel)
  const entry = RESERVED.has(kernel.name) ? `${kernel.name}_kernel` : kernel.name
  const lines = [`// ${describe(kernel)}`, '#include <metal_stdlib>', 'using namespace metal;', '']
  if (uniforms.length > 0) {
    lines.push(`struct ${entry}_args {`, ...uniforms.map(({ name, dtype }) => `  ${SCALAR_TYPE[dtype]} ${body.names.get(name)};`), '};', '')
  }
  for (const key of [...body.needs].sort()) lines.push(...helper(key), '')
  for (const table of body.tables) lines.push(tableLine(table), '')
  const lanes = lanesOf(kernel)
  if (lanes >= 64) lines.push(`[[max_total_threads_per_threadgroup(${lanes})]]`) // 32 or less has made compilers fail
  const parameters = [...parametersOf(kernel, body, entry), ...builtins(body, flat)]
  lines.push(`kernel void ${entry}(`, parameters.map((line) => `    ${line}`).join(',\n'), ') {')
  for (const array of kernel.shared) lines.push(`  ${sharedLine(array, kernel, body)}`)
  lines.push(...body.lines, '}', '')
  return { text: lines.join('\n'), entry, workgroup: kernel.workgroup }
}

function parametersOf(kernel: Kernel, body: Body, entry: string): string[] {
  const buffers = buffersOf(kernel)
  const lines = buffers.map(({ name, storage, role, atomic }, index) => {
    const type = atomic ? `atomic_${storage === 'i32' ? 'int' : 'uint'}` : storageType(storage)
    return `device ${role === 'read' && !atomic ? 'const ' : ''}${type}* ${body.names.get(name)} [[buffer(${index})]]`
  })
  return uses(kernel, ({ op }) => op === 'uniform') || uniformsOf(kernel).length > 0
    ? [...lines, `constant ${entry}_args& args [[buffer(${buffers.length})]]`]
    : lines
}

/** The positions that are used. */
function builtins(body: Body, flat: boolean): string[] {
  const parameters: string[] = []
  for (const what of ['global', 'workgroup', 'grid', 'lane'] as const) {
    const [name, attribute] = POSITION[what]
    if ([...body.indices].some((axis) => axis.startsWith(`${what}.`)))
      parameters.push(`${flat ? 'uint' : 'uint3'} ${name} [[${attribute}]]`)
  }
  for (const what of ['lane', 'subgroup', 'sublane'] as const) {
    if (body.indices.has(what)) parameters.push(`uint ${SINGLE[what][0]} [[${SINGLE[what][1]}]]`)
  }
  return parameters
}

function sharedLine({ name, storage, length, atomic }: SharedArray, kernel: Kernel, body: Body): string {
  const type = atomic ? `atomic_${storage === 'i32' ? 'int' : 'uint'}` : storageType(storage)
  const inVectors = uses(
    kernel,
    ({ op, arg }) =>
      (op === 'load' || op === 'store') && (arg as { mem: string }).mem === name && (arg as { width?: number }).width !== undefined,
  )
  return `${inVectors ? 'alignas(16) ' : ''}threadgroup ${type} ${body.names.get(name)}[${length}];`
}

function tableLine({ name, dtype, values }: Table): string {
  const items = values.map((value) => constant(value, scalarOf(dtype), BARE).text)
  return `constant ${typeName(dtype)} ${name}[${values.length}] = { ${items.join(', ')} };`
}

/** A helper function that a body asked for by name: regrouped lanes, sums of lanes, guarded division, saturating conversion. */
function helper(name: string): string[] {
  const [what = '', dtype = 'i32', to = 'i32'] = name.split('_') as [string, DType, DType]
  if (what === 'join' || what.startsWith('slice')) {
    const parts = what === 'join' ? ['a', 'b'] : ['v']
    const parameters = parts.map((part) => `${typeName(dtype)} ${part}`).join(', ')
    return [`inline ${typeName(to)} ${name}(${parameters}) {`, `  return ${lanesText(to, dtype, what, parts.map(atom))};`, '}']
  }
  const type = typeName(dtype)
  const width = widthOf(dtype)
  if (what === 'sum') {
    const total = width === 2 ? 'v.x + v.y' : '(v.x + v.y) + (v.z + v.w)'
    return [`inline ${typeName(scalarOf(dtype))} ${name}(${type} v) {`, `  return ${total};`, '}']
  }
  const signed = scalarOf(dtype) === 'i32'
  if (what === 'to') {
    const from = typeName(vector('f32', width))
    const [low, high, below, above] = signed
      ? ['(-2147483647 - 1)', '2147483647', '-2147483648.0f', '2147483648.0f']
      : ['0u', '0xffffffffu', '0.0f', '4294967296.0f']
    if (width === 1) {
      const rest = signed ? `x >= ${below} ? int(x) : x < ${below} ? ${low} : 0` : 'x > 0.0f ? uint(x) : 0u'
      return [`inline ${type} ${name}(float x) {`, `  return x >= ${above} ? ${high} : ${rest};`, '}']
    }
    return [
      `inline ${type} ${name}(${from} x) {`,
      `  ${type} n = ${type}(select(${from}(0.0f), x, (x >= ${below}) & (x < ${above})));`,
      `  return select(select(n, ${type}(${low}), x < ${below}), ${type}(${high}), x >= ${above});`,
      '}',
    ]
  }
  const one = `${type}(1)`
  const bad = signed ? `(b == 0) | (b == -1)` : 'b == 0'
  if (width === 1) {
    const guard =
      what === 'div'
        ? signed
          ? 'b == 0 ? a : b == -1 ? int(0u - uint(a)) : a / b'
          : 'b == 0 ? a : a / b'
        : signed
          ? 'b == 0 || b == -1 ? 0 : a % b'
          : 'b == 0 ? 0 : a % b'
    return [`inline ${type} ${name}(${type} a, ${type} b) {`, `  return ${guard};`, '}']
  }
  const safe = `${type} safe = select(b, ${one}, ${bad});`
  const result = what === 'rem' ? 'a % safe' : signed ? 'select(a / safe, 0 - a, b == -1)' : 'a / safe'
  return [`inline ${type} ${name}(${type} a, ${type} b) {`, `  ${safe}`, `  return ${result};`, '}']
}
