// WebGPU Shading Language as a dialect. All memory is whole 32-bit words (or f16 where the device has it); the passes have seen to
// that. The language refuses constants that overflow, so infinities are made at run time. What stands around a kernel's body is
// in ../wgsl.ts.

import { type DType, type Storage, registerOf, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Node } from '../../ir/node.ts'
import { indexRecord } from '../../ir/op/position.ts'
import { constantOf, constantText } from '../clike/constant.ts'
import type { ConstantWords, Dialect } from '../clike/dialect.ts'
import {
  COMPONENTS,
  LEVEL,
  type Speaker,
  type Spelling,
  type Spellings,
  type Text,
  atom,
  binary,
  call,
  callWithArg,
  infix,
  pair,
  prefix,
  within,
} from '../clike/expression.ts'
import { words } from '../clike/name.ts'
import { sharesBuffers } from '../clike/program.ts'
import {
  type Parameter,
  calls,
  divide,
  operators,
  selectCall,
  shaderScalar,
  shaderSpellings,
  subscript,
  tableEntry,
} from '../clike/spelling.ts'

const LETTER = { f32: 'f', f16: 'h', i32: 'i', u32: 'u' } as const

function typeName(dtype: DType): string {
  const scalar = shaderScalar(scalarOf(dtype))
  const width = widthOf(dtype)
  return width === 1 ? scalar : scalar === 'bool' ? `vec${width}<bool>` : `vec${width}${LETTER[scalar]}`
}

export function storageType(storage: Storage, atomic: boolean): string {
  const type = typeName(registerOf(storage))
  return atomic ? `atomic<${type}>` : type
}

/** A function that returns what the last line says. */
function define(name: string, parameters: readonly Parameter[], result: DType, value: string, ...before: readonly string[]): string[] {
  const given = parameters.map((each) => `${each.name}: ${typeName(each.dtype)}`).join(', ')
  return [`fn ${name}(${given}) -> ${typeName(result)} {`, ...before.map((line) => `  ${line}`), `  return ${value};`, '}']
}

export const CONSTANTS: ConstantWords = {
  smallest: 'i32(-2147483648)',
  bareBelow: Infinity,
  endless: { f32: ['inf()', '-inf()', 'nan()'], f16: ['f16(inf())', 'f16(-inf())', 'f16(nan())'] },
  helper: (what) => () => define(what, [], 'f32', 'bitcast<f32>(bits)', `var bits = ${what === 'inf' ? '0x7f800000u' : '0x7fc00000u'};`),
}

/** From f32 to integers: the language's own conversion stops at the largest float below the limit, and leaves NaN open. */
function saturate(name: string, to: DType): string[] {
  const [bits, from] = [vector('u32', widthOf(to)), vector('f32', widthOf(to))]
  const all = (dtype: DType, text: string): string => (widthOf(to) > 1 ? `${typeName(dtype)}(${text})` : text)
  const [limit, most, zero] = scalarOf(to) === 'i32' ? ['2147483648.0f', '2147483647', '0'] : ['4294967296.0f', '0xffffffffu', '0u']
  const nothing = widthOf(to) > 1 ? `${typeName(to)}(0)` : zero
  const isNan = `(bitcast<${typeName(bits)}>(x) & ${all(bits, '0x7fffffffu')}) > ${all(bits, '0x7f800000u')}`
  const value = `select(select(${typeName(to)}(x), ${all(to, most)}, x >= ${all(from, limit)}), ${nothing}, ${isNan})`
  return define(name, [{ name: 'x', dtype: from }], to, value)
}

const swizzle = (from: Text, first: number, width: number): Text =>
  atom(`${within(from, LEVEL.atom)}.${COMPONENTS.slice(first, first + width).join('')}`)

/** True for what the compiler computes itself, and refuses if it goes wrong. */
const isConstant = ({ op, src }: Node): boolean => op === 'const' || (src.length > 0 && op !== 'table' && src.every(isConstant))

const unsigned = (node: Node, type: string, speaker: Speaker): Text =>
  scalarOf(node.dtype) === 'u32' ? speaker.say(node) : atom(`${type}(${speaker.say(node).text})`)

