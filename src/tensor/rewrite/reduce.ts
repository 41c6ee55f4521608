// A map that is only reduced is computed where it is: what lies between is never written.

import type { NodeOf, TensorNode } from '../node.ts'
import { asStored } from './chain.ts'
import type { Rewrite } from './rewrite.ts'

export const reducedChains: Rewrite = {
  name: 'reduced chains',
  about: 'a map that is only reduced is computed by the reduction',
  concerns: ({ op }) => op === 'reduce',
  begin: () => ({
    rule: (node, only) => {
      const x = node.op === 'reduce' && node.attrs.source === undefined ? only(0) : undefined
      return node.op === 'reduce' && x?.op === 'map' ? joined(node, x) : undefined
    },
  }),
}

function joined(node: NodeOf<'reduce'>, { shape, src, attrs }: NodeOf<'map'>): TensorNode | undefined {
  const [first, ...more] = src
  if (first === undefined) return undefined
  const source = { expr: asStored(attrs.expr, attrs.type), shape, type: attrs.type }
  return { ...node, src: [first, ...more], attrs: { ...node.attrs, source } }
}
