// The kernels of reduce.ts. Sizes and strides are uniforms; the text depends on the kind, the number of kept and reduced
// axes and the lanes that share the work. See reduce.ts for which serves what.

import type { Vector, Width } from '../../base/dtype.ts'
import { type LaneScope, type Readable, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { type Combiner, type Team, combineLanes, combineTwo, flatGroup, flatLane } from '../lanes.ts'
import { NOTHING, NO_ID, combineBest, orderKey } from '../select/float-order.ts'
import type { Write } from '../template.ts'

export type ReduceKind = 'sum' | 'mean' | 'max' | 'min' | 'prod' | 'argmax' | 'argmin'
/** What kernels know: a mean is a sum that is scaled. */
export type FoldKind = Exclude<ReduceKind, 'mean'>
type ValueKind = Exclude<FoldKind, 'argmax' | 'argmin'>

export function isArg(kind: ReduceKind): kind is 'argmax' | 'argmin' {
  return kind === 'argmax' || kind === 'argmin'
}

/** What a kernel is written for. `kept` and `reduced`: numbers of axes after merging. */
export interface ReduceTraits extends Team {
  readonly kind: FoldKind
  readonly kept: number
  readonly reduced: number
  readonly width: Width
}

type Memory = Readable<'f32', Uniformity>
type Floats = 'f32' | Vector<'f32'>
type U32 = Value<'u32'>
type Uniform = Value<'u32', 'uniform'>

/** What a fold starts with, given any value that it will include: that is a maximum's start. */
function startOf<D extends Floats>(k: LaneScope, kind: ValueKind, first: () => Value<D>, zero: Value<D>): Value<D> {
  if (kind === 'max' || kind === 'min') return first()
  return kind === 'prod' ? k.const('f32', 1).like(zero) : zero
}

/** A vector's elements together. */
function across(kind: ValueKind, vector: Value<Vector<'f32'>>, width: Width): Value<'f32'> {
  if (kind === 'sum') return vector.hsum()
  let total = vector.lane(0)
  for (let i = 1; i < width; i++) total = combineTwo(kind, total, vector.lane(i))
  return total
}

const axes = (count: number) => Array.from({ length: count }, () => uniform('u32'))

const paramsOf = (kind: FoldKind, kept: number, reduced: number) => ({
  x: buffer('f32', 'read'),
  y: buffer(isArg(kind) ? 'u32' : 'f32', 'write'),
  keptSize: axes(kept),
  keptStride: axes(kept),
  reducedSize: axes(reduced),
  reducedStride: axes(reduced),
  outputs: uniform('u32'),
  scale: uniform('f32'),
})

interface Sizes {
  readonly keptSize: readonly Uniform[]
  readonly keptStride: readonly Uniform[]
  readonly reducedSize: readonly Uniform[]
  readonly reducedStride: readonly Uniform[]
}

/** Where in the input the elements of an output begin. */
function baseOf<U extends Uniformity>(k: LaneScope, { keptSize, keptStride }: Sizes, output: Value<'u32', U>): Value<'u32', U | 'uniform'> {
  let rest: Value<'u32', U | 'uniform'> = output
  let base: Value<'u32', U | 'uniform'> | undefined
  for (const [axis, size] of [...keptSize.entries()].toReversed()) {
    const index: Value<'u32', U | 'uniform'> = axis === 0 ? rest : rest.rem(size)
    const step = index.mul(keptStride[axis] ?? 1)
    base = base === undefined ? step : base.add(step)
    rest = rest.div(size)
  }
  return k.let('base', base ?? output)
}

/** Loops over the first `count` reduced axes; the body gets the offset and the number of the elements there. */
function loops(k: LaneScope, { reducedSize, reducedStride }: Sizes, count: number, body: (offset: U32, ordinal: U32) => void): void {
  const enter = (axis: number, offset: U32, ordinal: U32): void => {
    const [size, stride] = [reducedSize[axis], reducedStride[axis]]
    if (axis === count || size === undefined || stride === undefined) return body(offset, ordinal)
    return k.for({ name: `r${axis}`, to: size }, (i) => enter(axis + 1, offset.add(i.mul(stride)), ordinal.mul(size).add(i)))
  }
  enter(0, k.const('u32', 0), k.const('u32', 0))
}

/** A row of the last reduced axis, or a part of one, and those of outer reduced axes that belong to the same result. */
interface Rows extends Sizes {
  readonly x: Memory
  readonly base: U32
  readonly begin: U32
  readonly end: U32
  /** elements of the last reduced axis */
  readonly inner: Uniform
  readonly outer: number
}

/** A workgroup per result; with `cut` one per part of a row, whose results another launch reduces. */
export function writeRows({ kind, kept, reduced, cut, ...traits }: ReduceTraits & { readonly cut: boolean }, kernel: Write): Kernel {
  const { lanes, subgroup } = traits
  const params = { ...paramsOf(kind, kept, reduced), ...(cut ? { part: uniform('u32'), parts: uniform('u32') } : {}) }
  return kernel(`${kind}Rows`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const combine = combineLanes(k, { lanes, subgroup })
    const [inner] = p.reducedSize.slice(-1)
    const group = k.let('group', flatGroup(k))
    const output = p.parts === undefined ? group : k.let('output', group.div(p.parts))
    k.when(output.lt(p.outputs), () => {
      const base = baseOf(k, p, output)
      const whole = inner ?? k.const('u32', 1)
      const begin = p.parts === undefined || p.part === undefined ? k.const('u32', 0) : k.let('begin', group.rem(p.parts).mul(p.part))
      const end = p.part === undefined ? whole : k.let('end', begin.add(p.part).min(whole))
      const rows: Rows = { ...p, base, begin, end, inner: whole, outer: reduced - 1 }
      const result = isArg(kind) ? pickRows(k, kind, rows, lanes, combine) : foldRows(k, kind, rows, traits, combine, p.scale)
      k.when(k.lane.eq(0), () => p.y.set(group, result))
    })
  })
}

