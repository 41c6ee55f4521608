// An interner that simplifies what it makes: constants are computed, identities vanish, index arithmetic is regrouped. Every
// pass builds its result in a Folder, so no pass has to care about the `x * 1` it writes. Local rules only: it sees a node
// and its operands, never statements. Every rule keeps the bits of every result, -0 and NaN included.

import { type DType, type Scalar, scalarOf, widthOf } from '../../base/dtype.ts'
import { Interner, type Node } from '../node.ts'
import { type Arg, type OpName, opRecord } from '../op.ts'
import { simplifyArithmetic } from './algebra.ts'
import { type Making, constantOf, elementsOf, normal } from './constant.ts'
import { simplifyVector } from './vector.ts'

/** Folding these would need their range checks. */
const UNFOLDED: ReadonlySet<OpName> = new Set(['dotI8', 'dotU8I8', 'dotU7I8'])

export class Folder extends Interner implements Making {
  override make(op: OpName, dtype: DType, src: readonly Node[] = [], arg: Arg = null): Node {
    if (op === 'const') return super.make(op, dtype, src, normal(scalarOf(dtype), Number(arg)))
    if (opRecord(op).kind !== 'pure' || src.length === 0) return super.make(op, dtype, src, arg)
    return (
      (op === 'table' ? this.#entry(dtype, src[0] as Node, arg) : this.#constant(op, dtype, src)) ??
      simplifyVector(this, op, dtype, src, arg) ??
      simplifyArithmetic(this, op, dtype, src) ??
      super.make(op, dtype, src, arg)
    )
  }

  /** A scalar constant, or one spread over a vector. */
  constant(value: number, dtype: DType): Node {
    const node = this.make('const', scalarOf(dtype), [], value)
    return widthOf(dtype) === 1 ? node : this.make('splat', dtype, [node])
  }

  /** The entry of a table at a known place. */
  #entry(dtype: DType, index: Node, table: Arg): Node | undefined {
    const at = constantOf(index)
    const value = at === undefined ? undefined : (table as readonly number[])[at]
    return value === undefined || !Number.isFinite(value) ? undefined : this.make('const', dtype, [], value)
  }

  #constant(op: OpName, dtype: DType, src: readonly Node[]): Node | undefined {
    const lanes = src.map(elementsOf)
    if (!lanes.every((each) => each !== undefined)) return undefined
    const meaning = meaningOf(op, dtype, src[0] as Node)
    if (meaning === undefined) return undefined
    const results: Node[] = []
    for (let lane = 0; lane < widthOf(dtype); lane++) {
      const operands = lanes.map((each) => constantOf(each[lane] as Node))
      const [a, b = 0, c = 0] = operands
      if (a === undefined || operands.includes(undefined)) return undefined
      const value = meaning(a, b, c)
      // infinities and NaNs are left to the target: not every language can write them down
      if (!Number.isFinite(Number(normal(scalarOf(dtype), value)))) return undefined
      results.push(this.make('const', scalarOf(dtype), [], value))
    }
    return results.length === 1 ? results[0] : this.make('vec', dtype, results)
  }
}

function meaningOf(op: OpName, dtype: DType, first: Node): ((a: number, b: number, c: number) => number) | undefined {
  if (op === 'cast') return (a) => convert(a, scalarOf(first.dtype), scalarOf(dtype))
  if (op === 'bitcast') return (a) => reinterpret(a, scalarOf(first.dtype), scalarOf(dtype))
  return UNFOLDED.has(op) ? undefined : opRecord(op).js?.(scalarOf(first.dtype))
}

function convert(value: number, from: Scalar, to: Scalar): number {
  if ((to !== 'i32' && to !== 'u32') || from === 'i32' || from === 'u32' || from === 'bool') return value
  const [low, high] = to === 'i32' ? [-(2 ** 31), 2 ** 31 - 1] : [0, 2 ** 32 - 1]
  return Number.isNaN(value) ? 0 : Math.min(Math.max(Math.trunc(value), low), high)
}

const scratch = new DataView(new ArrayBuffer(4))
function reinterpret(value: number, from: Scalar, to: Scalar): number {
  if (from === 'f32') scratch.setFloat32(0, value)
  else scratch.setUint32(0, value >>> 0)
  return to === 'f32' ? scratch.getFloat32(0) : scratch.getUint32(0)
}
