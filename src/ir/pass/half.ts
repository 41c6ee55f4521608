// Pass, for targets without f16 arithmetic: f16 values become f32 values that are rounded to f16 after every operation that
// may leave its range of values. Memory stays f16: loads widen, stores round by themselves. Because 24 bits are more than
// twice 11 and two, rounding twice gives the same bits as rounding once for + - * / and sqrt.

import { type DType, type Width, isTile, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import { type Kernel, uses } from '../kernel.ts'
import { type Node, walk } from '../node.ts'
import type { OpName } from '../op.ts'
import type { Target } from '../target.ts'
import { roundHalf } from './constant.ts'
import { Folder } from './fold.ts'
import { concat, part } from './vector.ts'
import { idOf } from './writer.ts'

/** Of f16 operands, these give an f16 again without rounding. */
const EXACT: ReadonlySet<OpName> = new Set([
  'const',
  'local',
  'get',
  'load',
  'neg',
  'abs',
  'min',
  'max',
  'floor',
  'ceil',
  'trunc',
  'rint',
  'select',
  'splat',
  'vec',
  'extract',
  'slice',
  'join',
  'hmax',
])

export function half(kernel: Kernel, target: Target): Kernel {
  if (target.half || !uses(kernel, ({ dtype }) => isHalf(dtype))) return kernel
  const interner = new Folder()
  const done = new Map<Node, Node>()
  /** lets of sums over a subgroup: only what they name can be rounded */
  const sums = new Set<number>()
  walk(kernel.body, ({ op, src, arg }) => {
    if (op === 'let' && src[0]?.op === 'subSum' && isHalf(src[0].dtype)) sums.add(idOf(arg))
  })

  function go(node: Node): Node {
    const known = done.get(node)
    if (known !== undefined) return known
    const made = needsRounding(node) ? round(interner, exact(node)) : exact(node)
    done.set(node, made)
    return made
  }

  function needsRounding({ op, dtype, src, arg }: Node): boolean {
    if (!isHalf(dtype) || isTile(dtype)) return false
    if (op === 'local') return sums.has(arg as number)
    if (op === 'cast') return scalarOf((src[0] as Node).dtype) !== 'bool' && !isHalf((src[0] as Node).dtype)
    return (!EXACT.has(op) && !op.startsWith('sub')) || op === 'sub'
  }

  /** The node in f32, its own result not yet rounded. */
  function exact({ op, dtype, src, arg }: Node): Node {
    if (op === 'const' && dtype === 'f16') return interner.make('const', 'f32', [], roundHalf(Number(arg)))
    // memory rounds what is stored
    if (op === 'store') return interner.make(op, dtype, [go(src[0] as Node), exact(src[1] as Node)], arg)
    return interner.make(op, asFloat(dtype), src.map(go), arg)
  }

  return { ...kernel, body: go(kernel.body), interner }
}

function isHalf(dtype: DType): boolean {
  return dtype !== 'void' && scalarOf(dtype) === 'f16'
}

function asFloat(dtype: DType): DType {
  if (!isHalf(dtype)) return dtype
  return isTile(dtype) ? 'f32t' : vector('f32', widthOf(dtype))
}

/** To the nearest f16, by packing and unpacking pairs. */
export function round(into: Folder, node: Node): Node {
  const width = widthOf(node.dtype)
  const pair = (two: Node): Node => into.make('unpackF16', 'f32x2', [into.make('packF16', 'u32', [two])])
  if (width === 1) return into.make('extract', 'f32', [pair(into.make('vec', 'f32x2', [node, into.constant(0, 'f32')]))], 0)
  const pairs: Node[] = []
  for (let lane = 0; lane < width; lane += 2) pairs.push(pair(part(into, node, lane, 2 as Width)))
  return concat(into, pairs)
}
