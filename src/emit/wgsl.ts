// WebGPU Shading Language. Optional features (f16, subgroups) are enabled only by kernels that use them. All memory is whole
// 32-bit words (or f16 where the device has it); the passes have seen to that. Buffers are bindings 0, 1, 2... of group 0, the
// uniforms follow as one struct. WGSL refuses constants that overflow, so infinities are made at run time.

import { type DType, type Scalar, type Storage, isFloat, isInteger, scalarOf, storageScalar, vector, widthOf } from '../base/dtype.ts'
import { type Kernel, buffersOf, uniformsOf, uses } from '../ir/kernel.ts'
import type { Node } from '../ir/node.ts'
import type { OpName } from '../ir/op.ts'
import { lower } from '../ir/pass/index.ts'
import type { Target } from '../ir/target.ts'
import type { Caps, Source } from './caps.ts'
import {
  type Access,
  type Body,
  type Dialect,
  constantOf,
  describe,
  fitsInteger,
  targetFor,
  sharesBuffers,
  subscript,
  usesSubgroups,
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
  infix,
  prefix,
  spread,
  unary,
  within,
} from './text.ts'

const LETTER = { f32: 'f', f16: 'h', i32: 'i', u32: 'u' } as const

function typeName(dtype: DType): string {
  const scalar = scalarOf(dtype)
  const width = widthOf(dtype)
  return width === 1 ? scalar : scalar === 'bool' ? `vec${width}<bool>` : `vec${width}${LETTER[scalar]}`
}

function storageType(storage: Storage, atomic: boolean): string {
  const type = typeName(vector(storageScalar(storage) as Scalar, widthOf(storage)))
  return atomic ? `atomic<${type}>` : type
}

function constant(value: number | boolean, scalar: Scalar, { bare, hex: pattern }: Manner, speaker?: Speaker): Text {
  const number = Number(value)
  if (scalar === 'bool') return atom(number !== 0 ? 'true' : 'false')
  if (scalar === 'f32' || scalar === 'f16') {
    const digits = !Number.isFinite(number) ? undefined : scalar === 'f32' ? floatDigits(number) : halfDigits(number)
    if (digits !== undefined) return (digits.startsWith('-') ? unary : atom)(digits + LETTER[scalar])
    const special = Number.isNaN(number) ? 'nan' : 'inf'
    speaker?.need(special)
    const text = `${number < 0 ? '-' : ''}${special}()`
    return scalar === 'f16' ? atom(`f16(${text})`) : text.startsWith('-') ? unary(text) : atom(text)
  }
  if (number === -(2 ** 31)) return atom('i32(-2147483648)')
  if (number < 0) return unary(String(number))
  const digits = (pattern === true && number > 9) || number >= 2 ** 24 ? hex(number) : String(number)
  return atom(scalar === 'u32' && bare !== true ? `${digits}u` : digits)
}

const operand = (node: Node, index = 0): Node => node.src[index] as Node
/** Several different constants together are a pattern of bits. */
const construct = (node: Node, speaker: Speaker): Text =>
  atom(`${typeName(node.dtype)}(${node.src.map((part) => speaker.say(part, { hex: node.op === 'vec' }).text).join(', ')})`)
const swizzle = (from: Text, first: number, width: number): Text =>
  atom(`${within(from, LEVEL.atom)}.${AXES.slice(first, first + width).join('')}`)

/** True for what the compiler computes itself, and refuses if it goes wrong. */
const isConstant = ({ op, src }: Node): boolean => op === 'const' || (src.length > 0 && op !== 'table' && src.every(isConstant))

const unsigned = (node: Node, type: string, speaker: Speaker): Text =>
  scalarOf(node.dtype) === 'u32' ? speaker.say(node) : atom(`${type}(${speaker.say(node).text})`)

/** The language takes shift counts modulo 32 itself, but wants them unsigned, and refuses large constants. */
const shift =
  (operator: string): Spelling =>
  (node, speaker) => {
    const [value, by] = node.src as [Node, Node]
    const count = constantOf(by)
    const type = typeName(vector('u32', widthOf(node.dtype)))
    const right =
      count !== undefined
        ? atom(type === 'u32' ? String(count & 31) : `${type}(${count & 31})`)
        : isConstant(by)
          ? binary(unsigned(by, type, speaker), '&', atom(`${type}(31)`), LEVEL.bitAnd)
          : unsigned(by, type, speaker)
    return binary(speaker.say(value), operator, right, LEVEL.shift)
  }

