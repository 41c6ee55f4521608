// The rewrites of a graph, in the order that a plan applies them.

import type { Caps } from '../../base/caps.ts'
import { type Graph, graphOf } from '../graph.ts'
import type { TensorNode } from '../node.ts'
import { elementwiseChains } from './chain.ts'
import { doubleDefinitions } from './double.ts'
import { int8Sources } from './int8.ts'
import { equalProducts, joinedProducts, lowRankChanges } from './joined.ts'
import { packedWeights } from './packed.ts'
import { reducedChains } from './reduce.ts'
import { residualSums } from './residual.ts'
import { type Rewrite, applyRewrite } from './rewrite.ts'
import { turnedFactors } from './transpose.ts'
import { views } from './view.ts'
import { widerFloats } from './wider.ts'

/** Later ones see what earlier ones made: products are joined before weights are packed, sums are joined to products before chains swallow
 * them, chains are whole before int8 does, and views come last, since maps that read them in place are no plain expressions any more. */
export const REWRITES: readonly Rewrite[] = [
  doubleDefinitions,
  widerFloats,
  lowRankChanges,
  equalProducts,
  turnedFactors,
  joinedProducts,
  packedWeights,
  residualSums,
  elementwiseChains,
  int8Sources,
  reducedChains,
  views,
]

/** The roots as a device with these caps computes them best. */
export function rewriteGraph(roots: readonly TensorNode[], caps: Caps, rewrites: readonly Rewrite[] = REWRITES): Graph {
  return rewrites.reduce((graph, rewrite) => applyRewrite(graph, rewrite, caps), graphOf(roots))
}
