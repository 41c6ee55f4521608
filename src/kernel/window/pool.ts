// Pooling: the largest element, the mean or the root of the sum of squares of each window of n images, or where the largest is, for its
// gradient: the number of the first one among the elements of the image. Padding is no element: a maximum passes over it, and a mean counts
// it only with `includePad`. `argmax` takes a NaN for less than -Infinity; whether `max` gives one is not specified.
//
// A CPU takes a row of windows at a time: it first combines the rows under them, in vectors along these, and then the columns of that.

import type { Caps } from '../../base/caps.ts'
import { roundElements } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import { registerOf } from '../element.ts'
import { type Arrays, NONE, type Work, family, isCpu } from '../family.ts'
import { flatGrid, teamFor } from '../lanes.ts'
import { checkSizes } from '../move/size.ts'
import { roundingError } from '../rounding.ts'
import { FLAT_WINDOW_CASES, TYPE_CASE, WIDE_CASE } from './case.ts'
import { type Numeric, POOL_TYPES, type PoolKind, type PoolTraits, type PoolType, SPAN, lanes, places, rows } from './pool-kernel.ts'
import { type Windows, checkWindows, product, visitTaps, windowAxes, windowUniforms } from './windows.ts'

export type { PoolKind, PoolType }

/** Windows over one or two axes of each of n images and channels: x [n, ...in], y [n, ...out]. */
export interface PoolParams extends Windows {
  readonly kind: PoolKind
  readonly type: PoolType
  readonly n: number
  /** whether a mean counts padding */
  readonly includePad: boolean
}

/** Windows of one workgroup of a CPU, at least. */
const CHUNK = 2048

function rowsWork(caps: Caps, params: PoolParams): Work {
  const { traits, uniforms } = preparedOf(params)
  const columns = params.out.at(-1) ?? 1
  const count = (params.n * product(params.out)) / columns
  const columnsEach = Math.min(columns, columnsOf(params))
  const rowsEach = Math.max(1, Math.floor(CHUNK / columnsEach))
  const grid = [Math.ceil(columns / columnsEach), Math.ceil(count / rowsEach), 1] as const
  const kernel = (params.kind === 'argmax' ? places : rows)({ ...traits, width: caps.width })
  return { launches: [{ kernel, uniforms: { ...uniforms, rows: count, rowsEach, columnsEach }, grid }] }
}

/** Windows of a row that fit scratch memory; below 1 if not even one does. */
function columnsOf({ kernel, strides, dilations }: PoolParams): number {
  const reach = ((kernel.at(-1) ?? 1) - 1) * (dilations.at(-1) ?? 1)
  return Math.floor((SPAN - 1 - reach) / (strides.at(-1) ?? 1)) + 1
}

function lanesWork(caps: Caps, params: PoolParams): Work {
  const { traits, uniforms } = preparedOf(params)
  const total = params.n * product(params.out)
  const team = teamFor(caps, total)
  const kernel = lanes({ ...traits, lanes: team.lanes })
  return { launches: [{ kernel, uniforms: { ...uniforms, total }, grid: flatGrid(caps, Math.ceil(total / team.lanes)) }] }
}

/** Below all elements, or as low. */
const LEAST: Readonly<Record<Numeric, number>> = { f32: -Infinity, i32: -(2 ** 31), u32: 0 }

function preparedOf({ kind, type, n, includePad, ...windows }: PoolParams): { traits: PoolTraits; uniforms: Record<string, number> } {
  checkSizes('pool', { n })
  checkWindows('pool', windows, 2)
  const register = registerOf(type)
  if (register === 'bool' || register === 'f64' || (register !== 'f32' && (kind === 'average' || kind === 'l2')))
    throw new IngotError('bad-argument', `no ${kind} of such elements`, { op: 'pool', got: type, wanted: 'f32, f16 or bf16' })
  const axes = windowAxes(windows, 2)
  const counted = axes.flatMap(({ in: size, before, after }, i): [string, number][] => [
    [`countFrom${i}`, includePad ? 0 : before],
    [`countTo${i}`, before + size + (includePad ? after : 0)],
  ])
  const start = kind === 'max' ? LEAST[register] : 0
  return { traits: { kind, type, register }, uniforms: { ...windowUniforms(axes), start, ...Object.fromEntries(counted) } }
}

