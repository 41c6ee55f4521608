// New nodes: whatever makes one has its operands checked here.

import { type AttrsOf, type NodeOf, type OpName, type OperandsOf, type TensorNode } from './node.ts'
import { infer } from './op/index.ts'
import { checkShape } from './operand.ts'

let made = 0

/** How many nodes there have been: whoever remembers it can tell older ones from newer ones. */
export function countMade(): number {
  return made
}

/** The node of an operation whose operands fit; throws `bad-argument` for others. */
export function makeNode<O extends OpName>(op: O, src: OperandsOf<O>, attrs: AttrsOf<O>): TensorNode {
  const { shape, dtype } = infer(op, src, attrs)
  checkShape(op, shape)
  return { op, shape, dtype, src, attrs, serial: made++ } satisfies NodeOf<O> as TensorNode
}