/** The language takes shift counts modulo 32 itself, but wants them unsigned, and refuses large constants. */
const shift =
  (operator: '<<' | '>>'): Spelling<2> =>
  ({ dtype, src: [value, by] }, speaker) => {
    const count = constantOf(by)
    const type = typeName(vector('u32', widthOf(dtype)))
    const right =
      count !== undefined
        ? atom(type === 'u32' ? String(count & 31) : `${type}(${count & 31})`)
        : isConstant(by)
          ? binary(unsigned(by, type, speaker), '&', atom(`${type}(31)`), LEVEL.bitAnd)
          : unsigned(by, type, speaker)
    return binary(speaker.say(value), operator, right, LEVEL.shift)
  }

/** Division by zero is defined as we want it, except that a constant zero does not compile. */
const isNotZero = (divisor: number | undefined): boolean => divisor !== 0

/** Drivers compute it from exponentials, which overflow and give NaN; past 10 it is 1 in both f32 and f16. */
const tanh: Spelling = ({ dtype, src: [x] }, speaker) => {
  const end = constantText(CONSTANTS, 10, scalarOf(dtype)).text
  const [low, high] = [`-${end}`, end].map((text) => (widthOf(dtype) === 1 ? text : `${typeName(dtype)}(${text})`))
  return atom(`tanh(clamp(${speaker.say(x).text}, ${low}, ${high}))`)
}

/** Dot products of packed bytes exist on single words; a vector of them is a helper. */
const dot: Spelling<3> = ({ dtype, src: [a, b, sum] }, speaker) => {
  const packed = vector('u32', widthOf(dtype))
  const word = (node: Node): string => {
    const { text } = speaker.say(node)
    return a.dtype === packed ? text : `bitcast<${typeName(packed)}>(${text})`
  }
  if (widthOf(dtype) === 1) return binary(speaker.say(sum), '+', atom(`dot4I8Packed(${word(a)}, ${word(b)})`), LEVEL.add)
  const name = `dot_${dtype}`
  const parts = COMPONENTS.slice(0, widthOf(dtype)).map((each) => `dot4I8Packed(a.${each}, b.${each})`)
  const parameters = ['a', 'b'].map((each) => ({ name: each, dtype: packed }))
  speaker.need(name, () => define(name, parameters, dtype, `${typeName(dtype)}(${parts.join(', ')})`))
  return binary(speaker.say(sum), '+', atom(`${name}(${word(a)}, ${word(b)})`), LEVEL.add)
}

const shader = shaderSpellings({ typeName, define, saturate })

export const spell = {
  // a scalar may stand beside a vector in arithmetic only
  ...operators({ compare: pair, bits: () => pair }),
  ...shader,
  ...calls({ rsqrt: 'inverseSqrt', rint: 'round', popcount: 'countOneBits' }),
  ...calls({ unpackU8: 'unpack4xU8', unpackI8: 'unpack4xI8', unpackF16: 'unpack2x16float', packF16: 'pack2x16float' }),
  ...calls({ subSum: 'subgroupAdd', subMax: 'subgroupMax', subMin: 'subgroupMin', subAny: 'subgroupAny', subAll: 'subgroupAll' }),
  ...calls({ subShuffle: 'subgroupShuffle' }),
  subBroadcast: callWithArg('subgroupBroadcast', 'u'),
  subShuffleXor: callWithArg('subgroupShuffleXor', 'u'),
  subShuffleDown: callWithArg('subgroupShuffleDown', 'u'),
  tanh,
  neg: (node, speaker) =>
    scalarOf(node.dtype) === 'u32' ? binary(atom('0u'), '-', speaker.say(node.src[0]), LEVEL.add) : prefix('-')(node, speaker),
  div: divide('/', isNotZero, (node, speaker) => speaker.say(node.src[0])),
  rem: divide('%', isNotZero, ({ dtype }) => atom(`${typeName(dtype)}(0)`)),
  shl: shift('<<'),
  shr: shift('>>'),
  xor: (node, speaker) => (scalarOf(node.dtype) === 'bool' ? infix('!=', LEVEL.compare) : infix('^', LEVEL.bitXor))(node, speaker),
  select: selectCall,
  join: shader.vec,
  bitcast: (node, speaker) => atom(`bitcast<${typeName(node.dtype)}>(${speaker.say(node.src[0]).text})`),
  extract: (node, speaker) => swizzle(speaker.say(node.src[0]), node.arg, 1),
  slice: (node, speaker) => swizzle(speaker.say(node.src[0]), node.arg, widthOf(node.dtype)),
  packI8: (node, speaker) => call(node.src[0].dtype === 'i32x4' ? 'pack4xI8' : 'pack4xU8')(node, speaker),
  table: (node, speaker) => {
    const known = constantOf(node)
    return known === undefined ? tableEntry(node, speaker) : constantText(CONSTANTS, known, scalarOf(node.dtype), {}, speaker)
  },
  dotI8: dot,
  dotU7I8: dot,
} as const satisfies Spellings

