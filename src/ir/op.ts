// Every op of the kernel language, one record each, which says all there is to know about it: operands, types, argument, what
// it means in JavaScript, and the facts that passes, verifier and emitters decide by. Nobody else lists ops by such a fact.
// How an op is spelled in a language is in emit/; what a target cannot spell is decomposed by decompose.ts.
//
// Meanings work on single elements. Who computes rounds each result to the node's type (f32 through fround, f16 to nearest even, f64 as
// JavaScript's own numbers are, integers wrapped to 32 bits), so a meaning may be careless about that.
//
// Subnormal numbers, f32 below 2^-126 and f64 below 2^-1022, may be zero: a target may take one for zero as an operand, and give zero for
// one as a result, as GPUs do, and threads of native kernels (native/cpu/float.h), whose mode is about both types. A kernel must not rely
// on either. An f32 that is subnormal may become zero on its way to f64, too, where it would be normal.

import type { Scalar } from '../base/dtype.ts'
import { decodeHalf, encodeHalf } from '../base/half.ts'
import * as arg from './op/arg.ts'
import {
  type Meaning,
  convert,
  countBits,
  dotSigned,
  dotUnsigned,
  isInt,
  lookUp,
  pairsOf,
  reinterpret,
  roundHalfEven,
} from './op/meaning.ts'
import type { Level } from './op/position.ts'
import * as type from './op/type.ts'

/**
 * `pure`: its value depends on operands only; may be shared, moved and computed twice.
 * `effect`: its value depends on when it is computed; always the value of a `let`.
 * `statement`: has no value (dtype void); lives in a block.
 */
export type OpKind = 'pure' | 'effect' | 'statement'

/** A value of the first operand for which an op has no meaning: a kernel that computes it is wrong. */
export interface Excluded {
  readonly what: string
  readonly got: unknown
  readonly wanted: string
}

/** What an op may have besides its kind, operands and types. */
export interface OpFacts {
  /** how many operands may follow those that it needs */
  readonly more?: number
  /** kind of its argument; none: null */
  readonly arg?: arg.ArgKind<arg.Arg>

  /** Meaning of an op that works on each element alone, between these types. */
  readonly js?: (from: Scalar, to: Scalar, arg: arg.Arg) => Meaning
  /** Where it has none. */
  readonly excludes?: (arg: arg.Arg) => (a: number) => Excluded | undefined
  /** Element `e` of the result is an element of an operand: which operand, and which of its `width` elements. */
  readonly moves?: (e: number, arg: number, width: number) => readonly [operand: number, element: number]
  /** Element `e` of what a word holds. */
  readonly unpack?: (word: number, e: number) => number
  /** The bits of a word that element `e` becomes; the others are zero. */
  readonly pack?: (value: number, e: number) => number
  /** The op that combines all elements, or the values of all lanes, from the first to the last. */
  readonly reduces?: 'add' | 'max' | 'min' | 'or' | 'and'
  /** The lane of a subgroup whose value a lane gets; `operand` is its second operand. */
  readonly sourceLane?: (sublane: number, arg: number, operand: number) => number

  /** what it does to the memory that its argument names */
  readonly access?: 'read' | 'write' | 'update'
  /** all lanes of a subgroup must take part (`convergenceOf` of node.ts tells about barriers too) */
  readonly collective?: true
  /** works on 8x8 tiles */
  readonly tile?: true
  /** how far its value is the same, whatever its operands are; none: as far as all of them are */
  readonly uniform?: Exclude<Level, 'workgroup'>
  /** its argument names something: a value that stays, or a variable */
  readonly declares?: 'value' | 'variable'
  /** what the blocks among its operands are */
  readonly blocks?: 'branches' | 'loop'
  /** a op b and b op a have the same bits */
  readonly commutative?: true
  /** takes many cycles: worth moving out of a loop */
  readonly slow?: true
  /** of f16 operands it gives an f16 without rounding */
  readonly exact?: true
}

export interface OpRecord extends OpFacts {
  readonly kind: OpKind
  /** operands that it needs */
  readonly arity: number
  readonly type: type.TypeRule
}

/** A record whose number of operands and facts TypeScript knows exactly. */
type Exact<K extends OpKind, N extends number, F extends OpFacts> = {
  readonly kind: K
  readonly arity: N
  readonly type: type.TypeRule
} & NoInfer<F>

const pure = <N extends number, F extends OpFacts>(arity: N, rule: type.TypeRule, facts: F): Exact<'pure', N, F> => ({
  kind: 'pure',
  arity,
  type: rule,
  ...facts,
})
const effect = <N extends number, F extends OpFacts>(arity: N, rule: type.TypeRule, facts: F): Exact<'effect', N, F> => ({
  kind: 'effect',
  arity,
  type: rule,
  ...facts,
})
const statement = <N extends number, F extends OpFacts>(arity: N, facts: F): Exact<'statement', N, F> => ({
  kind: 'statement',
  arity,
  type: type.fixed('void'),
  ...facts,
})

