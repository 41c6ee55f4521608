// Elementwise expressions over broadcast and strided inputs: y[i] = expr(in0[i], in1[i], ...). The expression is plain data,
// so that plans can fuse, hash and store it. Axes that walk memory alike are merged first; what is left of the rank, and
// whether each input is contiguous, repeated or strided along the last axis, is all that a kernel's text depends on.
// Computed in f32, or in u32 when the result and all inputs are u32.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { type LaneScope, type ParamSpec, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { flatGrid, flatLane, lanesFor } from './lanes.ts'
import { MAP_CASES } from './map-case.ts'
import {
  type MapExpr,
  type MapInput,
  type MapParams,
  type MapType,
  checkMap,
  evaluate,
  evaluateU32,
  isInteger,
  writeExpr,
} from './map-expr.ts'
import type { MapOp, Operand } from './map-op.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

export type { MapExpr, MapInput, MapOp, MapParams, MapType }

const MAX_RANK = 6
/** Elements that one workgroup of a CPU computes, at least. */
const CHUNK = 4096
/** Elements per lane of a GPU. */
const PER_LANE = 4

export const map: KernelRecord<MapParams> = {
  name: 'map',
  about: 'elementwise expression over broadcast and strided inputs',
  tolerance: 1e-7,
  cases: MAP_CASES,
  buffers: ({ type, shape, inputs }) => [
    ...inputs.map((input, i) => ({ name: `in${i}`, role: 'in', type: input.type, elements: extentOf(shape, input.strides) }) as const),
    { name: 'y', role: 'out', type, elements: sizeOf(shape) },
  ],
  work,
  define: (arrays: Arrays, params) => {
    const { shape, inputs, type, expr } = params
    const y = type === 'u32' ? new Uint32Array(sizeOf(shape)) : new Float32Array(sizeOf(shape))
    const integer = isInteger(params)
    for (let at = 0; at < y.length; at++) {
      const values = inputs.map(({ strides }, i) => arrays[`in${i}`]![offsetOf(at, shape, strides)]!)
      y[at] = integer ? evaluateU32(expr, values) : evaluate(expr, values)
    }
    return { y }
  },
}

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
    if (outer !== undefined && outer.steps.every((step, i) => step === steps[i]! * size))
      axes[axes.length - 1] = { size: outer.size * size, steps }
    else axes.push({ size, steps })
  })
  if (axes.length === 0) axes.push({ size: 1, steps: strides.map(() => 0) })
  return { shape: axes.map(({ size }) => size), strides: strides.map((_, i) => axes.map(({ steps }) => steps[i]!)) }
}

type Walk = 'next' | 'same' | 'stride'
const walkOf = (stride: number): Walk => (stride === 1 ? 'next' : stride === 0 ? 'same' : 'stride')

function work(caps: Caps, params: MapParams): Work {
  checkMap(params)
  const { shape, strides } = mergeAxes(
    params.shape,
    params.inputs.map((input) => input.strides),
  )
  const rank = shape.length
  if (rank > MAX_RANK) throw new IngotError('unsupported', 'too many axes', { op: 'map', got: rank, wanted: `at most ${MAX_RANK}` })
  const plan: Plan = { params, rank, walks: strides.map((steps) => walkOf(steps.at(-1)!)) }
  const uniforms: Record<string, number> = {}
  shape.forEach((size, axis) => {
    uniforms[`size${axis}`] = size
  })
  strides.forEach((steps, i) =>
    steps.forEach((step, axis) => {
      if (hasStride(plan, i, axis)) uniforms[strideName(i, axis)] = step
    }),
  )
  return caps.lanes === 1 ? cpuWork(caps, plan, shape, uniforms) : gpuWork(caps, plan, shape, uniforms)
}

interface Plan {
  readonly params: MapParams
  /** axes after merging */
  readonly rank: number
  /** how each input goes along the last axis */
  readonly walks: readonly Walk[]
}

const strideName = (input: number, axis: number): string => `stride${input}a${axis}`
/** Whether an input's stride along an axis is a uniform; contiguous and repeated last axes need none. */
const hasStride = ({ rank, walks }: Plan, input: number, axis: number): boolean => axis < rank - 1 || walks[input] === 'stride'

function specOf(plan: Plan, uniforms: Readonly<Record<string, number>>): Record<string, ParamSpec> {
  const { inputs, type } = plan.params
  return {
    ...Object.fromEntries(inputs.map((input, i) => [`in${i}`, buffer(input.type, 'read')])),
    y: buffer(type, 'write'),
    ...Object.fromEntries(Object.keys(uniforms).map((name) => [name, uniform('u32')])),
  }
}

/** Everything of a plan that its kernel's body depends on. JSON has no infinities, hence the text of numbers. */
function keyOf({ params: { expr }, rank, walks }: Plan): string {
  return JSON.stringify([expr, rank, walks], (_, value: unknown) => (typeof value === 'number' ? String(value) : value))
}

/** What the body of a kernel is written with, from its parameters by name. */
class Body {
  readonly #plan: Plan
  readonly #p: Readonly<Record<string, unknown>>
  readonly #k: LaneScope

  constructor(plan: Plan, p: Readonly<Record<string, unknown>>, k: LaneScope) {
    this.#plan = plan
    this.#p = p
    this.#k = k
  }

  size(axis: number): Value<'u32'> {
    return this.#p[`size${axis}`] as Value<'u32'>
  }
  stride(input: number, axis: number): Value<'u32'> {
    return this.#p[strideName(input, axis)] as Value<'u32'>
  }

