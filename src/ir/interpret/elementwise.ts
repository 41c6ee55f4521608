// Ops that work on each element alone. The frequent ones have a loop of their own, written out so that the engine sees one
// type of array in each; every other op runs its meaning from op.ts and is rounded here. All lanes are computed, active or
// not: these ops cannot fail.
//
// fma is the product and sum in double, rounded once.

import { type DType, scalarOf } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import { type OpName, opRecord } from '../op.ts'
import { roundHalf } from './half.ts'
import type { Cells } from './state.ts'

type F = Float32Array
/** Int32Array or Uint32Array; storing wraps to 32 bits either way */
type I = Int32Array
type B = Uint8Array
type Run = () => void
type Loop<O, A> = (o: O, a: A, b: A, c: A) => Run

/** Products of the three low bytes, both signed. */
function dot(x: number, y: number): number {
  return ((x << 24) >> 24) * ((y << 24) >> 24) + ((x << 16) >> 24) * ((y << 16) >> 24) + ((x << 8) >> 24) * ((y << 8) >> 24)
}
function dotUnsigned(x: number, y: number): number {
  return (
    (x & 255) * ((y << 24) >> 24) + ((x >>> 8) & 255) * ((y << 16) >> 24) + ((x >>> 16) & 255) * ((y << 8) >> 24) + (x >>> 24) * (y >> 24)
  )
}

const FLOAT: Partial<Record<OpName, Loop<F, F>>> = {
  add: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! + b[i]!
  },
  sub: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! - b[i]!
  },
  mul: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! * b[i]!
  },
  div: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! / b[i]!
  },
  min: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = b[i]! < a[i]! ? b[i]! : a[i]!
  },
  max: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = b[i]! > a[i]! ? b[i]! : a[i]!
  },
  fma: (o, a, b, c) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! * b[i]! + c[i]!
  },
  neg: (o, a) => () => {
    for (let i = 0; i < o.length; i++) o[i] = -a[i]!
  },
  exp: (o, a) => () => {
    for (let i = 0; i < o.length; i++) o[i] = Math.exp(a[i]!)
  },
}

const INTEGER: Partial<Record<OpName, Loop<I, I>>> = {
  add: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! + b[i]!
  },
  sub: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! - b[i]!
  },
  mul: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = Math.imul(a[i]!, b[i]!)
  },
  div: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = b[i] === 0 ? a[i]! : a[i]! / b[i]!
  },
  rem: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = b[i] === 0 ? 0 : a[i]! % b[i]!
  },
  and: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! & b[i]!
  },
  or: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! | b[i]!
  },
  xor: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! ^ b[i]!
  },
  shl: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! << (b[i]! & 31)
  },
  min: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = b[i]! < a[i]! ? b[i]! : a[i]!
  },
  max: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = b[i]! > a[i]! ? b[i]! : a[i]!
  },
  dotI8: (o, a, b, c) => () => {
    for (let i = 0; i < o.length; i++) o[i] = c[i]! + dot(a[i]!, b[i]!) + (a[i]! >> 24) * (b[i]! >> 24)
  },
  dotU8I8: (o, a, b, c) => () => {
    for (let i = 0; i < o.length; i++) o[i] = c[i]! + dotUnsigned(a[i]!, b[i]!)
  },
}
const SHIFT_SIGNED: Loop<I, I> = (o, a, b) => () => {
  for (let i = 0; i < o.length; i++) o[i] = a[i]! >> (b[i]! & 31)
}
const SHIFT_UNSIGNED: Loop<I, I> = (o, a, b) => () => {
  for (let i = 0; i < o.length; i++) o[i] = a[i]! >>> (b[i]! & 31)
}

