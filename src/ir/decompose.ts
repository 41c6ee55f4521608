// What an op means in terms of simpler ones, for targets that cannot spell it: one row per op. A row may use ops that are
// decomposed in turn; none leads back to itself. All rows keep vectors vectors. The pass that applies them is pass/decompose.ts.
//
// The elementary functions have no rows for f64: without integers of 64 bits to take its bits apart they would be long, and every target
// that has the type has the functions, too.

import { type DType, asWidth, isFloat, scalarOf, widthOf } from '../base/dtype.ts'
import type { Builder } from './build.ts'
import * as math from './math.ts'
import type { Node, NodeWith, OneNode } from './node.ts'
import { type OpName, opRecord } from './op.ts'
import { Value } from './value.ts'

type F32 = math.F32
type F64 = Value<'f64'>
type U32 = Value<'u32'>
type I32 = Value<'i32'>

/** Gives what a node stands for; undefined where nothing is simpler. */
type Decompositions = { readonly [O in OpName]?: (builder: Builder, node: OneNode<O>) => Node | undefined }

/** One float; f16 takes the way through f32, f64 its own, if there is one. */
const float =
  (formula: (x: F32) => F32, double: (x: F64) => F64 | undefined = () => undefined) =>
  (builder: Builder, { dtype, src: [x] }: NodeWith<1>): Node | undefined =>
    scalarOf(dtype) === 'f64'
      ? double(new Value<'f64'>(builder, x))?.node
      : formula(new Value<'f32'>(builder, x).to('f32')).to(scalarOf(dtype)).node
const unsigned =
  (formula: (x: U32) => Value<DType>) =>
  (builder: Builder, { src: [x] }: NodeWith<1>): Node =>
    formula(new Value<'u32'>(builder, x)).node