/** Division by zero is defined as we want it, except that a constant zero does not compile. */
const divide =
  (operator: '/' | '%'): Spelling =>
  (node, speaker) => {
    if (isFloat(node.dtype) || constantOf(operand(node, 1)) !== 0) return infix(operator, LEVEL.mul, spread)(node, speaker)
    return operator === '/' ? speaker.say(operand(node)) : atom(`${typeName(node.dtype)}(0)`)
  }

const cast: Spelling = (node, speaker) => {
  const from = operand(node)
  if (!isInteger(node.dtype) || !isFloat(from.dtype) || fitsInteger(from, scalarOf(node.dtype))) return construct(node, speaker)
  const name = `to_${node.dtype}`
  speaker.need(name)
  const { text } = speaker.say(from)
  return atom(`${name}(${scalarOf(from.dtype) === 'f16' ? `${typeName(vector('f32', widthOf(from.dtype)))}(${text})` : text})`)
}

/** Drivers compute it from exponentials, which overflow and give NaN; past 10 it is 1 in both f32 and f16. */
const tanh: Spelling = (node, speaker) => {
  const end = constant(10, scalarOf(node.dtype), {}).text
  const [low, high] = [`-${end}`, end].map((text) => (widthOf(node.dtype) === 1 ? text : `${typeName(node.dtype)}(${text})`))
  return atom(`tanh(clamp(${speaker.say(operand(node)).text}, ${low}, ${high}))`)
}

const logic =
  (scalarOperator: string, scalarLevel: number, operator: string, level: number): Spelling =>
  (node, speaker) =>
    (node.dtype === 'bool' ? infix(scalarOperator, scalarLevel) : infix(operator, level))(node, speaker)
/** The sum of a product's elements is a dot product; any other sum is a helper. */
const hsum: Spelling = (node, speaker) => {
  const from = operand(node)
  if (from.op === 'mul' && isFloat(node.dtype)) return call('dot')(from, speaker)
  speaker.need(`sum ${from.dtype}`)
  return call(`sum_${from.dtype}`)(node, speaker)
}

/** Dot products of packed bytes exist on single words; a vector of them is a helper. */
const dot: Spelling = (node, speaker) => {
  const [a, b, sum] = node.src.map((part) => speaker.say(part)) as [Text, Text, Text]
  const packed = vector('u32', widthOf(node.dtype))
  const word = ({ text }: Text): string => (operand(node).dtype === packed ? text : `bitcast<${typeName(packed)}>(${text})`)
  if (widthOf(node.dtype) === 1) return binary(sum, '+', atom(`dot4I8Packed(${word(a)}, ${word(b)})`), LEVEL.add)
  speaker.need(`dot ${node.dtype}`)
  return binary(sum, '+', atom(`dot_${node.dtype}(${word(a)}, ${word(b)})`), LEVEL.add)
}

