// Slices of an axis, chosen by indices: y[o, j, i] = x[o, ids[j], i]. What `index_select`, ONNX's Gather and an embedding of plain elements
// are. A slice is words that move together (word.ts), however many elements of whichever type they are.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { ELEMENT_BYTES, ELEMENT_TYPES, type ElementType, roundElements } from '../../base/element.ts'
import { buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { template } from '../template.ts'
import { INDEX_TYPES, type IndexType, indexParams, indexUniforms, randomIndices, readIndex, resolveIndex } from './index-type.ts'
import { checkSizes } from './size.ts'
import { type Word, wordsOf } from './word.ts'

/** x is [outer, axis, inner], ids has `count` elements, y is [outer, count, inner]. */
export interface TakeParams {
  readonly type: ElementType
  readonly indexType: IndexType
  readonly outer: number
  readonly axis: number
  readonly inner: number
  readonly count: number
}

/** Words that one workgroup of a CPU moves, at least. */
const CHUNK = 4096
/** Words per lane of a GPU. */
const PER_LANE = 4

const paramsOf = (word: Word) => ({
  x: buffer(word, 'read'),
  ...indexParams(),
  y: buffer(word, 'write'),
  axis: uniform('u32'),
  /** in words */
  inner: uniform('u32'),
  count: uniform('u32'),
})

/** Each workgroup moves a part of a long slice, or several short ones, in vectors with single words at the end. */
const rows = template<{ readonly word: Word; readonly width: Width }>({ family: 'take', form: 'rows' }, ({ word, width }, kernel) => {
  const params = { ...paramsOf(word), rows: uniform('u32'), rowsEach: uniform('u32'), wordsEach: uniform('u32') }
  return kernel('take', { params }, (p, k) => {
    const from = k.let('from', k.workgroupId.x.mul(p.wordsEach))
    const to = k.let('to', from.add(p.wordsEach).min(p.inner))
    const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
    const first = k.let('first', k.workgroupId.y.mul(p.rowsEach))
    // Counted on: a division takes longer than a short slice.
    const [o, j] = [k.var('o', first.div(p.count)), k.var('j', first.rem(p.count))]
    const forRows = (move: (source: Value<'u32'>, row: Value<'u32'>) => void): void =>
      k.for({ name: 'row', from: first, to: first.add(p.rowsEach).min(p.rows) }, (row) => {
        move(
          k.let(
            'source',
            o
              .get()
              .mul(p.axis)
              .add(readIndex(p, j.get(), p.axis)),
          ),
          row,
        )
        const next = k.let('next', j.get().add(1))
        const ends = next.eq(p.count)
        o.set(ends.select(o.get().add(1), o.get()))
        j.set(ends.select(k.const('u32', 0), next))
      })
    k.when(
      p.inner.eq(1), // two loops for one word would take several times as long
      () => forRows((source, row) => p.y.set(row, p.x.at(source))),
      () =>
        forRows((source, row) => {
          const [begin, target] = [k.let('begin', source.mul(p.inner)), k.let('target', row.mul(p.inner))]
          k.for({ name: 'i', from, to: whole, step: width }, (i) => p.y.store(target.add(i), p.x.load(begin.add(i), width)))
          k.for({ name: 'i', from: whole, to }, (i) => p.y.set(target.add(i), p.x.at(begin.add(i))))
        }),
    )
  })
})

function rowsWork(caps: Caps, params: TakeParams): Work {
  const { word, words: inner } = wordsOf(params.type, params.inner)
  const count = params.outer * params.count
  const wordsEach = Math.max(CHUNK, Math.ceil(inner / (4 * caps.parallel) / CHUNK) * CHUNK)
  const rowsEach = Math.max(1, Math.floor(CHUNK / inner))
  const grid = [Math.ceil(inner / wordsEach), Math.ceil(count / rowsEach), 1] as const
  return {
    launches: [{ kernel: rows({ word, width: caps.width }), uniforms: { ...uniformsOf(params), rows: count, rowsEach, wordsEach }, grid }],
  }
}

interface LaneTraits {
  readonly word: Word
  readonly lanes: number
  /** words per lane: slices are multiples of it */
  readonly width: 1 | typeof PER_LANE
}

const lanes = template<LaneTraits>({ family: 'take', form: 'lanes' }, ({ word, lanes, width }, kernel) =>
  kernel('take', { params: { ...paramsOf(word), total: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
    const at = k.let('at', flatLane(k, lanes).mul(width))
    k.when(at.lt(p.total), () => {
      const [row, i] = [k.let('row', at.div(p.inner)), at.rem(p.inner)]
      const slice = row
        .div(p.count)
        .mul(p.axis)
        .add(readIndex(p, row.rem(p.count), p.axis))
      const source = k.let('source', slice.mul(p.inner).add(i))
      if (width === 1) p.y.set(at, p.x.at(source))
      else p.y.store(at, p.x.load(source, width))
    })
  }),
)

function lanesWork(caps: Caps, params: TakeParams): Work {
  const { word, words: inner } = wordsOf(params.type, params.inner)
  const total = params.outer * params.count * inner
  const width = inner % PER_LANE === 0 ? PER_LANE : 1
  const team = teamFor(caps, total)
  const kernel = lanes({ word, width, lanes: team.lanes })
  return {
    launches: [{ kernel, uniforms: { ...uniformsOf(params), total }, grid: flatGrid(caps, Math.ceil(total / (team.lanes * width))) }],
  }
}

function uniformsOf({ type, indexType, outer, axis, inner, count }: TakeParams): Record<string, number> {
  checkSizes('take', { outer, axis, inner, count })
  return { ...indexUniforms(indexType), axis, inner: wordsOf(type, inner).words, count }
}

const plain = { type: 'f32', indexType: 'u32', outer: 3, axis: 5, inner: 67, count: 7 } as const

export const take = family<TakeParams>({
  name: 'take',
  about: 'slices of an axis, chosen by indices that all rows share',
  tolerance: () => 0,
  cases: [
    plain,
    ...INDEX_TYPES.flatMap((indexType): TakeParams[] => [
      { ...plain, indexType },
      { ...plain, indexType, outer: 1, inner: 64, axis: 40, count: 13 },
    ]),
    ...ELEMENT_TYPES.filter((type) => type !== 'f64').flatMap((type): TakeParams[] => [
      { ...plain, type, indexType: 'i32', inner: 1 },
      { ...plain, type, indexType: 'i64', inner: 36 },
    ]),
    { ...plain, outer: 1, axis: 1, inner: 1, count: 1 },
    { ...plain, outer: 2, axis: 3, inner: 9001, count: 2 },
    { ...plain, outer: 1, axis: 3, inner: 1, count: 5003 },
    { ...plain, outer: 5003, axis: 2, inner: 1, count: 1, indexType: 'i32' },
  ],
  buffers: ({ type, indexType, outer, axis, inner, count }) => [
    { name: 'x', role: 'in', type, elements: outer * axis * inner },
    { name: 'ids', role: 'in', type: indexType, elements: count },
    { name: 'y', role: 'out', type, elements: outer * count * inner },
  ],
  inputs: ({ indexType, axis, count }, random) => ({ ids: randomIndices(indexType, count, axis, random) }),
  forms: [
    { name: 'rows', fits: isCpu, work: rowsWork, kernels: ({ width }) => [rows({ word: 'u32', width })] },
    { name: 'lanes', fits: isGpu, work: lanesWork },
  ],
  // what is read is a slice for each index
  cost: ({ type, indexType, outer, inner, count }) => ({
    operations: 0,
    arithmetic: 'f32',
    bytes: 2 * ELEMENT_BYTES[type] * outer * count * inner + ELEMENT_BYTES[indexType] * count,
  }),
  define: ({ x = NONE, ids = NONE }, { type, indexType, outer, axis, inner, count }) => {
    const y = new Float64Array(outer * count * inner)
    for (let row = 0; row < outer * count; row++) {
      const id = resolveIndex(indexType, ids[row % count] ?? NaN, axis)
      const from = (Math.floor(row / count) * axis + id) * inner
      y.set(x.subarray(from, from + inner), row * inner)
    }
    return { y: roundElements(type, y) }
  },
})