export const DECOMPOSE = {
  exp: float(math.exp),
  exp2: float(math.exp2),
  log: float(math.log),
  log2: float(math.log2),
  sin: float(math.sin),
  cos: float(math.cos),
  tan: float(math.tan),
  asin: float(math.asin),
  acos: float(math.acos),
  atan: float(math.atan),
  tanh: float(math.tanh),
  pow: (builder, { dtype, src: [x, y] }) => {
    if (scalarOf(dtype) === 'f64') return undefined
    const [base, exponent] = [new Value<'f32'>(builder, x).to('f32'), new Value<'f32'>(builder, y).to('f32')]
    return math.pow(base, exponent).to(scalarOf(dtype)).node
  },
  rsqrt: float(inverseRoot, inverseRoot),

  // past 2^23 every f32 is whole, past 2^52 every f64
  rint: float(
    (x) => {
      const size = x.abs()
      return math.withSign(size.lt(2 ** 23).select(size.add(2 ** 23).sub(2 ** 23), size), x)
    },
    (x) => {
      const size = x.abs()
      const whole = size.add(2 ** 52).sub(2 ** 52)
      return size.lt(2 ** 52).select(x.lt(0).select(whole.neg(), whole), x)
    },
  ),
  trunc: float(
    (x) => {
      const size = x.abs()
      return math.withSign(size.lt(2 ** 23).select(size.to('i32').to('f32'), size), x)
    },
    (x) => x.lt(0).select(x.ceil(), x.floor()),
  ),
  floor: float(floor, floor),
  ceil: float(ceil, ceil),

  fma: (builder, { src: [a, b, c] }) => builder.apply('add', [builder.apply('mul', [a, b]), c]),
  // -0 - x, and not 0 - x, turns 0 into -0
  neg: (builder, { dtype, src: [x] }) => builder.apply('sub', [builder.constant(isFloat(dtype) ? -0 : 0, dtype), x]),
  abs: (builder, { dtype, src: [x] }) => {
    switch (scalarOf(dtype)) {
      case 'u32':
        return x
      case 'f32':
        return new Value<'f32'>(builder, x).as('u32').and(0x7fffffff).as('f32').node
      case 'f16':
        return new Value<'f16'>(builder, x).to('f32').abs().to('f16').node
      case 'f64': {
        const value = new Value<'f64'>(builder, x)
        return value.le(0).select(math.constantLike(value, 0).sub(value), value).node // 0 - -0 is 0
      }
      default: {
        const value = new Value<'i32'>(builder, x)
        return value.lt(0).select(value.neg(), value).node
      }
    }
  },
  min: (builder, { src: [a, b] }) => builder.apply('select', [builder.apply('lt', [b, a]), b, a]),
  max: (builder, { src: [a, b] }) => builder.apply('select', [builder.apply('gt', [b, a]), b, a]),
  popcount: (builder, { dtype, src: [x] }) => {
    const a = new Value<'u32'>(builder, x).as('u32')
    const pairs = a.sub(a.shr(1).and(0x55555555))
    const fours = pairs.and(0x33333333).add(pairs.shr(2).and(0x33333333))
    const sum = fours.add(fours.shr(4)).and(0x0f0f0f0f).mul(0x01010101).shr(24)
    return sameIntegers(sum, dtype)
  },

  zip: (builder, { dtype, src: [x, y], arg }) => {
    const [a, b] = [new Value<'f32x4'>(builder, x), new Value<'f32x4'>(builder, y)]
    const half = widthOf(dtype) / 2
    return vec(Array.from({ length: half }, (_, i) => arg * half + i).flatMap((lane) => [a.lane(lane), b.lane(lane)])).node
  },
  hsum: tree,
  hmax: tree,

  unpackU8: unsigned((x) => vec(bytes(x))),
  unpackI8: unsigned((x) => vec(BYTES.map((at) => signedByte(x, at)))),
  packI8: unsigned((x) => {
    const byte = (lane: number): U32 =>
      x
        .lane(lane)
        .as('u32')
        .and(255)
        .shl(8 * lane)
    return byte(0).or(byte(1)).or(byte(2)).or(byte(3))
  }),
  unpackF16: unsigned((x) => vec([widenHalf(x.and(0xffff)), widenHalf(x.shr(16))])),
  packF16: (builder, { src: [x] }) => {
    const pair = new Value<'f32x2'>(builder, x)
    return roundToHalf(pair.lane(0)).or(roundToHalf(pair.lane(1)).shl(16)).node
  },
  lookup16: (builder, { dtype, arg, src: [x] }) => sameIntegers(lookup(new Value<'u32'>(builder, x).as('u32'), arg), dtype),
  dotI8: dot(signedByte),
  dotU8I8: dot(unsignedByte),
  dotU7I8: dot(unsignedByte),
  pairsU7I8: pairs(unsignedByte),
  pairsI8: pairs(signedByte),
  addPairs: (builder, { dtype, src: [a, b] }) => {
    const [x, y] = [new Value<'u32'>(builder, a).as('u32'), new Value<'u32'>(builder, b).as('u32')]
    const low = x.add(y).and(0xffff)
    return sameIntegers(x.and(0xffff0000).add(y.and(0xffff0000)).or(low), dtype)
  },
  dotI16: (builder, { src: [a, b, sum] }) => {
    const [x, y] = [new Value<'u32'>(builder, a).as('i32'), new Value<'u32'>(builder, b).as('i32')]
    const low = x.shl(16).shr(16).mul(y.shl(16).shr(16))
    return x.shr(16).mul(y.shr(16)).add(low).add(new Value<'i32'>(builder, sum)).node
  },
} as const satisfies Decompositions

/** What a node stands for in terms of simpler ones; undefined if nothing is simpler. */
export function decompositionOf<O extends OpName>(builder: Builder, node: OneNode<O>): Node | undefined {
  const table: Decompositions = DECOMPOSE
  return table[node.op]?.(builder, node)
}

function inverseRoot<D extends 'f32' | 'f64'>(x: Value<D>): Value<D> {
  return math.constantLike(x, 1).div(x.sqrt())
}

function floor<D extends 'f32' | 'f64'>(x: Value<D>): Value<D> {
  const near = x.rint()
  return near.gt(x).select(near.sub(1), near)
}

function ceil<D extends 'f32' | 'f64'>(x: Value<D>): Value<D> {
  return x.neg().floor().neg()
}

const BYTES = [0, 8, 16, 24] as const

function vec(lanes: readonly Value<DType>[]): Value<DType> {
  const [first] = lanes
  if (first === undefined) throw new TypeError('no vector without elements')
  return new Value(first.builder, first.builder.vec(lanes.map(({ node }) => node)))
}

/** Unsigned words as the integers of `dtype`. */
function sameIntegers(words: U32, dtype: DType): Node {
  return words.as(scalarOf(dtype) === 'i32' ? 'i32' : 'u32').node
}

/** Halves a vector until one element is left. */
function tree(builder: Builder, { op, src: [x] }: OneNode<'hsum' | 'hmax'>): Node {
  const { reduces = 'add' } = opRecord(op)
  const halve = (whole: Node): Node => {
    const width = widthOf(whole.dtype)
    const value = new Value<'f32x4'>(builder, whole)
    if (width === 2) return builder.apply(reduces, [value.lane(0).node, value.lane(1).node])
    const half = asWidth(width / 2)
    return half === 1 ? whole : halve(builder.apply(reduces, [value.slice(0, half).node, value.slice(half, half).node]))
  }
  return halve(x)
}