const spell = {
  neg: (node, speaker) =>
    scalarOf(node.dtype) === 'u32' ? binary(atom('0u'), '-', speaker.say(operand(node)), LEVEL.add) : prefix('-')(node, speaker),
  abs: (node, speaker) => (scalarOf(node.dtype) === 'u32' ? speaker.say(operand(node)) : call('abs')(node, speaker)),
  add: infix('+', LEVEL.add, spread),
  sub: infix('-', LEVEL.add, spread),
  mul: infix('*', LEVEL.mul, spread),
  div: divide('/'),
  rem: divide('%'),
  min: call('min'),
  max: call('max'),
  fma: call('fma'),
  sqrt: call('sqrt'),
  rsqrt: call('inverseSqrt'),
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
  tanh,
  pow: call('pow'),
  floor: call('floor'),
  ceil: call('ceil'),
  trunc: call('trunc'),
  rint: call('round'),
  lt: infix('<', LEVEL.compare),
  le: infix('<=', LEVEL.compare),
  gt: infix('>', LEVEL.compare),
  ge: infix('>=', LEVEL.compare),
  eq: infix('==', LEVEL.compare),
  ne: infix('!=', LEVEL.compare),
  not: (node, speaker) => prefix(scalarOf(node.dtype) === 'bool' ? '!' : '~')(node, speaker),
  and: logic('&&', LEVEL.and, '&', LEVEL.bitAnd),
  or: logic('||', LEVEL.or, '|', LEVEL.bitOr),
  xor: (node, speaker) => (scalarOf(node.dtype) === 'bool' ? infix('!=', LEVEL.compare) : infix('^', LEVEL.bitXor))(node, speaker),
  shl: shift('<<'),
  shr: shift('>>'),
  popcount: call('countOneBits'),
  select: (node, speaker) => {
    const [condition, yes, no] = node.src.map((part) => speaker.say(part)) as [Text, Text, Text]
    return atom(`select(${no.text}, ${yes.text}, ${condition.text})`)
  },
  cast,
  splat: construct,
  vec: construct,
  join: construct,
  hsum,
  bitcast: (node, speaker) => atom(`bitcast<${typeName(node.dtype)}>(${speaker.say(operand(node)).text})`),
  extract: (node, speaker) => swizzle(speaker.say(operand(node)), Number(node.arg), 1),
  slice: (node, speaker) => swizzle(speaker.say(operand(node)), Number(node.arg), widthOf(node.dtype)),
  unpackU8: call('unpack4xU8'),
  unpackI8: call('unpack4xI8'),
  unpackF16: call('unpack2x16float'),
  packF16: call('pack2x16float'),
  packI8: (node, speaker) => call(operand(node).dtype === 'i32x4' ? 'pack4xI8' : 'pack4xU8')(node, speaker),
  table: (node, speaker) => {
    const known = constantOf(node)
    return known !== undefined
      ? constant(known, scalarOf(node.dtype), {}, speaker)
      : subscript(speaker.table(node), speaker.say(operand(node), BARE))
  },
  subSum: call('subgroupAdd'),
  subMax: call('subgroupMax'),
  subMin: call('subgroupMin'),
  subAny: call('subgroupAny'),
  subAll: call('subgroupAll'),
  subBroadcast: callWithArg('subgroupBroadcast', 'u'),
  subShuffle: call('subgroupShuffle'),
  subShuffleXor: callWithArg('subgroupShuffleXor', 'u'),
  subShuffleDown: callWithArg('subgroupShuffleDown', 'u'),
  dotI8: dot,
  dotU7I8: dot,
} as const satisfies Partial<Record<OpName, Spelling>>

const POSITION = {
  global: ['gid', 'global_invocation_id'],
  workgroup: ['group', 'workgroup_id'],
  grid: ['grid', 'num_workgroups'],
  lane: ['tid', 'local_invocation_id'],
} as const

const RESERVED = words(`
  alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop override requires return struct
  switch true var while array atomic bool f16 f32 i32 u32 ptr sampler vec2 vec3 vec4 vec2f vec2h vec2i vec2u vec4f vec4h vec4i vec4u bitcast
  NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become binding_array cast catch class co_await co_return
  co_yield coherent column_major common compile compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype delete demote
  demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter final finally friend from fxgroup get goto groupshared
  highp impl implements import inline instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut mutable namespace new nil
  noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr of operator package packoffset partition pass patch pixelfragment
  precise precision premerge priv protected pub public readonly ref regardless register reinterpret_cast require resource restrict self set shared sizeof
  smooth snorm static static_assert static_cast std subroutine super target template this thread_local throw trait try type typedef typeid typename typeof
  union unless unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield
  abs acos all any asin atan ceil clamp cos countOneBits cross degrees distance dot exp exp2 extractBits floor fma fract frexp insertBits inverseSqrt ldexp
  length log log2 max min mix modf normalize pow radians reflect refract reverseBits round saturate select sign sin sinh cosh smoothstep sqrt step tan tanh
  transpose trunc workgroup storage uniform private function read write read_write args main group grid gid tid lane sublane inf nan`)

