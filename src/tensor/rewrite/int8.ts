// A norm or a map that is wanted as int8 only is computed where it is quantised: its floats are never written.

import type { Quantize8Source } from '../../kernel/linear/quantize8.ts'
import type { NodeOf, TensorNode } from '../node.ts'
import { last, sameShape } from '../shape.ts'
import type { Rewrite } from './rewrite.ts'

export const int8Sources: Rewrite = {
  name: 'int8 activations',
  about: 'what is only quantised is computed there',
  concerns: ({ op }) => op === 'quantize8',
  begin: () => ({
    rule: (node, only) => {
      const [x] = [node.op === 'quantize8' ? only(0) : undefined]
      if (node.op !== 'quantize8' || x === undefined || x.dtype !== 'f32' || last(x.shape) !== node.attrs.k) return undefined
      if (x.op === 'norm') return withSource(node, x.src, { kind: 'norm', norm: x.attrs })
      const isAlike = x.op === 'map' && x.src.every(({ dtype, shape }) => dtype === 'f32' && sameShape(shape, x.shape))
      return isAlike ? withSource(node, x.src, { kind: 'map', expr: x.attrs.expr, inputs: x.src.length }) : undefined
    },
  }),
}

function withSource(node: NodeOf<'quantize8'>, src: readonly TensorNode[], source: Quantize8Source): TensorNode {
  return { ...node, src, attrs: { ...node.attrs, source } }
}
