// Products with weights that lie packed (llm/weights.ts) are computed in int8: what they multiply is quantised first, once for all weights
// of a kind that take it.

import type { Added } from '../../kernel/linear/packed-linear.ts'
import { formatOf } from '../../quant/index.ts'
import { type Scaled, sideBySide } from '../../quant/packed/packed.ts'
import { type NodeOf, type TensorNode, inPlaceOf } from '../node.ts'
import { last, sameShape } from '../shape.ts'
import { makeNode } from '../make-node.ts'
import { Sketch } from '../sketch.ts'
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
      const product = (more: readonly TensorNode[], added: Added, isJoined: boolean): TensorNode =>
        makeNode('packedLinear', [quantize(x, packed.scaled), packed.leaf, ...more], { shape: x.shape, added, joined: isJoined })
      const own: Added = bias.length > 0 ? 'bias' : 'nothing'
      if (joined === undefined) return inPlaceOf(node, product(bias, own, false))
      // v lies as the rows of the weight do, or else its product is added: laying it so would take longer.
      const { u, v } = joined
      const beside = besideOf(v)
      if (beside !== undefined) return inPlaceOf(node, product([...bias, u, beside], own, true))
      const change = reshaped(makeNode('linear', [u, v], {}), node.shape)
      const apart = own === 'nothing' ? product([change], 'residual', false) : sum(product(bias, own, false), change)
      return inPlaceOf(node, apart)
    }
    return { rule }
  },
}

interface Parts {
  readonly x: TensorNode
  readonly weight: TensorNode
  readonly bias: readonly TensorNode[]
  readonly joined: { readonly u: TensorNode; readonly v: TensorNode } | undefined
}

/** What a product with a weight is made of; undefined: it is none. */
function partsOf(node: TensorNode): Parts | undefined {
  if (node.op === 'linear') {
    const [x, weight, ...bias] = node.src
    return { x, weight, bias, joined: undefined }
  }
  if (node.op !== 'joinedLinear' || node.attrs.transposed) return undefined
  const [x, weight, u, v, ...bias] = node.src
  return { x, weight, bias, joined: { u, v } }
}

/** The memory of a matrix whose rows lie side by side (llm/adapter/apply.ts), seen row by row: some first rows of a permutation of it. */
function besideOf(v: TensorNode): TensorNode | undefined {
  const [rows = 1, rank = 1] = v.shape
  const isFirst = v.op === 'slice' && v.attrs.starts.every((start) => start === 0) && v.attrs.steps.every((step) => step === 1)
  const all = v.op === 'slice' && isFirst ? v.src[0] : v
  const turned = all.op === 'reshape' ? all.src[0] : undefined
  if (turned?.op !== 'permute' || turned.attrs.axes.join() !== '0,2,1') return undefined
  const [beside] = turned.src
  return sameShape(beside.shape, sideBySide(rows, rank)) && last(all.shape) === rank ? beside : undefined
}

function reshaped(node: TensorNode, shape: readonly number[]): TensorNode {
  return sameShape(node.shape, shape) ? node : makeNode('reshape', [node], { shape })
}

function sum(a: TensorNode, b: TensorNode): TensorNode {
  return new Sketch(a).add(new Sketch(b)).node
}

/** The weight as it lies packed, if it does. */
function packedLeaf(weight: TensorNode): { leaf: NodeOf<'leaf'>; scaled: Scaled } | undefined {
  if (weight.op !== 'leaf' || !weight.attrs.storage.has('packed')) return undefined
  const { packed } = formatOf(weight.dtype)
  return packed && { leaf: { ...weight, attrs: { ...weight.attrs, layout: 'packed' } }, scaled: packed.scaled }
}
