// Elementwise chains become one map: an operand that is a map itself, and that nobody else reads, is computed where it is used.

import { type MapExpr, countOperations, substitute } from '../../kernel/map/expr.ts'
import type { ElementType, NodeOf, TensorNode } from '../node.ts'
import { sameShape } from '../shape.ts'
import type { Only, Rewrite } from './rewrite.ts'

/** more operands than this would exceed what small devices can bind */
const MOST_OPERANDS = 6
/** more operations would make kernels that take long to compile, and wait for nothing but arithmetic */
const MOST_OPERATIONS = 100

export const elementwiseChains: Rewrite = {
  name: 'elementwise chains',
  about: 'maps of maps become one map',
  concerns: ({ op }) => op === 'map',
  begin: () => ({ rule: (node, only) => (node.op === 'map' ? fused(node, only) : undefined) }),
}

function fused(node: NodeOf<'map'>, only: Only): TensorNode | undefined {
  const { src, attrs } = node
  const operands: TensorNode[] = []
  const position = (operand: TensorNode): MapExpr => {
    const known = operands.indexOf(operand)
    return { input: known >= 0 ? known : operands.push(operand) - 1 }
  }
  let operations = countOperations(attrs.expr)
  const inputs = src.map((operand, i): MapExpr => {
    const constant = constantOf(operand)
    if (constant !== undefined) return constant
    const inner = only(i)
    // A smaller shape would be computed again for every repetition.
    if (inner?.op !== 'map' || !sameShape(inner.shape, node.shape)) return position(operand)
    const inside = countOperations(inner.attrs.expr)
    const together = new Set([...operands, ...inner.src, ...src.slice(i + 1)])
    if (together.size > MOST_OPERANDS || operations + inside > MOST_OPERATIONS) return position(operand)
    operations += inside
    return asStored(withInputs(inner.attrs.expr, inner.src.map(position)), inner.attrs.type)
  })
  const isSame = operands.length === src.length && inputs.every((input, i) => 'input' in input && input.input === i)
  if (isSame && operands.every((operand, i) => operand === src[i])) return undefined
  return { ...node, src: operands, attrs: { ...attrs, expr: withInputs(attrs.expr, inputs) } }
}

/** What a tensor of one number is everywhere, however it is seen. */
export function constantOf(node: TensorNode): MapExpr | undefined {
  let below = node
  while (below.op === 'expand' || below.op === 'reshape' || below.op === 'permute' || below.op === 'slice') [below] = below.src
  return below.op === 'map' && below.src.length === 0 && (below.attrs.inputs ?? []).length === 0
    ? asStored(below.attrs.expr, below.attrs.type)
    : undefined
}

function withInputs(expr: MapExpr, inputs: readonly MapExpr[]): MapExpr {
  return substitute(expr, (leaf) => ('input' in leaf ? inputs[leaf.input] : undefined))
}

/** The value as memory of a narrower type than registers would have rounded it. */
export function asStored(expr: MapExpr, type: ElementType): MapExpr {
  return type === 'f16' || type === 'bf16' || type === 'i8' || type === 'u8' ? { cast: type, of: expr } : expr
}
