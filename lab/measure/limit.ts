// What a machine can do at most, measured in the kernel language on the same device and with all its threads: reading memory in a row,
// and multiplying and adding in registers. The yardsticks beside which every kernel is printed.

import type { Caps } from '../../src/base/caps.ts'
import type { Width } from '../../src/base/dtype.ts'
import { type Readable, buffer, uniform } from '../../src/ir/author.ts'
import type { Value, VectorOf } from '../../src/ir/value.ts'
import type { Launch } from '../../src/kernel/family.ts'
import { template } from '../../src/kernel/template.ts'
import type { Arithmetic, Entry } from './entry.ts'

/** Bytes that one workgroup sums. */
const CHUNK = 2 ** 16
/** Sums under way in a lane when memory is read. */
const SUMS = 4
/** As packed kernels ask for their weights. */
const AHEAD = 8192
/** Sums under way when registers are: latency times throughput of every processor known, and they fit sixteen registers. */
const CHAINS = 12
/** How long the chains are, and workgroups for each that runs at the same time: some, so that one that comes late does not hold up all. */
const CPU = { turns: 8192, groups: 4 } as const
const GPU = { turns: 512, groups: 16 } as const
const GPU_LANES = 64

interface Shape {
  readonly lanes: number
  readonly width: Width
}

/** Vectors and lanes as kernels of such a device use them. */
const shapeOf = ({ lanes, width }: Caps): Shape => (lanes === 1 ? { lanes, width } : { lanes: GPU_LANES, width: 4 })

const limit = (
  name: string,
  facts: Pick<Entry, 'buffers' | 'bytes' | 'operations' | 'arithmetic'> & Partial<Entry>,
  launch: (caps: Caps) => Launch | undefined,
): Entry => ({
  kernel: name,
  shape: '',
  quick: true,
  ...facts,
  work: (caps) => {
    const made = launch(caps)
    return made && { launches: [made] }
  },
})

/** A sum over so many bytes of memory. */
export function readLimit(bytes: number): Entry {
  const groups = Math.floor(bytes / CHUNK)
  const buffers = [
    { name: 'x', role: 'in', type: 'f32', elements: (groups * CHUNK) / 4, cold: true },
    { name: 'y', role: 'out', type: 'f32', elements: groups * GPU_LANES },
  ] as const
  return limit('read', { buffers, bytes: groups * CHUNK, operations: 0, arithmetic: 'f32' }, (caps) => {
    return { kernel: reading(shapeOf(caps)), uniforms: {}, grid: [groups, 1, 1] }
  })
}

const reading = template<Shape>({ family: 'limit', form: 'read' }, ({ lanes, width }, kernel) => {
  const vectors = CHUNK / 4 / width
  // GPUs load vectors of a buffer of vectors best, CPUs any that are next to each other
  const params = { x: buffer(lanes === 1 ? 'f32' : 'f32x4', 'read'), y: buffer('f32', 'write') }
  return kernel('limit_read', { params, workgroup: [lanes] }, (p, k) => {
    const load = (at: Value<'u32'>): VectorOf<'f32'> =>
      lanes === 1
        ? (p.x as Readable<'f32', 'uniform'>).load(at.mul(width), width, { ahead: AHEAD })
        : (p.x as Readable<'f32x4', 'uniform'>).at(at)
    const start = k.let('start', k.workgroupId.x.mul(vectors))
    const sums = Array.from({ length: SUMS }, () => k.var('sum', k.const('f32', 0).splat(width)))
    k.for({ name: 'i', from: k.lane, to: vectors, step: SUMS * lanes }, (i) => {
      sums.forEach((sum, part) => sum.set(sum.get().add(load(start.add(i).add(part * lanes)))))
    })
    const total = sums.map((sum) => sum.get()).reduce((a, b) => a.add(b))
    p.y.set(k.workgroupId.x.mul(lanes).add(k.lane), total.hsum())
  })
})

/** Chains of the fastest multiplication with addition that a device has; undefined where it has none of the kind. */
export function peakLimit(arithmetic: Arithmetic, caps: Caps): Entry {
  const { lanes, width } = shapeOf(caps)
  const { turns, groups: each } = lanes === 1 ? CPU : GPU
  const groups = caps.parallel * each
  const perLane = width * (arithmetic === 'i8' ? 4 : 1)
  const operations = 2 * CHAINS * turns * perLane * lanes * groups
  const buffers = [{ name: 'y', role: 'out', type: 'f32', elements: groups * lanes }] as const
  return limit(`peak ${arithmetic}`, { buffers, bytes: 0, operations, arithmetic }, () => {
    if (arithmetic === 'i8' && !caps.dot) return undefined
    return { kernel: chains({ lanes, width, turns, arithmetic }), uniforms: { a: 0x01030507 }, grid: [groups, 1, 1] }
  })
}

interface ChainTraits extends Shape {
  readonly turns: number
  readonly arithmetic: Arithmetic
}

const chains = template<ChainTraits>({ family: 'limit', form: 'peak' }, ({ lanes, width, turns, arithmetic }, kernel) => {
  const params = { y: buffer('f32', 'write'), a: uniform('u32') }
  return kernel(`limit_${arithmetic}`, { params, workgroup: [lanes] }, (p, k) => {
    const put = (sums: readonly VectorOf<'f32'>[]): void =>
      p.y.set(k.workgroupId.x.mul(lanes).add(k.lane), sums.reduce((a, b) => a.add(b)).hsum())
    if (arithmetic === 'f32') {
      const factor = p.a.to('f32').mul(1e-6).splat(width)
      const sums = Array.from({ length: CHAINS }, (_, i) => k.var('sum', k.const('f32', i).splat(width)))
      k.for({ name: 'i', to: turns }, () => sums.forEach((sum) => sum.set(sum.get().fma(factor, factor))))
      return put(sums.map((sum) => sum.get()))
    }
    // A sum is also what is multiplied: with other operands a compiler could take the product out of the loop.
    const factor = p.a.splat(width)
    const sums = Array.from({ length: CHAINS }, (_, i) => k.var('sum', k.const('i32', i + 1).splat(width)))
    k.for({ name: 'i', to: turns }, () => sums.forEach((sum) => sum.set(factor.dotU7I8(sum.get().as('u32'), sum.get()))))
    return put(sums.map((sum) => sum.get().to('f32')))
  })
})
