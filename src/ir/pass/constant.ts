// Constants as nodes: what value a node has, where that is known, and how a number looks in a type. Knows no rules (fold.ts).

import { type DType, type Scalar, widthOf } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import type { Arg, OpName } from '../op.ts'

/** What rules need in order to make nodes. */
export interface Making {
  make(op: OpName, dtype: DType, src?: readonly Node[], arg?: Arg): Node
  /** a scalar constant, or one spread over a vector */
  constant(value: number, dtype: DType): Node
}

/** The value of a scalar constant. */
export function constantOf(node: Node): number | undefined {
  return node.op === 'const' ? Number(node.arg) : undefined
}

/** The value that all elements of a constant have. */
export function splatOf(node: Node): number | undefined {
  const scalar = node.op === 'splat' ? (node.src[0] as Node) : node
  return constantOf(scalar)
}

/** The elements of a value, where they are separate nodes. */
export function elementsOf(node: Node): readonly Node[] | undefined {
  if (node.op === 'const') return [node]
  if (node.op === 'vec') return node.src
  if (node.op === 'join') {
    const parts = node.src.map(elementsOf)
    return parts.every((part) => part !== undefined) ? parts.flat() : undefined
  }
  return node.op === 'splat' ? Array.from({ length: widthOf(node.dtype) }, () => node.src[0] as Node) : undefined
}

/** A number as its type can hold it: rounded or wrapped. */
export function normal(scalar: Scalar, value: number): number | boolean {
  switch (scalar) {
    case 'f32':
      return Math.fround(value)
    case 'f16':
      return roundHalf(value)
    case 'i32':
      return value | 0
    case 'u32':
      return value >>> 0
    case 'bool':
      return value !== 0
  }
}

/** To the nearest f16, halves to even; past the largest to infinity. */
export function roundHalf(value: number): number {
  const size = Math.abs(value)
  if (!Number.isFinite(value) || size === 0) return value
  let exponent = Math.floor(Math.log2(size))
  if (2 ** exponent > size) exponent--
  if (2 ** (exponent + 1) <= size) exponent++
  const step = 2 ** (Math.max(exponent, -14) - 10)
  const steps = size / step
  let whole = Math.floor(steps)
  const rest = steps - whole
  if (rest > 0.5 || (rest === 0.5 && whole % 2 === 1)) whole++
  const rounded = whole * step
  return Math.sign(value) * (rounded > 65504 ? Infinity : rounded)
}