/** Positions along axes: what a parameter is called, and the built-in value that fills it. */
export const POSITION = {
  global: { name: 'gid', builtin: 'global_invocation_id' },
  workgroup: { name: 'group', builtin: 'workgroup_id' },
  grid: { name: 'grid', builtin: 'num_workgroups' },
  lane: { name: 'tid', builtin: 'local_invocation_id' },
} as const

const RESERVED = words(`
  alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop override
  requires return struct switch true var while array atomic bool f16 f32 i32 u32 ptr sampler vec2 vec3 vec4 vec2f vec2h vec2i
  vec2u vec4f vec4h vec4i vec4u bitcast NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await
  become binding_array cast catch class co_await co_return co_yield coherent column_major common compile compile_fragment concept
  const_cast consteval constexpr constinit crate debugger decltype delete demote demote_to_helper do dynamic_cast enum explicit
  export extends extern external fallthrough filter final finally friend from fxgroup get goto groupshared highp impl implements
  import inline instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut mutable namespace new
  nil noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr of operator package packoffset
  partition pass patch pixelfragment precise precision premerge priv protected pub public readonly ref regardless register
  reinterpret_cast require resource restrict self set shared sizeof smooth snorm static static_assert static_cast std subroutine
  super target template this thread_local throw trait try type typedef typeid typename typeof union unless unorm unsafe unsized
  use using varying virtual volatile wgsl where with writeonly yield abs acos all any asin atan ceil clamp cos countOneBits cross
  degrees distance dot exp exp2 extractBits floor fma fract frexp insertBits inverseSqrt ldexp length log log2 max min mix modf
  normalize pow radians reflect refract reverseBits round saturate select sign sin sinh cosh smoothstep sqrt step tan tanh
  transpose trunc workgroup storage uniform private function read write read_write args main group grid gid tid lane sublane inf
  nan`)

export const wgslDialect = (kernel: Kernel): Dialect => ({
  reserved: RESERVED,
  spell,
  constants: CONSTANTS,
  atomics: { load: 'atomicLoad', store: 'atomicStore', change: (kind) => `atomic${kind[0]?.toUpperCase()}${kind.slice(1)}`, order: '' },
  endless: 'loop {',
  displaces: false,
  uniform: 'args.',
  index: (name) => {
    const { of, axis } = indexRecord(name)
    if (axis !== undefined) return atom(`${POSITION[of].name}.${axis}`)
    // the language has no number of the subgroup on all implementations; they number lanes in order
    return of === 'subgroup' ? binary(atom('lane'), '/', atom(String(Math.max(1, kernel.subgroup))), LEVEL.mul) : atom(of)
  },
  global: (axis) => atom(`${POSITION.global.name}.${axis}`),
  let: (_dtype, name, value) => `let ${name} = ${value};`,
  var: (_dtype, name, value) => `var ${name} = ${value};`,
  counter: (name) => `var ${name}: u32`,
  unroll: () => undefined,
  barrier: () => (sharesBuffers(kernel) ? 'workgroupBarrier();\nstorageBarrier();' : 'workgroupBarrier();'),
  load: (access) => subscript(access.name, access.index),
  store: (access, value) => `${subscript(access.name, access.index).text} = ${value.text};`,
})