const KINDS = ['max', 'average', 'l2', 'argmax'] as const
const plain = { kind: 'max', type: 'f32', n: 3, includePad: false } as const

export const pool = family<PoolParams>({
  name: 'pool',
  about: 'largest element, mean, root of squares or place of the largest of sliding windows',
  tolerance: ({ kind, type }) => (kind === 'max' || kind === 'argmax' ? 0 : Math.max(1e-12, roundingError(type))),
  cases: [
    ...KINDS.flatMap((kind) => FLAT_WINDOW_CASES.map((windows): PoolParams => ({ ...plain, kind, ...windows }))),
    ...FLAT_WINDOW_CASES.map((windows): PoolParams => ({ ...plain, kind: 'average', includePad: true, ...windows })),
    ...(['max', 'argmax'] as const).flatMap((kind) => POOL_TYPES.map((type): PoolParams => ({ ...plain, kind, type, ...TYPE_CASE }))),
    ...(['f16', 'bf16'] as const).flatMap((type) =>
      (['average', 'l2'] as const).map((kind): PoolParams => ({ ...plain, kind, type, ...TYPE_CASE })),
    ),
    { ...plain, ...WIDE_CASE },
    { ...plain, kind: 'l2', n: 1, in: [6000], kernel: [4500], strides: [700], dilations: [1], padding: [[9, 9]], out: [3] },
  ],
  buffers: ({ kind, type, n, in: sizes, out }) => [
    { name: 'x', role: 'in', type, elements: n * product(sizes) },
    { name: 'y', role: 'out', type: kind === 'argmax' ? 'u32' : type, elements: n * product(out) },
  ],
  // few different values, so that there are ties
  inputs: ({ kind, type, n, in: sizes }, random): Arrays =>
    kind === 'argmax'
      ? { x: Float32Array.from({ length: n * product(sizes) }, () => Math.floor(8 * random()) - (type.startsWith('u') ? 0 : 4)) }
      : {},
  forms: [
    {
      name: 'rows',
      fits: (caps, params) => isCpu(caps) && columnsOf(params) >= 1,
      work: rowsWork,
      kernels: ({ width }) => (['max', 'average'] as const).map((kind) => rows({ kind, type: 'f32', register: 'f32', width })),
    },
    { name: 'lanes', fits: () => true, work: lanesWork },
  ],
  cost: ({ n, kernel, out }) => ({ operations: n * product(kernel) * product(out), arithmetic: 'f32' }),
  define: ({ x = NONE }, { kind, type, n, includePad, ...windows }) => {
    const [size, count] = [product(windows.in), product(windows.out)]
    const found: { value: number; number: number }[][] = Array.from({ length: n * count }, () => [])
    for (let image = 0; image < n; image++) {
      visitTaps(windows, (window, _tap, number) => found[image * count + window]?.push({ value: x[image * size + number] ?? NaN, number }))
    }
    const counted = countsOf(windows, includePad)
    const results = found.map((list, at) => {
      const values = list.map(({ value }) => value)
      switch (kind) {
        case 'max':
          return values.reduce((most, value) => Math.max(most, value), LEAST[registerOf(type) as Numeric])
        case 'average':
          return values.reduce((sum, value) => sum + value, 0) / Math.max(1, counted[at % count] ?? NaN)
        case 'l2':
          return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0))
        case 'argmax':
          return list.reduce(
            (best, each) => (each.value > best.value || Number.isNaN(best.value) ? each : best),
            list[0] ?? { value: 0, number: 0 },
          ).number
      }
    })
    return { y: roundElements(kind === 'argmax' ? 'u32' : type, results) }
  },
})

/** How many taps of each window a mean counts: those that meet an element, or what lies around as well. */
function countsOf(windows: Windows, includePad: boolean): Float64Array {
  const counts = new Float64Array(product(windows.out))
  const whole = windows.in.map((size, axis) => (windows.padding[axis] ?? [0, 0]).reduce((sum, pad) => sum + pad, size))
  visitTaps(includePad ? { ...windows, in: whole, padding: whole.map(() => [0, 0] as const) } : windows, (window) => {
    counts[window] = (counts[window] ?? NaN) + 1
  })
  return counts
}