function unsignedByte(x: U32, at: number): I32 {
  return (at === 24 ? x.shr(24) : x.shr(at).and(255)).as('i32')
}

function signedByte(x: U32, at: number): I32 {
  return x
    .as('i32')
    .shl(24 - at)
    .shr(24)
}

function bytes(x: U32): U32[] {
  return [x.and(255), x.shr(8).and(255), x.shr(16).and(255), x.shr(24)]
}

function dot(first: (x: U32, at: number) => I32): (builder: Builder, node: NodeWith<3>) => Node {
  return (builder, { src: [a, b, sum] }) => {
    const [x, y] = [new Value<'u32'>(builder, a).as('u32'), new Value<'u32'>(builder, b).as('u32')]
    const products = BYTES.map((at) => first(x, at).mul(signedByte(y, at)))
    return products.reduce((total, product) => total.add(product), new Value<'i32'>(builder, sum)).node
  }
}

function pairs(first: (x: U32, at: number) => I32): (builder: Builder, node: NodeWith<2>) => Node {
  return (builder, { dtype, src: [a, b] }) => {
    const [x, y] = [new Value<'u32'>(builder, a).as('u32'), new Value<'u32'>(builder, b).as('u32')]
    const product = (at: number): I32 => first(x, at).mul(signedByte(y, at))
    const low = product(0).add(product(8)).as('u32').and(0xffff)
    return sameIntegers(product(16).add(product(24)).as('u32').shl(16).or(low), dtype)
  }
}

/** Sixteen bytes are four words: choose the word, then shift the byte down. */
function lookup(x: U32, table: readonly number[]): U32 {
  const word = (from: number): U32 =>
    math.constantLike(
      x,
      table.slice(from, from + 4).reduce((sum, byte, lane) => sum + (byte & 255) * 2 ** (8 * lane), 0),
    )
  const [w0, w1, w2, w3] = [word(0), word(4), word(8), word(12)]
  return bytes(x)
    .map((index, lane) => {
      const low = index.lt(4).select(w0, w1)
      const high = index.lt(12).select(w2, w3)
      return index
        .lt(8)
        .select(low, high)
        .shr(index.and(3).shl(3))
        .and(255)
        .shl(8 * lane)
    })
    .reduce((all, byte) => all.or(byte))
}

/** The f32 of an f16 in the low bits of a word. */
export function widenHalf(half: U32): F32 {
  const REBIAS = (127 - 15) << 23
  const size = half.and(0x7fff)
  const shifted = size.shl(13)
  const normal = shifted.add(REBIAS).as('f32')
  const subnormal = size.to('f32').mul(2 ** -24)
  const endless = shifted.or(0x7f800000).as('f32') // infinity and NaN
  const value = size.lt(0x400).select(subnormal, size.lt(0x7c00).select(normal, endless))
  return value.as('u32').or(half.and(0x8000).shl(16)).as('f32')
}

/** The f16 nearest to an f32, halves to even, in the low bits of a word. */
export function roundToHalf(x: F32): U32 {
  const bits = x.as('u32')
  const size = bits.and(0x7fffffff)
  // rebias the exponent and add half of the last kept bit, a little less if that bit is even
  const normal = size
    .add((((15 - 127) << 23) + 0xfff) >>> 0)
    .add(size.shr(13).and(1))
    .shr(13)
  // next to 1/2 the last bit of an f32 is worth as much as that of a subnormal f16
  const subnormal = size.as('f32').add(0.5).as('u32').sub(0x3f000000)
  const endless = size.gt(0x7f800000).select(math.constantLike(size, 0x7e00), 0x7c00)
  const value = size.lt(0x38800000).select(subnormal, size.lt(0x47800000).select(normal, endless))
  return value.or(bits.shr(16).and(0x8000))
}

/**
 * An f64 as the next f32 towards zero, its last bit set if that is not the same number. Of its 24 bits a rounding to the 11 of an f16 then
 * makes what it would make of all 53: whatever lies between two floats is on the right side of every tie.
 */
export function roundToOdd(x: F64): F32 {
  const near = x.to('f32')
  const back = near.to('f64')
  const bits = near.as('u32')
  const down = back.abs().gt(x.abs()).select(bits.sub(1), bits)
  return back.eq(x).select(near, down.or(1).as('f32'))
}
