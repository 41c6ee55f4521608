// What an op means in terms of simpler ones, for targets that cannot spell it: one row per op. A row may use ops that are
// decomposed in turn; none leads back to itself. All rows keep vectors vectors. The pass that applies them is pass/decompose.ts.

import { type DType, type Width, isFloat, scalarOf, vector, widthOf } from '../base/dtype.ts'
import * as math from './math.ts'
import type { Node } from './node.ts'
import type { OpName } from './op.ts'
import { type Maker, Value, constant, make } from './value.ts'

type F32 = math.F32
type U32 = Value<'u32'>
type I32 = Value<'i32'>
/** Gives what `node`, with these operands, stands for. */
export type Decomposition = (maker: Maker, node: Node, src: readonly Node[]) => Node

/** f16 takes the way through f32. */
const float =
  (formula: (x: F32, y: F32, z: F32) => F32): Decomposition =>
  (maker, node, src) => {
    const operands = src.map((each) => new Value<'f32'>(maker, each).to('f32'))
    return formula(...(operands as [F32, F32, F32])).to(scalarOf(node.dtype)).node
  }
const unsigned =
  (formula: (x: U32, node: Node) => Value<DType>): Decomposition =>
  (maker, node, src) =>
    formula(new Value<'u32'>(maker, src[0] as Node), node).node
const like = (x: Value<DType>, value: number): Value<DType> => new Value(x.maker, constant(x.maker, value, x.node.dtype))

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
  pow: float(math.pow),
  rsqrt: float((x) => (like(x, 1) as F32).div(x.sqrt())),

  // past 2^23 every f32 is whole
  rint: float((x) => {
    const size = x.abs()
    return math.withSign(size.lt(2 ** 23).select(size.add(2 ** 23).sub(2 ** 23), size), x)
  }),
  trunc: float((x) => {
    const size = x.abs()
    return math.withSign(size.lt(2 ** 23).select(size.to('i32').to('f32'), size), x)
  }),
  floor: float((x) => {
    const near = x.rint()
    return near.gt(x).select(near.sub(1), near)
  }),
  ceil: float((x) => x.neg().floor().neg()),

  fma: (maker, _node, [a, b, c]) => make(maker, 'add', [make(maker, 'mul', [a as Node, b as Node]).node, c as Node]).node,
  // -0 - x, and not 0 - x, turns 0 into -0
  neg: (maker, { dtype }, [x]) => make(maker, 'sub', [constant(maker, isFloat(dtype) ? -0 : 0, dtype), x as Node]).node,
  abs: (maker, { dtype }, [x]) => {
    const value = new Value<DType>(maker, x as Node)
    switch (scalarOf(dtype)) {
      case 'u32':
        return value.node
      case 'f32':
        return (value as F32).as('u32').and(0x7fffffff).as('f32').node
      case 'f16':
        return (value as F32).to('f32').abs().to('f16').node
      default:
        return (value as I32).lt(0).select((value as I32).neg(), value as I32).node
    }
  },
  min: (maker, _node, [a, b]) => select(maker, make(maker, 'lt', [b as Node, a as Node]).node, b as Node, a as Node),
  max: (maker, _node, [a, b]) => select(maker, make(maker, 'gt', [b as Node, a as Node]).node, b as Node, a as Node),
  popcount: (maker, { dtype }, [x]) => {
    const a = new Value<'u32'>(maker, x as Node).as('u32')
    const pairs = a.sub(a.shr(1).and(0x55555555))
    const fours = pairs.and(0x33333333).add(pairs.shr(2).and(0x33333333))
    return fours
      .add(fours.shr(4))
      .and(0x0f0f0f0f)
      .mul(0x01010101)
      .shr(24)
      .as(scalarOf(dtype) as 'u32').node
  },

  hsum: (maker, _node, [x]) => tree(maker, 'add', x as Node),
  hmax: (maker, _node, [x]) => tree(maker, 'max', x as Node),

  unpackU8: unsigned((x) => vec(x.maker, bytes(x))),
  unpackI8: unsigned((x) =>
    vec(
      x.maker,
      [0, 8, 16, 24].map((at) => signedByte(x, at)),
    ),
  ),
  packI8: unsigned((x) => {
    const byte = (lane: number): U32 =>
      (x.lane(lane) as U32)
        .as('u32')
        .and(255)
        .shl(8 * lane)
    return byte(0).or(byte(1)).or(byte(2)).or(byte(3))
  }),
  unpackF16: unsigned((x) => vec(x.maker, [widenHalf(x.and(0xffff)), widenHalf(x.shr(16))])),
  packF16: (maker, _node, [x]) => {
    const pair = new Value<'f32x2'>(maker, x as Node)
    return roundToHalf(pair.lane(0)).or(roundToHalf(pair.lane(1)).shl(16)).node
  },
  lookup16: (maker, { arg }, [x]) => {
    const value = new Value<'u32'>(maker, x as Node)
    return lookup(value.as('u32'), arg as readonly number[]).as(scalarOf(value.node.dtype) as 'u32').node
  },
  dotI8: dot(signedByte),
  dotU8I8: dot(unsignedByte),
  dotU7I8: dot(unsignedByte),
} as const satisfies Partial<Record<OpName, Decomposition>>

function select(maker: Maker, condition: Node, a: Node, b: Node): Node {
  return make(maker, 'select', [condition, a, b]).node
}

function vec(maker: Maker, lanes: readonly Value<DType>[]): Value<DType> {
  const scalar = scalarOf((lanes[0] as Value<DType>).node.dtype)
  return make(
    maker,
    'vec',
    lanes.map(({ node }) => node),
    null,
    vector(scalar, lanes.length as Width),
  )
}

/** Halves a vector until one element is left. */
function tree(maker: Maker, op: OpName, x: Node): Node {
  const width = widthOf(x.dtype)
  const value = new Value<'f32x4'>(maker, x)
  if (width === 2) return make(maker, op, [value.lane(0).node, value.lane(1).node]).node
  const half = (width / 2) as Width
  return tree(maker, op, make(maker, op, [value.slice(0, half).node, value.slice(half, half).node]).node)
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

function dot(first: (x: U32, at: number) => I32): Decomposition {
  return (maker, _node, [a, b, sum]) => {
    const [x, y] = [new Value<'u32'>(maker, a as Node).as('u32'), new Value<'u32'>(maker, b as Node).as('u32')]
    const products = [0, 8, 16, 24].map((at) => first(x, at).mul(signedByte(y, at)))
    return products.reduce((total, product) => total.add(product), new Value<'i32'>(maker, sum as Node)).node
  }
}

/** Sixteen bytes are four words: choose the word, then shift the byte down. */
function lookup(x: U32, table: readonly number[]): U32 {
  const word = (from: number): U32 =>
    like(
      x,
      table.slice(from, from + 4).reduce((sum, byte, lane) => sum + (byte & 255) * 2 ** (8 * lane), 0),
    ) as U32
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
  const endless = size.gt(0x7f800000).select(like(size, 0x7e00) as U32, 0x7c00)
  const value = size.lt(0x38800000).select(subnormal, size.lt(0x47800000).select(normal, endless))
  return value.or(bits.shr(16).and(0x8000))
}
