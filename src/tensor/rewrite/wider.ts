// Operations that have kernels for f32 only take halves as f32, and give halves back.

import { withOperands } from '../graph.ts'
import { makeNode } from '../make-node.ts'
import { type TensorNode, anonymous, inPlaceOf, operandsOf } from '../node.ts'
import { warnOnce } from '../warning.ts'
import type { Rewrite } from './rewrite.ts'

const HAVE_ONE_TYPE: ReadonlySet<TensorNode['op']> = new Set(['linear', 'linearTransposed', 'lora', 'rope'])
/** Weights are read in any format: they stay as they are. */
const WEIGHT = 1

export const widerFloats: Rewrite = {
  name: 'wider floats',
  about: 'operations without kernels for halves are computed in f32',
  concerns: (node) => HAVE_ONE_TYPE.has(node.op) && isHalf(node),
  begin: () => ({ rule: widened }),
}

function widened(node: TensorNode): TensorNode {
  warnOnce(`${node.op}: ${node.dtype} is computed in f32`)
  const operands = operandsOf(node).map((operand, i) => (i !== WEIGHT && isHalf(operand) ? cast(operand, 'f32') : operand))
  const wide = { ...anonymous(withOperands(node, operands)), dtype: 'f32' } as TensorNode // the same operation
  return inPlaceOf(node, cast(wide, node.dtype === 'f16' ? 'f16' : 'bf16'))
}

function isHalf({ dtype }: TensorNode): boolean {
  return dtype === 'f16' || dtype === 'bf16'
}

function cast(node: TensorNode, type: 'f32' | 'f16' | 'bf16'): TensorNode {
  return makeNode('map', [node], { expr: { cast: type, of: { input: 0 } }, type })
}