const pointer = ({ name, index }: Access): string => `&${name}[${index.text}]`

const dialectFor = (kernel: Kernel): Dialect => ({
  reserved: RESERVED,
  spell,
  endless: 'loop {',
  globals: true,
  displaces: false,
  constant,
  index: (name) => {
    const [what, axis] = name.split('.') as [keyof typeof POSITION, string | undefined]
    if (axis !== undefined) return atom(`${POSITION[what][0]}.${axis}`)
    // the language has no number of the subgroup on all implementations; they number lanes in order
    return name === 'subgroup' ? binary(atom('lane'), '/', atom(String(Math.max(1, kernel.subgroup))), LEVEL.mul) : atom(name)
  },
  uniform: (name) => atom(`args.${name}`),
  let: (_dtype, name, value) => `let ${name} = ${value};`,
  var: (_dtype, name, value) => `var ${name} = ${value};`,
  forLoop: (name, from, to, step) =>
    `for (var ${name}: u32 = ${from}; ${name} < ${to}; ${step === '1' ? `${name}++` : `${name} += ${step}`}) {`,
  unroll: () => undefined,
  barrier: () => (sharesBuffers(kernel) ? 'workgroupBarrier();\nstorageBarrier();' : 'workgroupBarrier();'),
  load: (access) => (access.memory.atomic ? atom(`atomicLoad(${pointer(access)})`) : subscript(access.name, access.index)),
  store: (access, value) =>
    access.memory.atomic ? `atomicStore(${pointer(access)}, ${value.text});` : `${access.name}[${access.index.text}] = ${value.text};`,
  atomic: (access, kind, value) => atom(`atomic${kind[0]?.toUpperCase()}${kind.slice(1)}(${pointer(access)}, ${value.text})`),
})

/** What the passes must know about WGSL on a device with these abilities. */
export function wgslTarget(caps: Caps): Target {
  const spells = new Set(Object.keys(spell) as OpName[])
  return { name: 'wgsl', spells, lanes: true, subgroup: caps.subgroup, tiles: false, half: caps.f16, narrow: false, width: 4 }
}

/** A kernel as a complete WGSL module with one entry point. */
export function emitWgsl(kernel: Kernel, caps: Caps): Source {
  return writeWgsl(lower(kernel, targetFor(kernel, wgslTarget(caps))))
}

/** The text of a kernel that is lowered already. */
export function writeWgsl(kernel: Kernel): Source {
  const body = writeBody(kernel, dialectFor(kernel), 1, [kernel.name])
  const entry = RESERVED.has(kernel.name) ? `${kernel.name}_kernel` : kernel.name
  const lines = [`// ${describe(kernel)}`]
  const half =
    [...buffersOf(kernel), ...kernel.shared].some(({ storage }) => storageScalar(storage) === 'f16') ||
    uses(kernel, ({ dtype }) => dtype !== 'void' && scalarOf(dtype) === 'f16')
  if (half) lines.push('enable f16;')
  // subgroups are whole wherever the verifier let a subgroup operation stand, which WGSL's own analysis cannot see
  if (usesSubgroups(kernel)) {
    lines.push('enable subgroups;', 'diagnostic(off, subgroup_uniformity);')
  }
  lines.push('', ...bindings(kernel, body), '')
  for (const { name, storage, length, atomic } of kernel.shared) {
    lines.push(`var<workgroup> ${body.names.get(name)}: array<${storageType(storage, atomic)}, ${length}>;`)
  }
  for (const { name, dtype, values } of body.tables) {
    lines.push(
      `const ${name} = array<${typeName(dtype)}, ${values.length}>(${values.map((value) => constant(value, scalarOf(dtype), {}).text).join(', ')});`,
    )
  }
  if (kernel.shared.length + body.tables.length > 0) lines.push('')
  for (const key of [...body.needs].sort()) lines.push(...helper(key), '')
  const size = kernel.workgroup.slice(0, kernel.workgroup[2] > 1 ? 3 : kernel.workgroup[1] > 1 ? 2 : 1)
  const parameters = builtins(body)
  lines.push(`@compute @workgroup_size(${size.join(', ')})`)
  lines.push(...(parameters.length === 0 ? [`fn ${entry}() {`] : [`fn ${entry}(`, ...parameters.map((line) => `  ${line},`), ') {']))
  lines.push(...body.lines, '}', '')
  return { text: lines.join('\n'), entry, workgroup: kernel.workgroup }
}

