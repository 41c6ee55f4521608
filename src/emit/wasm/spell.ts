// How each op of the kernel language is said in WebAssembly: one table, whose keys are what the target can do. Arithmetic,
// comparisons and bits are here; conversions in cast.ts, functions of f64 in math.ts, vectors, packed bytes and dot products in
// spell-vector.ts. Ops without an entry are decomposed before emission. Knows no memory and no statements.

import { type DType, isFloat, scalarOf, widthOf } from '../../base/dtype.ts'
import type { Node, NodeOf, NodeWith, SomeNode } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import { splatOf } from '../../ir/pass/constant.ts'
import type { Target } from '../../ir/target.ts'
import { cast, narrowMask, widenMask } from './cast.ts'
import { mathSpellings } from './math.ts'
import { type Bare, type Shape, type Speaker, type Spelling, type Spellings, refuse, shapeOf } from './speaker.ts'
import { vectorSpellings } from './spell-vector.ts'

type ByShape = Partial<Record<Shape, Bare>>

/** Operands in order, then the instruction for their type. */
const plain =
  (byShape: ByShape) =>
  (speaker: Speaker, node: SomeNode): void => {
    const [first] = node.src
    const name = first === undefined ? undefined : byShape[shapeOf(first.dtype)]
    if (name === undefined) return refuse(node)
    for (const each of node.src) speaker.say(each)
    return void speaker.f.emit(name)
  }
/** Instructions of floats, which are called alike. */
type FloatName = 'sqrt' | 'floor' | 'ceil' | 'trunc' | 'nearest' | 'neg' | 'abs' | 'add' | 'sub' | 'mul' | 'div'
const floats = <N extends FloatName>(name: N) =>
  ({ f32: `f32.${name}`, f32x: `f32x4.${name}`, f64: `f64.${name}`, f64x: `f64x2.${name}` }) as const
const float = (name: FloatName) => plain(floats(name))
/** Instructions that are alike for both signs. */
const arithmetic = (name: 'add' | 'sub' | 'mul') =>
  plain({ ...floats(name), i32: `i32.${name}`, u32: `i32.${name}`, i32x: `i32x4.${name}`, u32x: `i32x4.${name}` })
const bits = (one: Bare, four: Bare) => plain({ i32: one, u32: one, bool: one, i32x: four, u32x: four, boolx: four })

type Comparison = 'lt' | 'le' | 'gt' | 'ge'
type Equality = 'eq' | 'ne'

const compare = (name: Comparison | Equality, integers: ByShape): Spelling<2> => {
  const simple = plain({ ...integers, f32: `f32.${name}`, f32x: `f32x4.${name}`, f64: `f64.${name}`, f64x: `f64x2.${name}` })
  return (speaker, node) => {
    simple(speaker, node)
    if (shapeOf(node.src[0].dtype) === 'f64x') narrowMask(speaker)
  }
}
const order = (name: Comparison) =>
  compare(name, { i32: `i32.${name}_s`, u32: `i32.${name}_u`, i32x: `i32x4.${name}_s`, u32x: `i32x4.${name}_u` })
const equal = (name: Equality) => compare(name, { i32: `i32.${name}`, u32: `i32.${name}`, i32x: `i32x4.${name}`, u32x: `i32x4.${name}` })

/** `b < a ? b : a`, or with the greater: just as the language says it, also for NaN and -0. */
const extreme = (name: 'min' | 'max'): Spelling<2> => {
  const vectors = plain({ f32x: `f32x4.p${name}`, f64x: `f64x2.p${name}`, i32x: `i32x4.${name}_s`, u32x: `i32x4.${name}_u` })
  const than = name === 'min' ? 'lt' : 'gt'
  const betters: ByShape = { f32: `f32.${than}`, f64: `f64.${than}`, i32: `i32.${than}_s`, u32: `i32.${than}_u` }
  return (speaker, node) => {
    const shape = shapeOf(node.dtype)
    const better = betters[shape]
    if (better === undefined) return vectors(speaker, node)
    const { f } = speaker
    const type = shape === 'f32' || shape === 'f64' ? shape : 'i32'
    return speaker.lend(type, (a) =>
      speaker.lend(type, (b) => {
        speaker.say(node.src[0])
        f.localSet(a)
        speaker.say(node.src[1])
        f.localTee(b).localGet(a).localGet(b).localGet(a).emit(better).emit('select')
      }),
    )
  }
}

