// The cases map.ts is tested with: every operation in some expression, every type, every way to walk memory, odd sizes.

import { ELEMENT_TYPES, type ElementType } from '../../base/element.ts'
import { type Register, registerOf } from '../element.ts'
import type { MapExpr } from './expr.ts'
import { MAP_OPS, type MapOp, mapOp } from './op.ts'
import type { MapInput, MapParams } from './params.ts'
import { type View, contiguous, sizeOf } from './walk.ts'

const x: MapExpr = { input: 0 }
const y: MapExpr = { input: 1 }
const z: MapExpr = { input: 2 }
const of = (op: MapOp, ...args: readonly MapExpr[]): MapExpr => ({ op, args })
const number = (value: number, type: Register = 'f32'): MapExpr => ({ const: value, type })
const cast = (to: ElementType, expr: MapExpr): MapExpr => ({ cast: to, of: expr })

/** All inputs contiguous, all of one type. */
function flat(expr: MapExpr, shape: readonly number[], inputs: number, type: ElementType = 'f32', of: ElementType = type): MapParams {
  return { expr, type, shape, inputs: Array.from({ length: inputs }, () => ({ type: of, strides: contiguous(shape) })) }
}

/** One input per view, all f32. */
function strided(expr: MapExpr, shape: readonly number[], ...views: readonly (readonly number[] | View)[]): MapParams {
  const inputs = views.map((view): MapInput => ({ type: 'f32', ...('strides' in view ? view : { strides: view }) }))
  return { expr, type: 'f32', shape, inputs }
}

/** Random inputs lie in [-1, 1]; these want other ranges. */
const SCALED: Partial<Record<MapOp, MapExpr>> = {
  sqrt: of('abs', x),
  rsqrt: of('add', of('abs', x), number(0.1)),
  reciprocal: of('add', of('abs', x), number(0.1)),
  log: of('add', of('abs', x), number(0.1)),
  exp: of('mul', x, number(5)),
  log1p: of('mul', x, number(0.9)),
  sin: of('mul', x, number(1000)),
  cos: of('mul', x, number(1000)),
  tanh: of('mul', x, number(20)),
  silu: of('mul', x, number(200)),
  hardSwish: of('mul', x, number(5)),
  sigmoid: of('mul', x, number(200)),
  erf: of('mul', x, number(5)),
  gelu: of('mul', x, number(20)),
  geluErf: of('mul', x, number(6)),
  softplus: of('mul', x, number(100)),
  floor: of('mul', x, number(9)),
  ceil: of('mul', x, number(9)),
  round: of('mul', x, number(9)),
  trunc: of('mul', x, number(9)),
}

/** An operation in the types it takes: of floats, else of bools or integers. */
function examplesOf(op: MapOp): MapParams[] {
  const { arity, takes, gives } = mapOp(op)
  const args = [x, y, z].slice(0, arity)
  switch (op) {
    case 'pow':
      return [flat(of('pow', of('add', of('abs', x), number(0.1)), of('mul', y, number(3))), [67], 2)]
    case 'div':
      return [flat(of('div', x, of('add', of('abs', y), number(0.1))), [67], 2)]
    case 'clamp':
      return [flat(of('clamp', x, number(-0.5), y), [67], 2)]
    case 'hardSigmoid':
      return [flat(of('hardSigmoid', of('mul', x, number(5)), number(0.2), number(0.5)), [67], 1)]
    case 'isNaN':
    case 'isInfinite': // of 0/0 or 1/0 where x is below 0
      return [
        flat(of(op, of('div', of('step', of('neg', x)), of('sub', of('step', x), number(op === 'isNaN' ? 1 : 0)))), [67], 1, 'bool', 'f32'),
      ]
    case 'select':
      return [flat(of('select', of('gt', x, y), x, of('neg', y)), [67], 2)]
    default: {
      const types: ElementType[] =
        takes === 'bool' ? ['bool'] : takes === 'integer' ? ['i32', 'u32'] : takes === 'float' ? ['f32'] : ['f32', 'i32', 'u32']
      return types.map((type) => {
        const [first = x, ...rest] = args
        const scaled = type === 'f32' ? (SCALED[op] ?? first) : first
        return flat(of(op, scaled, ...rest), [67], arity, gives ?? type, type)
      })
    }
  }
}

/** Every type, read and written, in vectors and one by one. */
function typeCases(): MapParams[] {
  const to = (from: ElementType, type: ElementType, expr: MapExpr): MapParams => flat(cast(type, expr), [3, 43], 1, type, from)
  return ELEMENT_TYPES.flatMap((type) => [
    flat(x, [131], 1, type),
    to('f32', type, of('mul', x, number(300))),
    to(type, 'f32', x),
    ...(registerOf(type) === 'i32' || registerOf(type) === 'u32' ? [to('i32', type, x), to(type, 'i8', x), to(type, 'u8', x)] : []),
    { ...flat(x, [5, 7], 1, type), inputs: [{ type, strides: [1, 5] }] }, // transposed
    { ...flat(x, [3, 4], 1, type), to: { strides: [9, 2], offset: 1, size: 40 } },
  ])
}