function bindings(kernel: Kernel, body: Body): string[] {
  const buffers = buffersOf(kernel)
  const uniforms = uniformsOf(kernel)
  const lines = buffers.map(
    ({ name, storage, role, atomic }, index) =>
      `@group(0) @binding(${index}) var<storage, ${role === 'read' && !atomic ? 'read' : 'read_write'}> ${body.names.get(name)}: array<${storageType(storage, atomic)}>;`,
  )
  if (uniforms.length === 0) return lines
  // uniform blocks come in units of 16 bytes
  const padding = Array.from({ length: (4 - (uniforms.length % 4)) % 4 }, (_, index) => `  _pad${index}: u32,`)
  const fields = uniforms.map(({ name, dtype }) => `  ${body.names.get(name)}: ${dtype},`)
  return ['struct Args {', ...fields, ...padding, '}', ...lines, `@group(0) @binding(${buffers.length}) var<uniform> args: Args;`]
}

function builtins(body: Body): string[] {
  const names = [...body.indices]
  const lines = (['global', 'workgroup', 'grid', 'lane'] as const).flatMap((what) =>
    names.some((name) => name.startsWith(`${what}.`)) ? [`@builtin(${POSITION[what][1]}) ${POSITION[what][0]}: vec3u`] : [],
  )
  if (names.includes('lane') || names.includes('subgroup')) lines.push('@builtin(local_invocation_index) lane: u32')
  if (names.includes('sublane')) lines.push('@builtin(subgroup_invocation_id) sublane: u32')
  return lines
}

/** A helper function that a body asked for: infinities, sums of lanes, packed dots on vectors, conversion with NaN to 0. */
function helper(key: string): string[] {
  if (key === 'inf' || key === 'nan') {
    return [`fn ${key}() -> f32 {`, `  var bits = ${key === 'inf' ? '0x7f800000u' : '0x7fc00000u'};`, '  return bitcast<f32>(bits);', '}']
  }
  const [verb, name] = key.split(' ')
  if (verb === 'dot') {
    const [sum, word] = [name as DType, vector('u32', widthOf(name as DType))].map(typeName) as [string, string]
    const parts = AXES.slice(0, widthOf(name as DType)).map((axis) => `dot4I8Packed(a.${axis}, b.${axis})`)
    return [`fn dot_${name}(a: ${word}, b: ${word}) -> ${sum} {`, `  return ${sum}(${parts.join(', ')});`, '}']
  }
  if (verb === 'sum') {
    const dtype = name as DType
    const total = widthOf(dtype) === 2 ? 'v.x + v.y' : '(v.x + v.y) + (v.z + v.w)'
    return [`fn sum_${dtype}(v: ${typeName(dtype)}) -> ${typeName(scalarOf(dtype))} {`, `  return ${total};`, '}']
  }
  const to = key.slice(3) as DType
  const [type, bits, from] = [to, vector('u32', widthOf(to)), vector('f32', widthOf(to))].map(typeName) as [string, string, string]
  // the language's own conversion stops at the largest float below the limit, and leaves NaN open
  const [limit, most] = scalarOf(to) === 'i32' ? ['2147483648.0f', '2147483647'] : ['4294967296.0f', '0xffffffffu']
  const wide = widthOf(to) > 1
  const [threshold, top, zero] = wide
    ? [`${from}(${limit})`, `${type}(${most})`, `${type}(0)`]
    : [limit, most, scalarOf(to) === 'i32' ? '0' : '0u']
  const isNan = wide
    ? `(bitcast<${bits}>(x) & ${bits}(0x7fffffffu)) > ${bits}(0x7f800000u)`
    : '(bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u'
  return [`fn ${key}(x: ${from}) -> ${type} {`, `  return select(select(${type}(x), ${top}, x >= ${threshold}), ${zero}, ${isNan});`, '}']
}