  /** Where each input's row starts that holds the elements of outer index `row`. */
  rowStarts(row: Value<'u32'>): Value<'u32'>[] {
    const { rank, walks } = this.#plan
    const starts: (Value<'u32'> | undefined)[] = walks.map(() => undefined)
    let rest = row
    for (let axis = rank - 2; axis >= 0; axis--) {
      const index = axis === 0 ? rest : rest.rem(this.size(axis))
      rest = rest.div(this.size(axis))
      walks.forEach((_, i) => {
        starts[i] = starts[i]?.add(index.mul(this.stride(i, axis))) ?? index.mul(this.stride(i, axis))
      })
    }
    return starts.map((start, i) => this.#k.let(`start${i}`, start ?? this.#k.const('u32', 0)))
  }

  /** Computes `width` elements of the result from `at` on, which is column `column` of rows that start at `starts`. */
  write(at: Value<'u32'>, starts: readonly Value<'u32'>[], column: Value<'u32'>, width: 1 | 2 | 4 | 8 | 16): void {
    const {
      params: { expr, type, inputs },
      walks,
    } = this.#plan
    const scalar = isInteger(this.#plan.params) ? 'u32' : 'f32'
    const values = inputs.map((_, i): Operand => {
      const memory = this.#p[`in${i}`] as Readable<MapType, 'uniform'>
      const start = starts[i]!
      switch (walks[i]!) {
        case 'same': {
          const value = memory.at(start).to(scalar)
          return (width === 1 ? value : value.splat(width)) as unknown as Operand
        }
        case 'stride':
          return memory.at(start.add(column.mul(this.stride(i, this.#plan.rank - 1)))).to(scalar) as Operand
        case 'next':
          return (width === 1 ? memory.at(start.add(column)) : memory.load(start.add(column), width)).to(scalar) as unknown as Operand
      }
    })
    const result = writeExpr(this.#k, expr, values, width === 1 ? scalar : `${scalar}x${width}`).to(type)
    const y = this.#p['y'] as Writable<MapType>
    if (width === 1) y.set(at, result as never)
    else y.store(at, result as never)
  }
}

/** Each lane computes four elements at once where rows allow it, else one. */
function gpuWork(caps: Caps, plan: Plan, shape: readonly number[], uniforms: Readonly<Record<string, number>>): Work {
  const { rank, walks } = plan
  const inner = shape.at(-1)!
  const count = sizeOf(shape)
  const vectors = !walks.includes('stride') && (rank === 1 || inner % PER_LANE === 0)
  const width = vectors ? PER_LANE : 1
  const lanes = lanesFor(caps, count)
  const values = { ...uniforms, count }
  const written = kernel('map', { params: specOf(plan, values), workgroup: [lanes] }, (p, k) => {
    const body = new Body(plan, p, k)
    const total = p['count'] as Value<'u32'>
    const first = k.let('first', flatLane(k, lanes).mul(width))
    const write = (at: Value<'u32'>, w: 1 | 4): void => {
      const column = rank === 1 ? at : k.let('column', at.rem(body.size(rank - 1)))
      body.write(at, body.rowStarts(rank === 1 ? at : at.div(body.size(rank - 1))), column, w)
    }
    if (width === 1) k.when(first.lt(total), () => write(first, 1))
    else
      k.when(
        first.add(width).le(total),
        () => write(first, width),
        () => k.for({ name: 'at', from: first, to: total }, (at) => write(at, 1)),
      )
  })
  return { launches: [{ kernel: written, uniforms: values, grid: flatGrid(caps, Math.ceil(count / (lanes * width))) }] }
}

/** Each workgroup computes a part of a long row, or several short rows, in vectors with single elements at the end. */
function cpuWork(caps: Caps, plan: Plan, shape: readonly number[], uniforms: Readonly<Record<string, number>>): Work {
  const { rank, walks } = plan
  const inner = shape.at(-1)!
  const rows = sizeOf(shape.slice(0, -1))
  const columnsEach = Math.max(CHUNK, Math.ceil(inner / (4 * caps.parallel) / CHUNK) * CHUNK)
  const rowsEach = Math.max(1, Math.floor(CHUNK / Math.max(1, inner)))
  const values = { ...uniforms, columnsEach, ...(rank > 1 ? { rows, rowsEach } : {}) }
  const written = kernel('map', { params: specOf(plan, values), variant: `${keyOf(plan)}, width ${caps.width}` }, (p, k) => {
    const body = new Body(plan, p, k)
    const given = p as unknown as Readonly<Record<string, Value<'u32', 'uniform'>>>
    const width = walks.includes('stride') ? 1 : caps.width
    const columns = body.size(rank - 1)
    const from = k.let('from', k.workgroupId.x.mul(given['columnsEach']!))
    const to = k.let('to', from.add(given['columnsEach']!).min(columns))
    const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
    const writeRow = (row: Value<'u32'>): void => {
      const starts = body.rowStarts(row)
      const first = rank === 1 ? k.const('u32', 0) : k.let('first', row.mul(columns))
      k.for({ name: 'c', from, to: whole, step: width }, (c) => body.write(first.add(c), starts, c, width))
      if (width > 1) k.for({ name: 'c', from: whole, to }, (c) => body.write(first.add(c), starts, c, 1))
    }
    if (rank === 1) return writeRow(k.const('u32', 0))
    const row = k.let('row', k.workgroupId.y.mul(given['rowsEach']!))
    return k.for({ name: 'r', from: row, to: row.add(given['rowsEach']!).min(given['rows']!) }, writeRow)
  })
  return { launches: [{ kernel: written, uniforms: values, grid: [Math.ceil(inner / columnsEach), Math.ceil(rows / rowsEach), 1] }] }
}
