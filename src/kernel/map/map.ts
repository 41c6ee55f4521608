// Elementwise expressions over broadcast and strided inputs: y[i] = expr(in0[i], in1[i], ...). The expression is plain data,
// so that plans can fuse, hash and store it. Axes that walk memory alike are merged first; what is left of the rank, and
// whether each input is contiguous, repeated or strided along the last axis, is all that a kernel's text depends on.
// Computed in f32, or in u32 when the result and all inputs are u32.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Handles, type LaneScope, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { template } from '../template.ts'
import { MAP_CASES } from './case.ts'
import {
  type MapExpr,
  type MapInput,
  type MapParams,
  type MapType,
  checkMap,
  evaluate,
  evaluateU32,
  isInteger,
  typesOf,
  writeExpr,
} from './expr.ts'
import type { MapOp } from './op.ts'

export type { MapExpr, MapInput, MapOp, MapParams, MapType }

const MAX_RANK = 6
/** Elements that one workgroup of a CPU computes, at least. */
const CHUNK = 4096
/** Elements per lane of a GPU. */
const PER_LANE = 4

export const map = family<MapParams>({
  name: 'map',
  about: 'elementwise expression over broadcast and strided inputs',
  // halves have eleven bits, and WGSL lets asin and acos be off by 7e-5; angles of 1000 are rounded before their sine is taken
  tolerance: ({ type, expr }) => (type === 'u32' ? 0 : type === 'f16' || isCoarse(expr) ? 1e-7 : 1e-9),
  cases: MAP_CASES,
  buffers: ({ type, shape, inputs }) => [
    ...inputs.map((input, i) => ({ name: `in${i}`, role: 'in', type: input.type, elements: extentOf(shape, input.strides) }) as const),
    { name: 'y', role: 'out', type, elements: sizeOf(shape) },
  ],
  forms: [
    { name: 'rows', fits: isCpu, work: rowsWork },
    { name: 'lanes', fits: isGpu, work: lanesWork },
  ],
  cost: ({ expr, shape }) => ({ operations: operationsOf(expr) * sizeOf(shape), arithmetic: 'f32' }),
  define: (arrays, params) => {
    const { shape, inputs, type, expr } = params
    const y = type === 'u32' ? new Uint32Array(sizeOf(shape)) : new Float32Array(sizeOf(shape))
    const integer = isInteger({ type, inputs: typesOf(inputs) })
    for (let at = 0; at < y.length; at++) {
      const values = inputs.map(({ strides }, i) => arrays[`in${i}`]?.[offsetOf(at, shape, strides)] ?? Number.NaN)
      y[at] = integer ? evaluateU32(expr, values) : evaluate(expr, values)
    }
    return { y }
  },
})

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1)
}

/** Elements from the first to the last one that is read. */
function extentOf(shape: readonly number[], strides: readonly number[]): number {
  return sizeOf(shape) === 0 ? 0 : shape.reduce((last, size, axis) => last + (size - 1) * (strides[axis] ?? 0), 0) + 1
}

function offsetOf(at: number, shape: readonly number[], strides: readonly number[]): number {
  let offset = 0
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const size = shape[axis] ?? 1
    offset += (at % size) * (strides[axis] ?? 0)
    at = Math.floor(at / size)
  }
  return offset
}

/** The shape and strides with axes of size 1 dropped and axes merged that every input walks like one. At least one axis is left. */
export function mergeAxes(shape: readonly number[], strides: readonly (readonly number[])[]): { shape: number[]; strides: number[][] } {
  const axes: { size: number; steps: number[] }[] = []
  shape.forEach((size, axis) => {
    if (size === 1) return
    const steps = strides.map((one) => one[axis] ?? 0)
    const outer = axes.at(-1)
    if (outer !== undefined && outer.steps.every((step, i) => step === (steps[i] ?? 0) * size))
      axes[axes.length - 1] = { size: outer.size * size, steps }
    else axes.push({ size, steps })
  })
  if (axes.length === 0) axes.push({ size: 1, steps: strides.map(() => 0) })
  return { shape: axes.map(({ size }) => size), strides: strides.map((_, i) => axes.map(({ steps }) => steps[i] ?? 0)) }
}

type Walk = 'next' | 'same' | 'stride'
const walkOf = (stride: number): Walk => (stride === 1 ? 'next' : stride === 0 ? 'same' : 'stride')

function isCoarse(expr: MapExpr): boolean {
  return 'op' in expr && (expr.op === 'asin' || expr.op === 'acos' || expr.args.some(isCoarse))
}

/** Operations of an expression for each element, functions such as exp as one. */
function operationsOf(expr: MapExpr): number {
  return 'op' in expr ? 1 + expr.args.reduce((sum, arg) => sum + operationsOf(arg), 0) : 0
}

