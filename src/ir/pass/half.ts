// Pass, for targets without f16 arithmetic: f16 values become f32 values that are rounded to f16 after every operation that
// may leave its range of values. Memory stays f16: loads widen, stores round by themselves. Because 24 bits are more than
// twice 11 and two, rounding twice gives the same bits as rounding once for + - * / and sqrt. An f64 is first rounded to odd.

import { type DType, isTile, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import { roundHalf } from '../../base/half.ts'
import { roundToOdd } from '../decompose.ts'
import { type Kernel, uses } from '../kernel.ts'
import { type Node, walk } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Target } from '../target.ts'
import { Value } from '../value.ts'
import type { Making } from './constant.ts'
import { builderFor } from './rewrite.ts'
import { concat, part } from './vector.ts'

export function half(kernel: Kernel, target: Target): Kernel {
  if (target.half || !uses(kernel, ({ dtype }) => isHalf(dtype))) return kernel
  const builder = builderFor(kernel)
  const done = new Map<Node, Node>()
  /** lets of effects that leave the values of f16 (sums over a subgroup): only what they name can be rounded */
  const inexact = new Set<number>()
  walk(kernel.body, ({ op, src, arg }) => {
    if (op === 'let' && opRecord(src[0].op).kind === 'effect' && isHalf(src[0].dtype) && opRecord(src[0].op).exact !== true) {
      inexact.add(arg.id)
    }
  })

  function go(node: Node): Node {
    const known = done.get(node)
    if (known !== undefined) return known
    const made = needsRounding(node) ? round(builder, exact(node)) : exact(node)
    done.set(node, made)
    return made
  }

  function needsRounding(node: Node): boolean {
    if (!isHalf(node.dtype) || isTile(node.dtype)) return false
    if (node.op === 'local') return inexact.has(node.arg)
    if (node.op === 'cast') return scalarOf(node.src[0].dtype) !== 'bool' && !isHalf(node.src[0].dtype)
    const record = opRecord(node.op)
    return record.kind === 'pure' && record.exact !== true
  }

  /** The node in f32, its own result not yet rounded. */
  function exact(node: Node): Node {
    const { op, dtype, src, arg } = node
    if (op === 'const' && dtype === 'f16') return builder.make('const', 'f32', [], roundHalf(Number(arg)))
    if (op === 'cast' && isHalf(dtype) && scalarOf(src[0].dtype) === 'f64') return roundToOdd(new Value<'f64'>(builder, go(src[0]))).node
    // memory rounds what is stored
    if (op === 'store') return builder.make(op, dtype, [go(src[0]), exact(src[1])], arg)
    return builder.make(op, asFloat(dtype), src.map(go), arg)
  }

  return { ...kernel, body: go(kernel.body), interner: builder.interner }
}

function isHalf(dtype: DType): boolean {
  return dtype !== 'void' && scalarOf(dtype) === 'f16'
}

function asFloat(dtype: DType): DType {
  if (!isHalf(dtype)) return dtype
  return isTile(dtype) ? 'f32t' : vector('f32', widthOf(dtype))
}

/** To the nearest f16, by packing and unpacking pairs. */
export function round(into: Making, node: Node): Node {
  const width = widthOf(node.dtype)
  const pair = (two: Node): Node => into.make('unpackF16', 'f32x2', [into.make('packF16', 'u32', [two])])
  if (width === 1) return into.make('extract', 'f32', [pair(into.make('vec', 'f32x2', [node, into.constant(0, 'f32')]))], 0)
  const pairs: Node[] = []
  for (let lane = 0; lane < width; lane += 2) pairs.push(pair(part(into, node, lane, 2)))
  return concat(into, pairs)
}