/** Leaves a vector made of what `write` leaves for each lane. */
function eachLane(speaker: Speaker, dtype: DType, write: (lane: number) => void): void {
  const { f } = speaker
  for (let lane = 0; lane < widthOf(dtype); lane++) {
    write(lane)
    if (lane === 0) f.emit('i32x4.splat')
    else f.emit('i32x4.replace_lane', lane)
  }
}

/** Operations on integers that WASM has for scalars only; `write` finds both operands in locals. */
function laneByLane(speaker: Speaker, node: NodeWith<2>, write: (a: number, b: number) => void): void {
  const { f } = speaker
  speaker.lend('i32', (a) =>
    speaker.lend('i32', (b) => {
      if (widthOf(node.dtype) === 1) {
        speaker.say(node.src[0])
        f.localSet(a)
        speaker.say(node.src[1])
        f.localSet(b)
        return write(a, b)
      }
      return speaker.lend('v128', (as) =>
        speaker.lend('v128', (bs) => {
          speaker.say(node.src[0])
          f.localSet(as)
          speaker.say(node.src[1])
          f.localSet(bs)
          eachLane(speaker, node.dtype, (lane) => {
            f.localGet(as).emit('i32x4.extract_lane', lane).localSet(a)
            f.localGet(bs).emit('i32x4.extract_lane', lane).localSet(b)
            write(a, b)
          })
        }),
      )
    }),
  )
}

/** x / 0 is x and x % 0 is 0, which is what a divisor of 1 gives; so it does for MIN / -1, where WASM would trap. */
const divide =
  (rest: boolean): Spelling<2> =>
  (speaker, node) => {
    if (isFloat(node.dtype)) return float('div')(speaker, node)
    const { f } = speaker
    const signed = scalarOf(node.dtype) === 'i32'
    const name = rest ? (signed ? 'i32.rem_s' : 'i32.rem_u') : signed ? 'i32.div_s' : 'i32.div_u'
    const divisor = splatOf(node.src[1])
    const safe = divisor !== undefined && divisor !== 0 && (divisor | 0) !== -1
    if (safe && widthOf(node.dtype) === 1) return plain({ i32: name, u32: name })(speaker, node)
    if (safe) return divideBy(speaker, node, divisor, name)
    return laneByLane(speaker, node, (a, b) => {
      f.localGet(a).i32Const(1).localGet(b).localGet(b).emit('i32.eqz')
      if (signed && !rest) {
        f.localGet(a).i32Const(-0x80000000).emit('i32.eq').localGet(b).i32Const(-1).emit('i32.eq').emit('i32.and').emit('i32.or')
      }
      f.emit('select').emit(name)
    })
  }

function divideBy(speaker: Speaker, node: NodeWith<2>, divisor: number, name: Bare): void {
  const { f } = speaker
  speaker.lend('v128', (all) => {
    speaker.say(node.src[0])
    f.localSet(all)
    eachLane(speaker, node.dtype, (lane) => f.localGet(all).emit('i32x4.extract_lane', lane).i32Const(divisor).emit(name))
  })
}

/** WASM shifts all lanes by one count, modulo 32 like the language. */
const shift =
  (left: boolean): Spelling<2> =>
  (speaker, node) => {
    const signed = scalarOf(node.dtype) === 'i32'
    const one = left ? 'i32.shl' : signed ? 'i32.shr_s' : 'i32.shr_u'
    const four = left ? 'i32x4.shl' : signed ? 'i32x4.shr_s' : 'i32x4.shr_u'
    if (widthOf(node.dtype) === 1) return plain({ i32: one, u32: one })(speaker, node)
    const count = node.src[1]
    const { f } = speaker
    if (count.op === 'splat') {
      speaker.say(node.src[0])
      speaker.say(count.src[0])
      return void f.emit(four)
    }
    if (speaker.isSplat(count)) {
      speaker.say(node.src[0])
      speaker.say(count)
      return void f.emit('i32x4.extract_lane', 0).emit(four)
    }
    const counts = count.op === 'vec' ? count.src.map(splatOf) : []
    if (counts.length > 0 && counts.every((each) => each !== undefined)) return shiftByConstants(speaker, node, counts, four)
    return laneByLane(speaker, node, (a, b) => {
      f.localGet(a).localGet(b).emit(one)
    })
  }

