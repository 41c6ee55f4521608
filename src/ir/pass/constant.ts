// Constants as nodes: what value a node has, where that is known, and how a number looks in a type. Knows no rules (fold.ts).

import { type DType, type Scalar, widthOf } from '../../base/dtype.ts'
import { roundHalf } from '../../base/half.ts'
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
  return constantOf(node.op === 'splat' ? node.src[0] : node)
}

/** The elements of a value, where they are separate nodes. */
export function elementsOf(node: Node): readonly Node[] | undefined {
  switch (node.op) {
    case 'const':
      return [node]
    case 'vec':
      return node.src
    case 'splat': {
      const [element] = node.src
      return Array.from({ length: widthOf(node.dtype) }, () => element)
    }
    case 'join': {
      const parts = node.src.map(elementsOf)
      return parts.every((part) => part !== undefined) ? parts.flat() : undefined
    }
    default:
      return undefined
  }
}

/** A number as its type can hold it: rounded or wrapped. */
export function normal(scalar: Scalar, value: number): number | boolean {
  switch (scalar) {
    case 'f32':
      return Math.fround(value)
    case 'f16':
      return roundHalf(value)
    case 'f64':
      return value
    case 'i32':
      return value | 0
    case 'u32':
      return value >>> 0
    case 'bool':
      return value !== 0
  }
}
