// The elements under each tap of sliding windows, side by side (im2col): x [n, ...in] -> y [n, ...kernel, ...out], for each of n images and
// channels alike. With n = batch * channels a convolution is a product of w [o, channels * taps] and y [channels * taps, windows], and its
// weights' gradient one of two matrices whose rows are windows; both want the windows last, where copying them is also quickest. What lies
// outside is a given value. Elements move as words.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { ELEMENT_TYPES, type ElementType, roundElements } from '../../base/element.ts'
import { item } from '../../base/list.ts'
import { buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import type { ElementTarget } from '../element.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { checkSizes } from '../move/size.ts'
import { type WordRun, moveElement, wordsOf, wordsOfValue } from '../move/word.ts'
import { template } from '../template.ts'
import { LARGE_CASE, TYPE_CASE, WINDOW_CASES } from './case.ts'
import {
  type Windows,
  axisHandle,
  checkWindows,
  elementUnder,
  product,
  splitIndex,
  stepsBelow,
  visitTaps,
  windowAxes,
  windowParams,
  windowUniforms,
} from './windows.ts'

export interface UnfoldParams extends Windows {
  readonly type: ElementType
  readonly n: number
  /** of padding */
  readonly value: number
}

const AXES = 3
/** Elements that one workgroup of a CPU writes, at least. */
const CHUNK = 8192

const paramsOf = ({ word, words }: WordRun) => ({
  x: buffer(word, 'read'),
  y: buffer(word, 'write'),
  ...windowParams(AXES),
  /** words of the value of padding */
  pad: Array.from({ length: words }, () => uniform('u32')),
})

type U32 = Value<'u32'>

/** Windows of one tap in one image are a plane. A workgroup has several planes, or some rows of one. */
const rows = template<WordRun & { readonly width: Width }>({ family: 'unfold', form: 'rows' }, ({ width, ...element }, kernel) => {
  const params = { ...paramsOf(element), planes: uniform('u32'), planesEach: uniform('u32'), rowsEach: uniform('u32') }
  const inVectors = element.words === 1
  return kernel('unfold', { params }, (p, k) => {
    const [a, b, c] = [axisHandle(p, 0), axisHandle(p, 1), axisHandle(p, 2)]
    /** Visits elements in vectors, then one by one. */
    const each = (count: U32, vector: (i: U32) => void, one: (i: U32) => void): void => {
      const whole = k.let('whole', inVectors ? count.div(width).mul(width) : count.mul(0))
      if (inVectors) k.for({ name: 'i', to: whole, step: width }, vector)
      k.for({ name: 'i', from: whole, to: count }, one)
    }
    const fill = (to: U32, count: U32): void =>
      each(
        count,
        (i) => p.y.store(to.add(i), (p.pad[0] ?? k.const('u32', 0)).splat(width)),
        (i) => setWords(p.y, to.add(i), p.pad),
      )
    const copy = (from: U32, to: U32, count: U32): void =>
      each(
        count,
        (i) => p.y.store(to.add(i), p.x.load(from.add(i), width)),
        (i) => moveElement(k, element, p, { from: from.add(i), to: to.add(i) }),
      )
    const first = k.let('first', k.workgroupId.x.mul(p.planesEach))
    const firstRow = k.let('firstRow', k.workgroupId.y.mul(p.rowsEach))
    k.for({ name: 'plane', from: first, to: first.add(p.planesEach).min(p.planes) }, (plane) => {
      const [afterC, tapC] = splitIndex(k, plane, c.kernel)
      const [afterB, tapB] = splitIndex(k, afterC, b.kernel)
      const [image, tapA] = splitIndex(k, afterB, a.kernel)
      const shift = k.let('shift', tapC.mul(c.dilation))
      // windows whose tap is inside
      const begin = k.let('begin', stepsBelow(shift, c.before, c.stride).min(c.out))
      const stop = k.let('stop', stepsBelow(shift, c.before.add(c.in), c.stride).min(c.out))
      const inside = k.let('inside', stop.sub(begin))
      k.for({ name: 'row', from: firstRow, to: firstRow.add(p.rowsEach).min(a.out.mul(b.out)) }, (row) => {
        const [windowA, windowB] = splitIndex(k, row, b.out)
        const atA = k.let('atA', elementUnder(a, windowA, tapA))
        const atB = k.let('atB', elementUnder(b, windowB, tapB))
        const target = k.let('target', plane.mul(a.out).mul(b.out).add(row).mul(c.out))
        k.when(
          atA.lt(a.in).and(atB.lt(b.in)),
          () => {
            const line = image.mul(a.in).add(atA).mul(b.in).add(atB)
            const source = k.let('source', line.mul(c.in).add(elementUnder(c, begin, tapC)))
            const to = k.let('to', target.add(begin))
            fill(target, begin)
            k.when(
              c.stride.eq(1),
              () => copy(source, to, inside),
              () =>
                k.for({ name: 'i', to: inside }, (i) => moveElement(k, element, p, { from: source.add(i.mul(c.stride)), to: to.add(i) })),
            )
            fill(target.add(stop), c.out.sub(stop))
          },
          () => fill(target, c.out),
        )
      })
    })
  })
})

function rowsWork(caps: Caps, params: UnfoldParams): Work {
  const uniforms = uniformsOf(params)
  const [planes, lines] = [params.n * product(params.kernel), product(params.out.slice(0, -1))]
  const plane = product(params.out)
  const planesEach = Math.max(1, Math.floor(CHUNK / plane))
  const rowsEach = plane <= CHUNK ? lines : Math.max(1, Math.floor((CHUNK * lines) / plane))
  const grid = [Math.ceil(planes / planesEach), Math.ceil(lines / rowsEach), 1] as const
  const kernel = rows({ ...wordsOf(params.type), width: caps.width })
  return { launches: [{ kernel, uniforms: { ...uniforms, planes, planesEach, rowsEach }, grid }] }
}

const lanes = template<WordRun & { readonly lanes: number }>({ family: 'unfold', form: 'lanes' }, ({ lanes, ...element }, kernel) =>
  kernel('unfold', { params: { ...paramsOf(element), total: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
    const at = k.let('at', flatLane(k, lanes))
    k.when(at.lt(p.total), () => {
      const axes = [2, 1, 0].map((axis) => axisHandle(p, axis)) // the last first
      let rest: U32 = at
      const split = (field: 'out' | 'kernel'): U32[] =>
        axes.map((axis) => {
          const [others, index] = splitIndex(k, rest, axis[field])
          rest = others
          return index
        })
      const [windows, taps] = [split('out'), split('kernel')]
      const places = axes.map((axis, i) => k.let('place', elementUnder(axis, item(windows, i), item(taps, i))))
      const isInside = axes.map((axis, i) => item(places, i).lt(axis.in)).reduce((one, other) => one.and(other))
      const from = axes.reduceRight((flat, axis, i) => flat.mul(axis.in).add(item(places, i)), rest)
      k.when(
        isInside,
        () => moveElement(k, element, p, { from, to: at }),
        () => setWords(p.y, at, p.pad),
      )
    })
  }),
)

function lanesWork(caps: Caps, params: UnfoldParams): Work {
  const uniforms = uniformsOf(params)
  const total = params.n * product(params.kernel) * product(params.out)
  const team = teamFor(caps, total)
  const kernel = lanes({ ...wordsOf(params.type), lanes: team.lanes })
  return { launches: [{ kernel, uniforms: { ...uniforms, total }, grid: flatGrid(caps, Math.ceil(total / team.lanes)) }] }
}

function uniformsOf({ type, n, value, ...windows }: UnfoldParams): Record<string, number> {
  checkSizes('unfold', { n })
  checkWindows('unfold', windows, AXES)
  const pad = wordsOfValue(type, value).map((word, i): [string, number] => [`pad${i}`, word])
  return { ...windowUniforms(windowAxes(windows, AXES)), ...Object.fromEntries(pad) }
}

function setWords(y: ElementTarget, at: U32, words: readonly U32[]): void {
  words.forEach((word, i) => y.set(words.length === 1 ? at : at.mul(words.length).add(i), word))
}

export const unfold = family<UnfoldParams>({
  name: 'unfold',
  about: 'what lies under each tap of sliding windows, side by side: im2col',
  tolerance: () => 0,
  cases: [
    ...WINDOW_CASES.map((windows): UnfoldParams => ({ type: 'f32', n: 3, value: 0, ...windows })),
    ...ELEMENT_TYPES.filter((type) => type !== 'f64').map((type): UnfoldParams => ({ type, n: 2, value: 1, ...TYPE_CASE })),
    { type: 'f32', n: 2, value: -Infinity, ...TYPE_CASE },
    { type: 'f32', n: 1, value: 0, ...LARGE_CASE },
    { type: 'f16', n: 2, value: -Infinity, ...TYPE_CASE },
  ],
  buffers: ({ type, n, in: sizes, kernel, out }) => [
    { name: 'x', role: 'in', type, elements: n * product(sizes) },
    { name: 'y', role: 'out', type, elements: n * product(kernel) * product(out) },
  ],
  forms: [
    { name: 'rows', fits: isCpu, work: rowsWork, kernels: ({ width }) => [rows({ ...wordsOf('f32'), width })] },
    { name: 'lanes', fits: isGpu, work: lanesWork },
  ],
  cost: () => ({ operations: 0, arithmetic: 'f32' }),
  define: ({ x = NONE }, { type, n, value, ...windows }) => {
    const [elements, taps, counts] = [product(windows.in), product(windows.kernel), product(windows.out)]
    const y = new Float64Array(n * taps * counts).fill(value)
    for (let image = 0; image < n; image++) {
      visitTaps(windows, (window, tap, element) => {
        y[(image * taps + tap) * counts + window] = x[image * elements + element] ?? NaN
      })
    }
    return { y: roundElements(type, y) }
  },
})