/** All lanes by each count that occurs, then the right lanes of each. */
function shiftByConstants(
  speaker: Speaker,
  node: NodeWith<2>,
  counts: readonly number[],
  name: 'i32x4.shl' | 'i32x4.shr_s' | 'i32x4.shr_u',
): void {
  const { f } = speaker
  speaker.lend('v128', (all) => {
    speaker.say(node.src[0])
    f.localSet(all)
    for (const [index, count] of [...new Set(counts)].entries()) {
      f.localGet(all).i32Const(count).emit(name)
      f.v128Const(
        'i32x4',
        [0, 1, 2, 3].map((lane) => (counts[lane] === count ? -1 : 0)),
      ).emit('v128.and')
      if (index > 0) f.emit('v128.or')
    }
  })
}

function negate(speaker: Speaker, node: NodeWith<1>): void {
  if (shapeOf(node.dtype) === 'i32' || shapeOf(node.dtype) === 'u32') {
    speaker.f.i32Const(0)
    speaker.say(node.src[0])
    speaker.f.emit('i32.sub')
  } else plain({ ...floats('neg'), i32x: 'i32x4.neg', u32x: 'i32x4.neg' })(speaker, node)
}

function absolute(speaker: Speaker, node: NodeWith<1>): void {
  const { f } = speaker
  if (scalarOf(node.dtype) === 'u32') return speaker.say(node.src[0])
  if (node.dtype !== 'i32') return plain({ ...floats('abs'), i32x: 'i32x4.abs' })(speaker, node)
  return speaker.lend('i32', (value) =>
    speaker.lend('i32', (sign) => {
      speaker.say(node.src[0])
      f.localTee(value).localGet(value).i32Const(31).emit('i32.shr_s').localTee(sign).emit('i32.xor').localGet(sign).emit('i32.sub')
    }),
  )
}

function not(speaker: Speaker, node: NodeWith<1>): void {
  speaker.say(node.src[0])
  const shape = shapeOf(node.dtype)
  if (shape === 'bool') speaker.f.emit('i32.eqz')
  else if (shape === 'i32' || shape === 'u32') speaker.f.i32Const(-1).emit('i32.xor')
  else speaker.f.emit('v128.not')
}

function popcount(speaker: Speaker, node: NodeWith<1>): void {
  speaker.say(node.src[0])
  if (widthOf(node.dtype) === 1) speaker.f.emit('i32.popcnt')
  else speaker.f.emit('i8x16.popcnt').emit('i16x8.extadd_pairwise_i8x16_u').emit('i32x4.extadd_pairwise_i16x8_u')
}

function select(speaker: Speaker, node: NodeWith<3>): void {
  const [condition, yes, no] = node.src
  if (widthOf(node.dtype) > 1 && isZero(yes)) {
    speaker.say(no)
    speaker.say(condition)
    if (shapeOf(node.dtype) === 'f64x') widenMask(speaker)
    speaker.f.emit('v128.andnot')
    return
  }
  for (const each of [yes, no, condition]) speaker.say(each)
  if (shapeOf(node.dtype) === 'f64x') widenMask(speaker)
  speaker.f.emit(widthOf(node.dtype) === 1 ? 'select' : 'v128.bitselect')
}

/** Whether all bits of a value are known to be 0. */
function isZero(node: Node): boolean {
  return Object.is(splatOf(node), 0)
}

/** What an instruction of floats is called for a node's type: `f32x4.` */
function prefixOf(node: SomeNode): 'f32' | 'f32x4' | 'f64' | 'f64x2' {
  switch (shapeOf(node.dtype)) {
    case 'f32':
      return 'f32'
    case 'f32x':
      return 'f32x4'
    case 'f64':
      return 'f64'
    case 'f64x':
      return 'f64x2'
    default:
      return refuse(node)
  }
}

