// x + (product with packed weights): the product adds x itself, where it is wanted nowhere else.

import { type NodeOf, type TensorNode, inPlaceOf } from '../node.ts'
import { sameShape } from '../shape.ts'
import type { Only, Rewrite } from './rewrite.ts'

export const residualSums: Rewrite = {
  name: 'residual sums',
  about: 'a product with packed weights that is only added to something adds it itself',
  concerns: ({ op }) => op === 'map',
  begin: () => ({
    rule: (node, only) => (node.op === 'map' && isSum(node) ? (joined(node, only, 1) ?? joined(node, only, 0)) : undefined),
  }),
}

/** in0 + in1 */
export function isSum({ src, attrs: { expr, type } }: NodeOf<'map'>): boolean {
  return type === 'f32' && src.length === 2 && 'op' in expr && expr.op === 'add' && expr.args.every((arg) => 'input' in arg)
}

/** The sum as a product that adds, if that operand is one. */
function joined(node: NodeOf<'map'>, only: Only, at: 0 | 1): TensorNode | undefined {
  const [product, other] = [only(at), node.src[1 - at]]
  if (product?.op !== 'packedLinear' || product.attrs.added !== 'nothing') return undefined
  if (other?.dtype !== 'f32' || !sameShape(other.shape, node.shape) || !sameShape(product.shape, node.shape)) return undefined
  const [x, weight, ...joined] = product.src
  return inPlaceOf(node, { ...product, src: [x, weight, other, ...joined], attrs: { ...product.attrs, added: 'residual' } })
}
