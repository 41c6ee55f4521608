// y[i] = i: the numbers that definitions in terms of simpler operations count with.

import type { Caps } from '../base/caps.ts'
import { buffer, kernel, uniform } from '../ir/author.ts'
import { flatGrid, flatLane } from './lanes.ts'
import type { KernelRecord, Work } from './record.ts'

export interface IotaParams {
  readonly count: number
}

export const iota: KernelRecord<IotaParams> = {
  name: 'iota',
  about: 'the numbers 0, 1, 2...',
  tolerance: 0,
  cases: [{ count: 100 }, { count: 1 }, { count: 1025 }],
  buffers: ({ count }) => [{ name: 'y', role: 'out', type: 'u32', elements: count }],
  work,
  define: (_inputs, { count }) => ({ y: Uint32Array.from({ length: count }, (_, i) => i) }),
}

function work(caps: Caps, { count }: IotaParams): Work {
  const lanes = Math.min(64, caps.lanes)
  const written = kernel('iota', { params: { y: buffer('u32', 'write'), count: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
    const i = k.let('i', flatLane(k, lanes))
    k.when(i.lt(p.count), () => p.y.set(i, i))
  })
  return { launches: [{ kernel: written, uniforms: { count }, grid: flatGrid(caps, Math.ceil(count / lanes)) }] }
}
