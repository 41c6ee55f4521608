// What reduce.ts is compiled for ahead of time, and the cases it is tested with: every kind, every type, every arrangement of axes,
// expressions, every way to walk memory, odd sizes.

import { ELEMENT_TYPES, type ElementType } from '../../base/element.ts'
import { registerOf } from '../element.ts'
import type { Arrays } from '../family.ts'
import type { MapExpr } from '../map/expr.ts'
import type { MapOp } from '../map/op.ts'
import type { MapInput } from '../map/params.ts'
import { type View, contiguous, extentOf, sizeOf } from '../map/walk.ts'
import { isFloat } from './fold.ts'
import { type ReduceKind, type ReduceParams, isPick, plainReduce } from './params.ts'

const PICKS = ['argmax', 'argmin'] as const
const KINDS = ['sum', 'max', 'min', 'prod', ...PICKS] as const
const x: MapExpr = { input: 0 }
const y: MapExpr = { input: 1 }
const of = (op: MapOp, ...args: readonly MapExpr[]): MapExpr => ({ op, args })

/** Inputs with these views, all f32. */
function viewed(
  kind: ReduceKind,
  axes: readonly number[],
  shape: readonly number[],
  expr: MapExpr,
  ...views: readonly View[]
): ReduceParams {
  const inputs = views.map((view): MapInput => ({ type: 'f32', ...view }))
  return { kind, axes, shape, expr, type: isPick(kind) ? 'u32' : 'f32', inputs }
}

const whole = (shape: readonly number[]): View => ({ strides: contiguous(shape) })
/** A tensor and a value for each of its rows, or columns. */
const perRow = (columns: number): View[] => [{ strides: [columns, 1] }, { strides: [1, 0] }]
const perColumn = (columns: number): View[] => [{ strides: [columns, 1] }, { strides: [0, 1] }]
const half: MapExpr = { const: 0.5, type: 'f32' }
const square = of('square', x)
const product = of('mul', x, y)
const centred = of('square', of('sub', x, y))
const large = of('mul', of('silu', of('sub', x, y)), of('exp', of('neg', of('abs', of('mul', of('add', x, y), of('sub', x, y))))))

/** What libraries are compiled for: f32 that lies row by row, as it is, in parts, and in the expressions that are met most. */
export const COMMON: Readonly<Record<'rows' | 'columns', readonly ReduceParams[]>> = {
  rows: [
    ...KINDS.map((kind) => plainReduce(kind, [1], [64, 64])),
    ...PICKS.map((kind) => plainReduce(kind, [0], [2 ** 20])),
    viewed('sum', [1], [64, 64], square, whole([64, 64])),
    viewed('sum', [1], [64, 64], centred, ...perRow(64)),
    viewed('sum', [1], [64, 64], product, whole([64, 64]), whole([64, 64])),
  ],
  columns: [
    ...KINDS.flatMap((kind) => [plainReduce(kind, [0], [64, 64]), plainReduce(kind, [1], [64, 3])]),
    ...PICKS.map((kind) => plainReduce(kind, [0], [2 ** 20, 4])),
    viewed('sum', [0], [64, 64], square, whole([64, 64])),
    viewed('sum', [0], [64, 64], centred, ...perColumn(64)),
    viewed('sum', [0], [64, 64], product, whole([64, 64]), whole([64, 64])),
  ],
}

/** Every type along rows and columns, in parts too. */
function typeCases(): ReduceParams[] {
  const types = ELEMENT_TYPES.filter((type) => type !== 'f64')
  const kindsOf = (type: ElementType): readonly ReduceKind[] => {
    if (type === 'bool') return ['max', 'min', 'argmax', 'argmin']
    return type === registerOf(type) ? KINDS : ['sum', 'max', 'argmin']
  }
  return types.flatMap((type) => [
    ...kindsOf(type).flatMap((kind) => [plainReduce(kind, [1], [3, 131], type), plainReduce(kind, [0], [37, 19], type)]),
    plainReduce(type === 'bool' ? 'min' : 'sum', [0], [33001], type),
    plainReduce('argmax', [0], [33001], type),
  ])
}

