// Choosing from logits: argmax of rows, and the k largest of one row, sorted. The order is total (order.ts): ties go to the
// lower id, NaN is below -Infinity. Long rows are cut into parts whose winners a second launch compares.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { type LaneScope, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { combineLanes, flatGrid, flatGroup, lanesFor, subgroupOf } from './lanes.ts'
import { NOTHING, NO_ID, combineBest, orderKey, ranking } from './order.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'
import { MOST_CHOSEN, topkWork } from './topk.ts'

export interface ArgmaxParams {
  readonly rows: number
  readonly cols: number
}
export interface TopkParams {
  readonly cols: number
  readonly k: number
}

/** Elements of a part. */
const PART = 4096

/** Values with ties, infinities and a few NaN. */
function logits(length: number, random: () => number): Float32Array {
  return Float32Array.from({ length }, () => {
    const luck = random()
    if (luck < 0.02) return Number.NaN
    if (luck < 0.04) return -Infinity
    return Math.round(60 * random() - 30) / 4
  })
}

export const argmax: KernelRecord<ArgmaxParams> = {
  name: 'argmax',
  about: 'id of the largest element of each row',
  tolerance: 0,
  cases: [
    { rows: 1, cols: 1000 },
    { rows: 1, cols: 1 },
    { rows: 5, cols: 3 },
    { rows: 3, cols: 67 },
    { rows: 2, cols: 193 },
    { rows: 1, cols: 20001 },
    { rows: 3, cols: 8193 },
  ],
  buffers: ({ rows, cols }) => [
    { name: 'x', role: 'in', type: 'f32', elements: rows * cols },
    { name: 'y', role: 'out', type: 'u32', elements: rows },
  ],
  inputs: ({ rows, cols }, random) => ({ x: logits(rows * cols, random) }),
  work: (caps, { rows, cols }) => pickWork(caps, { rows, cols, lowest: false }),
  define: ({ x }: Arrays, { rows, cols }) => ({
    y: Uint32Array.from({ length: rows }, (_, row) => ranking(Array.from(x!.subarray(row * cols, (row + 1) * cols)))[0]!),
  }),
}

export const topk: KernelRecord<TopkParams> = {
  name: 'topk',
  about: 'the k largest of a row: ids, then the bits of their values, largest first',
  tolerance: 0,
  cases: [
    { cols: 1000, k: 40 },
    { cols: 1, k: 1 },
    { cols: 67, k: 67 },
    { cols: 193, k: 7 },
    { cols: 9001, k: 40 },
    { cols: 5000, k: 1 },
  ],
  buffers: ({ cols, k }) => [
    { name: 'x', role: 'in', type: 'f32', elements: cols },
    { name: 'y', role: 'out', type: 'u32', elements: 2 * k },
  ],
  inputs: ({ cols }, random) => ({ x: logits(cols, random) }),
  work: (caps, params) => {
    const { cols, k } = params
    if (k < 1 || k > cols || k > MOST_CHOSEN) {
      throw new IngotError('bad-argument', 'k is out of range', { op: 'topk', got: k, wanted: `1 to ${Math.min(cols, MOST_CHOSEN)}` })
    }
    return topkWork(caps, params)
  },
  define: ({ x }: Arrays, { k }) => {
    const ids = ranking(Array.from(x!)).slice(0, k)
    const bits = new Uint32Array(Float32Array.from(ids, (id) => x![id]!).buffer)
    return { y: Uint32Array.from([...ids, ...bits]) }
  },
}

export interface PickParams {
  readonly rows: number
  readonly cols: number
  readonly lowest: boolean
}

/** The id of the largest, or lowest, element of each row. */
export function pickWork(caps: Caps, { rows, cols, lowest }: PickParams): Work {
  const parts = Math.ceil(cols / PART)
  if (parts === 1)
    return {
      launches: [
        {
          kernel: pickKernel(caps, lanesFor(caps, cols), lowest, 'whole'),
          uniforms: { rows, cols, part: cols, parts },
          grid: flatGrid(caps, rows),
        },
      ],
    }
  return {
    launches: [
      {
        kernel: pickKernel(caps, lanesFor(caps, PART), lowest, 'cut'),
        uniforms: { rows, cols, part: PART, parts },
        grid: flatGrid(caps, rows * parts),
      },
      { kernel: pickKernel(caps, lanesFor(caps, parts), lowest, 'join'), uniforms: { rows, cols, parts }, grid: flatGrid(caps, rows) },
    ],
    scratch: { partial: 4 * rows * parts },
  }
}

