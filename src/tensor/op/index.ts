// Every operation by name.

import type { Caps } from '../../base/caps.ts'
import type { Work } from '../../kernel/family.ts'
import type { AttrsOf, NodeOf, OpName, OperandsOf, Typed } from '../node.ts'
import { ATTENTION } from './attention.ts'
import { GATHERS } from './gather.ts'
import { LINEAR } from './linear.ts'
import { LORA } from './lora.ts'
import { MAP } from './map.ts'
import { MEMORY } from './memory.ts'
import type { Backward, MethodsOf, Operation } from './operation.ts'
import { PRODUCTS } from './product.ts'
import { RANDOM } from './random.ts'
import { REDUCTIONS } from './reduce.ts'
import { SELECTIONS } from './select.ts'
import { SHAPES } from './shape.ts'
import { WINDOWS } from './window.ts'
import type { Methods } from '../method/methods.ts'

export const OPERATIONS: { readonly [O in OpName]: Operation<O> } = {
  ...MEMORY,
  ...SHAPES,
  ...MAP,
  ...REDUCTIONS,
  ...GATHERS,
  ...PRODUCTS,
  ...LINEAR,
  ...LORA,
  ...WINDOWS,
  ...RANDOM,
  ...ATTENTION,
  ...SELECTIONS,
}

/** Shape and type of an operation's result; throws `bad-argument` where the operands do not fit. */
export function infer<O extends OpName>(op: O, src: OperandsOf<O>, attrs: AttrsOf<O>): Typed {
  return OPERATIONS[op].infer(src, attrs)
}

/** What an operation means in simpler ones; undefined: it is as simple as they get. */
export function define<O extends OpName>(op: O, src: MethodsOf<O>, attrs: AttrsOf<O>): Methods | undefined {
  return OPERATIONS[op].define?.(src, attrs)
}

/** How a change of the result comes from the operands; undefined: nobody has said. */
export function gradient<O extends OpName>(op: O, of: Backward<O>): readonly (Methods | undefined)[] | undefined {
  return OPERATIONS[op].gradient?.(of)
}

/** Whether an operation says itself how it is differentiated; else its definition does. */
export function hasGradient<O extends OpName>({ op, attrs }: NodeOf<O>): boolean {
  const { gradient: own, gradientByDefinition } = OPERATIONS[op]
  return own !== undefined && gradientByDefinition?.(attrs) !== true
}

/** The kernel work of a node. */
export function lower<O extends OpName>(node: NodeOf<O>, caps: Caps): Work {
  return OPERATIONS[node.op].lower?.(node, caps) ?? { launches: [] }
}

/** Whether kernels compute a node; others are memory that is there. */
export function hasKernels(op: OpName): boolean {
  return OPERATIONS[op].lower !== undefined
}

/** What the kernels of a node call its operands. */
export function inputNames<O extends OpName>(node: NodeOf<O>): readonly string[] {
  return OPERATIONS[node.op].inputs?.(node) ?? []
}

/** The operand whose memory the result is. */
export function inPlaceOperand<O extends OpName>(node: NodeOf<O>): number | undefined {
  return OPERATIONS[node.op].inPlace?.(node)
}
