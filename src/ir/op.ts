// Every op of the kernel language, one record each: how many operands, which types, and what it means in JavaScript.
// `js` works on one element of a vector; the interpreter rounds its result to the node's type after every step (f32 through
// fround, f16 to nearest even, integers wrapped to 32 bits), so `js` may be careless about that.
// How an op is spelled in a language is in emit/; what a target cannot spell is decomposed by decompose.ts.
//
// kind: `pure`   value depends on operands only; may be shared, moved and computed twice
//       `effect` value depends on when it is computed; always the value of a `let`
//       `statement` dtype void; lives in a block

import { type DType, type Scalar, isFloat, isInteger, isTile, scalarOf, vector, widthOf } from '../base/dtype.ts'

/** The part of a node that is not another node: a constant, a name, a lane number, a table. */
export type Arg = null | number | boolean | string | readonly number[] | Readonly<{ [key: string]: number | boolean | string | undefined }>

export type OpKind = 'pure' | 'effect' | 'statement'
/** Gives the result type, or a sentence saying what is wrong with the operands. */
export type TypeRule = (src: readonly DType[], arg: Arg, stated: DType) => DType | { readonly wrong: string }

export interface OpRecord {
  readonly kind: OpKind
  /** number of operands; -1: no fixed number */
  readonly arity: number
  readonly type: TypeRule
  /** Meaning for one element, given the operands' scalar type. Only elementwise pure ops have it. */
  readonly js?: (scalar: Scalar) => (a: number, b: number, c: number) => number
}

const wrong = (text: string): { wrong: string } => ({ wrong: text })

const same =
  (allowed: (dtype: DType) => boolean, name: string): TypeRule =>
  (src) => {
    const first = src[0]
    if (first === undefined) return wrong('needs operands')
    for (const dtype of src) if (dtype !== first) return wrong(`operands must have one type, got ${src.join(' and ')}`)
    return allowed(first) ? first : wrong(`works on ${name}, got ${first}`)
  }
const isBool = (dtype: DType): boolean => dtype !== 'void' && !isTile(dtype) && scalarOf(dtype) === 'bool'
const anyFloat = (dtype: DType): boolean => isFloat(dtype) && !isTile(dtype)
const isNumber = (dtype: DType): boolean => anyFloat(dtype) || isInteger(dtype)
const floats = same(anyFloat, 'floats')
const integers = same(isInteger, 'integers')
const numbers = same(isNumber, 'numbers')
const bits = same((dtype) => isInteger(dtype) || isBool(dtype), 'integers and booleans')

const compareRule: TypeRule = (src) => {
  const type = same(isNumber, 'numbers')(src, null, 'void')
  return typeof type === 'string' ? vector('bool', widthOf(type)) : type
}
/** The result type is what the node states; `check` may refuse it. */
const stated =
  (check: (src: readonly DType[], to: DType) => string | undefined): TypeRule =>
  (src, _arg, to) => {
    const problem = check(src, to)
    return problem === undefined ? to : wrong(problem)
  }
const packed = (dtype: DType | undefined): boolean => dtype !== undefined && isInteger(dtype)

const pure = (arity: number, type: TypeRule, js?: OpRecord['js']): OpRecord =>
  js === undefined ? { kind: 'pure', arity, type } : { kind: 'pure', arity, type, js }
const effect = (arity: number, type: TypeRule): OpRecord => ({ kind: 'effect', arity, type })
const statement = (arity: number, type: TypeRule = () => 'void'): OpRecord => ({ kind: 'statement', arity, type })
const float1 = (f: (a: number) => number): OpRecord => pure(1, floats, () => f)
const compare = (f: (a: number, b: number) => boolean): OpRecord => pure(2, compareRule, () => (a, b) => (f(a, b) ? 1 : 0))
const isInt = (scalar: Scalar): boolean => scalar === 'i32' || scalar === 'u32'

