// What changes in place between tokens: rows written into a key or value cache at their positions, and counters moved on.
// A cache of halves is written as words of two, so that no device needs 16-bit stores. Positions of one call are distinct;
// a row whose position lies past the capacity is skipped.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { flatGrid, flatLane, lanesFor } from './lanes.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

export interface CacheWriteParams {
  readonly type: 'f32' | 'f16'
  readonly rows: number
  readonly heads: number
  readonly headDim: number
  /** positions that the cache has room for */
  readonly capacity: number
}
export interface AdvanceParams {
  readonly count: number
  readonly by: number
}

export const cacheWrite: KernelRecord<CacheWriteParams> = {
  name: 'cacheWrite',
  about: 'rows written into a cache [heads, capacity, headDim] at their positions',
  tolerance: 1e-7, // of halves, whose last bit a device may round either way; f32 is copied
  cases: [
    { type: 'f16', rows: 3, heads: 2, headDim: 64, capacity: 16 },
    { type: 'f32', rows: 3, heads: 2, headDim: 64, capacity: 16 },
    { type: 'f16', rows: 1, heads: 5, headDim: 6, capacity: 3 },
    { type: 'f32', rows: 7, heads: 1, headDim: 2, capacity: 5 },
  ],
  buffers: ({ type, rows, heads, headDim, capacity }) => [
    { name: 'cache', role: 'inout', type, elements: heads * capacity * headDim },
    { name: 'x', role: 'in', type: 'f32', elements: rows * heads * headDim },
    { name: 'positions', role: 'in', type: 'u32', elements: rows },
  ],
  // From the middle on; the longest case runs past the end.
  inputs: ({ rows, capacity }) => ({ positions: Uint32Array.from({ length: rows }, (_, row) => Math.floor(capacity / 2) + row) }),
  work: cacheWork,
  define: ({ cache, x, positions }: Arrays, { rows, heads, headDim, capacity }) => {
    const after = Float32Array.from(cache!)
    for (let row = 0; row < rows; row++) {
      const position = positions![row]!
      if (position >= capacity) continue
      for (let head = 0; head < heads; head++) {
        const from = (row * heads + head) * headDim
        after.set(x!.subarray(from, from + headDim), (head * capacity + position) * headDim)
      }
    }
    return { cache: after }
  },
}

export const advance: KernelRecord<AdvanceParams> = {
  name: 'advance',
  about: 'adds a number to every element of a u32 buffer in place',
  tolerance: 0,
  cases: [
    { count: 67, by: 3 },
    { count: 1, by: 1 },
    { count: 1000, by: 0xffffffff },
  ],
  buffers: ({ count }) => [{ name: 'x', role: 'inout', type: 'u32', elements: count }],
  work: (caps, { count, by }) => {
    const lanes = lanesFor(caps, count)
    const written = kernel(
      'advance',
      {
        params: { x: buffer('u32', 'readwrite'), count: uniform('u32'), by: uniform('u32') },
        workgroup: [lanes],
        variant: '',
      },
      ({ x, count, by }, k) => {
        // Counters are few: one workgroup will do.
        k.for({ name: 'i', from: k.lane, to: count, step: lanes }, (i) => x.set(i, x.at(i).add(by)))
      },
    )
    return { launches: [{ kernel: written, uniforms: { count, by }, grid: [1, 1, 1] }] }
  },
  define: ({ x }: Arrays, { by }) => ({ x: Uint32Array.from(x!, (value) => value + by) }),
}

function cacheWork(caps: Caps, { type, rows, heads, headDim, capacity }: CacheWriteParams): Work {
  if (headDim % 2 !== 0) throw new IngotError('bad-argument', 'heads must be of even size', { op: 'cacheWrite', got: headDim })
  const uniforms = { heads, pairs: headDim / 2, capacity }
  if (caps.lanes === 1) return { launches: [{ kernel: cacheKernel(1, type), uniforms, grid: [rows, heads, 1] }] }
  const total = (rows * heads * headDim) / 2
  const lanes = lanesFor(caps, total)
  return {
    launches: [{ kernel: cacheKernel(lanes, type), uniforms: { ...uniforms, total }, grid: flatGrid(caps, Math.ceil(total / lanes)) }],
  }
}

/** A lane per pair of elements; on a CPU a workgroup per row and head. */
function cacheKernel(lanes: number, type: 'f32' | 'f16'): Kernel {
  return kernel(
    'cacheWrite',
    {
      params: {
        cache: buffer(type === 'f16' ? 'u32' : 'f32', 'readwrite'),
        x: buffer('f32', 'read'),
        positions: buffer('u32', 'read'),
        heads: uniform('u32'),
        pairs: uniform('u32'),
        capacity: uniform('u32'),
        ...(lanes === 1 ? {} : { total: uniform('u32') }),
      },
      workgroup: [lanes],
      variant: type,
    },
    (p, k) => {
      const copy = (from: Value<'u32'>, to: Value<'u32'>): void => writePair(type, p.x, p.cache as Writable<'f32' | 'u32'>, from, to)
      if (p.total === undefined) {
        const [row, head] = [k.workgroupId.x, k.workgroupId.y]
        const position = p.positions.at(row)
        k.when(position.lt(p.capacity), () => {
          const from = k.let('from', row.mul(p.heads).add(head).mul(p.pairs))
          const to = k.let('to', head.mul(p.capacity).add(position).mul(p.pairs))
          k.for({ name: 'pair', to: p.pairs }, (pair) => copy(from.add(pair), to.add(pair)))
        })
        return
      }
      const from = k.let('from', flatLane(k, lanes))
      k.when(from.lt(p.total), (k) => {
        const head = k.let('head', from.div(p.pairs)) // counted over all rows
        const position = p.positions.at(head.div(p.heads))
        const to = head.rem(p.heads).mul(p.capacity).add(position).mul(p.pairs).add(from.rem(p.pairs))
        k.when(position.lt(p.capacity), () => copy(from, to))
      })
    },
  )
}

/** Copies one pair; `from` and `to` count pairs. */
function writePair(
  type: 'f32' | 'f16',
  x: Readable<'f32', Uniformity>,
  cache: Writable<'f32' | 'u32'>,
  from: Value<'u32'>,
  to: Value<'u32'>,
): void {
  const pair = x.load(from.mul(2), 2)
  if (type === 'f16') cache.set(to, pair.packF16() as never)
  else cache.store(to.mul(2), pair as never)
}
