// Combining a value over all lanes of a workgroup: through subgroups where there are any, otherwise by halving in shared memory.
// Every lane gets the result. Contains barriers: call it where all lanes pass.

import type { Caps } from '../base/caps.ts'
import type { Scope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'

type Combine = 'sum' | 'max'

/** One combiner per kernel: it owns the shared memory that all its calls reuse. */
export function combineLanes(k: Scope, caps: Caps, lanes: number): (how: Combine, value: Value<'f32'>) => Value<'f32'> {
  if (lanes === 1) return (_how, value) => value
  const subgroup = caps.subgroup > 1 && lanes % caps.subgroup === 0 ? caps.subgroup : 0
  const two = (how: Combine, a: Value<'f32'>, b: Value<'f32'>): Value<'f32'> => (how === 'sum' ? a.add(b) : a.max(b))
  if (subgroup > 0) {
    const groups = lanes / subgroup
    const within = (how: Combine, value: Value<'f32'>): Value<'f32'> => (how === 'sum' ? k.subSum(value) : k.subMax(value))
    if (groups === 1) return within
    const partial = k.shared('partial', 'f32', groups)
    return (how, value) => {
      const mine = within(how, value)
      k.when(k.sublane.eq(0), () => partial.set(k.subgroupId, mine))
      k.barrier()
      let total: Value<'f32'> = partial.at(0)
      for (let group = 1; group < groups; group++) total = two(how, total, partial.at(group))
      const result = k.let(how, total)
      k.barrier() // the next call writes `partial` again
      return result
    }
  }
  const partial = k.shared('partial', 'f32', lanes)
  return (how, value) => {
    partial.set(k.lane, value)
    for (let half = lanes / 2; half >= 1; half /= 2) {
      k.barrier()
      k.when(k.lane.lt(half), () => partial.set(k.lane, two(how, partial.at(k.lane), partial.at(k.lane.add(half)))))
    }
    k.barrier()
    const result = k.let(how, partial.at(0))
    k.barrier()
    return result
  }
}

/** Lanes for a row of `length` elements: enough to share the work, a power of two, no more than `most`. */
export function lanesFor(caps: Caps, length: number, most = 256): number {
  if (caps.lanes === 1) return 1
  let lanes = Math.max(caps.subgroup, 32)
  while (lanes < length / 4 && lanes < most && lanes < caps.lanes) lanes *= 2
  return Math.min(lanes, caps.lanes)
}
