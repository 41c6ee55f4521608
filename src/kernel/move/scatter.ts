// Elements written, or added, where indices say: y[o, ids, i] = or += src[o, j, i], on top of what is there. Indices are shared by all rows
// (`rows`, the opposite of take) or each element has its own (`along`, the opposite of takeAlong). The outcome is the same every time: of
// equal indices the last one is written, and sums go in the order of j. So one lane goes through all j; lanes share the elements of y
// between them, along the outer and the inner axis, and, where these are short, each also has a part of the axis to itself and passes over
// the indices of others, which costs little.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { ELEMENT_BYTES, ELEMENT_TYPES, type ElementType, roundElements } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import { type LaneScope, buffer, uniform } from '../../ir/author.ts'
import type { Elements, Value } from '../../ir/value.ts'
import {
  type ElementSource,
  type ElementTarget,
  type Register,
  elements,
  readOne,
  readVector,
  registerOf,
  writeOne,
  writeVector,
} from '../element.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { mapOp } from '../map/op.ts'
import { isRounded, roundingError } from '../rounding.ts'
import { template } from '../template.ts'
import { INDEX_TYPES, type IndexType, indexParams, indexUniforms, randomIndices, readIndex, resolveIndex } from './index-type.ts'
import { checkSizes } from './size.ts'
import { type WordRun, moveElement, wordsOf } from './word.ts'

/** What becomes of an element of y that a source meets. */
export type ScatterKind = 'set' | 'add' | 'mul' | 'max' | 'min'

/** y is [outer, axis, inner], src is [outer, count, inner], ids are [count] or, `along`, one for each element of src. */
export interface ScatterParams {
  readonly kind: ScatterKind
  readonly ids: 'rows' | 'along'
  readonly type: ElementType
  readonly indexType: IndexType
  readonly outer: number
  readonly axis: number
  readonly inner: number
  readonly count: number
}

/** Elements that one workgroup of a CPU goes through, at least. */
const CHUNK = 4096
/** Elements of the inner axis that it has at most. */
const INNER = 2048
/** Below this many elements of the inner axis, one workgroup goes through all indices. */
const SHORT = 16
/** On a GPU: how many lanes are worth having, and how many indices each should at least have. */
const MANY_LANES = 8192
const FEW_INDICES = 16

type U32 = Value<'u32'>

/** What is put into y: words that only move, or numbers that are computed with. */
type Cells = { readonly kind: 'set'; readonly cell: WordRun } | { readonly kind: Exclude<ScatterKind, 'set'>; readonly type: ElementType }
type ScatterTraits = Cells & { readonly ids: ScatterParams['ids'] }

const paramsOf = (cells: Cells) => ({
  ...indexParams(),
  src: cells.kind === 'set' ? buffer(cells.cell.word, 'read') : elements(cells.type, 'read'),
  y: cells.kind === 'set' ? buffer(cells.cell.word, 'readwrite') : elements(cells.type, 'readwrite'),
  outer: uniform('u32'),
  axis: uniform('u32'),
  inner: uniform('u32'),
  count: uniform('u32'),
  /** elements of the axis that a lane has to itself */
  axisEach: uniform('u32'),
})

interface Memories {
  readonly src: ElementSource
  readonly y: ElementSource & ElementTarget
}

/** Puts one element of the source, or several side by side, where it goes. */
function putOne(k: LaneScope, cells: Cells, { src, y }: Memories, from: U32, to: U32): void {
  if (cells.kind === 'set') return moveElement(k, cells.cell, { x: src, y }, { from, to })
  const [old, value] = [readOne(cells.type, y, to), readOne(cells.type, src, from)]
  return writeOne(cells.type, y, to, combine(cells.kind, old, value) as Value<Register>)
}

function putVector(k: LaneScope, cells: Cells, { src, y }: Memories, from: U32, to: U32, width: Width): void {
  if (cells.kind === 'set') return y.store(to, src.load(from, width))
  const [old, value] = [readVector(k, cells.type, y, to, width), readVector(k, cells.type, src, from, width)]
  return writeVector(cells.type, y, to, combine(cells.kind, old, value) as typeof old, width)
}

function combine(kind: Exclude<ScatterKind, 'set'>, old: Elements<Register>, value: Elements<Register>): Elements<Register> {
  return mapOp(kind).ir([old, value, value], () => value)
}

