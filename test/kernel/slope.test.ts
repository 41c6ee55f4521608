// The slopes of elementwise operations against differences of their meanings, in doubles.

import { describe, expect, it } from 'vitest'
import { derivativeOf } from '../../src/kernel/map/derivative.ts'
import { type MapExpr, evaluate } from '../../src/kernel/map/expr.ts'
import { MAP_OPS, type MapOp, mapOp } from '../../src/kernel/map/op.ts'
import { randomFrom } from './input.ts'

const STEP = 1e-6
const TYPES = ['f64', 'f64', 'f64'] as const
/** Where operands are taken from, if not from [-2, 2]. */
const RANGES: Partial<Record<MapOp, readonly (readonly [number, number])[]>> = {
  sqrt: [[0.1, 4]],
  rsqrt: [[0.1, 4]],
  log: [[0.1, 4]],
  log1p: [[-0.9, 4]],
  asin: [[-0.9, 0.9]],
  acos: [[-0.9, 0.9]],
  tan: [[-1.2, 1.2]],
  reciprocal: [[0.3, 3]],
  div: [
    [-2, 2],
    [0.3, 3],
  ],
  pow: [
    [0.2, 3],
    [-2, 2],
  ],
  clamp: [
    [-2, 2],
    [-1, -0.5],
    [0.5, 1],
  ],
  hardSigmoid: [
    [-4, 4],
    [0.1, 0.3],
    [0.4, 0.6],
  ],
}
const DIFFERENTIABLE = (Object.keys(MAP_OPS) as MapOp[]).filter((op) => mapOp(op).slope !== undefined && op !== 'select')

describe('slopes', () => {
  it.each(DIFFERENTIABLE)('%s', (op) => {
    const random = randomFrom(op.length + 3)
    const { arity } = mapOp(op)
    const expr: MapExpr = { op, args: [0, 1, 2].slice(0, arity).map((input) => ({ input })) }
    for (let round = 0; round < 50; round++) {
      const point = Array.from({ length: arity }, (_, i) => {
        const [low, high] = RANGES[op]?.[i] ?? [-2, 2]
        return low + (high - low) * random()
      })
      const at = (values: readonly number[]): number => evaluate(expr, values, TYPES)
      for (let input = 0; input < arity; input++) {
        const derived = derivativeOf(expr, { types: TYPES, input, result: expr })
        const slope = typeof derived === 'number' ? derived : evaluate(derived, point, TYPES)
        const near = (step: number): number => at(point.with(input, point[input]! + step))
        const measured = (near(STEP) - near(-STEP)) / (2 * STEP)
        expect(Math.abs(slope - measured)).toBeLessThan(1e-6 * Math.max(1, Math.abs(measured)))
      }
    }
  })

  it.each([
    ['abs', [0], [0]],
    ['relu', [0], [0]],
    ['max', [1, 1], [0.5, 0.5]],
    ['min', [1, 1], [0.5, 0.5]],
    ['clamp', [-1, -1, 1], [1, 0, 0]],
    ['pow', [0, 2], [0, 0]],
    ['pow', [3, 0], [0, Math.log(3)]],
  ] as const)('%s at %j, where it has a kink or an end', (op, point, wanted) => {
    const expr: MapExpr = { op, args: point.map((_, input) => ({ input })) }
    wanted.forEach((slope, input) => {
      const derived = derivativeOf(expr, { types: TYPES, input, result: expr })
      expect(typeof derived === 'number' ? derived : evaluate(derived, point, TYPES)).toBeCloseTo(slope, 12)
    })
  })

  it('goes through casts between floats, and stops at integers', () => {
    const through: MapExpr = { op: 'square', args: [{ cast: 'f32', of: { input: 0 } }] }
    const derived = derivativeOf(through, { types: ['f16'], input: 0, result: through })
    expect(typeof derived === 'number' ? derived : evaluate(derived, [3], ['f16'])).toBe(6)
    const cut: MapExpr = { cast: 'f32', of: { cast: 'i32', of: { input: 0 } } }
    expect(derivativeOf(cut, { types: ['f32'], input: 0, result: cut })).toBe(0)
  })
})
