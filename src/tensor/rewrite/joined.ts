// Two products that are added are one sum: where one of them has a small inner size, the other goes on with it. So a low-rank change of a
// weight is added by the kernel that multiplies with the weight, forwards and backwards, and is never written by itself.

import { MATVEC_ROWS } from '../../kernel/linear/params.ts'
import { makeNode } from '../make-node.ts'
import { type NodeOf, type TensorNode, inPlaceOf, sizeOf } from '../node.ts'
import { last, sameShape } from '../shape.ts'
import { definitionOf } from '../sketch.ts'
import { isSum } from './residual.ts'
import type { Only, Rewrite } from './rewrite.ts'

/** Inner sizes that are small: what goes on is at most this long, and at most this share of what it is added to. */
const MOST_RANK = 256
const MOST_SHARE = 0.5

export const lowRankChanges: Rewrite = {
  name: 'low-rank changes',
  about: 'a weight with a change of low rank is two products that are added',
  concerns: ({ op }) => op === 'lora',
  begin: () => ({
    rule: (node) => {
      const defined = definitionOf(node)
      return defined && inPlaceOf(node, defined)
    },
  }),
}

export const equalProducts: Rewrite = {
  name: 'equal products',
  about: 'products of low rank of the same tensors are computed once: gradients ask again for what a change made of x',
  concerns: ({ op }) => op === 'linear',
  begin: () => {
    const known = new Map<TensorNode, Map<TensorNode, TensorNode>>()
    return {
      rule: (node) => {
        if (node.op !== 'linear' || node.src.length > 2) return undefined
        const [x, weight] = node.src
        if ((weight.shape[0] ?? 1) > MOST_RANK) return undefined // what is large may be computed again on purpose
        const ofX = known.get(x) ?? new Map<TensorNode, TensorNode>()
        known.set(x, ofX)
        const first = ofX.get(weight) ?? node
        ofX.set(weight, first)
        return first
      },
    }
  },
}

export const joinedProducts: Rewrite = {
  name: 'joined products',
  about: 'a product of low rank that is only added to another product goes on in its sums',
  concerns: ({ op }) => op === 'map',
  begin: () => ({
    rule: (node, only) => (node.op === 'map' && isSum(node) ? (joined(node, only, 0) ?? joined(node, only, 1)) : undefined),
  }),
}

/** The sum as one product, if that operand is one and the other goes on with it. */
function joined(node: NodeOf<'map'>, only: Only, at: 0 | 1): TensorNode | undefined {
  const [first, second] = [only(at), only(at === 0 ? 1 : 0)]
  if (first === undefined || second === undefined) return undefined
  if (!sameShape(first.shape, node.shape) || !sameShape(second.shape, node.shape)) return undefined
  const own = productOf(first)
  const more = own && lowOf(second, own.transposed)
  if (own === undefined || more === undefined) return undefined
  const rank = last(more.u.shape)
  if (rank > MOST_RANK || rank > MOST_SHARE * own.inner) return undefined
  const { x, weight, bias, transposed } = own
  return inPlaceOf(node, makeNode('joinedLinear', [x, weight, more.u, more.v, ...bias], { transposed }))
}

interface Product {
  readonly x: TensorNode
  readonly weight: TensorNode
  readonly bias: readonly TensorNode[]
  /** rows of the weight lie along the result */
  readonly transposed: boolean
  readonly inner: number
}

/** A product of rows with a matrix, in f32. */
function productOf(node: TensorNode): Product | undefined {
  if (node.dtype !== 'f32') return undefined
  if (node.op === 'linear') {
    const [x, weight, ...bias] = node.src
    return { x, weight, bias, transposed: false, inner: last(x.shape) }
  }
  if (node.op === 'linearTransposed') {
    const [x, weight] = node.src
    return { x, weight, bias: [], transposed: true, inner: last(x.shape) }
  }
  if (node.op !== 'matmul' || node.attrs.transposeA || node.src[1].shape.length !== 2) return undefined
  const [x, weight] = node.src
  const transposed = !node.attrs.transposeB
  // A few vectors times such a matrix have kernels of their own.
  if (transposed && sizeOf(node.shape) / last(node.shape) <= MATVEC_ROWS) return undefined
  return { x, weight, bias: [], transposed, inner: last(x.shape) }
}

/** The factors of a product of f32: u [rows, r], and v as [r, columns] where it shall lie straight, else as [columns, r]. */
function lowOf(node: TensorNode, straight: boolean): { u: TensorNode; v: TensorNode } | undefined {
  const factors = node.op === 'linear' ? ofLinear(node) : node.op === 'matmul' ? ofMatmul(node) : undefined
  if (factors === undefined) return undefined
  const { u, v, isStraight } = factors
  if (u.dtype !== 'f32' || v.dtype !== 'f32') return undefined
  const shape = [sizeOf(u.shape) / last(u.shape), last(u.shape)]
  return {
    u: sameShape(u.shape, shape) ? u : makeNode('reshape', [u], { shape }),
    v: isStraight === straight ? v : makeNode('permute', [v], { axes: [1, 0] }),
  }
}

interface Factors {
  readonly u: TensorNode
  readonly v: TensorNode
  readonly isStraight: boolean
}

function ofLinear({ src: [u, v, bias] }: NodeOf<'linear'>): Factors | undefined {
  return bias === undefined ? { u, v, isStraight: false } : undefined
}

function ofMatmul({ src: [u, v], attrs: { transposeA, transposeB } }: NodeOf<'matmul'>): Factors | undefined {
  return transposeA || v.shape.length !== 2 ? undefined : { u, v, isStraight: !transposeB }
}
