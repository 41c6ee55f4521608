// Gradients, by a transformation of the graph in reverse: from the result back to what it was computed from, each operation says how a
// change of its result comes from its operands. A gradient is a graph again, so it can be differentiated, too.

import { IngotError } from '../base/error.ts'
import { graphOf, operandsFirst, replaceNodes } from './graph.ts'
import { makeNode } from './make-node.ts'
import { type NodeOf, type TensorNode, anonymous, operandsOf, sizeOf } from './node.ts'
import { gradient, hasGradient } from './op/index.ts'
import { fail, show } from './operand.ts'
import { isFloatType } from './promote.ts'
import { isElementType } from '../base/element.ts'
import { sameShape } from './shape.ts'
import { Sketch, definitionOf } from './sketch.ts'

/** How `y`, or rather the sum of its elements times those of `cotangent`, changes with each of the nodes: a node of its shape for each. */
export function differentiate(y: TensorNode, wanted: readonly TensorNode[], cotangent: TensorNode | undefined): TensorNode[] {
  for (const node of wanted)
    if (!isFloat(node)) fail('grad', 'only floats have gradients', `${show(node)} of ${node.dtype}`, 'f32, f16, bf16 or f64')
  if (!isFloat(y)) fail('grad', 'only floats can be differentiated', `${show(y)} of ${y.dtype}`, 'f32, f16, bf16 or f64')
  const start = cotangent ?? onesLike(y)
  if (!sameShape(start.shape, y.shape)) fail('grad', 'the cotangent has another shape', show(start), show(y))
  const [root, sources] = prepare(y, wanted)
  const reverse = new Reverse(reachedFrom(root, new Set(sources)))
  reverse.add(root, new Sketch(start))
  reverse.visit(operandsFirst([root]))
  return sources.map((source) => reverse.changeOf(source)?.node ?? zerosLike(source))
}

/** The walk from a result back to what it was computed from, and what has come by each node so far. */
class Reverse {
  readonly #changes = new Map<TensorNode, Sketch>()
  /** nodes that the sources reach: no others matter */
  readonly #reached: Set<TensorNode>

  constructor(reached: Set<TensorNode>) {
    this.#reached = reached
  }

  changeOf(node: TensorNode): Sketch | undefined {
    return this.#changes.get(node)
  }

  /** One more way in which what is differentiated changes with a node. */
  add(node: TensorNode, part: Sketch): void {
    this.#changes.set(node, this.#changes.get(node)?.add(part) ?? part)
  }

  /** Visits nodes, given operands first, from the last to the first. */
  visit(nodes: readonly TensorNode[]): void {
    for (const node of nodes.toReversed()) {
      const change = this.#changes.get(node)
      if (change === undefined || !operandsOf(node).some((operand) => this.#reached.has(operand))) continue
      if (node.op === 'checkpoint') this.#recompute(node, change)
      else this.#step(node, change)
    }
  }

  #step(node: TensorNode, change: Sketch): void {
    const operands = operandsOf(node)
    const wants = (i: number): boolean => operands[i] !== undefined && this.#reached.has(operands[i])
    backward(node, change, wants).forEach((part, i) => {
      const operand = operands[i]
      if (part !== undefined && operand !== undefined && wants(i)) this.add(operand, part)
    })
  }

  /** Goes through a copy of what lies inside a checkpoint: it is computed again then, and what the first time gave need not be kept. */
  #recompute({ src: [result, ...inputs] }: NodeOf<'checkpoint'>, change: Sketch): void {
    const outside = new Set(operandsFirst(inputs))
    const copies = new Set<TensorNode>()
    const of = replaceNodes(graphOf([result]), (node, original) => {
      if (outside.has(original) || node.op === 'leaf') return original
      const copy = anonymous(node)
      copies.add(copy)
      return copy
    })
    const root = of(result)
    for (const node of reachedFrom(root, this.#reached)) this.#reached.add(node)
    this.add(root, change)
    this.visit(operandsFirst([root]).filter((node) => copies.has(node)))
  }
}

/** The graph in operations that have gradients, and what the wanted nodes became there. */
function prepare(y: TensorNode, wanted: readonly TensorNode[]): [root: TensorNode, sources: TensorNode[]] {
  let [root, sources] = [y, [...wanted]]
  for (;;) {
    const reached = reachedFrom(root, new Set(sources))
    let changed = false
    const of = replaceNodes(graphOf([root]), (node, original) => {
      if (!reached.has(original) || hasGradient(node) || node.op === 'checkpoint') return undefined
      const simpler = definitionOf(node)
      changed ||= simpler !== undefined
      return simpler
    })
    if (!changed) return [root, sources]
    ;[root, sources] = [of(root), sources.map(of)]
  }
}

/** The nodes that depend on one of the sources through floats only. */
function reachedFrom(root: TensorNode, sources: ReadonlySet<TensorNode>): Set<TensorNode> {
  const reached = new Set(sources)
  for (const node of operandsFirst([root])) if (isFloat(node) && operandsOf(node).some((operand) => reached.has(operand))) reached.add(node)
  return reached
}

function backward(node: TensorNode, cotangent: Sketch, wants: (operand: number) => boolean): readonly (Sketch | undefined)[] {
  const parts = gradient(node.op, {
    src: operandsOf(node).map((operand) => new Sketch(operand)),
    out: new Sketch(node),
    cotangent,
    attrs: node.attrs,
    wants,
  })
  if (parts === undefined)
    throw new IngotError('unsupported', 'this operation cannot be differentiated', {
      op: node.op,
      got: show(node),
      hint: 'stopGradient() leaves it out',
    })
  return parts.map((part) => (part instanceof Sketch ? part : undefined))
}

function isFloat({ dtype }: TensorNode): boolean {
  return isElementType(dtype) && isFloatType(dtype)
}

function onesLike(y: TensorNode): TensorNode {
  if (sizeOf(y.shape) === 1) return constantLike(y, 1)
  return fail(
    'grad',
    'what is differentiated is no single number',
    show(y),
    'one element, or a cotangent of its shape',
    'sum() or mean() first?',
  )
}

function zerosLike(node: TensorNode): TensorNode {
  return constantLike(node, 0)
}

function constantLike({ shape, dtype }: TensorNode, value: number): TensorNode {
  if (!isElementType(dtype)) return fail('grad', 'a weight has no gradient', dtype)
  const one = makeNode('map', [], { expr: { cast: dtype, of: { const: value, type: 'f32' } }, type: dtype })
  return makeNode('expand', [one], { shape })
}
