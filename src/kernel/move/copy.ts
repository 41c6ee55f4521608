// Moving elements without computing: a strided copy into part of another tensor (slices, concatenation, permutation), and a
// fill. Devices copy and fill whole ranges by command; these are for what a range cannot say. The places written are distinct.

/* oxlint-disable typescript/no-non-null-assertion -- `define` is given every input that `buffers` lists, and stays within them */

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Work, family } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { mergeAxes } from '../map/map.ts'
import { template } from '../template.ts'

/** Where the elements of a shape lie in a buffer. */
export interface Place {
  readonly offset: number
  readonly strides: readonly number[]
  /** elements of the buffer */ readonly size: number
}
export interface CopyParams {
  readonly type: 'f32' | 'f16' | 'u32'
  readonly shape: readonly number[]
  readonly from: Place
  readonly to: Place
}
export interface FillParams {
  readonly type: 'f32' | 'u32'
  readonly count: number
  readonly value: number
}

/** Elements of one workgroup of a CPU. */
const SERIAL = 4096

/** What kernels are written for: elements that a lane takes, one after the other. */
interface Share {
  readonly lanes: number
  readonly each: number
}
interface CopyTraits extends Share {
  readonly type: CopyParams['type']
  /** axes after merging */
  readonly rank: number
}
type FillTraits = Share & Pick<FillParams, 'type'>

const strided = template<CopyTraits>({ family: 'copy', form: 'strided' }, ({ type, rank, lanes, each }, kernel) => {
  const axes = Array.from({ length: rank }, () => uniform('u32'))
  const params = {
    x: buffer(type, 'read'),
    y: buffer(type, 'readwrite'),
    count: uniform('u32'),
    source: uniform('u32'),
    target: uniform('u32'),
    size: axes,
    from: axes,
    to: axes,
  }
  return kernel('copy', { params, workgroup: [lanes] }, (p, k) => {
    const first = k.let('first', flatLane(k, lanes).mul(each))
    k.for({ name: 'i', from: first, to: first.add(each).min(p.count) }, (i) => {
      let [rest, source, target]: [Value<'u32'>, Value<'u32'>, Value<'u32'>] = [i, p.source, p.target]
      for (const [axis, size] of [...p.size.entries()].toReversed()) {
        const index = axis === 0 ? rest : rest.rem(size)
        rest = rest.div(size)
        source = source.add(index.mul(p.from[axis] ?? 0))
        target = target.add(index.mul(p.to[axis] ?? 0))
      }
      p.y.set(target, p.x.at(source))
    })
  })
})

const filled = template<FillTraits>({ family: 'fill', form: 'all' }, ({ type, lanes, each }, kernel) =>
  kernel('fill', { params: { y: buffer(type, 'write'), count: uniform('u32'), value: uniform(type) }, workgroup: [lanes] }, (p, k) => {
    const first = k.let('first', flatLane(k, lanes).mul(each))
    k.for({ name: 'i', from: first, to: first.add(each).min(p.count) }, (i) => p.y.set(i, p.value))
  }),
)

export const copy = family<CopyParams>({
  name: 'copy',
  about: 'elements of one tensor copied into places of another, both strided',
  tolerance: () => 0,
  cases: [
    { type: 'f32', shape: [3, 67], from: { offset: 0, strides: [67, 1], size: 201 }, to: { offset: 33, strides: [100, 1], size: 300 } },
    {
      type: 'u32',
      shape: [5, 7, 3],
      from: { offset: 2, strides: [1, 5, 35], size: 107 },
      to: { offset: 0, strides: [21, 3, 1], size: 105 },
    },
    { type: 'f16', shape: [9, 4], from: { offset: 1, strides: [5, 1], size: 46 }, to: { offset: 0, strides: [1, 9], size: 36 } },
    { type: 'f32', shape: [5000], from: { offset: 0, strides: [1], size: 5000 }, to: { offset: 3, strides: [2], size: 10002 } },
    { type: 'f32', shape: [1], from: { offset: 4, strides: [1], size: 5 }, to: { offset: 0, strides: [1], size: 1 } },
  ],
  buffers: ({ type, from, to }) => [
    { name: 'x', role: 'in', type, elements: from.size },
    { name: 'y', role: 'inout', type, elements: to.size },
  ],
  forms: [
    {
      name: 'strided',
      fits: () => true,
      work: copyWork,
    },
  ],
  cost: () => ({ operations: 0, arithmetic: 'f32' }),
  define: ({ x, y }, { shape, from, to }) => {
    const after = y!.slice()
    const visit = (axis: number, source: number, target: number): void => {
      if (axis === shape.length) after[target] = x![source]!
      else for (let i = 0; i < shape[axis]!; i++) visit(axis + 1, source + i * from.strides[axis]!, target + i * to.strides[axis]!)
    }
    visit(0, from.offset, to.offset)
    return { y: after }
  },
})

export const fill = family<FillParams>({
  name: 'fill',
  about: 'one number in every element',
  tolerance: () => 0,
  cases: [
    { type: 'f32', count: 67, value: 0.5 },
    { type: 'u32', count: 5000, value: 0xfffffff0 },
    { type: 'f32', count: 1, value: -1 },
  ],
  buffers: ({ type, count }) => [{ name: 'y', role: 'out', type, elements: count }],
  forms: [
    {
      name: 'all',
      fits: () => true,
      work: (caps, { type, count, value }) => {
        const { lanes, each, grid } = shareOf(caps, count)
        return { launches: [{ kernel: filled({ type, lanes, each }), uniforms: { count, value }, grid }] }
      },
    },
  ],
  cost: () => ({ operations: 0, arithmetic: 'f32' }),
  define: (_inputs, { type, count, value }) => ({ y: (type === 'u32' ? new Uint32Array(count) : new Float32Array(count)).fill(value) }),
})

/** One element per lane, or a run of them per workgroup of a CPU. */
function shareOf(caps: Caps, count: number): Share & { grid: [number, number, number] } {
  const { lanes } = teamFor(caps, count)
  const each = lanes === 1 ? SERIAL : 1
  return { lanes, each, grid: flatGrid(caps, Math.ceil(count / (lanes * each))) }
}

function copyWork(caps: Caps, { type, shape, from, to }: CopyParams): Work {
  for (const place of [from, to]) {
    const last = shape.reduce((at, size, axis) => at + (size - 1) * (place.strides[axis] ?? 0), place.offset)
    if (place.strides.length !== shape.length || last >= place.size) {
      throw new IngotError('bad-argument', 'elements lie past the end', { op: 'copy', got: last, wanted: `below ${place.size}` })
    }
  }
  const merged = mergeAxes(shape, [from.strides, to.strides])
  const count = merged.shape.reduce((product, size) => product * size, 1)
  const { lanes, each, grid } = shareOf(caps, count)
  const uniforms: Record<string, number> = { count, source: from.offset, target: to.offset }
  const [sources = [], targets = []] = merged.strides
  merged.shape.forEach((size, axis) => {
    uniforms[`size${axis}`] = size
    uniforms[`from${axis}`] = sources[axis] ?? 0
    uniforms[`to${axis}`] = targets[axis] ?? 0
  })
  return { launches: [{ kernel: strided({ type, rank: merged.shape.length, lanes, each }), uniforms, grid }] }
}
