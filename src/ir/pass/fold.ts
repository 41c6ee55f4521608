// An interner that simplifies what it makes: constants are computed, identities vanish, index arithmetic is regrouped. Every
// pass builds its result in a Folder, so no pass has to care about the `x * 1` it writes. Local rules only: it sees a node
// and its operands, never statements. Every rule keeps the bits of every result, -0 and NaN included.

import { type DType, scalarOf, widthOf } from '../../base/dtype.ts'
import { Interner, type Node } from '../node.ts'
import { type Arg, type OpName, opRecord } from '../op.ts'
import { simplifyArithmetic } from './algebra.ts'
import { type Making, constantOf, elementsOf, normal } from './constant.ts'
import { simplifyVector } from './vector.ts'

export class Folder extends Interner implements Making {
  override make(op: OpName, dtype: DType, src: readonly Node[] = [], arg: Arg = null): Node {
    if (op === 'const') return super.make(op, dtype, src, normal(scalarOf(dtype), Number(arg)))
    const [first] = src
    if (opRecord(op).kind !== 'pure' || first === undefined) return super.make(op, dtype, src, arg)
    return (
      this.#compute(op, dtype, first, src, arg) ??
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

  /** The result of an op on constants, element by element, by its own meaning. */
  #compute(op: OpName, dtype: DType, first: Node, src: readonly Node[], arg: Arg): Node | undefined {
    const { js, excludes } = opRecord(op)
    const lanes = src.map(elementsOf)
    if (js === undefined || !lanes.every((each) => each !== undefined)) return undefined
    const scalar = scalarOf(dtype)
    const meaning = js(scalarOf(first.dtype), scalar, arg)
    const excluded = excludes?.(arg)
    const results: Node[] = []
    for (let lane = 0; lane < widthOf(dtype); lane++) {
      const operands = lanes.map((each) => constantAt(each, lane))
      const [a, b = 0, c = 0] = operands
      if (a === undefined || operands.includes(undefined) || excluded?.(a) !== undefined) return undefined
      const value = meaning(a, b, c)
      // infinities and NaNs are left to the target: not every language can write them down
      if (!Number.isFinite(Number(normal(scalar, value)))) return undefined
      results.push(this.make('const', scalar, [], value))
    }
    return results.length === 1 ? results[0] : this.make('vec', dtype, results)
  }
}

function constantAt(elements: readonly Node[], lane: number): number | undefined {
  const element = elements[lane]
  return element === undefined ? undefined : constantOf(element)
}