const always = (meaning: Meaning) => (): Meaning => meaning
/** Functions of one float: those that take many steps, and those that round to whole numbers. */
const slowFloat = (f: (a: number) => number) => pure(1, type.floats, { js: always(f), slow: true })
const roundFloat = (f: (a: number) => number) => pure(1, type.floats, { js: always(f), exact: true })
const compare = (f: (a: number, b: number) => 0 | 1) => pure(2, type.comparison, { js: always(f) })

/** Combines the values of a subgroup's lanes; each gets the result. */
const combine = <F extends OpFacts>(rule: type.TypeRule, facts: F) =>
  effect(1, rule, { collective: true, uniform: 'subgroup', ...facts } as const)
/** Gives each lane the value of another. */
const shuffle = <F extends OpFacts>(facts: F) =>
  effect(1, type.numbers, { arg: arg.LANE, collective: true, exact: true, ...facts } as const)
const TILE = { collective: true, tile: true, uniform: 'subgroup' } as const

const hexadecimal = (word: number): string => `0x${(word >>> 0).toString(16)}`
/** Excludes words with bits outside of `mask`. */
const within =
  (mask: number, what: string, wanted: string) =>
  () =>
  (word: number): Excluded | undefined =>
    (word & ~mask) === 0 ? undefined : { what, got: hexadecimal(word), wanted }

