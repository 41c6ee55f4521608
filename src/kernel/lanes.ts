// Sharing work among lanes and workgroups: combining a value over all lanes of a workgroup, choosing how many lanes, and
// spreading any number of workgroups over a grid whose axes are limited. Knows no mathematics of the kernels that use it.

import type { Caps } from '../base/caps.ts'
import type { LaneScope, Scope, Shared } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'

export type Combine = 'sum' | 'max' | 'min' | 'prod'
type Combined = 'f32' | 'i32' | 'u32'
export type Combiner = <D extends Combined>(how: Combine, value: Value<D>) => Value<D>

/** More partial results than this are combined in a loop instead of one long expression. */
const UNROLLED = 8

/**
 * One combiner per kernel: it owns the shared memory that all its calls reuse. Through subgroups where there are any,
 * otherwise by halving in shared memory. Every lane gets the result. Contains barriers: call it where all lanes pass.
 */
export function combineLanes(k: Scope, caps: Caps, lanes: number): Combiner {
  if (lanes === 1) return (_how, value) => value
  const subgroup = caps.subgroup > 1 && lanes % caps.subgroup === 0 ? caps.subgroup : 0
  const groups = subgroup > 0 ? lanes / subgroup : lanes
  const memories = new Map<Combined, Shared<Combined>>()
  const memoryFor = <D extends Combined>(dtype: D): Shared<D> => {
    let memory = memories.get(dtype)
    if (memory === undefined) {
      memory = k.shared(`lanes${dtype.toUpperCase()}`, dtype as Combined, groups)
      memories.set(dtype, memory)
    }
    return memory as unknown as Shared<D>
  }
  if (subgroup > 0) {
    return (how, value) => {
      const mine = combineSubgroup(k, subgroup, how, value)
      if (groups === 1) return mine
      const partial = memoryFor(value.dtype)
      k.when(k.sublane.eq(0), () => partial.set(k.subgroupId, mine as never))
      k.barrier()
      const result = k.let(how, combineAll(k, partial, groups, how))
      k.barrier() // the next call writes `partial` again
      return result as never
    }
  }
  return (how, value) => {
    const partial = memoryFor(value.dtype)
    partial.set(k.lane, value as never)
    for (let half = lanes / 2; half >= 1; half /= 2) {
      k.barrier()
      k.when(k.lane.lt(half), () => partial.set(k.lane, two(how, partial.at(k.lane), partial.at(k.lane.add(half))) as never))
    }
    k.barrier()
    const result = k.let(how, partial.at(0))
    k.barrier()
    return result as never
  }
}

function two(how: Combine, a: Value<Combined>, b: Value<Combined>): Value<Combined> {
  const other = b as never
  switch (how) {
    case 'sum':
      return a.add(other)
    case 'max':
      return a.max(other)
    case 'min':
      return a.min(other)
    case 'prod':
      return a.mul(other)
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
      let product: Value<Combined> = value as never
      for (let mask = 1; mask < subgroup; mask *= 2) product = two('prod', product, k.subShuffleXor(product, mask))
      return product as never
    }
  }
}

function combineAll(k: LaneScope, partial: Shared<Combined>, groups: number, how: Combine): Value<Combined> {
  if (groups > UNROLLED) {
    const total = k.var('total', partial.at(0))
    k.for({ name: 'group', from: 1, to: groups }, (group) => total.set(two(how, total.get(), partial.at(group))))
    return total.get()
  }
  let total: Value<Combined> = partial.at(0)
  for (let group = 1; group < groups; group++) total = two(how, total, partial.at(group))
  return total
}

/** Lanes for a row of `length` elements: enough to share the work, a power of two, no more than `most`. */
export function lanesFor(caps: Caps, length: number, most = 256): number {
  if (caps.lanes === 1) return 1
  let lanes = Math.max(caps.subgroup, 32)
  while (lanes < length / 4 && lanes < most && lanes < caps.lanes) lanes *= 2
  return Math.min(lanes, caps.lanes)
}

/** The `subgroup` of a kernel with this many lanes, to be spread into its spec. */
export function subgroupOf(caps: Caps, lanes: number): { subgroup?: number } {
  return caps.subgroup > 1 && lanes > 1 && lanes % caps.subgroup === 0 ? { subgroup: caps.subgroup } : {}
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