/** What a kernel is written for. */
interface MapTraits {
  readonly expr: MapExpr
  readonly type: MapType
  readonly inputs: readonly MapType[]
  /** axes after merging */
  readonly rank: number
  /** how each input goes along the last axis */
  readonly walks: readonly Walk[]
  /** elements that are computed at once */
  readonly width: 1 | Width
}

/** Parameters of a map as they are after merging: what a kernel is written for, and sizes for its uniforms. */
interface Merged {
  readonly traits: Omit<MapTraits, 'width'>
  readonly uniforms: Readonly<Record<string, number>>
  readonly shape: readonly number[]
}

function merge(params: MapParams): Merged {
  checkMap(params)
  const { expr, type, inputs } = params
  const { shape, strides } = mergeAxes(
    params.shape,
    inputs.map((input) => input.strides),
  )
  const rank = shape.length
  if (rank > MAX_RANK) throw new IngotError('unsupported', 'too many axes', { op: 'map', got: rank, wanted: `at most ${MAX_RANK}` })
  const walks = strides.map((steps) => walkOf(steps.at(-1) ?? 0))
  const steps = strides.flatMap((one, i) => one.filter((_, axis) => hasStride(rank, walks[i], axis)))
  const uniforms = Object.fromEntries([
    ...shape.map((size, axis): [string, number] => [`size${axis}`, size]),
    ...steps.map((step, i): [string, number] => [`stride${i}`, step]),
  ])
  return { traits: { expr, type, inputs: typesOf(inputs), rank, walks }, uniforms, shape }
}

/** Whether an input's stride along an axis is a uniform; contiguous and repeated last axes need none. */
function hasStride(rank: number, walk: Walk | undefined, axis: number): boolean {
  return axis < rank - 1 || walk === 'stride'
}

/** Strides are given one input after the other, those of an input by axis. */
const paramsOf = ({ type, inputs, rank, walks }: MapTraits) => ({
  in: inputs.map((input) => buffer(input, 'read')),
  y: buffer(type, 'write'),
  size: Array.from({ length: rank }, () => uniform('u32')),
  stride: walks.flatMap((walk) => Array.from({ length: hasStride(rank, walk, rank - 1) ? rank : rank - 1 }, () => uniform('u32'))),
})

type MapHandles = Handles<ReturnType<typeof paramsOf>>
type U32 = Value<'u32'>

/** What the bodies of both forms are written with. */
class Body {
  readonly #traits: MapTraits
  readonly #p: MapHandles
  readonly #k: LaneScope
  /** uniforms of each input's strides, by axis */
  readonly #strides: readonly (readonly U32[])[]

  constructor(traits: MapTraits, p: MapHandles, k: LaneScope) {
    this.#traits = traits
    this.#p = p
    this.#k = k
    const rest = [...p.stride]
    this.#strides = traits.walks.map((walk) =>
      rest.splice(0, hasStride(traits.rank, walk, traits.rank - 1) ? traits.rank : traits.rank - 1),
    )
  }

  /** elements of the last axis */
  get columns(): Value<'u32', 'uniform'> {
    return this.#p.size.at(-1) ?? this.#k.const('u32', 1)
  }

  /** Where each input's row starts that holds the elements of outer index `row`. */
  rowStarts(row: U32): U32[] {
    const { rank, walks } = this.#traits
    const starts: (U32 | undefined)[] = walks.map(() => undefined)
    let rest = row
    for (const [axis, size] of [...this.#p.size.slice(0, rank - 1).entries()].toReversed()) {
      const index = axis === 0 ? rest : rest.rem(size)
      rest = rest.div(size)
      this.#strides.forEach((strides, i) => {
        const step = index.mul(strides[axis] ?? 0)
        starts[i] = starts[i]?.add(step) ?? step
      })
    }
    return starts.map((start, i) => this.#k.let(`start${i}`, start ?? this.#k.const('u32', 0)))
  }

  /** Computes one element of the result, which is column `column` of rows that start at `starts`. */
  writeOne(at: U32, starts: readonly U32[], column: U32): void {
    const { expr, type } = this.#traits
    const scalar = this.#scalar()
    const values = this.#p.in.map((memory, i) => memory.at(this.#place(i, starts, column)).to(scalar))
    this.#p.y.set(at, writeExpr(this.#k, expr, values, scalar).to(type))
  }

  /** The same for `width` neighbours; no input may have a stride. */
  writeVector(at: U32, starts: readonly U32[], column: U32, width: Width): void {
    const { expr, type, walks } = this.#traits
    const scalar = this.#scalar()
    const values = this.#p.in.map((memory, i) => {
      const place = this.#place(i, starts, column)
      return walks[i] === 'same' ? memory.at(place).to(scalar).splat(width) : memory.load(place, width).to(scalar)
    })
    this.#p.y.store(at, writeExpr(this.#k, expr, values, `${scalar}x${width}`).to(type))
  }

  #scalar(): 'f32' | 'u32' {
    return isInteger(this.#traits) ? 'u32' : 'f32'
  }

  /** Where an input holds what goes into a column of its row. */
  #place(input: number, starts: readonly U32[], column: U32): U32 {
    const start = starts[input] ?? this.#k.const('u32', 0)
    switch (this.#traits.walks[input]) {
      case 'next':
        return start.add(column)
      case 'stride':
        return start.add(column.mul(this.#strides[input]?.at(-1) ?? 1))
      default:
        return start
    }
  }
}

