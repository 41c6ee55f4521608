// y[i] = i: the numbers that definitions in terms of simpler operations count with.

import type { Caps } from '../../base/caps.ts'
import { buffer, uniform } from '../../ir/author.ts'
import { type Work, family } from '../family.ts'
import { flatGrid, flatLane } from '../lanes.ts'
import { template } from '../template.ts'

export interface IotaParams {
  readonly count: number
}

const MOST_LANES = 64

const count = template<{ readonly lanes: number }>({ family: 'iota', form: 'count' }, ({ lanes }, kernel) =>
  kernel('iota', { params: { y: buffer('u32', 'write'), count: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
    const i = k.let('i', flatLane(k, lanes))
    k.when(i.lt(p.count), () => p.y.set(i, i))
  }),
)

export const iota = family<IotaParams>({
  name: 'iota',
  about: 'the numbers 0, 1, 2...',
  tolerance: () => 0,
  cases: [{ count: 100 }, { count: 1 }, { count: 1025 }],
  buffers: (params) => [{ name: 'y', role: 'out', type: 'u32', elements: params.count }],
  forms: [{ name: 'count', fits: () => true, work }],
  cost: (params) => ({ operations: params.count, arithmetic: 'f32' }),
  define: (_inputs, params) => ({ y: Uint32Array.from({ length: params.count }, (_, i) => i) }),
})

function work(caps: Caps, params: IotaParams): Work {
  const lanes = Math.min(MOST_LANES, caps.lanes)
  return { launches: [{ kernel: count({ lanes }), uniforms: { ...params }, grid: flatGrid(caps, Math.ceil(params.count / lanes)) }] }
}
