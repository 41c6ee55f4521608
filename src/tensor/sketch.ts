// Tensors that are only written with: what definitions and gradients are made of. Nobody holds on to a sketch, and it knows no device.

import { Methods } from './method/methods.ts'
import type { SourcesOf } from './method/base.ts'
import { makeNode } from './make-node.ts'
import { type AttrsOf, type OpName, type OperandsOf, type TensorNode, type TensorType, operandsOf } from './node.ts'
import { define } from './op/index.ts'

export class Sketch extends Methods {
  readonly node: TensorNode

  constructor(node: TensorNode) {
    super()
    this.node = node
  }

  override get shape(): readonly number[] {
    return this.node.shape
  }
  override get dtype(): TensorType {
    return this.node.dtype
  }

  protected override apply<O extends OpName>(op: O, src: SourcesOf<O, this>, attrs: AttrsOf<O>): this {
    const operands = src as readonly Sketch[]
    return new Sketch(makeNode(op, operands.map(({ node }) => node) as OperandsOf<O>, attrs)) as this // nobody extends this class
  }
}

/** What gives the value of a node in simpler operations; undefined: it is as simple as they get. */
export function definitionOf(node: TensorNode): TensorNode | undefined {
  const defined = define(
    node.op,
    operandsOf(node).map((operand) => new Sketch(operand)),
    node.attrs,
  )
  return defined instanceof Sketch ? defined.node : undefined
}