function pickRows(k: LaneScope, kind: 'argmax' | 'argmin', rows: Rows, lanes: number, combine: Combiner): Value<'u32'> {
  const { x, base, begin, end, inner, outer } = rows
  const [keys, ids] = [k.var('key', k.const('i32', NOTHING)), k.var('id', k.const('u32', NO_ID))]
  loops(k, rows, outer, (offset, ordinal) =>
    k.for({ name: 'c', from: begin.add(k.lane), to: end, step: lanes }, (c) => {
      const key = orderKey(x.at(base.add(offset).add(c)), kind === 'argmin')
      ids.set(key.gt(keys.get()).select(ordinal.mul(inner).add(c), ids.get()))
      keys.set(key.max(keys.get()))
    }),
  )
  return combineBest(combine, keys.get(), ids.get()).id
}

function foldRows(
  k: LaneScope,
  kind: ValueKind,
  rows: Rows,
  { lanes, width }: { readonly lanes: number; readonly width: Width },
  combine: Combiner,
  scale: Value<'f32'>,
): Value<'f32'> {
  const total = combine(kind, lanes === 1 ? foldVectors(k, kind, rows, width) : foldStrided(k, kind, rows, lanes))
  return kind === 'sum' ? total.mul(scale) : total
}

function foldStrided(k: LaneScope, kind: ValueKind, rows: Rows, lanes: number): Value<'f32'> {
  const { x, base, begin, end, outer } = rows
  const zero = k.const('f32', 0)
  const total = k.var(
    kind,
    startOf(k, kind, () => x.at(base.add(begin.add(k.lane).min(end.sub(1)))), zero),
  )
  loops(k, rows, outer, (offset) =>
    k.for({ name: 'c', from: begin.add(k.lane), to: end, step: lanes }, (c) =>
      total.set(combineTwo(kind, total.get(), x.at(base.add(offset).add(c)))),
    ),
  )
  return total.get()
}