const COMPARE_INTEGER: Partial<Record<OpName, Loop<B, I>>> = {
  lt: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! < b[i]! ? 1 : 0
  },
  le: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! <= b[i]! ? 1 : 0
  },
  gt: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! > b[i]! ? 1 : 0
  },
  ge: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i]! >= b[i]! ? 1 : 0
  },
  eq: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i] === b[i] ? 1 : 0
  },
  ne: (o, a, b) => () => {
    for (let i = 0; i < o.length; i++) o[i] = a[i] === b[i] ? 0 : 1
  },
}

function selectFloat(o: F, c: B, a: F, b: F): Run {
  return () => {
    for (let i = 0; i < o.length; i++) o[i] = c[i] === 0 ? b[i]! : a[i]!
  }
}
function selectInteger(o: I | B, c: B, a: I | B, b: I | B): Run {
  return () => {
    for (let i = 0; i < o.length; i++) o[i] = c[i] === 0 ? b[i]! : a[i]!
  }
}

/** The step of an elementwise pure op, or undefined if it is none. */
export function elementwise(node: Node, out: Cells, src: readonly Cells[]): Run | undefined {
  const { op, dtype } = node
  const [a, b = a, c = a] = src
  if (op === 'cast') return cast(node.src[0]!.dtype, dtype, out, a!)
  const record = opRecord(op)
  if (record.js === undefined) return undefined
  if (op === 'select') {
    return isFloat32(dtype) ? selectFloat(out as F, a as B, b as F, c as F) : selectInteger(out as I, a as B, b as I, c as I)
  }
  const from = scalarOf(node.src[0]!.dtype)
  const fast =
    from === 'f32' && scalarOf(dtype) === 'f32' ? FLOAT[op] : from === 'i32' || from === 'u32' ? fastInteger(op, from) : undefined
  if (fast !== undefined) return (fast as Loop<Cells, Cells>)(out, a!, b!, c!)
  return general(record.js(from), scalarOf(dtype) === 'f16', out, a!, b!, c!)
}

function fastInteger(op: OpName, scalar: 'i32' | 'u32'): Loop<I, I> | Loop<B, I> | undefined {
  if (op === 'shr') return scalar === 'i32' ? SHIFT_SIGNED : SHIFT_UNSIGNED
  return INTEGER[op] ?? COMPARE_INTEGER[op]
}

const isFloat32 = (dtype: DType): boolean => scalarOf(dtype) === 'f32' || scalarOf(dtype) === 'f16'

function general(meaning: (a: number, b: number, c: number) => number, half: boolean, out: Cells, a: Cells, b: Cells, c: Cells): Run {
  if (half)
    return () => {
      for (let i = 0; i < out.length; i++) out[i] = roundHalf(meaning(a[i]!, b[i]!, c[i]!))
    }
  return () => {
    for (let i = 0; i < out.length; i++) out[i] = meaning(a[i]!, b[i]!, c[i]!)
  }
}

/** Float to integer truncates and saturates, NaN gives 0; between integers the bits stay; anything but 0 is true. */
function cast(from: DType, to: DType, out: Cells, a: Cells): Run {
  const target = scalarOf(to)
  const source = scalarOf(from)
  const sourceIsFloat = source === 'f32' || source === 'f16'
  if (target === 'bool')
    return () => {
      for (let i = 0; i < out.length; i++) out[i] = a[i] === 0 ? 0 : 1
    }
  if (target === 'f16')
    return () => {
      for (let i = 0; i < out.length; i++) out[i] = roundHalf(a[i]!)
    }
  if (target === 'f32' || !sourceIsFloat)
    return () => {
      for (let i = 0; i < out.length; i++) out[i] = a[i]!
    }
  const low = target === 'i32' ? -(2 ** 31) : 0
  const high = target === 'i32' ? 2 ** 31 - 1 : 2 ** 32 - 1
  // Storing into an integer array truncates, and makes NaN 0.
  return () => {
    for (let i = 0; i < out.length; i++) out[i] = a[i]! < low ? low : a[i]! > high ? high : a[i]!
  }
}