/** A workgroup per part of the inner axis, part of the axis, and some of the outer axis. */
const parts = template<ScatterTraits & { readonly width: Width }>(
  { family: 'scatter', form: 'parts' },
  ({ width, ids, ...cells }, kernel) => {
    const params = { ...paramsOf(cells), outerEach: uniform('u32'), innerEach: uniform('u32') }
    return kernel(`scatter_${cells.kind}`, { params }, (p, k) => {
      const from = k.let('from', k.workgroupId.x.mul(p.innerEach))
      const to = k.let('to', from.add(p.innerEach).min(p.inner))
      const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
      const low = k.let('low', k.workgroupId.y.mul(p.axisEach))
      const isOurs = (id: U32): Value<'bool'> => id.sub(low).lt(p.axisEach) // those below wrap around
      const first = k.let('first', k.workgroupId.z.mul(p.outerEach))
      k.for({ name: 'o', from: first, to: first.add(p.outerEach).min(p.outer) }, (o) => {
        const start = k.let('start', o.mul(p.axis))
        k.for({ name: 'j', to: p.count }, (j) => {
          const source = k.let('source', o.mul(p.count).add(j).mul(p.inner))
          if (ids === 'along') {
            k.for({ name: 'i', from, to }, (i) => {
              const id = k.let('id', readIndex(p, source.add(i), p.axis))
              k.when(isOurs(id), () => putOne(k, cells, p, source.add(i), start.add(id).mul(p.inner).add(i)))
            })
            return
          }
          const id = k.let('id', readIndex(p, j, p.axis))
          k.when(isOurs(id), () => {
            const target = k.let('target', start.add(id).mul(p.inner))
            k.for({ name: 'i', from, to: whole, step: width }, (i) => putVector(k, cells, p, source.add(i), target.add(i), width))
            k.for({ name: 'i', from: whole, to }, (i) => putOne(k, cells, p, source.add(i), target.add(i)))
          })
        })
      })
    })
  },
)

function partsWork(caps: Caps, params: ScatterParams): Work {
  const { traits, uniforms, inner } = preparedOf(params)
  const { outer, axis, count } = params
  const innerEach = inner <= INNER ? inner : INNER
  const outerEach = Math.max(1, Math.floor(CHUNK / (count * inner)))
  const [across, along] = [Math.ceil(inner / innerEach), Math.ceil(outer / outerEach)]
  // To pass over an index costs as much as to put a few elements.
  const wanted = inner < SHORT ? 1 : Math.min(Math.ceil((2 * caps.parallel) / (across * along)), Math.ceil((count * inner) / CHUNK))
  const axisEach = Math.ceil(axis / Math.min(axis, wanted))
  const kernel = parts({ ...traits, width: caps.width })
  const grid = [across, Math.ceil(axis / axisEach), along] as const
  return { launches: [{ kernel, uniforms: { ...uniforms, axisEach, outerEach, innerEach }, grid }] }
}

/** A lane per element of the inner axis, part of the axis, and index of the outer axis. */
const lanes = template<ScatterTraits & { readonly lanes: number }>(
  { family: 'scatter', form: 'lanes' },
  ({ lanes, ids, ...cells }, kernel) => {
    const params = { ...paramsOf(cells), axisParts: uniform('u32') }
    return kernel(`scatter_${cells.kind}`, { params, workgroup: [lanes] }, (p, k) => {
      const at = k.let('at', flatLane(k, lanes))
      const [i, rest] = [k.let('i', at.rem(p.inner)), k.let('rest', at.div(p.inner))]
      const [low, o] = [k.let('low', rest.rem(p.axisParts).mul(p.axisEach)), k.let('o', rest.div(p.axisParts))]
      k.when(o.lt(p.outer), () => {
        k.for({ name: 'j', to: p.count }, (j) => {
          const source = k.let('source', o.mul(p.count).add(j).mul(p.inner).add(i))
          const id = k.let('id', readIndex(p, ids === 'along' ? source : j, p.axis))
          k.when(id.sub(low).lt(p.axisEach), () => putOne(k, cells, p, source, o.mul(p.axis).add(id).mul(p.inner).add(i)))
        })
      })
    })
  },
)

function lanesWork(caps: Caps, params: ScatterParams): Work {
  const { traits, uniforms, inner } = preparedOf(params)
  const { outer, axis, count } = params
  const wanted = Math.min(axis, Math.ceil(MANY_LANES / (outer * inner)), Math.ceil(count / FEW_INDICES))
  const axisEach = Math.ceil(axis / wanted)
  const axisParts = Math.ceil(axis / axisEach)
  const team = teamFor(caps, outer * inner * axisParts)
  const kernel = lanes({ ...traits, lanes: team.lanes })
  const grid = flatGrid(caps, Math.ceil((outer * inner * axisParts) / team.lanes))
  return { launches: [{ kernel, uniforms: { ...uniforms, axisEach, axisParts }, grid }] }
}

/** What kernels are written for and given; `inner` is counted in what is put at a time. */
function preparedOf({ kind, ids, type, indexType, outer, axis, inner, count }: ScatterParams): {
  readonly traits: ScatterTraits
  readonly uniforms: Readonly<Record<string, number>>
  readonly inner: number
} {
  checkSizes('scatter', { outer, axis, inner, count })
  if (kind !== 'set' && registerOf(type) === 'bool')
    throw new IngotError('bad-argument', 'truth values cannot be combined', {
      op: 'scatter',
      got: kind,
      wanted: 'set',
      hint: 'convert them to u8',
    })
  const run = wordsOf(type, inner)
  const isMoved = kind === 'set' && ids === 'rows' // whole rows are words that move together
  const traits: ScatterTraits =
    kind !== 'set' ? { kind, ids, type } : { kind, ids, cell: isMoved ? { word: run.word, words: 1 } : wordsOf(type) }
  const steps = isMoved ? run.words : inner
  return { traits, uniforms: { ...indexUniforms(indexType), outer, axis, inner: steps, count }, inner: steps }
}