const dot4 = (signA: boolean, max: number): OpRecord => ({
  kind: 'pure',
  arity: 3,
  type: (src) =>
    packed(src[0]) &&
    src[0] === src[1] &&
    src[2] !== undefined &&
    scalarOf(src[2]) === 'i32' &&
    widthOf(src[2]) === widthOf(src[0] as DType)
      ? src[2]
      : wrong(`wants two packed u32 operands and an i32 sum of one width, got ${src.join(', ')}`),
  js: () => (a, b, sum) => {
    for (let byte = 0; byte < 32; byte += 8) {
      const x = signA ? (a << (24 - byte)) >> 24 : (a >>> byte) & 255
      if (x > max) throw new RangeError(`first operand holds ${x}, wanted at most ${max}`)
      sum += x * ((b << (24 - byte)) >> 24)
    }
    return sum
  },
})

const tiles: TypeRule = (src) =>
  src.length === 3 && src.every((dtype) => isTile(dtype)) && src[2] === 'f32t'
    ? 'f32t'
    : wrong(`wants tiles and an f32 accumulator, got ${src.join(', ')}`)
const subgroup = (rule: TypeRule): OpRecord => effect(1, rule)
const memory: TypeRule = stated((src) => (src[0] === 'u32' ? undefined : `index must be u32, got ${src[0]}`))

