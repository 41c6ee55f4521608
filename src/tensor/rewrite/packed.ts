// Products with weights that lie packed (llm/weights.ts) are computed in int8: what they multiply is quantised first, once for all weights
// of a kind that take it.

import { formatOf } from '../../quant/index.ts'
import type { Scaled } from '../../quant/packed/packed.ts'
import { type NodeOf, type TensorNode, inPlaceOf } from '../node.ts'
import { last } from '../shape.ts'
import { makeNode } from '../make-node.ts'
import type { Rewrite, Rule } from './rewrite.ts'

export const packedWeights: Rewrite = {
  name: 'packed weights',
  about: 'products with packed weights take int8 activations',
  concerns: ({ op }) => op === 'linear' || op === 'joinedLinear',
  begin: () => {
    const quantized = new Map<TensorNode, Map<Scaled, TensorNode>>()
    const quantize = (x: TensorNode, scaled: Scaled): TensorNode => {
      const known = quantized.get(x) ?? new Map<Scaled, TensorNode>()
      quantized.set(x, known)
      const made = known.get(scaled) ?? makeNode('quantize8', [x], { k: last(x.shape), scaled, source: { kind: 'plain' } })
      known.set(scaled, made)
      return made
    }
    const rule: Rule = (node) => {
      const parts = partsOf(node)
      const packed = parts && packedLeaf(parts.weight)
      if (parts === undefined || packed === undefined) return undefined
      const { x, bias, joined } = parts
      const attrs = { shape: x.shape, added: bias.length > 0 ? 'bias' : 'nothing', joined: joined.length > 0 } as const
      return inPlaceOf(node, makeNode('packedLinear', [quantize(x, packed.scaled), packed.leaf, ...bias, ...joined], attrs))
    }
    return { rule }
  },
}

interface Parts {
  readonly x: TensorNode
  readonly weight: TensorNode
  readonly bias: readonly TensorNode[]
  readonly joined: readonly TensorNode[]
}

/** What a product with a weight is made of; undefined: it is none. */
function partsOf(node: TensorNode): Parts | undefined {
  if (node.op === 'linear') {
    const [x, weight, ...bias] = node.src
    return { x, weight, bias, joined: [] }
  }
  if (node.op !== 'joinedLinear' || node.attrs.transposed) return undefined
  const [x, weight, u, v, ...bias] = node.src
  return { x, weight, bias, joined: [u, makeNode('permute', [v], { axes: [1, 0] })] } // rows lie side by side, as those of the weight
}

/** The weight as it lies packed, if it does. */
function packedLeaf(weight: TensorNode): { leaf: NodeOf<'leaf'>; scaled: Scaled } | undefined {
  if (weight.op !== 'leaf' || !weight.attrs.storage.has('packed')) return undefined
  const { packed } = formatOf(weight.dtype)
  return packed && { leaf: { ...weight, attrs: { ...weight.attrs, layout: 'packed' } }, scaled: packed.scaled }
}
