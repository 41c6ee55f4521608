// An index as a base plus a constant. A rule of the language: the last addition of an index does not wrap, so that targets may make
// the constant part of an address. The interpreter reports an index that breaks it.

import type { Node } from './node.ts'

export interface Displacement {
  readonly base: Node
  readonly plus: number
}

/** The parts of `base + constant`, where the index has that form. */
export function displacement({ op, src: [base, plus] }: Node): Displacement | undefined {
  const constant = op === 'add' && plus?.op === 'const' && typeof plus.arg === 'number' && plus.arg < 2 ** 31
  return constant && base !== undefined ? { base, plus: plus.arg } : undefined
}