const plain = { kind: 'add', ids: 'rows', type: 'f32', indexType: 'u32', outer: 3, axis: 5, inner: 67, count: 17 } as const
const TYPES = ELEMENT_TYPES.filter((type) => type !== 'f64')
const KINDS = ['add', 'mul', 'max', 'min'] as const

export const scatter = family<ScatterParams>({
  name: 'scatter',
  about: 'elements written or added where indices say, in order',
  tolerance: ({ kind, type }) => (kind === 'set' ? 0 : roundingError(type)),
  cases: [
    plain,
    ...(['rows', 'along'] as const).flatMap((ids): ScatterParams[] => [
      ...INDEX_TYPES.map((indexType): ScatterParams => ({ ...plain, ids, indexType, inner: 9 })),
      ...TYPES.map((type): ScatterParams => ({ ...plain, kind: 'set', ids, type, indexType: 'i64', inner: 9 })),
      { ...plain, ids, outer: 1, axis: 1, inner: 1, count: 1 },
      { ...plain, ids, outer: 1, axis: 900, inner: 2, count: 1001 }, // the axis is shared
      { ...plain, ids, outer: 1, axis: 90, inner: 20, count: 301 },
      { ...plain, ids, outer: 700, axis: 3, inner: 1, count: 5 },
    ]),
    ...KINDS.map((kind): ScatterParams => ({ ...plain, kind, type: 'i32', indexType: 'i32' })),
    ...KINDS.map((kind): ScatterParams => ({ ...plain, kind, ids: 'along' })),
    ...TYPES.filter((type) => type !== 'bool').map((type): ScatterParams => ({ ...plain, type, inner: 5, count: 9 })),
    ...(['max', 'min'] as const).map((kind): ScatterParams => ({ ...plain, kind, type: 'u32', ids: 'along', inner: 3 })),
    { ...plain, kind: 'set', type: 'u8', inner: 12 },
    { ...plain, outer: 1, inner: 4100, count: 3, indexType: 'i32' },
  ],
  buffers: ({ ids, type, indexType, outer, axis, inner, count }) => [
    { name: 'src', role: 'in', type, elements: outer * count * inner },
    { name: 'ids', role: 'in', type: indexType, elements: ids === 'rows' ? count : outer * count * inner },
    { name: 'y', role: 'inout', type, elements: outer * axis * inner },
  ],
  inputs: ({ ids, indexType, outer, axis, inner, count }, random) => ({
    ids: randomIndices(indexType, ids === 'rows' ? count : outer * count * inner, axis, random),
  }),
  forms: [
    {
      name: 'parts',
      fits: isCpu,
      work: partsWork,
      kernels: ({ width }) => (['rows', 'along'] as const).map((ids) => parts({ kind: 'add', ids, type: 'f32', width })),
    },
    { name: 'lanes', fits: isGpu, work: lanesWork },
  ],
  cost: ({ kind, ids, type, indexType, outer, inner, count }) => ({
    operations: kind === 'set' ? 0 : outer * count * inner,
    arithmetic: 'f32',
    bytes:
      (kind === 'set' ? 2 : 3) * ELEMENT_BYTES[type] * outer * count * inner +
      ELEMENT_BYTES[indexType] * (ids === 'rows' ? count : outer * count * inner),
  }),
  define: ({ src = NONE, ids = NONE, y: before = NONE }, { kind, ids: form, type, indexType, outer, axis, inner, count }) => {
    const y = roundElements(type, before)
    for (let from = 0; from < outer * count * inner; from++) {
      const [o, j] = [Math.floor(from / (count * inner)), Math.floor(from / inner) % count]
      const id = resolveIndex(indexType, ids[form === 'rows' ? j : from] ?? NaN, axis)
      const to = (o * axis + id) * inner + (from % inner)
      y[to] = kind === 'set' ? (src[from] ?? NaN) : combineValues(kind, type, y[to] ?? NaN, src[from] ?? NaN)
    }
    return { y }
  },
})

/** As an element of the type holds it. */
function combineValues(kind: Exclude<ScatterKind, 'set'>, type: ElementType, old: number, value: number): number {
  const { js, whole = js } = mapOp(kind)
  if (isRounded(type)) return roundElements(type, [js(old, value, value)])[0] ?? NaN
  const word = registerOf(type) === 'u32' ? (x: number): number => x >>> 0 : (x: number): number => x | 0 // of an i64 the low one
  return roundElements(type, [word(whole(word(old), word(value), 0))])[0] ?? NaN
}
