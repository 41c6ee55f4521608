// How much memory a graph needs for its results, known without compiling or running anything.

import type { Caps } from '../base/caps.ts'
import { type TensorNode, operandsOf } from './node.ts'
import { hasKernels, lower } from './op/index.ts'
import { orderNodes } from './order.ts'
import { textOf } from './recipe.ts'
import { rewriteGraph } from './rewrite/index.ts'
import { schedule } from './schedule.ts'

type Scratch = Readonly<Record<string, number>>

/** Bytes of the slots of a plan for these roots, of which the first `reads` are wanted at the end; the largest come first. */
export function slotsFor(roots: readonly TensorNode[], reads: number, caps: Caps): readonly number[] {
  const { allocate } = schedule(orderNodes(rewriteGraph(roots, caps), reads))
  // Layers of a model are alike.
  const known = new Map<string, Scratch>()
  const scratchOf = (node: TensorNode): Scratch => {
    const form = ({ shape, dtype }: TensorNode): string => `${dtype}[${shape.join()}]`
    const key = `${node.op} ${textOf(node.attrs)} ${form(node)} ${operandsOf(node).map(form).join(' ')}`
    const found = known.get(key) ?? lower(node, caps).scratch ?? {}
    known.set(key, found)
    return found
  }
  const { slotBytes } = allocate(
    ({ node }) => (hasKernels(node.op) ? scratchOf(node) : {}),
    () => false,
  )
  return slotBytes
}