function foldVectors(k: LaneScope, kind: ValueKind, rows: Rows, width: Width): Value<'f32'> {
  const { x, base, begin, end, outer } = rows
  const first = k.let('start', x.at(base.add(begin)))
  const zero = k.const('f32', 0)
  const vectors = k.var(
    kind,
    startOf(k, kind, () => first.splat(width), zero.splat(width)),
  )
  const rest = k.var(
    kind,
    startOf(k, kind, () => first, zero),
  )
  const whole = k.let('whole', begin.add(end.sub(begin).div(width).mul(width)))
  loops(k, rows, outer, (offset) => {
    const at = (c: U32): U32 => base.add(offset).add(c)
    k.for({ name: 'c', from: begin, to: whole, step: width }, (c) => vectors.set(combineTwo(kind, vectors.get(), x.load(at(c), width))))
    k.for({ name: 'c', from: whole, to: end }, (c) => rest.set(combineTwo(kind, rest.get(), x.at(at(c)))))
  })
  return combineTwo(kind, across(kind, vectors.get(), width), rest.get())
}

/** A lane per result; on a CPU a vector of neighbouring results where they lie in one row, which needs a kept last axis. */
export function writeColumns({ kind, kept, reduced, lanes, width }: ReduceTraits, kernel: Write): Kernel {
  return kernel(`${kind}Columns`, { params: paramsOf(kind, kept, reduced), workgroup: [lanes] }, (p, k) => {
    const lowest = kind === 'argmin'
    const [zero, key, id] = [k.const('f32', 0), k.const('i32', NOTHING), k.const('u32', NO_ID)]
    const writeOne = (output: U32): void => {
      const base = baseOf(k, p, output)
      const load = (offset: U32): Value<'f32'> => p.x.at(base.add(offset))
      const keyOf = (value: Value<'f32'>): Value<'i32'> => orderKey(value, lowest)
      p.y.set(output, isArg(kind) ? pickColumn(k, p, load, keyOf, { key, id }) : foldColumn(k, kind, p, load, zero))
    }
    const writeVector = (output: U32): void => {
      const base = baseOf(k, p, output)
      const load = (offset: U32): VectorOf<'f32'> => p.x.load(base.add(offset), width)
      const keyOf = (value: VectorOf<'f32'>): VectorOf<'i32'> => orderKey(value, lowest)
      const start = { key: key.splat(width), id: id.splat(width) }
      p.y.store(output, isArg(kind) ? pickColumn(k, p, load, keyOf, start) : foldColumn(k, kind, p, load, zero.splat(width)))
    }
    if (lanes > 1) {
      const output = k.let('output', flatLane(k, lanes))
      k.when(output.lt(p.outputs), () => writeOne(output))
      return
    }
    const first = k.let('first', flatGroup(k).mul(width))
    const [row = p.outputs] = p.keptSize.slice(-1)
    const fits = first.rem(row).add(width).le(row).and(first.add(width).le(p.outputs))
    k.when(
      fits,
      () => writeVector(first),
      () => k.for({ name: 'output', from: first, to: first.add(width).min(p.outputs) }, writeOne),
    )
  })
}

/** One result, or a vector of them side by side. */
function foldColumn<D extends Floats>(
  k: LaneScope,
  kind: ValueKind,
  p: Sizes & { readonly scale: Value<'f32'> },
  load: (offset: U32) => Value<D>,
  zero: Value<D>,
): Value<D> {
  const total = k.var(
    kind,
    startOf(k, kind, () => load(k.const('u32', 0)), zero),
  )
  loops(k, p, p.reducedSize.length, (offset) => total.set(combineTwo(kind, total.get(), load(offset))))
  return kind === 'sum' ? total.get().mul(p.scale.like(zero)) : total.get()
}

/** The number of the best element of one result, or of a vector of them. */
function pickColumn<D extends Floats, I extends 'i32' | Vector<'i32'>, U extends 'u32' | Vector<'u32'>>(
  k: LaneScope,
  sizes: Sizes,
  load: (offset: U32) => Value<D>,
  keyOf: (value: Value<D>) => Value<I>,
  start: { readonly key: Value<I>; readonly id: Value<U> },
): Value<U> {
  const [keys, ids] = [k.var('key', start.key), k.var('id', start.id)]
  loops(k, sizes, sizes.reducedSize.length, (offset, ordinal) => {
    const key = keyOf(load(offset))
    ids.set(key.gt(keys.get()).select(ordinal.like(start.id), ids.get()))
    keys.set(key.max(keys.get()))
  })
  return ids.get()
}
