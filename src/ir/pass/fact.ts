// Conditions that are known to hold, or not to, in the code that is being written, and what others become by that.

import type { Builder } from '../build.ts'
import type { Node } from '../node.ts'
import { constantOf } from './constant.ts'

export class Facts {
  readonly #builder: Builder
  readonly #known = new Map<Node, boolean>()

  constructor(builder: Builder) {
    this.#builder = builder
  }

  /** Takes a condition to hold, or not, and with it the parts that it is made of. */
  assume(condition: Node, holds: boolean): void {
    for (const [node, value] of partsOf(condition, holds)) this.#known.set(node, value)
  }

  /** Takes a condition to hold while `write` runs. */
  during(condition: Node, write: () => void): void {
    const added = partsOf(condition, true).filter(([node]) => !this.#known.has(node))
    for (const [node, value] of added) this.#known.set(node, value)
    write()
    for (const [node] of added) this.#known.delete(node)
  }

  /** A condition with what is known of its parts: a constant if that decides it. */
  settle(node: Node): Node {
    const known = this.#known.get(node)
    if (known !== undefined) return this.#builder.constant(known, 'bool')
    if (node.dtype !== 'bool' || !(node.op === 'and' || node.op === 'or' || node.op === 'not')) return node
    const [a, b] = node.src.map((each) => this.settle(each))
    if (a === undefined) return node
    if (b === undefined) return this.#builder.make('not', 'bool', [a])
    const deciding = node.op === 'and' ? 0 : 1
    return [a, b].find((each) => constantOf(each) === deciding) ?? this.#builder.make(node.op, 'bool', [a, b])
  }
}

/** What else is known if a condition holds, or does not. */
function partsOf(condition: Node, holds: boolean): [Node, boolean][] {
  const own: [Node, boolean] = [condition, holds]
  if (condition.dtype !== 'bool') return [own]
  if (condition.op === 'not') return [own, ...partsOf(condition.src[0], !holds)]
  const isAll = (condition.op === 'and' && holds) || (condition.op === 'or' && !holds)
  return isAll ? [own, ...condition.src.flatMap((each) => partsOf(each, holds))] : [own]
}
