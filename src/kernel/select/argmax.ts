// The id of the largest element of each row. The order is total (float-order.ts): ties go to the lower id, NaN is below -Infinity.
// Long rows are cut into parts whose winners a second launch compares.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { type LaneScope, type Readable, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { type Team, combineLanes, flatGrid, flatGroup, teamFor } from '../lanes.ts'
import { type Write, combinations, template } from '../template.ts'
import { NOTHING, NO_ID, combineBest, orderKey, ranking } from './float-order.ts'

export interface ArgmaxParams {
  readonly rows: number
  readonly cols: number
}
/** Elements of a part. */
const PART = 4096

/** Values with ties, infinities and a few NaN. */
export function logits(length: number, random: () => number): Float32Array {
  return Float32Array.from({ length }, () => {
    const luck = random()
    if (luck < 0.02) return Number.NaN
    if (luck < 0.04) return -Infinity
    return Math.round(60 * random() - 30) / 4
  })
}

/** A workgroup per part of a row (`cut`, and `whole` with one part), or per row of ids that parts have given (`join`). */
export type Stage = 'whole' | 'cut' | 'join'
type PickTraits = Team & { readonly lowest: boolean; readonly stage: Stage; readonly width: Width }

const vectors = template({ family: 'argmax', form: 'vectors' }, writePick)
const lanes = template({ family: 'argmax', form: 'lanes' }, writePick)

export const argmax = family<ArgmaxParams>({
  name: 'argmax',
  about: 'id of the largest element of each row',
  tolerance: () => 0,
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
  forms: [
    {
      name: 'vectors',
      fits: isCpu,
      work: (caps, params) => pickWork(caps, { ...params, lowest: false }),
      kernels: ({ width }) =>
        combinations<PickTraits>({
          lowest: [false, true],
          stage: ['whole', 'cut', 'join'],
          width: [width],
          lanes: [1],
          subgroup: [0],
        }).map(vectors),
    },
    { name: 'lanes', fits: isGpu, work: (caps, params) => pickWork(caps, { ...params, lowest: false }) },
  ],
  cost: ({ rows, cols }) => ({ operations: rows * cols, arithmetic: 'f32' }),
  define: ({ x = NONE }, { rows, cols }) => ({
    y: Uint32Array.from({ length: rows }, (_, row) => ranking(Array.from(x.subarray(row * cols, (row + 1) * cols)))[0] ?? NO_ID),
  }),
})

export interface PickParams {
  readonly rows: number
  readonly cols: number
  readonly lowest: boolean
}

/** The id of the largest, or lowest, element of each row. */
export function pickWork(caps: Caps, { rows, cols, lowest }: PickParams): Work {
  const parts = Math.ceil(cols / PART)
  const kernelFor = (stage: Stage, length: number): Kernel =>
    (isCpu(caps) ? vectors : lanes)({ lowest, stage, width: caps.width, ...teamFor(caps, length) })
  if (parts === 1) {
    return { launches: [{ kernel: kernelFor('whole', cols), uniforms: { rows, cols, part: cols, parts }, grid: flatGrid(caps, rows) }] }
  }
  return {
    launches: [
      {
        kernel: kernelFor('cut', PART),
        uniforms: { rows, cols, part: PART, parts },
        grid: flatGrid(caps, rows * parts),
        binds: { y: 'partial' },
      },
      { kernel: kernelFor('join', parts), uniforms: { rows, cols, parts }, grid: flatGrid(caps, rows), binds: { found: 'partial' } },
    ],
    scratch: { partial: 4 * rows * parts },
  }
}

function writePick({ lanes, subgroup, lowest, stage, width }: PickTraits, kernel: Write): Kernel {
  const params = {
    x: buffer('f32', 'read'),
    ...(stage === 'join' ? { found: buffer('u32', 'read') } : {}),
    y: buffer('u32', 'write'),
    rows: uniform('u32'),
    cols: uniform('u32'),
    parts: uniform('u32'),
    ...(stage === 'join' ? {} : { part: uniform('u32') }),
  }
  return kernel(lowest ? 'argmin' : 'argmax', { params, workgroup: [lanes], subgroup }, (p, k) => {
    const combine = combineLanes(k, { lanes, subgroup })
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
      const { found, part = p.cols } = p
      if (found === undefined) {
        const from = k.let('from', group.rem(p.parts).mul(part))
        const to = k.let('to', from.add(part).min(p.cols))
        const inVectors = (): Value<'u32'> =>
          scanVectors(k, p.x, start, from, to, width, lowest, (key, id) => {
            chosen.set(id)
            best.set(key)
          })
        const whole = lanes > 1 ? from : inVectors()
        k.for({ name: 'c', from: whole.add(k.lane), to, step: lanes }, (c) => include(p.x.at(start.add(c)), c))
      } else {
        k.for({ name: 'c', from: k.lane, to: p.parts, step: lanes }, (c) => {
          const id = found.at(group.mul(p.parts).add(c))
          include(p.x.at(start.add(id)), id)
        })
      }
      const { id } = combineBest(combine, best.get(), chosen.get())
      k.when(k.lane.eq(0), () => p.y.set(group, id))
    })
  })
}

/** Goes over whole vectors of a row; `found` gets their best. Gives where they end. */
function scanVectors(
  k: LaneScope,
  x: Readable<'f32', Uniformity>,
  start: Value<'u32'>,
  from: Value<'u32'>,
  to: Value<'u32'>,
  width: Width,
  lowest: boolean,
  found: (key: Value<'i32'>, id: Value<'u32'>) => void,
): Value<'u32'> {
  const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
  const keys = k.var('keys', k.const('i32', NOTHING).splat(width))
  const firsts = k.var('firsts', k.const('u32', NO_ID).splat(width)) // id of the first element of the vector that each key came in
  k.for({ name: 'c', from, to: whole, step: width }, (c) => {
    const key = orderKey(x.load(start.add(c), width), lowest)
    const before = keys.get()
    firsts.set(key.gt(before).select(c.splat(width), firsts.get()))
    keys.set(key.max(before))
  })
  const [key, first] = [keys.get(), firsts.get()]
  const best = k.let('highest', key.hmax())
  let id: Value<'u32'> = k.const('u32', NO_ID)
  for (let i = 0; i < width; i++) id = id.min(key.lane(i).eq(best).select(first.lane(i).add(i), NO_ID))
  // Without a whole vector every key is NOTHING, and so is what is found.
  found(best, best.eq(NOTHING).select(k.const('u32', NO_ID), id))
  return whole
}
