// What happens while a function is traced (compile.ts): which tensors it assigns to. Outside of a trace, an assignment changes the tensor
// and nothing else.

import type { TensorNode } from './node.ts'

export interface Trace {
  /** the tensors that were assigned to, in order, with what gave them before */
  readonly assigned: Map<object, TensorNode>
}

let current: Trace | undefined

export function currentTrace(): Trace | undefined {
  return current
}

/** Runs a function, and gives what it did besides its result. */
export function traced<R>(f: () => R): { result: R; trace: Trace } {
  const outer = current
  const trace: Trace = { assigned: new Map() }
  current = trace
  try {
    return { result: f(), trace }
  } finally {
    current = outer
  }
}
