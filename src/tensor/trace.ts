// What happens while a function is traced (compile.ts): which tensors it assigns to, and which random numbers it draws. Outside of a trace,
// an assignment changes the tensor and nothing else.

import type { NodeOf, TensorNode } from './node.ts'

export interface Trace {
  /** the tensors that were assigned to, in order, with what gave them before */
  readonly assigned: Map<object, TensorNode>
  /** keys of random numbers without a seed: every run brings others */
  readonly keys: NodeOf<'leaf'>[]
}

let current: Trace | undefined

export function currentTrace(): Trace | undefined {
  return current
}

/** Runs a function, and gives what it did besides its result. */
export function traced<R>(f: () => R): { result: R; trace: Trace } {
  const outer = current
  const trace: Trace = { assigned: new Map(), keys: [] }
  current = trace
  try {
    return { result: f(), trace }
  } finally {
    current = outer
  }
}
