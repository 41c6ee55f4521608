// Pass: replaces what the target cannot spell by simpler ops, until it can. The formulas are in ../decompose.ts.

import { scalarOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { decompositionOf } from '../decompose.ts'
import { type Kernel, uses } from '../kernel.ts'
import type { Node } from '../node.ts'
import { isLeaf, opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { builderFor } from './rewrite.ts'

export function decompose(kernel: Kernel, target: Target): Kernel {
  const isSpelled = ({ op, dtype }: Node): boolean =>
    isLeaf(op) ||
    opRecord(op).kind !== 'pure' ||
    target.spells.has(op) ||
    (target.double?.spells.has(op) === true && scalarOf(dtype) === 'f64')
  if (!uses(kernel, (node) => !isSpelled(node))) return kernel
  const builder = builderFor(kernel)
  const done = new Map<Node, Node>()

  function go(node: Node): Node {
    const known = done.get(node)
    if (known !== undefined) return known
    let made = builder.make(node.op, node.dtype, node.src.map(go), node.arg)
    // a folded node may be of another op than the one that was asked for
    if (!isSpelled(made)) {
      const simpler = decompositionOf(builder, made)
      if (simpler === undefined) {
        throw new IngotError('unsupported', `${target.name} has no ${made.op}`, {
          op: kernel.name,
          got: made.dtype,
          hint: 'give the target a spelling of it, or ir/decompose.ts a row that makes it of simpler ops',
        })
      }
      made = go(simpler)
    }
    done.set(node, made)
    return made
  }

  return { ...kernel, body: go(kernel.body), interner: builder.interner }
}
