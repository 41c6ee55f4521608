// The kernels of reduce.ts. Sizes and strides are uniforms; the text depends on the kind, the number of kept and reduced
// axes and the caps. See reduce.ts for which form serves what.

import type { Caps } from '../base/caps.ts'
import type { DType } from '../base/dtype.ts'
import { type LaneScope, type ParamSpec, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { combineLanes, flatGroup, flatLane, subgroupOf } from './lanes.ts'
import { NOTHING, NO_ID, combineBest, orderKey } from './order.ts'

export type ReduceKind = 'sum' | 'mean' | 'max' | 'min' | 'prod' | 'argmax' | 'argmin'

/** Kept and reduced axes after merging; a merged axis steps `stride` elements of the input. */
export interface Axis {
  readonly size: number
  readonly stride: number
}
export interface Layout {
  readonly kept: readonly Axis[]
  readonly reduced: readonly Axis[]
  /** whether the contiguous axis is a reduced one */
  readonly lastReduced: boolean
}

export function isArg(kind: ReduceKind): kind is 'argmax' | 'argmin' {
  return kind === 'argmax' || kind === 'argmin'
}

type Width = 1 | 2 | 4 | 8 | 16
type Memory = Readable<'f32', Uniformity>
type F32 = Value<'f32'>
type U32 = Value<'u32'>

/** What has been seen so far, of one value or of a vector of them. */
interface Fold {
  /** one more value, and its number among those reduced together */
  include(value: F32, ordinal: U32): void
  value(): F32
  key(): Value<'i32'>
  id(): U32
}

/** `first` is any value that will be included: what a maximum starts with. */
function foldOf(k: LaneScope, kind: ReduceKind, width: Width, first: () => F32): Fold {
  const typed = (scalar: 'f32' | 'i32' | 'u32'): Exclude<DType, 'void' | `${string}t`> => (width === 1 ? scalar : `${scalar}x${width}`)
  if (isArg(kind)) {
    const keys = k.var('key', k.const(typed('i32'), NOTHING) as unknown as Value<'i32'>)
    const ids = k.var('id', k.const(typed('u32'), NO_ID) as unknown as U32)
    return {
      include: (value, ordinal) => {
        const key = orderKey(value, kind === 'argmin')
        const better = k.let('better', key.gt(keys.get()))
        ids.set(better.select(width === 1 ? ordinal : (ordinal.splat(width) as unknown as U32), ids.get()))
        keys.set(key.max(keys.get()))
      },
      value: () => {
        throw new TypeError(`${kind} has no value`)
      },
      key: () => keys.get(),
      id: () => ids.get(),
    }
  }
  const start = kind === 'max' || kind === 'min' ? first() : (k.const(typed('f32'), kind === 'prod' ? 1 : 0) as unknown as F32)
  const total = k.var(kind, start)
  return {
    include: (value) => total.set(two(kind, total.get(), value)),
    value: () => total.get(),
    key: () => {
      throw new TypeError(`${kind} has no key`)
    },
    id: () => {
      throw new TypeError(`${kind} has no id`)
    },
  }
}

function two(kind: ReduceKind, a: F32, b: F32): F32 {
  switch (kind) {
    case 'max':
      return a.max(b)
    case 'min':
      return a.min(b)
    case 'prod':
      return a.mul(b)
    default:
      return a.add(b)
  }
}

/** A vector's elements together. */
function across(kind: ReduceKind, vector: F32, width: Width): F32 {
  if (width === 1) return vector
  if (kind === 'sum' || kind === 'mean') return vector.hsum()
  let total = vector.lane(0)
  for (let i = 1; i < width; i++) total = two(kind, total, vector.lane(i))
  return total
}

class Sizes {
  readonly #p: Readonly<Record<string, unknown>>
  readonly #layout: Layout

  constructor(p: Readonly<Record<string, unknown>>, layout: Layout) {
    this.#p = p
    this.#layout = layout
  }

  of(name: string): Value<'u32', 'uniform'> {
    return this.#p[name] as Value<'u32', 'uniform'>
  }

  /** Where in the input the elements of an output begin. */
  base<U extends Uniformity>(k: LaneScope, output: Value<'u32', U>): Value<'u32', U | 'uniform'> {
    let rest: Value<'u32', U | 'uniform'> = output
    let base: Value<'u32', U | 'uniform'> | undefined
    for (let axis = this.#layout.kept.length - 1; axis >= 0; axis--) {
      const index: Value<'u32', U | 'uniform'> = axis === 0 ? rest : rest.rem(this.of(`keptSize${axis}`))
      const step = index.mul(this.of(`keptStride${axis}`))
      base = base === undefined ? step : base.add(step)
      rest = rest.div(this.of(`keptSize${axis}`))
    }
    return k.let('base', base ?? output)
  }

  /** Loops over all reduced axes but the last `skip`; the body gets the offset and the number of the elements there. */
  loops(k: LaneScope, skip: 0 | 1, body: (offset: U32, ordinal: U32) => void): void {
    const last = this.#layout.reduced.length - skip
    const enter = (axis: number, offset: U32, ordinal: U32): void => {
      if (axis === last) return body(offset, ordinal)
      const size = this.of(`reducedSize${axis}`)
      return k.for({ name: `r${axis}`, to: size }, (i) =>
        enter(axis + 1, offset.add(i.mul(this.of(`reducedStride${axis}`))), ordinal.mul(size).add(i)),
      )
    }
    enter(0, k.const('u32', 0), k.const('u32', 0))
  }
}

function specOf(kind: ReduceKind, { kept, reduced }: Layout, from: string, to: string, cut: boolean): Record<string, ParamSpec> {
  const names = [
    ...kept.flatMap((_, i) => [`keptSize${i}`, `keptStride${i}`]),
    ...reduced.flatMap((_, i) => [`reducedSize${i}`, `reducedStride${i}`]),
    'outputs',
    ...(cut ? ['part', 'parts'] : []),
  ]
  return {
    [from]: buffer('f32', 'read'),
    [to]: buffer(isArg(kind) ? 'u32' : 'f32', 'write'),
    ...Object.fromEntries(names.map((name) => [name, uniform('u32')])),
    scale: uniform('f32'),
  }
}

/** A workgroup per result; `cut` reduces one part of each row into scratch memory, `join` the parts. */
export function rowsKernel(caps: Caps, lanes: number, kind: ReduceKind, layout: Layout, stage: 'whole' | 'cut' | 'join' = 'whole'): Kernel {
  const [from, to] = [stage === 'join' ? 'partial' : 'x', stage === 'cut' ? 'partial' : 'y']
  return kernel(
    `${kind}Rows`,
    { params: specOf(kind, layout, from, to, stage === 'cut'), workgroup: [lanes], ...subgroupOf(caps, lanes) },
    (p, k) => {
      const sizes = new Sizes(p, layout)
      const x = p[from] as Memory
      const y = p[to] as Writable<'f32' | 'u32'>
      const combine = combineLanes(k, caps, lanes)
      const inner = sizes.of(`reducedSize${layout.reduced.length - 1}`)
      const scale = p['scale'] as F32
      const group = k.let('group', flatGroup(k))
      const output = stage === 'cut' ? k.let('output', group.div(sizes.of('parts'))) : group
      k.when(output.lt(sizes.of('outputs')), () => {
        const base = sizes.base(k, output)
        const begin = stage === 'cut' ? k.let('begin', group.rem(sizes.of('parts')).mul(sizes.of('part'))) : k.const('u32', 0)
        const end = stage === 'cut' ? k.let('end', begin.add(sizes.of('part')).min(inner)) : inner
        if (isArg(kind)) {
          const fold = foldOf(k, kind, 1, () => x.at(base))
          sizes.loops(k, 1, (offset, ordinal) =>
            k.for({ name: 'c', from: begin.add(k.lane), to: end, step: lanes }, (c) =>
              fold.include(x.at(base.add(offset).add(c)), ordinal.mul(inner).add(c)),
            ),
          )
          const { id } = combineBest(combine, fold.key(), fold.id())
          k.when(k.lane.eq(0), () => y.set(group, id as never))
          return
        }
        const mine =
          lanes === 1
            ? foldVectors(k, kind, x, caps.width, sizes, base, begin, end)
            : foldStrided(k, kind, x, lanes, sizes, base, begin, end)
        const total = combine(kind === 'mean' ? 'sum' : kind, mine)
        k.when(k.lane.eq(0), () => y.set(group, (kind === 'sum' || kind === 'mean' ? total.mul(scale) : total) as never))
      })
    },
  )
}

function foldStrided(k: LaneScope, kind: ReduceKind, x: Memory, lanes: number, sizes: Sizes, base: U32, begin: U32, end: U32): F32 {
  const fold = foldOf(k, kind, 1, () => x.at(base.add(begin.add(k.lane).min(end.sub(1)))))
  sizes.loops(k, 1, (offset, ordinal) =>
    k.for({ name: 'c', from: begin.add(k.lane), to: end, step: lanes }, (c) => fold.include(x.at(base.add(offset).add(c)), ordinal)),
  )
  return fold.value()
}

function foldVectors(k: LaneScope, kind: ReduceKind, x: Memory, width: 2 | 4 | 8 | 16, sizes: Sizes, base: U32, begin: U32, end: U32): F32 {
  const first = k.let('start', x.at(base.add(begin)))
  const vectors = foldOf(k, kind, width, () => first.splat(width) as unknown as F32)
  const rest = foldOf(k, kind, 1, () => first)
  const whole = k.let('whole', begin.add(end.sub(begin).div(width).mul(width)))
  sizes.loops(k, 1, (offset, ordinal) => {
    k.for({ name: 'c', from: begin, to: whole, step: width }, (c) =>
      vectors.include(x.load(base.add(offset).add(c), width) as unknown as F32, ordinal),
    )
    k.for({ name: 'c', from: whole, to: end }, (c) => rest.include(x.at(base.add(offset).add(c)), ordinal))
  })
  return two(kind, across(kind, vectors.value(), width), rest.value())
}

/** A lane per result; on a CPU a vector of neighbouring results where they lie in one row, which needs a kept last axis. */
export function columnsKernel(caps: Caps, lanes: number, kind: ReduceKind, layout: Layout): Kernel {
  return kernel(`${kind}Columns`, { params: specOf(kind, layout, 'x', 'y', false), workgroup: [lanes] }, (p, k) => {
    const sizes = new Sizes(p, layout)
    const x = p['x'] as Memory
    const y = p['y'] as Writable<'f32' | 'u32'>
    const scale = p['scale'] as F32
    const outputs = sizes.of('outputs')
    const write = (output: U32, width: Width): void => {
      const base = sizes.base(k, output)
      const load = (at: U32): F32 => (width === 1 ? x.at(at) : x.load(at, width)) as unknown as F32
      const fold = foldOf(k, kind, width, () => load(base))
      sizes.loops(k, 0, (offset, ordinal) => fold.include(load(base.add(offset)), ordinal))
      const result = isArg(kind) ? fold.id() : kind === 'sum' || kind === 'mean' ? fold.value().mul(scale) : fold.value()
      if (width === 1) y.set(output, result as never)
      else y.store(output, result as never)
    }
    if (caps.lanes > 1) {
      const output = k.let('output', flatLane(k, lanes))
      k.when(output.lt(outputs), () => write(output, 1))
      return
    }
    const { width } = caps
    const first = k.let('first', flatGroup(k).mul(width))
    const row = sizes.of(`keptSize${layout.kept.length - 1}`)
    const fits = first.rem(row).add(width).le(row).and(first.add(width).le(outputs))
    k.when(
      fits,
      () => write(first, width),
      () => k.for({ name: 'output', from: first, to: first.add(width).min(outputs) }, (output) => write(output, 1)),
    )
  })
}
