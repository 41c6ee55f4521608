// Moving elements without computing: a strided copy into part of another tensor (slices, concatenation, permutation), and a
// fill. Devices copy and fill whole ranges by command; these are for what a range cannot say. The places written are distinct.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { type ParamSpec, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { flatGrid, flatLane, lanesFor } from './lanes.ts'
import { mergeAxes } from './map.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

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

export const copy: KernelRecord<CopyParams> = {
  name: 'copy',
  about: 'elements of one tensor copied into places of another, both strided',
  tolerance: 0,
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
  work: copyWork,
  define: ({ x, y }: Arrays, { shape, from, to }) => {
    const after = y!.slice()
    const visit = (axis: number, source: number, target: number): void => {
      if (axis === shape.length) after[target] = x![source]!
      else for (let i = 0; i < shape[axis]!; i++) visit(axis + 1, source + i * from.strides[axis]!, target + i * to.strides[axis]!)
    }
    visit(0, from.offset, to.offset)
    return { y: after }
  },
}

export const fill: KernelRecord<FillParams> = {
  name: 'fill',
  about: 'one number in every element',
  tolerance: 0,
  cases: [
    { type: 'f32', count: 67, value: 0.5 },
    { type: 'u32', count: 5000, value: 0xfffffff0 },
    { type: 'f32', count: 1, value: -1 },
  ],
  buffers: ({ type, count }) => [{ name: 'y', role: 'out', type, elements: count }],
  work: (caps, { type, count, value }) => {
    const { lanes, each, grid } = spread(caps, count)
    const written = kernel(
      'fill',
      {
        params: { y: buffer(type, 'write'), count: uniform('u32'), value: uniform(type) },
        workgroup: [lanes],
      },
      (p, k) => {
        const first = k.let('first', flatLane(k, lanes).mul(each))
        k.for({ name: 'i', from: first, to: first.add(each).min(p.count) }, (i) => p.y.set(i, p.value as never))
      },
    )
    return { launches: [{ kernel: written, uniforms: { count, value }, grid }] }
  },
  define: (_inputs, { type, count, value }) => ({ y: (type === 'u32' ? new Uint32Array(count) : new Float32Array(count)).fill(value) }),
}

/** One element per lane, or a run of them per workgroup of a CPU. */
function spread(caps: Caps, count: number): { lanes: number; each: number; grid: [number, number, number] } {
  const lanes = lanesFor(caps, count)
  const each = caps.lanes === 1 ? SERIAL : 1
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
  const rank = merged.shape.length
  const count = merged.shape.reduce((product, size) => product * size, 1)
  const { lanes, each, grid } = spread(caps, count)
  const uniforms: Record<string, number> = { count, from: from.offset, to: to.offset }
  merged.shape.forEach((size, axis) => {
    uniforms[`size${axis}`] = size
    uniforms[`from${axis}`] = merged.strides[0]![axis]!
    uniforms[`to${axis}`] = merged.strides[1]![axis]!
  })
  const params: Record<string, ParamSpec> = {
    x: buffer(type, 'read'),
    y: buffer(type, 'readwrite'),
    ...Object.fromEntries(Object.keys(uniforms).map((name) => [name, uniform('u32')])),
  }
  const written = kernel('copy', { params, workgroup: [lanes] }, (p, k) => {
    const given = p as unknown as Readonly<Record<string, Value<'u32', 'uniform'>>>
    const [x, y] = [p['x'] as Readable<'f32', Uniformity>, p['y'] as Writable<'f32'>]
    const first = k.let('first', flatLane(k, lanes).mul(each))
    k.for({ name: 'i', from: first, to: first.add(each).min(given['count']!) }, (i) => {
      let [rest, source, target]: Value<'u32'>[] = [i, given['from']!, given['to']!]
      for (let axis = rank - 1; axis >= 0; axis--) {
        const index: Value<'u32'> = axis === 0 ? rest! : rest!.rem(given[`size${axis}`]!)
        rest = rest!.div(given[`size${axis}`]!)
        source = source!.add(index.mul(given[`from${axis}`]!))
        target = target!.add(index.mul(given[`to${axis}`]!))
      }
      y.set(target!, x.at(source!))
    })
  })
  return { launches: [{ kernel: written, uniforms, grid }] }
}