/** A workgroup per part of a row (`cut`, and `whole` with one part), or per row of ids that parts have given (`join`). */
function pickKernel(caps: Caps, lanes: number, lowest: boolean, stage: 'whole' | 'cut' | 'join'): Kernel {
  return kernel(
    lowest ? 'argmin' : 'argmax',
    {
      params: {
        x: buffer('f32', 'read'),
        ...(stage === 'whole' ? {} : { partial: buffer('u32', stage === 'cut' ? 'write' : 'read') }),
        ...(stage === 'cut' ? {} : { y: buffer('u32', 'write') }),
        rows: uniform('u32'),
        cols: uniform('u32'),
        parts: uniform('u32'),
        ...(stage === 'join' ? {} : { part: uniform('u32') }),
      },
      workgroup: [lanes],
      ...subgroupOf(caps, lanes),
      variant: `${stage}, width ${caps.width}`,
    },
    (p, k) => {
      const combine = combineLanes(k, caps, lanes)
      const group = k.let('group', flatGroup(k))
      const groups = stage === 'join' ? p.rows : p.rows.mul(p.parts)
      k.when(group.lt(groups), () => {
        const row = stage === 'join' ? group : group.div(p.parts)
        const start = k.let('start', row.mul(p.cols))
        const best = k.var('best', k.const('i32', NOTHING))
        const chosen = k.var('chosen', k.const('u32', NO_ID))
        const include = (value: Value<'f32'>, id: Value<'u32'>): void => {
          const key = orderKey(value, lowest)
          chosen.set(key.gt(best.get()).select(id, chosen.get()))
          best.set(key.max(best.get()))
        }
        if (stage === 'join') {
          k.for({ name: 'c', from: k.lane, to: p.parts, step: lanes }, (c) => {
            const id = (p.partial as ReadIds).at(group.mul(p.parts).add(c))
            include(p.x.at(start.add(id)), id)
          })
        } else {
          const from = k.let('from', group.rem(p.parts).mul(p.part!))
          const to = k.let('to', from.add(p.part!).min(p.cols))
          const whole =
            lanes > 1
              ? from
              : scanVectors(k, p.x, start, from, to, caps.width, lowest, (key, id) => {
                  chosen.set(id)
                  best.set(key)
                })
          k.for({ name: 'c', from: whole.add(k.lane), to, step: lanes }, (c) => include(p.x.at(start.add(c)), c))
        }
        const { id } = combineBest(combine, best.get(), chosen.get())
        const out = (stage === 'cut' ? p.partial : p.y) as WriteIds
        k.when(k.lane.eq(0), () => out.set(group, id))
      })
    },
  )
}

type ReadIds = Readable<'u32', Uniformity>
type WriteIds = Writable<'u32'>

/** Goes over whole vectors of a row; `found` gets their best. Gives where they end. */
function scanVectors(
  k: LaneScope,
  x: Readable<'f32', Uniformity>,
  start: Value<'u32'>,
  from: Value<'u32'>,
  to: Value<'u32'>,
  width: 2 | 4 | 8 | 16,
  lowest: boolean,
  found: (key: Value<'i32'>, id: Value<'u32'>) => void,
): Value<'u32'> {
  const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
  const keys = k.var('keys', k.const(`i32x${width}`, NOTHING))
  const firsts = k.var('firsts', k.const(`u32x${width}`, NO_ID)) // id of the first element of the vector that each key came in
  k.for({ name: 'c', from, to: whole, step: width }, (c) => {
    const key = orderKey(x.load(start.add(c), width) as unknown as Value<'f32'>, lowest)
    const before = keys.get() as unknown as Value<'i32'>
    firsts.set(key.gt(before).select(c.splat(width) as unknown as Value<'u32'>, firsts.get() as unknown as Value<'u32'>) as never)
    keys.set(key.max(before) as never)
  })
  const [key, first] = [keys.get(), firsts.get()]
  const best = k.let('highest', key.hmax())
  let id: Value<'u32'> = k.const('u32', NO_ID)
  for (let i = 0; i < width; i++) id = id.min(key.lane(i).eq(best).select(first.lane(i).add(i), NO_ID))
  // Without a whole vector every key is NOTHING, and so is what is found.
  found(best, best.eq(NOTHING).select(k.const('u32', NO_ID), id))
  return whole
}
