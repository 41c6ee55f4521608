// The opposite of unfold: what lies under the taps of sliding windows, added up where it came from (col2im): x [n, ...kernel, ...out] -> y
// [n, ...in]. Every element of y gathers what belongs to it, in the order of taps, so nobody waits and sums come out the same every time.
// A CPU does a row at a time: its sums lie in scratch memory, to which each tap adds the windows that meet the row.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { ELEMENT_TYPES, type ElementType, roundElements } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import { type LaneScope, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Register, elements, readOne, readVector, registerOf, writeOne, writeVector } from '../element.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { checkSizes } from '../move/size.ts'
import { roundingError } from '../rounding.ts'
import { template } from '../template.ts'
import { LARGE_CASE, TYPE_CASE, WIDE_CASE, WINDOW_CASES } from './case.ts'
import {
  type AxisHandle,
  type Windows,
  axisHandle,
  checkWindows,
  product,
  splitIndex,
  stepsBelow,
  visitTaps,
  windowAxes,
  windowParams,
  windowUniforms,
} from './windows.ts'

export interface FoldParams extends Windows {
  readonly type: ElementType
  readonly n: number
}

const AXES = 3
/** Sums of a row that are in scratch memory at a time. */
const ROW = 2048
/** Elements that one workgroup of a CPU writes, at least. */
const CHUNK = 4096

type U32 = Value<'u32'>
/** Registers that sums are in; elements of memory have the same names. */
type SumType = Exclude<Register, 'bool'>

const paramsOf = (type: ElementType) => ({ x: elements(type, 'read'), y: elements(type, 'write'), ...windowParams(AXES) })

interface FoldTraits {
  readonly type: ElementType
  /** what sums are computed in */
  readonly sum: SumType
}

/** Goes through the taps of an axis that have a window with its tap at element `at`; the body gets both. */
function forTaps(k: LaneScope, axis: AxisHandle, at: U32, body: (tap: U32, window: U32) => void): void {
  const place = k.let('place', at.add(axis.before))
  k.for({ name: 'tap', to: axis.kernel }, (tap) => {
    const start = k.let('start', place.sub(tap.mul(axis.dilation))) // wraps around for windows before the first
    const window = k.let('window', start.div(axis.stride))
    k.when(window.lt(axis.out).and(window.mul(axis.stride).eq(start)), () => body(tap, window))
  })
}

/** Several rows of y, or a part of one, for each workgroup. */
const rows = template<FoldTraits & { readonly width: Width }>({ family: 'fold', form: 'rows' }, ({ type, sum, width }, kernel) => {
  const params = { ...paramsOf(type), rows: uniform('u32'), rowsEach: uniform('u32') }
  return kernel('fold', { params }, (p, k) => {
    const [a, b, c] = [axisHandle(p, 0), axisHandle(p, 1), axisHandle(p, 2)]
    const sums = k.shared('sums', sum, ROW)
    const from = k.let('from', k.workgroupId.x.mul(ROW))
    const length = k.let('length', c.in.sub(from).min(ROW))
    const each = (count: U32, vector: (i: U32) => void, one: (i: U32) => void): void => {
      const whole = k.let('whole', count.div(width).mul(width))
      k.for({ name: 'i', to: whole, step: width }, vector)
      k.for({ name: 'i', from: whole, to: count }, one)
    }
    const first = k.let('first', k.workgroupId.y.mul(p.rowsEach))
    k.for({ name: 'row', from: first, to: first.add(p.rowsEach).min(p.rows) }, (row) => {
      const [afterB, atB] = splitIndex(k, row, b.in)
      const [image, atA] = splitIndex(k, afterB, a.in)
      const zero = k.const(sum, 0)
      k.for({ name: 'i', to: length }, (i) => sums.set(i, zero))
      forTaps(k, a, atA, (tapA, windowA) =>
        forTaps(k, b, atB, (tapB, windowB) =>
          k.for({ name: 'tapC', to: c.kernel }, (tapC) => {
            const shift = k.let('shift', tapC.mul(c.dilation))
            const begin = k.let('begin', stepsBelow(shift, from.add(c.before), c.stride).min(c.out))
            const stop = k.let('stop', stepsBelow(shift, from.add(length).add(c.before), c.stride).min(c.out))
            const plane = image.mul(a.kernel).add(tapA).mul(b.kernel).add(tapB).mul(c.kernel).add(tapC)
            const source = k.let('source', plane.mul(a.out).add(windowA).mul(b.out).add(windowB).mul(c.out).add(begin))
            const target = k.let('target', begin.mul(c.stride).add(shift).sub(c.before).sub(from))
            const add = (at: U32, value: Value<Register>): void => writeOne(sum, sums, at, readOne(sum, sums, at).add(value))
            const one = (i: U32): void => add(target.add(i.mul(c.stride)), readOne(type, p.x, source.add(i)))
            const vector = (i: U32): void => {
              const at = k.let('at', target.add(i))
              const value = readVector(k, type, p.x, source.add(i), width)
              writeVector(sum, sums, at, readVector(k, sum, sums, at, width).add(value), width)
            }
            const count = k.let('count', stop.sub(begin))
            k.when(
              c.stride.eq(1),
              () => each(count, vector, one),
              () => k.for({ name: 'i', to: count }, one),
            )
          }),
        ),
      )
      const target = k.let('target', row.mul(c.in).add(from))
      each(
        length,
        (i) => writeVector(type, p.y, target.add(i), readVector(k, sum, sums, i, width), width),
        (i) => writeOne(type, p.y, target.add(i), readOne(sum, sums, i)),
      )
    })
  })
})

