// Fusion of neighbours: a map whose operand is a map that nobody else needs becomes one map; a norm or map that is only wanted as int8
// is computed where it is quantised; a product with packed weights that is only wanted in a sum adds the other term itself.
// Fused kernels for larger patterns are operations of their own.

/* oxlint-disable typescript/no-non-null-assertion -- an operation has the operands that its method in tensor.ts gave it */

import type { MapExpr } from '../kernel/map/map.ts'
import type { TensorNode } from './node.ts'
import type { MapAttrs, NormAttrs, PackedAttrs, Quantize8Attrs } from './op.ts'

/** more operands than this would exceed what small devices can bind */
const MOST_OPERANDS = 6

/** Gives each node of the graph below `roots` its fused form; shared nodes stay shared. */
export function fuse(roots: readonly TensorNode[]): { roots: TensorNode[]; fused: ReadonlyMap<TensorNode, TensorNode> } {
  const uses = countUses(roots)
  const done = new Map<TensorNode, TensorNode>()
  const go = (node: TensorNode): TensorNode => {
    const known = done.get(node)
    if (known !== undefined) return known
    const src = node.src.map(go)
    /** the operand, if nobody else sees it */
    const single = (i: number): TensorNode | undefined =>
      uses.get(node.src[i]!) === 1 && src[i]?.label === undefined && src[i]?.type === 'f32' ? src[i] : undefined
    const result =
      (node.op === 'map' ? (fuseResidual(node, src, single) ?? fuseMap(node, src, single)) : undefined) ??
      (node.op === 'quantize8' ? fuseSource(node, single(0)) : undefined) ??
      rebuilt(node, src)
    done.set(node, result)
    return result
  }
  return { roots: roots.map(go), fused: done }
}

function rebuilt(node: TensorNode, src: readonly TensorNode[]): TensorNode {
  return src.every((child, i) => child === node.src[i]) ? node : copyOf(node, src, node.attrs)
}

function copyOf(node: TensorNode, src: readonly TensorNode[], attrs: object): TensorNode {
  return { op: node.op, shape: node.shape, type: node.type, src, attrs, ...(node.label === undefined ? {} : { label: node.label }) }
}

type Single = (operand: number) => TensorNode | undefined

/** x + (packed product): the product adds x. */
function fuseResidual(node: TensorNode, src: readonly TensorNode[], single: Single): TensorNode | undefined {
  const { expr, type } = node.attrs as MapAttrs
  if (type !== 'f32' || !('op' in expr) || expr.op !== 'add' || !expr.args.every((arg) => 'input' in arg) || src.length !== 2)
    return undefined
  for (const i of [1, 0]) {
    const [product, other] = [single(i), src[1 - i]!]
    if (product?.op !== 'packedLinear') continue
    const { added } = product.attrs as PackedAttrs
    if (added !== 'nothing') continue // no model has both
    if (other.type !== 'f32' || !sameShape(other.shape, node.shape) || !sameShape(product.shape, node.shape)) continue
    const attrs: PackedAttrs = { ...(product.attrs as PackedAttrs), added: 'residual' }
    return { ...copyOf(node, [...product.src, other], attrs), op: 'packedLinear' }
  }
  return undefined
}

/** A norm, or a map of tensors of one shape, that is only quantised. */
function fuseSource(node: TensorNode, operand: TensorNode | undefined): TensorNode | undefined {
  const { k, scaled } = node.attrs as Quantize8Attrs
  if (operand === undefined || operand.shape.at(-1) !== k) return undefined
  if (operand.op === 'norm') {
    return copyOf(node, operand.src, { k, scaled, source: { kind: 'norm', norm: operand.attrs as NormAttrs } } satisfies Quantize8Attrs)
  }
  if (operand.op !== 'map' || !operand.src.every(({ type, shape }) => type === 'f32' && sameShape(shape, operand.shape))) return undefined
  const { expr } = operand.attrs as MapAttrs
  return copyOf(node, operand.src, { k, scaled, source: { kind: 'map', expr, inputs: operand.src.length } } satisfies Quantize8Attrs)
}

function fuseMap(node: TensorNode, src: readonly TensorNode[], single: Single): TensorNode {
  const operands: TensorNode[] = []
  const position = (operand: TensorNode): MapExpr => {
    const known = operands.indexOf(operand)
    return { input: known >= 0 ? known : operands.push(operand) - 1 }
  }
  const { expr, type } = node.attrs as MapAttrs
  const inputs = src.map((child, i): MapExpr => {
    const inner = single(i)?.op === 'map' ? (child.attrs as MapAttrs) : undefined
    // A narrower type in between would round; a smaller shape would be computed again for every repetition.
    const fits =
      inner !== undefined &&
      sameShape(child.shape, node.shape) &&
      operands.length + child.src.length + (src.length - i - 1) <= MOST_OPERANDS
    return fits ? substitute(inner.expr, child.src.map(position)) : position(child)
  })
  return copyOf(node, operands, { expr: substitute(expr, inputs), type } satisfies MapAttrs)
}

function substitute(expr: MapExpr, inputs: readonly MapExpr[]): MapExpr {
  if ('input' in expr) return inputs[expr.input] ?? expr
  if ('const' in expr) return expr
  return { op: expr.op, args: expr.args.map((arg) => substitute(arg, inputs)) }
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, axis) => size === b[axis])
}

function countUses(roots: readonly TensorNode[]): Map<TensorNode, number> {
  const uses = new Map<TensorNode, number>()
  const visit = (node: TensorNode): void => {
    const count = uses.get(node) ?? 0
    uses.set(node, count + 1)
    if (count === 0) node.src.forEach(visit)
  }
  roots.forEach(visit)
  return uses
}
