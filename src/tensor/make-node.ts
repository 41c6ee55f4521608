// New nodes: whatever makes one has its operands checked here.

import { type AttrsOf, type NodeOf, type OpName, type OperandsOf, type TensorNode, type Typed } from './node.ts'
import { kindOfOperation } from './kind.ts'
import { infer } from './op/index.ts'
import { checkShape } from './operand.ts'

let made = 0

/** How many nodes there have been: whoever remembers it can tell older ones from newer ones. */
export function countMade(): number {
  return made
}

/** The node of an operation whose operands fit; throws `bad-argument` for others. */
export function makeNode<O extends OpName>(op: O, src: OperandsOf<O>, attrs: AttrsOf<O>): TensorNode {
  const kind = kindOfOperation(op, src, attrs, inferChecked)
  // What the kind was told is what this operation was told.
  const node = { op, shape: kind.shape, dtype: kind.dtype, src, attrs: kind.attrs as AttrsOf<O>, serial: made++, kind }
  return node satisfies NodeOf<O> as TensorNode
}

function inferChecked<O extends OpName>(op: O, src: OperandsOf<O>, attrs: AttrsOf<O>): Typed {
  const typed = infer(op, src, attrs)
  checkShape(op, typed.shape)
  return typed
}
