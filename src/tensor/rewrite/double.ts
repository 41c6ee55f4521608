// 64-bit floats have kernels for maps, reductions and scans, and for what moves elements; everything else is computed with them as
// its definition says.

import { type TensorNode, inPlaceOf, operandsOf } from '../node.ts'
import { define } from '../op/index.ts'
import { Sketch } from '../sketch.ts'
import type { Rewrite } from './rewrite.ts'

const HAVE_KERNELS: ReadonlySet<TensorNode['op']> = new Set(['map', 'reduce', 'scan', 'fold'])

export const doubleDefinitions: Rewrite = {
  name: '64-bit floats',
  about: 'operations without kernels for them are computed as their definitions',
  again: true,
  begin: () => ({
    rule: (node) => {
      if (!operandsOf(node).some(({ dtype }) => dtype === 'f64') || HAVE_KERNELS.has(node.op)) return undefined
      const defined = define(
        node.op,
        operandsOf(node).map((operand) => new Sketch(operand)),
        node.attrs,
      )
      return defined instanceof Sketch ? inPlaceOf(node, defined.node) : undefined
    },
  }),
}