export const OPS = {
  // leaves
  const: pure(
    0,
    stated(() => undefined),
  ), // arg: number or boolean
  index: pure(0, () => 'u32'), // arg: one of INDICES
  uniform: pure(
    0,
    stated(() => undefined),
  ), // arg: name
  local: pure(
    0,
    stated(() => undefined),
  ), // arg: id of a `let` or of a loop's variable
  table: pure(
    1,
    stated((src) => (src[0] === 'u32' ? undefined : 'index must be u32')),
  ), // arg: the constants

  // arithmetic
  neg: pure(1, numbers, () => (a) => -a),
  abs: pure(1, numbers, () => Math.abs),
  add: pure(2, numbers, () => (a, b) => a + b),
  sub: pure(2, numbers, () => (a, b) => a - b),
  mul: pure(2, numbers, (s) => (isInt(s) ? Math.imul : (a, b) => a * b)),
  // integer division: x/0 = x, x%0 = 0 and MIN/-1 wraps, on every target
  div: pure(2, numbers, (s) => (isInt(s) ? (a, b) => (b === 0 ? a : Math.trunc(a / b)) : (a, b) => a / b)),
  rem: pure(2, integers, () => (a, b) => (b === 0 ? 0 : a % b)),
  // min and max of a NaN may give either operand
  min: pure(2, numbers, () => (a, b) => (b < a ? b : a)),
  max: pure(2, numbers, () => (a, b) => (b > a ? b : a)),
  // fused or rounded twice: the target's choice
  fma: pure(3, floats, () => (a, b, c) => a * b + c),
  sqrt: float1(Math.sqrt),
  rsqrt: float1((a) => 1 / Math.sqrt(a)),
  exp: float1(Math.exp),
  exp2: float1((a) => 2 ** a),
  log: float1(Math.log),
  log2: float1(Math.log2),
  sin: float1(Math.sin),
  cos: float1(Math.cos),
  tan: float1(Math.tan),
  asin: float1(Math.asin),
  acos: float1(Math.acos),
  atan: float1(Math.atan),
  tanh: float1(Math.tanh),
  pow: pure(2, floats, () => (a, b) => a ** b),
  floor: float1(Math.floor),
  ceil: float1(Math.ceil),
  trunc: float1(Math.trunc),
  rint: float1(roundHalfEven),

  // comparisons, logic, bits; shift counts are taken modulo 32
  lt: compare((a, b) => a < b),
  le: compare((a, b) => a <= b),
  gt: compare((a, b) => a > b),
  ge: compare((a, b) => a >= b),
  eq: compare((a, b) => a === b),
  ne: compare((a, b) => a !== b),
  not: pure(1, bits, (s) => (s === 'bool' ? (a) => 1 - a : (a) => ~a)),
  and: pure(2, bits, () => (a, b) => a & b),
  or: pure(2, bits, () => (a, b) => a | b),
  xor: pure(2, bits, () => (a, b) => a ^ b),
  shl: pure(2, integers, () => (a, b) => a << (b & 31)),
  shr: pure(2, integers, (s) => (s === 'u32' ? (a, b) => a >>> (b & 31) : (a, b) => a >> (b & 31))),
  popcount: pure(1, integers, () => countBits),
  select: pure(
    3,
    (src) =>
      src[1] !== src[2]
        ? wrong(`branches differ: ${src[1]} and ${src[2]}`)
        : src[0] !== undefined &&
            src[1] !== undefined &&
            src[1] !== 'void' &&
            !isTile(src[1]) &&
            isBool(src[0]) &&
            widthOf(src[0]) === widthOf(src[1])
          ? src[1]
          : wrong(`condition must be bool of the branches' width, got ${src[0]}`),
    () => (c, a, b) => (c !== 0 ? a : b),
  ),

  // between types; float to integer truncates and saturates, NaN gives 0
  cast: pure(
    1,
    stated((src, to) => (src[0] !== undefined && widthOf(src[0]) === widthOf(to) ? undefined : `cannot cast ${src[0]} to ${to}`)),
  ),
  bitcast: pure(
    1,
    stated((src, to) =>
      src[0] !== undefined &&
      widthOf(src[0]) === widthOf(to) &&
      [src[0], to].every((dtype) => ['f32', 'i32', 'u32'].includes(scalarOf(dtype)))
        ? undefined
        : `cannot reinterpret ${src[0]} as ${to}`,
    ),
  ),

  // vectors
  splat: pure(
    1,
    stated((src, to) => (src[0] === scalarOf(to) && widthOf(to) > 1 ? undefined : `cannot splat ${src[0]} to ${to}`)),
  ),
  vec: pure(
    -1,
    stated((src, to) =>
      src.length === widthOf(to) && src.every((dtype) => dtype === scalarOf(to))
        ? undefined
        : `wants ${widthOf(to)} operands of ${scalarOf(to)}, got ${src.join(', ')}`,
    ),
  ),
  extract: pure(1, (src, arg) =>
    src[0] !== undefined && typeof arg === 'number' && arg >= 0 && arg < widthOf(src[0]) && widthOf(src[0]) > 1
      ? scalarOf(src[0])
      : wrong(`no lane ${String(arg)} in ${src[0]}`),
  ), // arg: lane
  slice: pure(
    1,
    stated((src, to) =>
      src[0] !== undefined && scalarOf(src[0]) === scalarOf(to) && widthOf(src[0]) > widthOf(to)
        ? undefined
        : `cannot take ${to} out of ${src[0]}`,
    ),
  ), // arg: first lane
  join: pure(2, (src) =>
    src[0] !== undefined && src[0] === src[1] && widthOf(src[0]) > 1 && widthOf(src[0]) < 16
      ? vector(scalarOf(src[0]), (2 * widthOf(src[0])) as 4)
      : wrong(`wants two vectors of one type, got ${src.join(', ')}`),
  ),
  hsum: pure(1, (src) =>
    src[0] !== undefined && isNumber(src[0]) && widthOf(src[0]) > 1 ? scalarOf(src[0]) : wrong(`wants a vector, got ${src[0]}`),
  ),
  hmax: pure(1, (src) =>
    src[0] !== undefined && isNumber(src[0]) && widthOf(src[0]) > 1 ? scalarOf(src[0]) : wrong(`wants a vector, got ${src[0]}`),
  ),

  // four bytes in a u32, lowest first; two halves in a u32
  unpackU8: pure(1, (src) => (src[0] === 'u32' ? 'u32x4' : wrong(`wants u32, got ${src[0]}`))),
  unpackI8: pure(1, (src) => (src[0] === 'u32' ? 'i32x4' : wrong(`wants u32, got ${src[0]}`))),
  packI8: pure(1, (src) => (src[0] === 'i32x4' || src[0] === 'u32x4' ? 'u32' : wrong(`wants four integers, got ${src[0]}`))), // keeps the low bytes
  unpackF16: pure(1, (src) => (src[0] === 'u32' ? 'f32x2' : wrong(`wants u32, got ${src[0]}`))),
  packF16: pure(1, (src) => (src[0] === 'f32x2' ? 'u32' : wrong(`wants f32x2, got ${src[0]}`))),
  /** each byte (0..15) of the operand chooses one of the 16 bytes in `arg`; higher bytes are an error */
  lookup16: pure(1, integers),
  /** sum + four products of bytes, per 32-bit lane: i8 x i8, u8 x i8, and u7 x i8 (first operand below 128, fastest everywhere) */
  dotI8: dot4(true, 127),
  dotU8I8: dot4(false, 255),
  dotU7I8: dot4(false, 127),

  // memory; arg: { mem, width?: elements to load or store as one vector, ahead?: a load's hint (author.ts) }
  load: effect(1, memory),
  store: statement(2),
  atomic: effect(
    2,
    stated((src) => (src[0] === 'u32' ? undefined : 'index must be u32')),
  ), // arg: { mem, kind: AtomicKind }
  get: effect(
    0,
    stated(() => undefined),
  ), // arg: id of a `var`

  // subgroups; the value of the lanes that are active
  subSum: subgroup(numbers),
  subMax: subgroup(numbers),
  subMin: subgroup(numbers),
  subAny: subgroup(same((dtype) => dtype === 'bool', 'bool')),
  subAll: subgroup(same((dtype) => dtype === 'bool', 'bool')),
  subBroadcast: subgroup(numbers), // arg: lane
  subShuffle: effect(2, (src) => (src[1] === 'u32' ? numbers([src[0] as DType], null, 'void') : wrong('lane must be u32'))),
  subShuffleXor: subgroup(numbers), // arg: mask
  subShuffleDown: subgroup(numbers), // arg: distance; lanes past the end give any value

  // 8x8 tiles; arg of load and store: { mem, transposed? }, operands: first index, elements per row (, tile)
  tileFill: effect(1, (src) => (src[0] === 'f32' ? 'f32t' : src[0] === 'f16' ? 'f16t' : wrong(`wants a float, got ${src[0]}`))),
  tileLoad: effect(
    2,
    stated((src) => (src[0] === 'u32' && src[1] === 'u32' ? undefined : 'index and row length must be u32')),
  ),
  tileStore: statement(3),
  tileMma: effect(3, tiles), // a * b + c

  // statements
  block: statement(-1),
  let: statement(1), // arg: { id, name }
  var: statement(1), // arg: { id, name }
  set: statement(1), // arg: id
  if: statement(-1), // condition, block, optional else block
  for: statement(4), // arg: { id, name, unroll? }; start, end, step, block
  loop: statement(1), // runs its block until a breakIf
  breakIf: statement(1), // leaves the innermost `loop`
  barrier: statement(0), // arg: 'workgroup' | 'subgroup'
} as const satisfies Record<string, OpRecord>

export type OpName = keyof typeof OPS

/** Where a lane is: `lane` and `workgroup` by axis, flat lane number, subgroup number, lane within its subgroup, grid size. */
export const INDICES = [
  'workgroup.x',
  'workgroup.y',
  'workgroup.z',
  'grid.x',
  'grid.y',
  'grid.z',
  'lane.x',
  'lane.y',
  'lane.z',
  'lane',
  'subgroup',
  'sublane',
] as const
export type IndexName = (typeof INDICES)[number]

export const ATOMICS = ['add', 'min', 'max', 'and', 'or', 'xor', 'exchange'] as const
export type AtomicKind = (typeof ATOMICS)[number]

export function opRecord(op: OpName): OpRecord {
  return OPS[op]
}

function roundHalfEven(a: number): number {
  const down = Math.floor(a)
  const rest = a - down
  if (rest !== 0.5) return rest < 0.5 ? down : down + 1
  return down % 2 === 0 ? down : down + 1
}

function countBits(a: number): number {
  let count = 0
  for (let rest = a >>> 0; rest !== 0; rest &= rest - 1) count++
  return count
}
