// The cases map.ts is tested with: every operation in some expression, every way to walk memory, odd sizes.

import type { MapExpr, MapParams, MapType } from './expr.ts'
import { MAP_OPS, type MapOp, mapOp } from './op.ts'

const x: MapExpr = { input: 0 }
const y: MapExpr = { input: 1 }
const of = (op: MapOp, ...args: readonly MapExpr[]): MapExpr => ({ op, args })
const number = (value: number): MapExpr => ({ const: value })

function contiguous(shape: readonly number[]): number[] {
  return shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1))
}

/** All inputs contiguous, all of one type. */
function flat(expr: MapExpr, shape: readonly number[], inputs: number, type: MapType = 'f32', of: MapType = 'f32'): MapParams {
  return { expr, type, shape, inputs: Array.from({ length: inputs }, () => ({ type: of, strides: contiguous(shape) })) }
}

/** One input per list of strides, all f32. */
function strided(expr: MapExpr, shape: readonly number[], ...strides: readonly (readonly number[])[]): MapParams {
  return { expr, type: 'f32', shape, inputs: strides.map((one) => ({ type: 'f32', strides: one })) }
}

/** Random inputs lie in [-1, 1]; these want other ranges. */
const SCALED: Partial<Record<MapOp, MapExpr>> = {
  sqrt: of('abs', x),
  rsqrt: of('add', of('abs', x), number(0.1)),
  log: of('add', of('abs', x), number(0.1)),
  exp: of('mul', x, number(5)),
  tan: x,
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
}

function exampleOf(op: MapOp): MapParams {
  const first = SCALED[op] ?? x
  switch (op) {
    case 'pow':
      return flat(of('pow', of('add', of('abs', x), number(0.1)), of('mul', y, number(3))), [67], 2)
    case 'div':
      return flat(of('div', x, of('add', of('abs', y), number(0.1))), [67], 2)
    case 'leakyRelu':
      return flat(of('leakyRelu', x, number(0.01)), [67], 1)
    case 'select':
      return flat(of('select', of('gt', x, y), x, of('neg', y)), [67], 2)
    default:
      return flat(mapOp(op).arity === 1 ? of(op, first) : of(op, x, y), [67], mapOp(op).arity)
  }
}

export const MAP_CASES: readonly MapParams[] = [
  flat(of('mul', of('silu', x), y), [3, 256], 2),
  flat(of('mul', of('gelu', x), y), [3, 256], 2),
  flat(of('add', x, y), [1], 2),
  flat(of('add', x, y), [5000], 2),
  flat(of('add', x, y), [9, 1031], 2),
  flat(number(3.5), [67], 0),
  flat(of('pow', of('mul', x, number(3)), number(3)), [193], 1),
  strided(of('add', of('mul', x, y), number(1)), [5, 68], [68, 1], [0, 1]), // a row repeated
  strided(of('sub', x, y), [5, 67], [67, 1], [1, 0]), // a column repeated
  strided(of('mul', x, y), [3, 67], [67, 1], [0, 0]), // a single number
  strided(x, [67, 3], [1, 67]), // transposed
  strided(of('add', x, y), [2, 3, 4, 5], [60, 20, 5, 1], [0, 20, 0, 4]),
  strided(of('add', x, y), [2, 3, 2, 3, 2, 3], [108, 36, 18, 6, 3, 1], [1, 2, 6, 12, 36, 72]),
  strided(of('max', x, y), [700, 4], [4, 1], [0, 1]),
  flat(of('add', x, y), [130], 2, 'f16', 'f16'),
  flat(of('mul', x, number(2)), [3, 43], 1, 'f16'),
  flat(of('mul', x, number(0.5)), [67], 1, 'f32', 'f16'),
  flat(of('add', of('mul', x, number(2654435769)), of('div', y, number(7))), [67], 2, 'u32', 'u32'),
  flat(of('select', of('lt', x, y), x, of('neg', y)), [4, 4], 2, 'u32', 'u32'),
  ...(Object.keys(MAP_OPS) as MapOp[]).map(exampleOf),
]
