// What an operation is: one record that says everything about it. `about` is for people; `infer` checks the operands and gives shape and
// type; `define` says what it means in simpler operations, for those that have a kernel of their own only to be fast; `gradient` is its
// part in differentiation, for which its definition serves where it has none; `lower` gives the kernel work.
//
// Invariant: `infer` refuses operands that do not fit each other in shape or type (operand.ts). Kernels rely on it: they see no ends.

import type { Caps } from '../../base/caps.ts'
import type { Work } from '../../kernel/family.ts'
import type { SourcesOf } from '../method/base.ts'
import type { Methods } from '../method/methods.ts'
import type { AttrsOf, NodeOf, OpName, OperandsOf, Typed } from '../node.ts'

/** Operands as definitions see them: with methods. */
export type MethodsOf<O extends OpName> = SourcesOf<O, Methods>

/** An operation seen from its result. */
export interface Backward<O extends OpName> {
  readonly src: MethodsOf<O>
  readonly out: Methods
  /** how much what is differentiated changes with each element of the result */
  readonly cotangent: Methods
  readonly attrs: AttrsOf<O>
  /** whether anybody wants to know about this operand */
  wants(operand: number): boolean
}

export interface Operation<O extends OpName> {
  /** one line for the table of operations */
  readonly about: string
  /** The shape and type of the result; refuses operands that do not fit. */
  infer(src: OperandsOf<O>, attrs: AttrsOf<O>): Typed
  /** The same in simpler operations. Written to be read, not to be fast: intermediate results may be large. */
  define?(src: MethodsOf<O>, attrs: AttrsOf<O>): Methods
  /** How a change of the result comes from each operand: the product of `cotangent` with the derivative; undefined: it does not. */
  gradient?(of: Backward<O>): readonly (Methods | undefined)[]
  /** Whether, told this, its definition serves for the gradient all the same. */
  gradientByDefinition?(attrs: AttrsOf<O>): boolean
  /** The kernels that compute it; depends on shapes, types and attributes only, so that equal operations share it. Absent: no kernels. */
  lower?(node: NodeOf<O>, caps: Caps): Work
  /** What its kernels call the operands, in order; the result is `y` there. */
  inputs?(node: NodeOf<O>): readonly string[]
  /** the operand whose memory the result is: with kernels it is changed in place, without it is the same bytes under another shape */
  inPlace?(node: NodeOf<O>): number | undefined
}
