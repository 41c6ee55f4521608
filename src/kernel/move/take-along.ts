// Elements along an axis, each chosen by an index of its own: y[o, j, i] = x[o, ids[o, j, i], i]. What `take_along_axis`, `torch.gather`
// and ONNX's GatherElements are. Elements move as words (word.ts).

import type { Caps } from '../../base/caps.ts'
import { ELEMENT_BYTES, ELEMENT_TYPES, type ElementType, roundElements } from '../../base/element.ts'
import { buffer, uniform } from '../../ir/author.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { template } from '../template.ts'
import { INDEX_TYPES, type IndexType, indexParams, indexUniforms, randomIndices, readIndex, resolveIndex } from './index-type.ts'
import { checkSizes } from './size.ts'
import { type WordRun, moveElement, wordsOf } from './word.ts'

/** x is [outer, axis, inner], ids and y are [outer, count, inner]. */
export interface TakeAlongParams {
  readonly type: ElementType
  readonly indexType: IndexType
  readonly outer: number
  readonly axis: number
  readonly inner: number
  readonly count: number
}

/** Elements that one workgroup of a CPU moves. */
const CHUNK = 2048

const paramsOf = ({ word }: WordRun) => ({
  x: buffer(word, 'read'),
  ...indexParams(),
  y: buffer(word, 'write'),
  axis: uniform('u32'),
  inner: uniform('u32'),
  /** elements of y for one index of the outer axis */
  slice: uniform('u32'),
  total: uniform('u32'),
})

/** A run of elements for each workgroup. Where it is in each axis is counted on, since divisions would take most of the time. */
const runs = template<WordRun>({ family: 'takeAlong', form: 'runs' }, (element, kernel) =>
  kernel('takeAlong', { params: paramsOf(element) }, (p, k) => {
    const from = k.let('from', k.workgroupId.x.mul(CHUNK))
    const o = k.let('o', from.div(p.slice))
    const start = k.var('start', o.mul(p.axis).mul(p.inner)) // of the elements of x for this index of the outer axis
    const end = k.var('end', o.add(1).mul(p.slice)) // where those of y end
    const i = k.var('i', from.rem(p.inner))
    k.for({ name: 'at', from, to: from.add(CHUNK).min(p.total) }, (at) => {
      const ends = at.eq(end.get())
      start.set(ends.select(start.get().add(p.axis.mul(p.inner)), start.get()))
      end.set(ends.select(end.get().add(p.slice), end.get()))
      const place = readIndex(p, at, p.axis).mul(p.inner).add(i.get()).add(start.get())
      moveElement(k, element, p, { from: place, to: at })
      const next = i.get().add(1)
      i.set(next.eq(p.inner).select(k.const('u32', 0), next))
    })
  }),
)

const lanes = template<WordRun & { readonly lanes: number }>({ family: 'takeAlong', form: 'lanes' }, ({ lanes, ...element }, kernel) =>
  kernel('takeAlong', { params: paramsOf(element), workgroup: [lanes] }, (p, k) => {
    const at = k.let('at', flatLane(k, lanes))
    k.when(at.lt(p.total), () => {
      const row = at
        .div(p.slice)
        .mul(p.axis)
        .add(readIndex(p, at, p.axis))
      moveElement(k, element, p, { from: row.mul(p.inner).add(at.rem(p.inner)), to: at })
    })
  }),
)

function work(caps: Caps, { type, indexType, outer, axis, inner, count }: TakeAlongParams): Work {
  checkSizes('takeAlong', { outer, axis, inner, count })
  const slice = count * inner
  const total = outer * slice
  const uniforms = { ...indexUniforms(indexType), axis, inner, slice, total }
  if (isCpu(caps)) return { launches: [{ kernel: runs(wordsOf(type)), uniforms, grid: [Math.ceil(total / CHUNK), 1, 1] }] }
  const team = teamFor(caps, total)
  const kernel = lanes({ ...wordsOf(type), lanes: team.lanes })
  return { launches: [{ kernel, uniforms, grid: flatGrid(caps, Math.ceil(total / team.lanes)) }] }
}

const plain = { type: 'f32', indexType: 'u32', outer: 3, axis: 5, inner: 11, count: 7 } as const

export const takeAlong = family<TakeAlongParams>({
  name: 'takeAlong',
  about: 'elements along an axis, each chosen by an index of its own',
  tolerance: () => 0,
  cases: [
    plain,
    ...INDEX_TYPES.map((indexType): TakeAlongParams => ({ ...plain, indexType, count: 3 })),
    ...ELEMENT_TYPES.filter((type) => type !== 'f64').map((type): TakeAlongParams => ({ ...plain, type, indexType: 'i64' })),
    { ...plain, outer: 1, axis: 1, inner: 1, count: 1 },
    { ...plain, outer: 7, axis: 900, inner: 1, count: 900 },
    { ...plain, outer: 1, axis: 3, inner: 2500, count: 2, indexType: 'i32' },
  ],
  buffers: ({ type, indexType, outer, axis, inner, count }) => [
    { name: 'x', role: 'in', type, elements: outer * axis * inner },
    { name: 'ids', role: 'in', type: indexType, elements: outer * count * inner },
    { name: 'y', role: 'out', type, elements: outer * count * inner },
  ],
  inputs: ({ indexType, outer, axis, inner, count }, random) => ({ ids: randomIndices(indexType, outer * count * inner, axis, random) }),
  forms: [
    { name: 'runs', fits: isCpu, work, kernels: () => [runs(wordsOf('f32'))] },
    { name: 'lanes', fits: isGpu, work },
  ],
  cost: ({ type, indexType, outer, inner, count }) => ({
    operations: 0,
    arithmetic: 'f32',
    bytes: (2 * ELEMENT_BYTES[type] + ELEMENT_BYTES[indexType]) * outer * count * inner,
  }),
  define: ({ x = NONE, ids = NONE }, { type, indexType, outer, axis, inner, count }) => {
    const y = Float64Array.from({ length: outer * count * inner }, (_, at) => {
      const o = Math.floor(at / (count * inner))
      return x[(o * axis + resolveIndex(indexType, ids[at] ?? NaN, axis)) * inner + (at % inner)] ?? NaN
    })
    return { y: roundElements(type, y) }
  },
})