function fma(speaker: Speaker, node: NodeWith<3>): void {
  const prefix = prefixOf(node)
  speaker.say(node.src[0])
  speaker.say(node.src[1])
  if ((prefix === 'f32x4' || prefix === 'f64x2') && speaker.features.relaxed) {
    speaker.say(node.src[2])
    speaker.f.emit(`${prefix}.relaxed_madd`)
    return
  }
  speaker.f.emit(`${prefix}.mul`)
  speaker.say(node.src[2])
  speaker.f.emit(`${prefix}.add`)
}

function rsqrt(speaker: Speaker, node: NodeWith<1>): void {
  const prefix = prefixOf(node)
  if (prefix === 'f32') speaker.f.f32Const(1)
  else if (prefix === 'f64') speaker.f.f64Const(1)
  else speaker.f.v128Const(prefix, prefix === 'f32x4' ? [1, 1, 1, 1] : [1, 1])
  speaker.say(node.src[0])
  speaker.f.emit(`${prefix}.sqrt`).emit(`${prefix}.div`)
}

function bitcast(speaker: Speaker, node: NodeWith<1>): void {
  const from = shapeOf(node.src[0].dtype)
  const to = shapeOf(node.dtype)
  speaker.say(node.src[0])
  if (from === 'f32' && to !== 'f32') speaker.f.emit('i32.reinterpret_f32')
  else if (from !== 'f32' && to === 'f32') speaker.f.emit('f32.reinterpret_i32')
}

function constant({ f }: Speaker, { dtype, arg }: NodeOf<'const'>): void {
  if (dtype === 'f32') f.f32Const(Number(arg))
  else if (dtype === 'f64') f.f64Const(Number(arg))
  else f.i32Const(Number(arg))
}

/** A table is padded to a power of two, so that an index too large cannot leave it. */
function table(speaker: Speaker, node: NodeOf<'table'>): void {
  const { f } = speaker
  const offset = speaker.table(node)
  speaker.say(node.src[0])
  f.i32Const(tableLength(node) - 1)
    .emit('i32.and')
    .i32Const(2)
    .emit('i32.shl')
    .emit('i32.add')
  if (node.dtype === 'f32') f.emit('f32.load', { offset })
  else f.emit('i32.load', { offset })
}

export function tableLength({ arg }: NodeOf<'table'>): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, arg.length)))
}

/** Every pure op that WebAssembly can say itself, but leaves that need the emitter's own tables. */
export const spellings = {
  const: constant,
  table,
  neg: negate,
  abs: absolute,
  add: arithmetic('add'),
  sub: arithmetic('sub'),
  mul: arithmetic('mul'),
  div: divide(false),
  rem: divide(true),
  min: extreme('min'),
  max: extreme('max'),
  fma,
  sqrt: float('sqrt'),
  rsqrt,
  floor: float('floor'),
  ceil: float('ceil'),
  trunc: float('trunc'),
  rint: float('nearest'),
  lt: order('lt'),
  le: order('le'),
  gt: order('gt'),
  ge: order('ge'),
  eq: equal('eq'),
  ne: equal('ne'),
  not,
  and: bits('i32.and', 'v128.and'),
  or: bits('i32.or', 'v128.or'),
  xor: bits('i32.xor', 'v128.xor'),
  shl: shift(true),
  shr: shift(false),
  popcount,
  select,
  cast,
  bitcast,
  ...vectorSpellings,
} as const satisfies Spellings

/** Ops that the emitter itself says: leaves, memory, variables. */
const OWN = ['index', 'uniform', 'local', 'load', 'atomic', 'get'] as const satisfies readonly OpName[]

export const wasmTarget: Target = {
  name: 'wasm',
  // the keys of a table of spellings are names of ops
  spells: new Set<OpName>([...(Object.keys(spellings) as OpName[]), ...OWN]),
  lanes: false,
  subgroup: 0,
  tiles: false,
  half: false,
  // the keys of a table of spellings are names of ops
  double: { width: 2, spells: new Set(Object.keys(mathSpellings) as OpName[]) },
  narrow: true,
  width: 4,
}
