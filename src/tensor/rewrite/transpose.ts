// A product reads a factor that lies the other way around as it is: a transposition of its last two axes is not copied.

import { type NodeOf, type TensorNode, inPlaceOf } from '../node.ts'
import type { Rewrite } from './rewrite.ts'

export const turnedFactors: Rewrite = {
  name: 'turned factors',
  about: 'products read transposed factors where they lie',
  concerns: ({ op }) => op === 'matmul',
  begin: () => ({ rule: (node) => (node.op === 'matmul' ? turned(node) : undefined) }),
}

function turned(node: NodeOf<'matmul'>): TensorNode | undefined {
  const [a, b] = node.src.map((factor) => unturned(factor, false)) as [Turned, Turned]
  if (a.below === node.src[0] && b.below === node.src[1]) return undefined
  const { transposeA, transposeB } = node.attrs
  const attrs = { transposeA: transposeA !== a.isTurned, transposeB: transposeB !== b.isTurned }
  return inPlaceOf(node, { ...node, src: [a.below, b.below], attrs })
}

interface Turned {
  readonly below: TensorNode
  readonly isTurned: boolean
}

/** What lies below the transpositions of a factor, and whether these come to one. */
function unturned(node: TensorNode, isTurned: boolean): Turned {
  if (node.op !== 'permute') return { below: node, isTurned }
  const { axes } = node.attrs
  const last = axes.length - 1
  const swaps = last > 0 && axes.every((axis, i) => axis === (i === last ? last - 1 : i === last - 1 ? last : i))
  return swaps ? unturned(node.src[0], !isTurned) : { below: node, isTurned }
}