/** Each lane computes four elements at once where rows allow it, else one. */
const lanes = template<MapTraits & { readonly lanes: number }>({ family: 'map', form: 'lanes' }, (traits, kernel) => {
  const { rank, width } = traits
  return kernel('map', { params: { ...paramsOf(traits), count: uniform('u32') }, workgroup: [traits.lanes] }, (p, k) => {
    const body = new Body(traits, p, k)
    const first = k.let('first', flatLane(k, traits.lanes).mul(width))
    const place = (at: U32): [starts: U32[], column: U32] => {
      const column = rank === 1 ? at : k.let('column', at.rem(body.columns))
      return [body.rowStarts(rank === 1 ? at : at.div(body.columns)), column]
    }
    const writeOne = (at: U32): void => body.writeOne(at, ...place(at))
    if (width === 1) return k.when(first.lt(p.count), () => writeOne(first))
    return k.when(
      first.add(width).le(p.count),
      () => body.writeVector(first, ...place(first), width),
      () => k.for({ name: 'at', from: first, to: p.count }, writeOne),
    )
  })
})

function lanesWork(caps: Caps, params: MapParams): Work {
  const { traits, shape, uniforms } = merge(params)
  const count = sizeOf(shape)
  const inFours = !traits.walks.includes('stride') && (traits.rank === 1 || (shape.at(-1) ?? 1) % PER_LANE === 0)
  const width = inFours ? PER_LANE : 1
  const team = teamFor(caps, count)
  const kernel = lanes({ ...traits, width, lanes: team.lanes })
  return { launches: [{ kernel, uniforms: { ...uniforms, count }, grid: flatGrid(caps, Math.ceil(count / (team.lanes * width))) }] }
}

/** Each workgroup computes a part of a long row, or several short rows, in vectors with single elements at the end. */
const rows = template<MapTraits>({ family: 'map', form: 'rows' }, (traits, kernel) => {
  const { rank, width } = traits
  const params = {
    ...paramsOf(traits),
    columnsEach: uniform('u32'),
    ...(rank > 1 ? { rows: uniform('u32'), rowsEach: uniform('u32') } : {}),
  }
  return kernel('map', { params }, (p, k) => {
    const body = new Body(traits, p, k)
    const from = k.let('from', k.workgroupId.x.mul(p.columnsEach))
    const to = k.let('to', from.add(p.columnsEach).min(body.columns))
    const whole = width === 1 ? from : k.let('whole', from.add(to.sub(from).div(width).mul(width)))
    const writeRow = (row: U32): void => {
      const starts = body.rowStarts(row)
      const first = rank === 1 ? k.const('u32', 0) : k.let('first', row.mul(body.columns))
      if (width !== 1) k.for({ name: 'c', from, to: whole, step: width }, (c) => body.writeVector(first.add(c), starts, c, width))
      k.for({ name: 'c', from: whole, to }, (c) => body.writeOne(first.add(c), starts, c))
    }
    if (p.rows === undefined || p.rowsEach === undefined) return writeRow(k.const('u32', 0))
    const row = k.let('row', k.workgroupId.y.mul(p.rowsEach))
    return k.for({ name: 'r', from: row, to: row.add(p.rowsEach).min(p.rows) }, writeRow)
  })
})

function rowsWork(caps: Caps, params: MapParams): Work {
  const { traits, shape, uniforms } = merge(params)
  const inner = shape.at(-1) ?? 1
  const count = sizeOf(shape.slice(0, -1))
  const columnsEach = Math.max(CHUNK, Math.ceil(inner / (4 * caps.parallel) / CHUNK) * CHUNK)
  const rowsEach = Math.max(1, Math.floor(CHUNK / Math.max(1, inner)))
  const kernel = rows({ ...traits, width: traits.walks.includes('stride') ? 1 : caps.width })
  const values = { ...uniforms, columnsEach, ...(traits.rank > 1 ? { rows: count, rowsEach } : {}) }
  return { launches: [{ kernel, uniforms: values, grid: [Math.ceil(inner / columnsEach), Math.ceil(count / rowsEach), 1] }] }
}