function rowsWork(caps: Caps, params: FoldParams): Work {
  const { traits, uniforms } = preparedOf(params)
  const inner = params.in.at(-1) ?? 1
  const count = (params.n * product(params.in)) / inner
  const rowsEach = Math.max(1, Math.floor(CHUNK / inner))
  const grid = [Math.ceil(inner / ROW), Math.ceil(count / rowsEach), 1] as const
  return { launches: [{ kernel: rows({ ...traits, width: caps.width }), uniforms: { ...uniforms, rows: count, rowsEach }, grid }] }
}

const lanes = template<FoldTraits & { readonly lanes: number }>({ family: 'fold', form: 'lanes' }, ({ type, sum, lanes }, kernel) =>
  kernel('fold', { params: { ...paramsOf(type), total: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
    const [a, b, c] = [axisHandle(p, 0), axisHandle(p, 1), axisHandle(p, 2)]
    const at = k.let('at', flatLane(k, lanes))
    k.when(at.lt(p.total), () => {
      const [afterC, atC] = splitIndex(k, at, c.in)
      const [afterB, atB] = splitIndex(k, afterC, b.in)
      const [image, atA] = splitIndex(k, afterB, a.in)
      const total = k.var('total', k.const(sum, 0))
      forTaps(k, a, atA, (tapA, windowA) =>
        forTaps(k, b, atB, (tapB, windowB) =>
          forTaps(k, c, atC, (tapC, windowC) => {
            const plane = image.mul(a.kernel).add(tapA).mul(b.kernel).add(tapB).mul(c.kernel).add(tapC)
            const place = plane.mul(a.out).add(windowA).mul(b.out).add(windowB).mul(c.out).add(windowC)
            total.set(total.get().add(readOne(type, p.x, place) as Value<SumType>))
          }),
        ),
      )
      writeOne(type, p.y, at, total.get())
    })
  }),
)

function lanesWork(caps: Caps, params: FoldParams): Work {
  const { traits, uniforms } = preparedOf(params)
  const total = params.n * product(params.in)
  const team = teamFor(caps, total)
  const kernel = lanes({ ...traits, lanes: team.lanes })
  return { launches: [{ kernel, uniforms: { ...uniforms, total }, grid: flatGrid(caps, Math.ceil(total / team.lanes)) }] }
}

function preparedOf({ type, n, ...windows }: FoldParams): { traits: FoldTraits; uniforms: Record<string, number> } {
  checkSizes('fold', { n })
  checkWindows('fold', windows, AXES)
  const sum = registerOf(type)
  if (sum === 'bool')
    throw new IngotError('bad-argument', 'truth values cannot be added', { op: 'fold', got: type, hint: 'convert them to u8' })
  return { traits: { type, sum }, uniforms: windowUniforms(windowAxes(windows, AXES)) }
}

export const fold = family<FoldParams>({
  name: 'fold',
  about: 'what lies under the taps of sliding windows, added up where it came from: col2im',
  tolerance: ({ type }) => roundingError(type),
  cases: [
    ...WINDOW_CASES.map((windows): FoldParams => ({ type: 'f32', n: 3, ...windows })),
    ...ELEMENT_TYPES.filter((type) => type !== 'f64' && type !== 'bool').map((type): FoldParams => ({ type, n: 2, ...TYPE_CASE })),
    { type: 'f32', n: 1, ...LARGE_CASE },
    { type: 'f32', n: 2, ...WIDE_CASE },
  ],
  buffers: ({ type, n, in: sizes, kernel, out }) => [
    { name: 'x', role: 'in', type, elements: n * product(kernel) * product(out) },
    { name: 'y', role: 'out', type, elements: n * product(sizes) },
  ],
  forms: [
    { name: 'rows', fits: isCpu, work: rowsWork, kernels: ({ width }) => [rows({ type: 'f32', sum: 'f32', width })] },
    { name: 'lanes', fits: isGpu, work: lanesWork },
  ],
  cost: ({ n, kernel, out }) => ({ operations: n * product(kernel) * product(out), arithmetic: 'f32' }),
  define: ({ x = NONE }, { type, n, ...windows }) => {
    const [size, taps, counts] = [product(windows.in), product(windows.kernel), product(windows.out)]
    const y = new Float64Array(n * size)
    for (let image = 0; image < n; image++) {
      visitTaps(windows, (window, tap, element) => {
        const value = x[(image * taps + tap) * counts + window] ?? NaN
        y[image * size + element] = (y[image * size + element] ?? NaN) + (type === 'i64' ? value | 0 : value)
      })
    }
    return { y: roundElements(type, type === 'i64' ? y.map((sum) => sum | 0) : y) }
  },
})