/** Functions of 64 bits, whose kernels are not those of 32. */
const DOUBLES: readonly MapOp[] = ['sin', 'exp', 'log', 'tanh', 'erf', 'softplus', 'sigmoid', 'gelu', 'elu', 'pow', 'rsqrt', 'atan']

const doubleCase = (op: MapOp): MapParams => {
  const positive = of('add', of('abs', x), { const: 0.1, type: 'f64' })
  const first = op === 'log' || op === 'rsqrt' || op === 'pow' ? positive : of('mul', x, { const: 3.7, type: 'f64' })
  return flat(mapOp(op).arity === 2 ? of(op, first, y) : of(op, first), [67], mapOp(op).arity, 'f64')
}

const counting = (shape: readonly number[], strides: readonly number[], offset = 0): MapParams => ({
  expr: of('add', x, number(3, 'u32')),
  type: 'u32',
  shape,
  inputs: [{ type: 'u32', counts: true, strides, offset }],
})

export const MAP_CASES: readonly MapParams[] = [
  flat(of('mul', of('silu', x), y), [3, 256], 2),
  flat(of('mul', of('gelu', x), y), [3, 256], 2),
  flat(of('add', x, y), [1], 2),
  flat(of('add', x, y), [5000], 2),
  flat(of('add', x, y), [9, 1031], 2),
  flat(number(3.5), [67], 0),
  flat(number(1, 'bool'), [67], 0, 'bool'),
  flat(of('pow', of('mul', x, number(3)), number(3)), [193], 1),
  strided(of('add', of('mul', x, y), number(1)), [5, 68], [68, 1], [0, 1]), // a row repeated
  strided(of('sub', x, y), [5, 67], [67, 1], [1, 0]), // a column repeated
  strided(of('mul', x, y), [3, 67], [67, 1], [0, 0]), // a single number
  strided(x, [67, 3], [1, 67]), // transposed
  strided(of('add', x, y), [2, 3, 4, 5], [60, 20, 5, 1], [0, 20, 0, 4]),
  strided(of('add', x, y), [2, 3, 2, 3, 2, 3], [108, 36, 18, 6, 3, 1], [1, 2, 6, 12, 36, 72]),
  strided(of('max', x, y), [700, 4], [4, 1], [0, 1]),
  strided(x, [67], { strides: [-1], offset: 66 }), // backwards
  strided(of('sub', x, y), [3, 5, 8], { strides: [-40, 8, -1], offset: 87 }, { strides: [40, -8, 1], offset: 32 }),
  strided(x, [4, 9], { strides: [60, 2], offset: 7 }), // every second of some columns
  flat(of('add', x, y), [130], 2, 'f16'),
  flat(of('mul', x, number(2)), [3, 43], 1, 'f16', 'f32'),
  flat(of('mul', x, number(0.5)), [67], 1, 'f32', 'f16'),
  flat(of('add', of('mul', x, number(2654435769, 'u32')), of('quotient', y, number(7, 'u32'))), [67], 2, 'u32'),
  flat(of('select', of('lt', x, y), x, of('neg', y)), [4, 4], 2, 'u32'),
  flat(of('mul', cast('f32', of('and', of('gt', x, number(0)), of('lt', y, number(0.5)))), y), [67], 2), // bools between numbers
  flat(of('and', of('eq', x, y), of('ne', x, number(1, 'bool'))), [67], 2, 'bool'),
  counting([67], [1]),
  counting([5, 9], [1, 0]),
  counting([3, 4, 5], [0, -2, 1], 9),
  { ...flat(of('sub', x, of('mul', y, number(0.1))), [9, 1031], 2), inPlace: 0 },
  { ...flat(of('add', x, number(1, 'u32')), [1], 1, 'u32'), inPlace: 0 },
  // the steps of several sequences: positions that move on, some of the rows, and elements of all rows by their columns
  ...[1, 5].map((rows) => ({ ...flat(of('add', x, y), [rows], 2, 'u32'), inPlace: 0 })),
  ...(['f32', 'u32'] as const).map((type): MapParams => ({ ...flat(x, [9], 1, type), inputs: [{ type, strides: [1], offset: 4 }] })),
  {
    ...flat(of('add', x, of('mul', y, number(1000, 'u32'))), [7], 2, 'u32'),
    inputs: [
      { type: 'u32', strides: [1] },
      { type: 'u32', counts: true, strides: [1] },
    ],
  },
  { ...flat(x, [3, 67], 1), to: { strides: [100, 1], offset: 33, size: 300 } }, // into some columns
  { ...flat(x, [5000], 1), to: { strides: [2], offset: 3, size: 10002 } },
  { ...flat(x, [1], 1), to: { strides: [1], offset: 4, size: 5 } },
  { ...strided(of('neg', x), [5, 7, 3], { strides: [1, 5, 35], offset: 2 }), to: { strides: [21, 3, 1], size: sizeOf([5, 7, 3]) } },
  ...typeCases(),
  ...DOUBLES.map(doubleCase),
  ...(Object.keys(MAP_OPS) as MapOp[]).flatMap(examplesOf),
]