export const OPS = {
  // leaves
  const: pure(0, type.stated(), { arg: arg.CONSTANT, exact: true }),
  index: pure(0, type.fixed('u32'), { arg: arg.INDEX }),
  uniform: pure(0, type.stated(), { arg: arg.UNIFORM }),
  local: pure(0, type.stated(), { arg: arg.ID, exact: true }),
  /** one of the constants in its argument */
  table: pure(1, type.indexed, {
    arg: arg.TABLE,
    js: (_from, _to, table) => {
      const values = arg.numbersOf(table)
      return (index) => values[index] ?? 0
    },
    excludes: (table) => {
      const { length } = arg.numbersOf(table)
      return (index) => (index < length ? undefined : { what: 'index past the end of a table', got: index, wanted: `below ${length}` })
    },
  }),

  // arithmetic
  neg: pure(1, type.numbers, { js: always((a) => -a), exact: true }),
  abs: pure(1, type.numbers, { js: always(Math.abs), exact: true }),
  add: pure(2, type.numbers, { js: always((a, b) => a + b), commutative: true }),
  sub: pure(2, type.numbers, { js: always((a, b) => a - b) }),
  mul: pure(2, type.numbers, { js: (from) => (isInt(from) ? Math.imul : (a, b) => a * b), commutative: true }),
  // integer division: x/0 = x, x%0 = 0 and MIN/-1 wraps, on every target
  div: pure(2, type.numbers, { js: (from) => (isInt(from) ? (a, b) => (b === 0 ? a : Math.trunc(a / b)) : (a, b) => a / b), slow: true }),
  rem: pure(2, type.integers, { js: always((a, b) => (b === 0 ? 0 : a % b)), slow: true }),
  // min and max of a NaN may give either operand; on CPUs, as here, the first one if the second is NaN
  min: pure(2, type.numbers, { js: always((a, b) => (b < a ? b : a)), exact: true }),
  max: pure(2, type.numbers, { js: always((a, b) => (b > a ? b : a)), exact: true }),
  // fused or rounded twice: the target's choice; here product and sum in double, rounded once, which for f64 is twice
  fma: pure(3, type.floats, { js: always((a, b, c) => a * b + c) }),
  sqrt: slowFloat(Math.sqrt),
  rsqrt: slowFloat((a) => 1 / Math.sqrt(a)),
  exp: slowFloat(Math.exp),
  exp2: slowFloat((a) => 2 ** a),
  log: slowFloat(Math.log),
  log2: slowFloat(Math.log2),
  sin: slowFloat(Math.sin),
  cos: slowFloat(Math.cos),
  tan: slowFloat(Math.tan),
  asin: slowFloat(Math.asin),
  acos: slowFloat(Math.acos),
  atan: slowFloat(Math.atan),
  tanh: slowFloat(Math.tanh),
  pow: pure(2, type.floats, { js: always((a, b) => a ** b), slow: true }),
  floor: roundFloat(Math.floor),
  ceil: roundFloat(Math.ceil),
  trunc: roundFloat(Math.trunc),
  rint: roundFloat(roundHalfEven),

  // comparisons, logic, bits; shift counts are taken modulo 32
  lt: compare((a, b) => (a < b ? 1 : 0)),
  le: compare((a, b) => (a <= b ? 1 : 0)),
  gt: compare((a, b) => (a > b ? 1 : 0)),
  ge: compare((a, b) => (a >= b ? 1 : 0)),
  eq: compare((a, b) => (a === b ? 1 : 0)),
  ne: compare((a, b) => (a !== b ? 1 : 0)),
  not: pure(1, type.bits, { js: (from) => (from === 'bool' ? (a) => 1 - a : (a) => ~a) }),
  and: pure(2, type.bits, { js: always((a, b) => a & b), commutative: true }),
  or: pure(2, type.bits, { js: always((a, b) => a | b), commutative: true }),
  xor: pure(2, type.bits, { js: always((a, b) => a ^ b), commutative: true }),
  shl: pure(2, type.integers, { js: always((a, b) => a << (b & 31)) }),
  shr: pure(2, type.integers, { js: (from) => (from === 'u32' ? (a, b) => a >>> (b & 31) : (a, b) => a >> (b & 31)) }),
  popcount: pure(1, type.integers, { js: always(countBits) }),
  select: pure(3, type.selection, { js: always((condition, a, b) => (condition !== 0 ? a : b)), exact: true }),

  // between types; float to integer truncates and saturates, NaN gives 0
  cast: pure(1, type.conversion, { js: convert }),
  bitcast: pure(1, type.reinterpretation, { js: reinterpret }),

  // vectors
  splat: pure(1, type.splat, { moves: () => [0, 0], exact: true }),
  vec: pure(2, type.vec, { more: Infinity, moves: (e) => [e, 0], exact: true }),
  /** one element; the argument says which */
  extract: pure(1, type.extraction, { arg: arg.LANE, moves: (_e, lane) => [0, lane], exact: true }),
  /** several elements; the argument is the first */
  slice: pure(1, type.slice, { arg: arg.LANE, moves: (e, first) => [0, first + e], exact: true }),
  join: pure(2, type.join, { moves: (e, _arg, width) => (e < width ? [0, e] : [1, e - width]), exact: true }),
  /** elements of two vectors in turn: of their first halves, or, if the argument is 1, of their second ones */
  zip: pure(2, type.zip, { arg: arg.HALF, moves: (e, half, width) => [e % 2, (half * width) / 2 + (e >> 1)], exact: true }),
  hsum: pure(1, type.reduction, { reduces: 'add' }),
  hmax: pure(1, type.reduction, { reduces: 'max', exact: true }),

  // four bytes in a u32, lowest first; two halves in a u32
  unpackU8: pure(1, type.oneOf(['u32'], 'u32x4', 'u32'), { unpack: (word, e) => (word >>> (8 * e)) & 255 }),
  unpackI8: pure(1, type.oneOf(['u32'], 'i32x4', 'u32'), { unpack: (word, e) => (word << (24 - 8 * e)) >> 24 }),
  packI8: pure(1, type.oneOf(['i32x4', 'u32x4'], 'u32', 'four integers'), { pack: (value, e) => (value & 255) << (8 * e) }),
  unpackF16: pure(1, type.oneOf(['u32'], 'f32x2', 'u32'), { unpack: (word, e) => decodeHalf((word >>> (16 * e)) & 0xffff) }),
  packF16: pure(1, type.oneOf(['f32x2'], 'u32', 'f32x2'), { pack: (value, e) => encodeHalf(value) << (16 * e) }),
  /** each byte (0..15) of the operand chooses one of the 16 bytes in the argument */
  lookup16: pure(1, type.integers, {
    arg: arg.BYTES,
    js: (_from, _to, table) => {
      const bytes = Uint8Array.from(arg.numbersOf(table))
      return (word) => lookUp(bytes, word)
    },
    excludes: within(0x0f0f0f0f, 'lookup16 of a byte above 15', 'bytes from 0 to 15'),
  }),
  /** sum + four products of bytes, per 32-bit lane: i8 x i8, u8 x i8, and u7 x i8 (first operand below 128, fastest everywhere) */
  dotI8: pure(3, type.dot, { js: always((a, b, sum) => sum + dotSigned(a, b)) }),
  dotU8I8: pure(3, type.dot, { js: always((a, b, sum) => sum + dotUnsigned(a, b)) }),
  dotU7I8: pure(3, type.dot, {
    js: always((a, b, sum) => sum + dotUnsigned(a, b)),
    excludes: within(0x7f7f7f7f, 'dotU7I8 of a byte above 127', 'bytes from 0 to 127'),
  }),
  /**
   * Two sums of two products of bytes as 16-bit numbers, side by side in a 32-bit lane: what AVX2 multiplies in one step. Of bytes below 128
   * and signed ones, or of signed ones of which the first are above -128: then they fit.
   */
  pairsU7I8: pure(2, type.integers, {
    js: always((a, b) => pairsOf(dotUnsigned, a, b)),
    excludes: within(0x7f7f7f7f, 'pairsU7I8 of a byte above 127', 'bytes from 0 to 127'),
  }),
  pairsI8: pure(2, type.integers, {
    js: always((a, b) => pairsOf(dotSigned, a, b)),
    excludes: () => (word) =>
      [0, 8, 16, 24].some((at) => ((word >>> at) & 255) === 0x80)
        ? { what: 'pairsI8 of -128', got: hexadecimal(word), wanted: 'bytes from -127 to 127' }
        : undefined,
  }),
  /** sums of 16-bit numbers, two in a lane, which wrap; and sum + their two products, signed */
  addPairs: pure(2, type.integers, {
    js: always((a, b) => (((a + b) & 0xffff) | (((a >>> 16) + (b >>> 16)) << 16)) >>> 0),
    commutative: true,
  }),
  dotI16: pure(3, type.dot, { js: always((a, b, sum) => sum + Math.imul((a << 16) >> 16, (b << 16) >> 16) + Math.imul(a >> 16, b >> 16)) }),

  // memory; the first operand is the index, the second what is stored or combined
  load: effect(1, type.indexed, { arg: arg.PLACE, access: 'read', exact: true }),
  store: statement(2, { arg: arg.PLACE, access: 'write' }),
  atomic: effect(2, type.indexed, { arg: arg.ATOMIC, access: 'update', uniform: 'lane' }),
  /** what the variable `arg` holds */
  get: effect(0, type.stated(), { arg: arg.ID, exact: true }),

  // subgroups; the value of the lanes that are active
  subSum: combine(type.numbers, { reduces: 'add' }),
  subMax: combine(type.numbers, { reduces: 'max', exact: true }),
  subMin: combine(type.numbers, { reduces: 'min', exact: true }),
  subAny: combine(type.bool, { reduces: 'or' }),
  subAll: combine(type.bool, { reduces: 'and' }),
  subBroadcast: shuffle({ sourceLane: (_sublane, lane) => lane, uniform: 'subgroup' }),
  subShuffle: effect(2, type.shuffle, { sourceLane: (_sublane, _arg, lane) => lane, collective: true, uniform: 'lane', exact: true }),
  subShuffleXor: shuffle({ sourceLane: (sublane, mask) => sublane ^ mask, uniform: 'lane' }),
  /** lanes past the end give any value */
  subShuffleDown: shuffle({ sourceLane: (sublane, distance) => sublane + distance, uniform: 'lane' }),

  // 8x8 tiles; operands of load and store: first index, elements per row (, tile)
  tileFill: effect(1, type.tileFill, TILE),
  tileLoad: effect(2, type.tilePlace, { ...TILE, arg: arg.TILE, access: 'read' }),
  tileStore: statement(3, { ...TILE, arg: arg.TILE, access: 'write' }),
  /** a * b + c */
  tileMma: effect(3, type.tileProduct, TILE),

  // statements
  block: statement(0, { more: Infinity }),
  let: statement(1, { arg: arg.NAME, declares: 'value' }),
  var: statement(1, { arg: arg.NAME, declares: 'variable' }),
  set: statement(1, { arg: arg.ID }),
  /** condition, block, optional else block */
  if: statement(2, { more: 1, blocks: 'branches' }),
  /** start, end, step, block */
  for: statement(4, { arg: arg.LOOP, declares: 'value', blocks: 'loop' }),
  /** runs its block until a breakIf */
  loop: statement(1, { blocks: 'loop' }),
  /** leaves the innermost `loop` */
  breakIf: statement(1, {}),
  barrier: statement(0, { arg: arg.BARRIER }),
} as const satisfies Record<string, OpRecord>

export type OpName = keyof typeof OPS

export function opRecord(op: OpName): OpRecord {
  return OPS[op]
}

/** A value that is there without computing anything: every target has these, whatever its table of spellings says. */
export function isLeaf(op: OpName): boolean {
  const { kind, arity } = opRecord(op)
  return kind === 'pure' && arity === 0
}

/** The type of an op's argument, and how many operands it surely has. */
export type ArgOf<O extends OpName> = (typeof OPS)[O] extends { readonly arg: arg.ArgKind<infer A> } ? A : null
export type ArityOf<O extends OpName> = (typeof OPS)[O]['arity']

export type { Arg, AtomicKind } from './op/arg.ts'
export type { IndexName } from './op/position.ts'
