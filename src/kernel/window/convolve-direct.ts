// Convolution on CPUs, without a matrix in between: the elements of a vector are windows side by side along the last axis. A tile is a few
// such vectors for a few outputs, as many sums as registers hold; for every channel and tap it loads its vectors of x, and adds them times
// one weight for each output.
// That needs vectors of x that are simply there, whatever the stride and the padding: convolve-layout.ts brings x into that form.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import { type Handles, type LaneScope, type Shared, uniform } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { readOne, readVector, writeOne, writeVector } from '../element.ts'
import { type Form, type Launch, type Work, isCpu } from '../family.ts'
import { template } from '../template.ts'
import { type ConvolveParams, type ConvolveType, checkConvolution, convolveParams } from './convolution.ts'
import { layOut, unite } from './convolve-layout.ts'
import { product, splitIndex } from './windows.ts'

/** Outputs and vectors of a tile: with the vectors of x and a weight, what the register file holds. */
const TILES: Readonly<Record<Width, { readonly outs: number; readonly vectors: number }>> = {
  2: { outs: 4, vectors: 2 },
  4: { outs: 4, vectors: 2 },
  8: { outs: 4, vectors: 3 },
  16: { outs: 8, vectors: 3 },
}
/** Where groups have one output each: depthwise. */
const SINGLE = { outs: 1, vectors: 4 } as const
/** Taps of a window, at most. */
const MOST_TAPS = 4096
/** Multiplications of vectors that a workgroup does, at least, if there are so many. */
const LEAST = 65536

type U32 = Value<'u32'>

interface DirectTraits {
  readonly type: ConvolveType
  readonly bias: boolean
  readonly width: Width
  readonly outs: number
  readonly vectors: number
}

const number = uniform('u32')
const pair = [number, number]

const paramsOf = (type: ConvolveType, bias: boolean) => ({
  ...convolveParams(type, bias),
  kernel: pair,
  stride: pair,
  dilation: pair,
  unit: pair,
  /** phases of the last axis, and rows and columns of each phase */
  phases: number,
  rows: number,
  pitch: number,
  /** elements of x for one channel */
  plane: number,
  /** windows: rows, columns, and vectors in a row */
  outRows: number,
  outColumns: number,
  across: number,
  /** channels and outputs of a group */
  inputs: number,
  outputs: number,
  groups: number,
  /** vectors and outputs that a workgroup has */
  vectorsEach: number,
  outsEach: number,
})
type DirectHandles = Handles<ReturnType<typeof paramsOf>>

const direct = template<DirectTraits>({ family: 'convolve', form: 'direct' }, (traits, kernel) => {
  const { type, bias, width, outs, vectors } = traits
  return kernel('convolve', { params: paramsOf(type, bias) }, (p, k) => {
    const taps = findTaps(k, p)
    const [image, group] = splitIndex(k, k.workgroupId.z, p.groups)
    const firstOut = k.let('firstOut', k.workgroupId.y.mul(p.outsEach))
    const lastOut = k.let('lastOut', firstOut.add(p.outsEach).min(p.outputs))
    const all = k.let('all', p.outRows.mul(p.across))
    const first = k.let('first', k.workgroupId.x.mul(p.vectorsEach))
    k.for({ name: 'vector', from: first, to: first.add(p.vectorsEach).min(all), step: vectors }, (vector) => {
      // Vectors past the end repeat the last one and are not stored; so do outputs.
      const places = Array.from({ length: vectors }, (_, v): Place => {
        const [row, block] = splitIndex(k, vector.add(v).min(all.sub(1)), p.across)
        const column = k.let('column', block.mul(width))
        return { row, column, at: k.let('at', row.mul(p.pitch).add(column)), isThere: vector.add(v).lt(all) }
      })
      k.for({ name: 'out', from: firstOut, to: lastOut, step: outs }, (out) => {
        const own = Array.from({ length: outs }, (_, o) => k.let('own', group.mul(p.outputs).add(out.add(o).min(p.outputs.sub(1)))))
        const sums = multiply(k, traits, p, taps, { own, places, channel: image.mul(p.groups).add(group).mul(p.inputs) })
        sums.forEach((ofOut, o) =>
          k.when(out.add(o).lt(lastOut), () => {
            const start = k.let('start', image.mul(p.groups).mul(p.outputs).add(item(own, o)).mul(p.outRows))
            ofOut.forEach((sum, v) => k.when(item(places, v).isThere, () => store(k, traits, p, start, item(places, v), sum)))
          }),
        )
      })
    })
  })
})

/** A vector of windows: where it is among them, and in the layout of x. */
interface Place {
  readonly row: U32
  readonly column: U32
  readonly at: U32
  readonly isThere: Value<'bool'>
}

interface Taps {
  readonly count: U32
  /** from the first element under a window to the one under each tap */
  readonly offsets: Shared<'u32'>
}

