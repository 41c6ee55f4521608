// Elementwise expressions over broadcast and strided inputs: y[i] = expr(in0[i], in1[i], ...). The expression is plain data, so that plans
// can fuse, hash and store it; its constants are given to the kernel when it runs. Also what only moves elements: a copy is the expression
// of one input, and the result may be a part of a larger tensor.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { roundElements } from '../../base/element.ts'
import { uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Arrays, type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { template } from '../template.ts'
import { Body, paramsOf } from './body.ts'
import { MAP_CASES } from './case.ts'
import { type MapExpr, countOperations, evaluate } from './expr.ts'
import { type MapInput, type MapParams, type MapTraits, isCopy, mergeMap, typesOf } from './params.ts'
import type { Places } from './source.ts'
import { extentOf, placeOf, sizeOf } from './walk.ts'

export type { MapExpr, MapInput, MapParams }

/** Elements that one workgroup of a CPU computes, at least. */
const CHUNK = 4096
/** Elements per lane of a GPU. */
const PER_LANE = 4

type U32 = Value<'u32'>

export const map = family<MapParams>({
  name: 'map',
  about: 'elementwise expression over broadcast and strided inputs, or a copy',
  tolerance: ({ type, inputs }) => TOLERANCES[type === 'f64' && inputs.some((input) => input.type !== 'f64') ? 'f32' : type],
  cases: MAP_CASES,
  buffers: ({ type, shape, inputs, to, inPlace }) => [
    ...inputs.flatMap((input, i) =>
      i === inPlace || input.counts ? [] : [{ name: `in${i}`, role: 'in', type: input.type, elements: extentOf(shape, input) } as const],
    ),
    { name: 'y', role: to || inPlace !== undefined ? 'inout' : 'out', type, elements: to?.size ?? sizeOf(shape) },
  ],
  forms: [
    { name: 'rows', fits: (caps, params) => isCpu(caps) && hasTypes(caps, params), work: rowsWork },
    { name: 'lanes', fits: (caps, params) => isGpu(caps) && hasTypes(caps, params), work: lanesWork },
  ],
  cost: ({ expr, shape }) => ({ operations: countOperations(expr) * sizeOf(shape), arithmetic: 'f32' }),
  define: (arrays, params) => {
    const { expr, type, shape, inputs, to, inPlace } = params
    const before = to || inPlace !== undefined ? arrays['y'] : undefined
    const y = Array.from(before ?? new Float64Array(to?.size ?? sizeOf(shape)))
    const types = typesOf(inputs)
    for (let at = 0; at < sizeOf(shape); at++) {
      const values = inputs.map((input, i) => {
        const place = placeOf(at, shape, input)
        return input.counts ? place : (arrays[i === inPlace ? 'y' : `in${i}`]?.[place] ?? Number.NaN)
      })
      y[to ? placeOf(at, shape, to) : at] = isCopy(params) ? (values[0] ?? Number.NaN) : evaluate(expr, values, types)
    }
    return { y: type === 'f16' || type === 'bf16' ? Float32Array.from(y) : roundElements(type, y) } satisfies Arrays
  },
})

/** Integers are exact, halves have eleven bits, angles of 1000 are rounded before their sine is taken. */
const TOLERANCES: Readonly<Record<MapParams['type'], number>> = {
  f32: 1e-9,
  f64: 1e-25,
  f16: 1e-7,
  bf16: 1e-5,
  i32: 0,
  u32: 0,
  i8: 0,
  u8: 0,
  bool: 0,
  i64: 0,
}

/** Whether a device has registers for all that a map computes with. */
function hasTypes({ f64 }: Caps, { type, inputs }: MapParams): boolean {
  return f64 || ![type, ...typesOf(inputs)].includes('f64')
}

/** Each lane computes four elements at once where rows allow it, else one. */
const lanes = template<MapTraits & { readonly lanes: number; readonly width: 1 | Width }>(
  { family: 'map', form: 'lanes' },
  ({ lanes, width, ...traits }, kernel) =>
    kernel('map', { params: { ...paramsOf(traits), count: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
      const { rank } = traits
      const body = new Body(traits, p, k)
      const first = k.let('first', flatLane(k, lanes).mul(width))
      const place = (at: U32): [starts: Places, column: U32] => {
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
    }),
)

function lanesWork(caps: Caps, params: MapParams): Work {
  const { traits, binds, shape, uniforms } = mergeMap(params)
  const count = sizeOf(shape)
  const width = traits.rank === 1 || (shape.at(-1) ?? 1) % PER_LANE === 0 ? PER_LANE : 1
  const team = teamFor(caps, count)
  const kernel = lanes({ ...traits, width, lanes: team.lanes })
  return { launches: [{ kernel, binds, uniforms: { ...uniforms, count }, grid: flatGrid(caps, Math.ceil(count / (team.lanes * width))) }] }
}

/** Each workgroup computes a part of a long row, or several short rows, in vectors with single elements at the end. */
const rows = template<MapTraits & { readonly width: Width }>({ family: 'map', form: 'rows' }, ({ width, ...traits }, kernel) => {
  const { rank } = traits
  const params = {
    ...paramsOf(traits),
    columnsEach: uniform('u32'),
    ...(rank > 1 ? { rows: uniform('u32'), rowsEach: uniform('u32') } : {}),
  }
  return kernel('map', { params }, (p, k) => {
    const body = new Body(traits, p, k)
    const from = k.let('from', k.workgroupId.x.mul(p.columnsEach))
    const to = k.let('to', from.add(p.columnsEach).min(body.columns))
    const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
    const writeRow = (row: U32): void => {
      const starts = body.rowStarts(row)
      const first = rank === 1 ? k.const('u32', 0) : k.let('first', row.mul(body.columns))
      k.for({ name: 'c', from, to: whole, step: width }, (c) => body.writeVector(first.add(c), starts, c, width))
      k.for({ name: 'c', from: whole, to }, (c) => body.writeOne(first.add(c), starts, c))
    }
    if (p.rows === undefined || p.rowsEach === undefined) return writeRow(k.const('u32', 0))
    const row = k.let('row', k.workgroupId.y.mul(p.rowsEach))
    return k.for({ name: 'r', from: row, to: row.add(p.rowsEach).min(p.rows) }, writeRow)
  })
})

function rowsWork(caps: Caps, params: MapParams): Work {
  const { traits, binds, shape, uniforms } = mergeMap(params)
  const inner = shape.at(-1) ?? 1
  const count = sizeOf(shape.slice(0, -1))
  const columnsEach = Math.max(CHUNK, Math.ceil(inner / (4 * caps.parallel) / CHUNK) * CHUNK)
  const rowsEach = Math.max(1, Math.floor(CHUNK / Math.max(1, inner)))
  const values = { ...uniforms, columnsEach, ...(traits.rank > 1 ? { rows: count, rowsEach } : {}) }
  const grid = [Math.ceil(inner / columnsEach), Math.ceil(count / rowsEach), 1] as const
  return { launches: [{ kernel: rows({ ...traits, width: caps.width }), binds, uniforms: values, grid }] }
}
