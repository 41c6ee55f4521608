// Sharing work among lanes and workgroups: combining a value over all lanes of a workgroup, choosing how many lanes, and
// spreading any number of workgroups over a grid whose axes are limited. Knows no mathematics of the kernels that use it.

import type { Caps } from '../base/caps.ts'
import type { Vector } from '../base/dtype.ts'
import type { LaneScope, Scope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'

export type Combine = 'sum' | 'max' | 'min' | 'prod'
type Combined = 'f32' | 'f64' | 'i32' | 'u32'
export type Combiner = <D extends Combined>(how: Combine, value: Value<D>) => Value<D>

/** The lanes that work together, and the size of the subgroups that they fall into; 0 if they do not. One lane is a CPU's. */
export interface Team {
  readonly lanes: number
  readonly subgroup: number
}

/** A team of this size on a device. */
export function teamOf({ subgroup }: Caps, lanes: number): Team {
  return { lanes, subgroup: subgroup > 1 && lanes > 1 && lanes % subgroup === 0 ? subgroup : 0 }
}

/** A team for a row of `length` elements: enough lanes to share the work, a power of two, no more than `most`. */
export function teamFor(caps: Caps, length: number, most = 256): Team {
  return teamOf(caps, lanesFor(caps, length, most))
}

/** More partial results than this are combined in a loop instead of one long expression. */
const UNROLLED = 8

/** Shared memory of one type. */
interface Cells<D extends Combined> {
  at(index: Value<'u32'> | number): Value<D>
  set(index: Value<'u32'>, value: Value<D>): void
}

/**
 * One combiner per kernel: it owns the shared memory that all its calls reuse. Through subgroups where there are any,
 * otherwise by halving in shared memory. Every lane gets the result. Contains barriers: call it where all lanes pass.
 */
export function combineLanes(k: Scope, { lanes, subgroup }: Team): Combiner {
  if (lanes === 1) return (_how, value) => value
  const groups = subgroup > 0 ? lanes / subgroup : lanes
  const memories = new Map<string, Cells<Combined>>()
  const memoryFor = <D extends Combined>(dtype: D): Cells<D> => {
    const known = memories.get(dtype)
    const memory = known ?? k.shared<Combined>(`lanes${dtype.toUpperCase()}`, dtype, groups)
    if (known === undefined) memories.set(dtype, memory)
    return memory as Cells<D>
  }
  if (subgroup > 0) {
    return (how, value) => {
      const mine = combineSubgroup(k, subgroup, how, value)
      if (groups === 1) return mine
      const partial = memoryFor(value.dtype)
      k.when(k.sublane.eq(0), () => partial.set(k.subgroupId, mine))
      k.barrier()
      const result = k.let(how, combineAll(k, partial, groups, how))
      k.barrier() // the next call writes `partial` again
      return result
    }
  }
  return (how, value) => {
    const partial = memoryFor(value.dtype)
    partial.set(k.lane, value)
    for (let half = lanes / 2; half >= 1; half /= 2) {
      k.barrier()
      k.when(k.lane.lt(half), () => partial.set(k.lane, combineTwo(how, partial.at(k.lane), partial.at(k.lane.add(half)))))
    }
    k.barrier()
    const result = k.let(how, partial.at(0))
    k.barrier()
    return result
  }
}

/** What the lanes before this one hold together, and what all of them do. */
export interface Scanned<D extends Combined> {
  readonly before: Value<D>
  readonly all: Value<D>
}
export type Scanner = <D extends Combined>(value: Value<D>, start: number, join: (a: Value<D>, b: Value<D>) => Value<D>) => Scanned<D>

/** The same as combineLanes for what comes before each lane; `join` need not commute. One scanner per kernel, for values of one type. */
export function scanLanes(k: Scope, { lanes, subgroup }: Team): Scanner {
  const groups = subgroup > 0 ? lanes / subgroup : lanes
  let memory: Cells<Combined> | undefined
  const memoryFor = <D extends Combined>(dtype: D): Cells<D> => {
    memory ??= k.shared<Combined>('scanned', dtype, groups)
    return memory as Cells<D>
  }
  /** the lane so many before this one, or this one */
  const back = (lane: Value<'u32'>, distance: number): Value<'u32'> => lane.ge(distance).select(lane.sub(distance), lane)
  if (subgroup > 0) {
    return (value, start, join) => {
      let mine = value
      for (let distance = 1; distance < subgroup; distance *= 2) {
        const other = k.subShuffle(mine, back(k.sublane, distance))
        mine = k.let('scanned', k.sublane.ge(distance).select(join(other, mine), mine))
      }
      const own = k.subBroadcast(mine, subgroup - 1)
      const earlier = k.subShuffle(mine, back(k.sublane, 1))
      const first = k.const(value.dtype, start) as Value<typeof value.dtype>
      const before = k.let('before', k.sublane.eq(0).select(first, earlier))
      if (groups === 1) return { before, all: own }
      const totals = memoryFor(value.dtype)
      k.when(k.sublane.eq(0), () => totals.set(k.subgroupId, own))
      k.barrier()
      const [prior, all] = [k.var('prior', first), k.var('all', first)]
      k.for({ name: 'group', to: groups }, (group) => {
        const total = totals.at(group)
        prior.set(group.lt(k.subgroupId).select(join(prior.get(), total), prior.get()))
        all.set(join(all.get(), total))
      })
      k.barrier() // the next call writes `totals` again
      return { before: join(prior.get(), before), all: all.get() }
    }
  }
  return (value, start, join) => {
    const cells = memoryFor(value.dtype)
    const mine = k.var('mine', value)
    for (let distance = 1; distance < lanes; distance *= 2) {
      cells.set(k.lane, mine.get())
      k.barrier()
      const other = cells.at(back(k.lane, distance))
      k.barrier()
      mine.set(k.lane.ge(distance).select(join(other, mine.get()), mine.get()))
    }
    cells.set(k.lane, mine.get())
    k.barrier()
    const first = k.const(value.dtype, start) as Value<typeof value.dtype>
    const before = k.let('before', k.lane.eq(0).select(first, cells.at(back(k.lane, 1))))
    const all = k.let('all', cells.at(lanes - 1))
    k.barrier()
    return { before, all }
  }
}

/** Two values, or two vectors element by element. */
export function combineTwo<D extends Combined | Vector<'f32'>>(how: Combine, a: Value<D>, b: Value<D>): Value<D> {
  switch (how) {
    case 'sum':
      return a.add(b)
    case 'max':
      return a.max(b)
    case 'min':
      return a.min(b)
    case 'prod':
      return a.mul(b)
  }
}

function combineSubgroup<D extends Combined>(k: LaneScope, subgroup: number, how: Combine, value: Value<D>): Value<D> {
  switch (how) {
    case 'sum':
      return k.subSum(value)
    case 'max':
      return k.subMax(value)
    case 'min':
      return k.subMin(value)
    case 'prod': {
      // no target has it as one operation
      let product = value
      for (let mask = 1; mask < subgroup; mask *= 2) product = combineTwo('prod', product, k.subShuffleXor(product, mask))
      return product
    }
  }
}

function combineAll<D extends Combined>(k: LaneScope, partial: Cells<D>, groups: number, how: Combine): Value<D> {
  if (groups > UNROLLED) {
    const total = k.var('total', partial.at(0))
    k.for({ name: 'group', from: 1, to: groups }, (group) => total.set(combineTwo(how, total.get(), partial.at(group))))
    return total.get()
  }
  let total = partial.at(0)
  for (let group = 1; group < groups; group++) total = combineTwo(how, total, partial.at(group))
  return total
}

function lanesFor(caps: Caps, length: number, most: number): number {
  if (caps.lanes === 1) return 1
  let lanes = Math.max(caps.subgroup, 32)
  while (lanes < length / 4 && lanes < most && lanes < caps.lanes) lanes *= 2
  return Math.min(lanes, caps.lanes)
}

/** A grid of at least `groups` workgroups along x and y; the kernel counts them with `flatGroup` and ignores the surplus. */
export function flatGrid(caps: Caps, groups: number): [number, number, number] {
  const rows = Math.ceil(groups / caps.grid)
  return rows <= 1 ? [groups, 1, 1] : [Math.ceil(groups / rows), rows, 1]
}

/** The number of this workgroup in a grid made by `flatGrid`. */
export function flatGroup(k: LaneScope): Value<'u32', 'uniform'> {
  return k.workgroupId.y.mul(k.gridSize.x).add(k.workgroupId.x)
}

/** The number of this lane in the whole of a grid made by `flatGrid`. */
export function flatLane(k: LaneScope, lanes: number): Value<'u32'> {
  return lanes === 1 ? flatGroup(k) : flatGroup(k).mul(lanes).add(k.lane)
}