function findTaps(k: LaneScope, p: DirectHandles): Taps {
  const offsets = k.shared('taps', 'u32', MOST_TAPS)
  const [rows, columns] = [item(p.kernel, 0), item(p.kernel, 1)]
  const split = (axis: number, tap: U32): [whole: U32, phase: U32] => {
    const [whole, rest] = splitIndex(k, tap.mul(item(p.dilation, axis)), item(p.stride, axis))
    return [whole, rest.div(item(p.unit, axis))]
  }
  // The first column has none of its own, so it holds what all columns of a row have in common.
  k.for({ name: 'row', to: rows }, (row) => {
    const [whole, phase] = split(0, row)
    offsets.set(row.mul(columns), phase.mul(p.phases).mul(p.rows).add(whole).mul(p.pitch))
  })
  k.for({ name: 'column', from: 1, to: columns }, (column) => {
    const [whole, phase] = split(1, column)
    const own = k.let('own', phase.mul(p.rows).mul(p.pitch).add(whole))
    k.for({ name: 'row', to: rows }, (row) => offsets.set(row.mul(columns).add(column), offsets.at(row.mul(columns)).add(own)))
  })
  return { count: k.let('count', rows.mul(columns)), offsets }
}

interface Tile {
  /** outputs, counted over all groups */
  readonly own: readonly U32[]
  readonly places: readonly Place[]
  /** the first of x */
  readonly channel: U32
}

/** Sums over all channels and taps: [output][vector]. */
function multiply(
  k: LaneScope,
  { type, width }: DirectTraits,
  p: DirectHandles,
  { count, offsets }: Taps,
  { own, places, channel }: Tile,
): VectorOf<'f32'>[][] {
  const sums = own.map((out) => {
    const start = p.bias === undefined ? k.const('f32', 0) : (readOne(type, p.bias, out) as Value<'f32'>)
    return places.map(() => k.var('sum', start.splat(width)))
  })
  const rows = own.map((out) => k.let('weights', out.mul(p.inputs).mul(count)))
  const first = k.let('first', channel.mul(p.plane))
  k.for({ name: 'c', to: p.inputs }, (c) => {
    const from = k.let('from', first.add(c.mul(p.plane)))
    const before = k.let('before', c.mul(count))
    k.for({ name: 'tap', to: count }, (tap) => {
      const offset = k.let('offset', from.add(offsets.at(tap)))
      const values = places.map(({ at }) => k.let('values', readVector(k, type, p.x, offset.add(at), width) as VectorOf<'f32'>))
      const place = k.let('place', before.add(tap))
      rows.forEach((row, o) => {
        const weight = k.let('weight', (readOne(type, p.w, row.add(place)) as Value<'f32'>).splat(width))
        values.forEach((value, v) => {
          const sum = item(item(sums, o), v)
          sum.set(value.fma(weight, sum.get()))
        })
      })
    })
  })
  return sums.map((ofOut) => ofOut.map((sum) => sum.get()))
}

/** A vector of windows; one by one where the row ends among them. */
function store(
  k: LaneScope,
  { type, width }: DirectTraits,
  p: DirectHandles,
  start: U32,
  { row, column }: Place,
  sum: VectorOf<'f32'>,
): void {
  const at = k.let('place', start.add(row).mul(p.outColumns).add(column))
  k.when(
    column.add(width).le(p.outColumns),
    () => writeVector(type, p.y, at, sum, width),
    () => {
      for (let i = 0; i < width; i++) k.when(column.add(i).lt(p.outColumns), () => writeOne(type, p.y, at.add(i), sum.lane(i)))
    },
  )
}

function work(caps: Caps, given: ConvolveParams): Work {
  checkConvolution(given)
  const params = unite(given, MOST_TAPS)
  const { type, n, channels, groups, bias } = params
  const { rowAxis, columnAxis, across, rows, pitch, plane, work: layout } = layOut(caps, params)
  const [inputs, outputs] = [channels / groups, params.outputs / groups]
  const tile = outputs === 1 ? SINGLE : TILES[caps.width]
  const blocks = Math.ceil(outputs / tile.outs)
  const vectors = rowAxis.out * across
  const perTile = inputs * product(params.kernel) * blocks * tile.outs * tile.vectors
  const vectorsEach = tile.vectors * Math.max(1, Math.min(Math.ceil(vectors / tile.vectors), Math.floor(LEAST / perTile)))
  const others = Math.ceil(vectors / vectorsEach) * n * groups
  const outsEach = Math.ceil(blocks / Math.ceil((4 * caps.parallel) / others)) * tile.outs
  const ofAxes = ([rowAxis, columnAxis] as const).flatMap((axis, i) =>
    (['kernel', 'stride', 'dilation', 'unit'] as const).map((name): [string, number] => [`${name}${i}`, axis[name]]),
  )
  const sizes = { rows, pitch, plane, outRows: rowAxis.out, outColumns: columnAxis.out, across, inputs, outputs, groups }
  const launch: Launch = {
    kernel: direct({ type, bias, width: caps.width, ...tile }),
    binds: layout === undefined ? {} : { x: 'phases' },
    uniforms: { ...Object.fromEntries(ofAxes), phases: columnAxis.phases, ...sizes, vectorsEach, outsEach },
    grid: [Math.ceil(vectors / vectorsEach), Math.ceil(outputs / outsEach), n * groups],
  }
  return layout === undefined ? { launches: [launch] } : { ...layout, launches: [...layout.launches, launch] }
}

export const convolveDirect: Form<ConvolveParams> = {
  name: 'direct',
  fits: (caps, { kernel }) => isCpu(caps) && product(kernel) <= MOST_TAPS,
  work,
  kernels: ({ width }) => [
    ...[false, true].map((bias) => direct({ type: 'f32', bias, width, ...TILES[width] })),
    direct({ type: 'f32', bias: false, width, ...SINGLE }),
  ],
}
