// Elementwise fusion: a map whose operand is a map that nobody else needs becomes one map. Nothing else is fused here; fused
// kernels for larger patterns are operations of their own.

import type { MapExpr } from '../kernel/map.ts'
import type { TensorNode } from './node.ts'
import type { MapAttrs } from './op.ts'

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
    const result = node.op === 'map' ? fuseMap(node, src, (child) => uses.get(child) === 1) : rebuilt(node, src)
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

function fuseMap(node: TensorNode, src: readonly TensorNode[], single: (child: TensorNode) => boolean): TensorNode {
  const operands: TensorNode[] = []
  const position = (operand: TensorNode): MapExpr => {
    const known = operands.indexOf(operand)
    return { input: known >= 0 ? known : operands.push(operand) - 1 }
  }
  const { expr, type } = node.attrs as MapAttrs
  const inputs = src.map((child, i): MapExpr => {
    const original = node.src[i]
    const inner = child.op === 'map' ? (child.attrs as MapAttrs) : undefined
    // A narrower type in between would round; a smaller shape would be computed again for every repetition.
    const fits = inner !== undefined && original !== undefined && single(original) && child.type === 'f32' && child.label === undefined
      && sameShape(child.shape, node.shape) && operands.length + child.src.length + (src.length - i - 1) <= MOST_OPERANDS
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