export const REDUCE_CASES: readonly ReduceParams[] = [
  plainReduce('sum', [1], [3, 256]),
  plainReduce('sum', [0], [1]),
  plainReduce('argmin', [0], [1]),
  plainReduce('mean', [1], [5, 67]),
  plainReduce('mean', [0], [67, 193]),
  plainReduce('max', [0, 1], [3, 1000]),
  plainReduce('sum', [0, 2, 4], [2, 3, 5, 7, 3]),
  plainReduce('argmax', [0, 2, 4], [2, 3, 5, 2, 9]),
  plainReduce('argmax', [1], [9, 3]),
  plainReduce('sum', [], [3, 5]), // nothing is reduced
  plainReduce('argmax', [], [7]),
  plainReduce('mean', [1], [400, 3]), // many short rows
  plainReduce('sum', [0], [70001]),
  plainReduce('mean', [0], [5003, 2]), // long columns
  plainReduce('sum', [1], [2, 3001, 3]),
  plainReduce('argmax', [0], [5003, 4]),
  plainReduce('sum', [0], [70, 4099]), // more columns than a strip
  plainReduce('argmin', [0], [5, 4099]),
  plainReduce('max', [0, 2], [300, 3, 301]), // parts of both reduced axes
  plainReduce('argmax', [0, 1], [3, 13001]),
  plainReduce('argmax', [0, 2], [2, 3, 17001]),
  // every kind with every arrangement of axes
  ...KINDS.flatMap((kind) => [
    plainReduce(kind, [1], [5, 67]),
    plainReduce(kind, [0, 2], [3, 2, 35]),
    plainReduce(kind, [1, 3], [2, 3, 5, 37]),
    plainReduce(kind, [0], [67, 19]),
    plainReduce(kind, [1], [4, 29, 3]),
    plainReduce(kind, [0, 2], [5, 3, 7, 6]),
    plainReduce(kind, [1], [2, 33000]),
    plainReduce(kind, [0], [2051, 9]),
    plainReduce(kind, [1], [19, 3]),
  ]),
  ...typeCases(),
  // expressions
  viewed('sum', [1], [5, 67], square, whole([5, 67])),
  viewed('sum', [0], [67, 19], square, whole([67, 19])),
  viewed('sum', [1], [5, 67], product, whole([5, 67]), whole([5, 67])),
  viewed('sum', [0], [67, 19], product, whole([67, 19]), whole([67, 19])),
  viewed('mean', [1], [5, 67], centred, ...perRow(67)), // a variance
  viewed('mean', [0], [67, 19], centred, ...perColumn(19)),
  viewed('sum', [1], [5, 67], product, ...perColumn(67)), // with a vector
  viewed('sum', [1], [9, 131], large, ...perRow(131)),
  viewed('max', [0], [37, 19], large, ...perColumn(19)),
  viewed('argmax', [1], [5, 67], of('abs', x), whole([5, 67])),
  viewed('argmin', [0], [3000, 5], of('square', of('sub', x, y)), ...perColumn(5)), // the nearest
  viewed('sum', [0, 1], [300, 200], of('mul', of('sub', x, half), of('sub', y, half)), whole([300, 200]), whole([300, 200])),
  viewed('sum', [0], [9], { const: 0.25, type: 'f32' }),
  { ...viewed('max', [1], [3, 67], of('gt', x, { const: 0.99, type: 'f32' }), whole([3, 67])), type: 'bool' }, // any
  { ...viewed('sum', [1], [3, 67], { cast: 'i32', of: of('gt', x, y) }, ...perRow(67)), type: 'i32' }, // how many
  { ...viewed('max', [0], [67], x), type: 'u32', inputs: [{ type: 'u32', counts: true, strides: [3], offset: 5 }] },
  // views
  viewed('sum', [1], [19, 67], x, { strides: [1, 19] }), // transposed
  viewed('sum', [0], [67, 19], x, { strides: [1, 67] }),
  viewed('argmax', [1], [19, 67], x, { strides: [1, 19] }),
  viewed('sum', [0, 1, 2], [5, 7, 6], x, { strides: [1, 30, 5] }), // all of it, permuted
  viewed('argmax', [0, 1, 2], [5, 7, 6], x, { strides: [1, 30, 5] }),
  viewed('sum', [0], [3, 40], x, { strides: [0, 1] }), // repeated
  viewed('prod', [1], [3, 40], x, { strides: [1, 0] }),
  viewed('min', [1], [5, 35], x, { strides: [70, 2], offset: 3 }), // every second
  viewed('sum', [1], [5, 67], x, { strides: [-67, -1], offset: 334 }), // backwards
  viewed('argmin', [0], [67, 5], x, { strides: [-5, -1], offset: 334 }),
  viewed('mean', [1], [5, 67], of('sub', x, y), { strides: [67, 1], offset: 9 }, { strides: [-1, 0], offset: 4 }),
]

/**
 * Values that suit a kind: ties for picks, sums that are not small beside what they are made of, and products that stay near 1, or GPUs
 * would flush them to zero.
 */
export function valuesFor({ kind, shape, inputs }: ReduceParams, random: () => number): Arrays {
  const spread = 1 / Math.sqrt(sizeOf(shape))
  const valueOf = (type: ElementType): number | undefined => {
    if (type === 'bool') return undefined
    if (isPick(kind)) return Math.round(40 * random()) - (registerOf(type) === 'u32' ? 0 : 20)
    if (kind === 'max' || kind === 'min') return undefined
    if (kind !== 'prod') return isFloat(registerOf(type)) ? 2 * random() - 0.5 : undefined
    return isFloat(registerOf(type)) ? (random() < 0.5 ? -1 : 1) * (1 + spread * (random() - 0.5)) : 2 * Math.floor(random() * 100) + 1
  }
  const named = inputs.flatMap((input, i): [string, Float64Array][] => {
    if (input.counts || valueOf(input.type) === undefined) return []
    return [[`in${i}`, Float64Array.from({ length: extentOf(shape, input) }, () => valueOf(input.type) ?? 0)]]
  })
  return Object.fromEntries(named)
}
