// Pass: replaces what the target cannot spell by simpler ops, until it can. The formulas are in ../decompose.ts.

import { IngotError } from '../../base/error.ts'
import { DECOMPOSE, type Decomposition } from '../decompose.ts'
import { type Kernel, uses } from '../kernel.ts'
import type { Node } from '../node.ts'
import { type OpName, opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { Folder } from './fold.ts'

/** Every target has these, whatever its table of spellings says. */
const LEAVES: ReadonlySet<OpName> = new Set(['const', 'index', 'uniform', 'local'])

export function decompose(kernel: Kernel, target: Target): Kernel {
  const isSpelled = (op: OpName): boolean => LEAVES.has(op) || opRecord(op).kind !== 'pure' || target.spells.has(op)
  if (!uses(kernel, ({ op }) => !isSpelled(op))) return kernel
  const interner = new Folder()
  const maker = { interner, kernel: kernel.name }
  const table: Partial<Record<OpName, Decomposition>> = DECOMPOSE
  const done = new Map<Node, Node>()

  function go(node: Node): Node {
    const known = done.get(node)
    if (known !== undefined) return known
    const src = node.src.map(go)
    let made = interner.make(node.op, node.dtype, src, node.arg)
    // a folded node may be of another op than the one that was asked for
    if (!isSpelled(made.op)) {
      const formula = table[made.op]
      if (formula === undefined) {
        throw new IngotError('unsupported', `${target.name} has no ${made.op}`, {
          op: kernel.name,
          got: made.dtype,
          hint: 'and nothing it could be made of',
        })
      }
      made = go(formula(maker, made, made.src))
    }
    done.set(node, made)
    return made
  }

  return { ...kernel, body: go(kernel.body), interner }
}
