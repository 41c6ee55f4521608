// y [n, m] = x [n, k] times w [m, k] transposed, plus what there is to add, with w packed sixteen rows side by side and x in int8
// (activations.ts). One workgroup takes sixteen rows of w and walks the columns (rows of x) a few at a time: while they fit the registers,
// weights are loaded once for all.

import { item } from '../../base/list.ts'
import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { type Handles, type LaneScope, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { formatOf } from '../../quant/index.ts'
import {
  NARROW,
  PACKED_ROWS,
  type Packed,
  type PackedTile,
  type Sum,
  once,
  packedBlock,
  packedGroupBytes,
  runOf,
} from '../../quant/packed/packed.ts'
import type { GgmlType } from '../../quant/type.ts'
import { type Arrays, type Work, family, isCpu } from '../family.ts'
import { JOINED_PARAMS, joinedBinds, joinedBuffers } from '../matmul/joined.ts'
import { combinations, template } from '../template.ts'
import { type ActivationShape, dequantized, quantize, quantizedWords, streamsOf, tileSizes } from './activations.ts'
import { PACKED_FORMATS, packedOf } from './repack.ts'

/** Bytes between what is read and what is asked for from memory: a few blocks. */
const AHEAD = 8192
/** Words of quants that are multiplied at a time: fewer where registers are few. */
const STEP = { few: 2, many: 8 } as const
const FEW_REGISTERS = 16
/** More columns compute longer than memory takes. */
const MOST_AHEAD = 4

/** What is added to a product: a row of biases, or a tensor like y. */
export type Added = 'nothing' | 'bias' | 'residual'

export interface PackedLinearParams {
  readonly format: GgmlType
  readonly m: number
  readonly k: number
  /** rows of x */
  readonly n: number
  /** rows of x side by side in a tile (activations.ts) */
  readonly columns: number
  readonly added: Added
  /** of u [n, rank] times v, which is added too and lies with sixteen rows side by side: [m / 16, rank, 16]; 0 if not given */
  readonly rank?: number
}

export const packedLinear = family<PackedLinearParams>({
  name: 'packedLinear',
  about: 'int8 rows times a packed weight matrix, plus a bias or a residual, plus a product of low rank',
  // f32 sums of exact integer products; the minimums of K-quants go with sums of activations that have 14 bits.
  tolerance: ({ format, k }) => (packedOf(format, k)?.scaled === 32 ? 1e-12 : 2e-7),
  // every kernel there is: tiles that are full and not, matrices that end among rows, and enough of them for several streams
  cases: PACKED_FORMATS.flatMap((format): PackedLinearParams[] =>
    (['nothing', 'bias', 'residual'] as const).flatMap((added) => [
      { format, m: 35, k: 768, n: 1, columns: 1, added },
      { format, m: 16, k: 256, n: 2, columns: 2, added },
      { format, m: 33, k: 512, n: 3, columns: 4, added },
      { format, m: 17, k: 256, n: 13, columns: 8, added },
      { format, m: 416, k: 256, n: 1, columns: 1, added },
      { format, m: 35, k: 256, n: 1, columns: 1, added, rank: 8 },
      { format, m: 33, k: 256, n: 7, columns: 4, added, rank: 3 },
    ]),
  ),
  proofs: [
    { format: 'q4_k', m: 35, k: 512, n: 1, columns: 1, added: 'bias' },
    { format: 'q6_k', m: 16, k: 512, n: 3, columns: 4, added: 'residual' },
    { format: 'q8_0', m: 16, k: 256, n: 2, columns: 2, added: 'nothing' },
  ],
  buffers: ({ format, m, k, n, added, rank = 0 }) => [
    { name: 'x', role: 'in', type: 'u32', elements: quantizedWords(n, k, scaledOf(format)) },
    { name: 'w', role: 'in', type: format, elements: m * k, packedRows: m, cold: true },
    ...(added === 'bias' ? [{ name: 'bias', role: 'in', type: 'f32', elements: m } as const] : []),
    ...(added === 'residual' ? [{ name: 'residual', role: 'in', type: 'f32', elements: n * m } as const] : []),
    ...joinedBuffers(rank, n, PACKED_ROWS * Math.ceil(m / PACKED_ROWS)),
    { name: 'y', role: 'out', type: 'f32', elements: n * m },
  ],
  inputs: (params, random) => ({
    x: quantize(
      Float32Array.from({ length: params.n * params.k }, () => 2 * random() - 1),
      shapeOf(params),
    ),
  }),
  forms: [
    {
      name: 'rows',
      fits: (caps, { format, k, columns }) => isCpu(caps) && packedOf(format, k) !== undefined && tileSizes(caps).includes(columns),
      work,
      kernels: (caps) =>
        combinations<RowTraits>({
          format: PACKED_FORMATS,
          width: [caps.width],
          columns: tileSizes(caps),
          streams: [...new Set([1, caps.streams ?? 1])],
          step: [stepFor(caps)],
        })
          .filter(({ streams, columns, format }) => streams === 1 || isStreamed(format, columns))
          .map(rows),
    },
  ],
  cost: ({ m, k, n, rank = 0 }) => ({ operations: 2 * m * (k + rank) * n, arithmetic: 'i8' }),
  define,
})

function scaledOf(format: GgmlType): Packed['scaled'] {
  return formatOf(format).packed?.scaled ?? 32
}

export function shapeOf({ format, n, k, columns }: PackedLinearParams): ActivationShape {
  return { n, k, columns, scaled: scaledOf(format) }
}

/** `x` is words, `w` the values of the weight. */
function define(arrays: Arrays, params: PackedLinearParams): Arrays {
  const { x, w, bias, residual, u, v } = arrays
  const { m, k, n, rank = 0 } = params
  const values = dequantized(Uint32Array.from(x ?? []), shapeOf(params))
  const y = new Float32Array(n * m)
  for (let row = 0; row < n; row++) {
    for (let out = 0; out < m; out++) {
      let sum = (bias?.[out] ?? 0) + (residual?.[row * m + out] ?? 0)
      const start = Math.floor(out / PACKED_ROWS) * rank * PACKED_ROWS + (out % PACKED_ROWS)
      for (let l = 0; l < rank; l++) sum += (u?.[row * rank + l] ?? 0) * (v?.[start + l * PACKED_ROWS] ?? 0)
      for (let i = 0; i < k; i++) sum += (values[row * k + i] ?? 0) * (w?.[out * k + i] ?? 0)
      y[row * m + out] = sum
    }
  }
  return { y }
}

/** workgroups that a thread should have at the least: fewer, and some wait for others */
const LEAST_WORKGROUPS = 3

/**
 * Sixteen rows of each of several places, side by side, where the weights are read for one column only. A core looks a fixed number of
 * instructions ahead and fetches what it sees there: in four streams that is four times as much of the weights.
 */
function streamsFor({ streams = 1, parallel }: Caps, { format, m, columns }: PackedLinearParams): number {
  return isStreamed(format, columns) && m >= streams * PACKED_ROWS * LEAST_WORKGROUPS * parallel ? streams : 1
}

function isStreamed(format: GgmlType, columns: number): boolean {
  return columns === 1 && formatOf(format).packed?.streamed === true
}

function work(caps: Caps, params: PackedLinearParams): Work {
  const { format, m, k, n, columns, added, rank = 0 } = params
  const packed = packedOf(format, k)
  if (packed === undefined) return { launches: [] }
  const streams = streamsFor(caps, params)
  const kernel = rows({ format, width: caps.width, columns, streams, step: stepFor(caps) })
  const addedStep = added === 'residual' ? m : 0
  const uniforms = {
    m,
    n,
    blocks: k / packed.block,
    groupWords: packedGroupBytes(packed, k) / 4,
    adds: added === 'nothing' ? 0 : 1,
    addedStep,
    rank,
  }
  // One buffer under several element types: words of quants, bytes and halves of scales. Where nothing is added, nothing is read.
  const binds = { floats: 'x', bytes: 'w', halves: 'w', added: added === 'nothing' ? 'x' : added, ...joinedBinds(rank, 'x') }
  return { launches: [{ kernel, uniforms, grid: [Math.ceil(m / PACKED_ROWS / streams), 1, 1], binds }] }
}

/** What a kernel is written for. */
interface RowTraits {
  readonly format: GgmlType
  readonly width: Width
  readonly columns: number
  readonly streams: number
  readonly step: number
}

function stepFor({ registers = FEW_REGISTERS }: Caps): number {
  return registers <= FEW_REGISTERS ? STEP.few : STEP.many
}

const PARAMS = {
  x: buffer('u32', 'read'),
  floats: buffer('f32', 'read'),
  w: buffer('u32', 'read'),
  bytes: buffer('u8', 'read'),
  halves: buffer('f16', 'read'),
  added: buffer('f32', 'read'),
  y: buffer('f32', 'write'),
  m: uniform('u32'),
  n: uniform('u32'),
  blocks: uniform('u32'),
  groupWords: uniform('u32'),
  /** whether anything is added: what it is does not make another kernel, of which there are many */
  adds: uniform('u32'),
  /** elements from what is added to a column to what is added to the next: none for a bias */
  addedStep: uniform('u32'),
  ...JOINED_PARAMS,
}

const rows = template<RowTraits>({ family: 'packedLinear', form: 'rows' }, (traits, kernel) => {
  const { format, width, columns, streams } = traits
  const { packed } = formatOf(format)
  if (packed === undefined) throw new TypeError(`${format} has no packed layout`)
  const name = `packed_${format}${columns > 1 ? `_n${columns}` : ''}${streams > 1 ? `_s${streams}` : ''}`
  return kernel(name, { params: PARAMS }, (p, k) => {
    const tiles = k.let('tiles', p.n.add(columns - 1).div(columns))
    const at: Place = { p, traits, packed, activations: activationsOf(k, p, packed, traits, tiles) }
    const multiply = width <= NARROW ? inTurns(k, at) : inRegisters(k, at)
    k.for({ name: 'tile', to: tiles }, (tile) => multiply(tile))
  })
})

type Params = Handles<typeof PARAMS>

/** What every part of a kernel knows. */
interface Place {
  readonly p: Params
  readonly traits: RowTraits
  readonly packed: Packed
  readonly activations: ReturnType<typeof activationsOf>
}

/** Sixteen rows times a tile of columns, with all sums in registers. */
function inRegisters(k: LaneScope, at: Place): (tile: Value<'u32'>) => void {
  const { p, packed, traits } = at
  const { width, columns } = traits
  const sixteen = k.workgroupId.x
  const first = k.let('first', sixteen.mul(PACKED_ROWS))
  const start = k.let('start', sixteen.mul(p.groupWords))
  return (tile) => {
    const sums = Array.from({ length: PACKED_ROWS / width }, () =>
      Array.from({ length: columns }, () => k.var('sum', k.const('f32', 0).splat(width))),
    )
    k.for({ name: 'run', to: runs(p, packed) }, (run) => {
      multiplyRun(k, at, { tile, start, row: undefined, ...runOf(k, packed, run, p.blocks) }, sums)
    })
    sums.forEach((all, group) => finishRows(k, at, tile, { sixteen, row: k.const('u32', group * width), first }, all))
  }
}

/**
 * The same where registers are few. One column waits for memory, so that all rows of a line are taken at once; of several, a few rows at a
 * time go through a run of blocks. Sums wait in memory meanwhile, and what is done to rows at the end is a loop: an engine that puts off what is not needed at once (V8 does) would keep what it is made of in registers, for all rows.
 */
function inTurns(k: Scope, at: Place): (tile: Value<'u32'>) => void {
  const { p, packed, traits } = at
  const { width, columns, streams } = traits
  const together = columns === 1 ? PACKED_ROWS / width : 1
  const turns = PACKED_ROWS / width / together // of sixteen rows
  const first = k.let('first', k.workgroupId.x.mul(PACKED_ROWS * streams))
  // where the matrix ends among the streams of a workgroup, the last sixteen rows are read again, and not stored
  const last = k.let('last', p.m.sub(1).div(PACKED_ROWS))
  const sixteenOf = (stream: Value<'u32'>): Value<'u32'> =>
    streams > 1 ? k.let('sixteen', k.workgroupId.x.mul(streams).add(stream).min(last)) : k.workgroupId.x
  const vectors = (streams * PACKED_ROWS) / width
  const memory = k.shared('sums', 'f32', vectors * columns * width)
  const zero = k.const('f32', 0).splat(width)
  return (tile) => {
    k.for({ name: 'i', to: vectors * columns }, (i) => memory.store(i.mul(width), zero))
    k.for({ name: 'run', to: runs(p, packed) }, (run) => {
      const blocks = runOf(k, packed, run, p.blocks)
      k.for({ name: 'turn', to: streams * turns }, (turn) => {
        const start = k.let('start', sixteenOf(turn.div(turns)).mul(p.groupWords))
        const row = k.let('row', turn.rem(turns).mul(together * width))
        const place = (group: number, column: number): Value<'u32'> =>
          turn.mul(together * columns * width).add((group * columns + column) * width)
        const sums = Array.from({ length: together }, (_, group) =>
          Array.from({ length: columns }, (_, column) => k.var('sum', memory.load(place(group, column), width))),
        )
        multiplyRun(k, at, { tile, start, row, ...blocks }, sums)
        sums.forEach((all, group) => all.forEach((sum, column) => memory.store(place(group, column), sum.get())))
      })
    })
    k.for({ name: 'vector', to: vectors }, (vector) => {
      const perSixteen = PACKED_ROWS / width
      const row = k.let('row', vector.rem(perSixteen).mul(width))
      const sums = Array.from({ length: columns }, (_, column) =>
        k.var('sum', memory.load(vector.mul(columns * width).add(column * width), width)),
      )
      const stream = k.let('stream', vector.div(perSixteen))
      finishRows(k, at, tile, { sixteen: sixteenOf(stream), row, first: first.add(stream.mul(PACKED_ROWS)) }, sums)
    })
  }
}

/** Runs of blocks in a row of weights. */
function runs({ blocks }: Params, { run }: Packed): Value<'u32'> {
  return blocks.add(run - 1).div(run)
}

/** Some blocks of sixteen rows, which begin at word `start`; of the rows, `row` and those after it, if only some are to be multiplied. */
interface Run {
  readonly tile: Value<'u32'>
  readonly start: Value<'u32'>
  readonly row: Value<'u32'> | undefined
  readonly begin: Value<'u32'>
  readonly count: Value<'u32'>
}

function multiplyRun(k: LaneScope, at: Place, { tile, start, row, begin, count }: Run, sums: readonly (readonly Sum[])[]): void {
  const { p, packed, traits, activations } = at
  const { quantBytes, scaleBytes } = packedBlock(packed)
  const [quantWords, scaleWords] = [quantBytes / 4, scaleBytes / 4]
  const runStart = k.let('runStart', start.add(begin.mul(quantWords + scaleWords)))
  const quantStart = k.let('quantStart', runStart.add(count.mul(scaleWords)))
  eachBlock(k, packed, count, (b) => {
    const quants = k.let('quants', quantStart.add(b.mul(quantWords)))
    const scales = k.let('scales', runStart.add(b.mul(scaleWords)))
    const place = k.let('place', tile.mul(p.blocks).add(begin).add(b)) // of the block, among those of all tiles
    packed.multiply(k, {
      width: traits.width,
      step: traits.step,
      sums,
      ...weightsOf(k, p, traits, quants, scales, row),
      ...activations(place),
    })
  })
}

/** How `multiply` sees the weights of a block; `quants` and `scales` are where they begin, in words. */
function weightsOf(
  k: LaneScope,
  p: Params,
  { width, columns }: RowTraits,
  quants: Value<'u32'>,
  scales: Value<'u32'>,
  row: Value<'u32'> | undefined,
): Pick<PackedTile, 'quants' | 'bytes' | 'halves' | 'words'> {
  const from = (start: Value<'u32'>): Value<'u32'> => (row === undefined ? start : k.let('from', start.add(row)))
  const [words, scaleWords, halves, bytes] = [from(quants), from(scales), from(scales.mul(2)), from(scales.mul(4))]
  /** One load of every cache line asks for the one ahead. */
  const ahead = (byte: number): { ahead: number } | undefined => (columns <= MOST_AHEAD && byte % 64 === 0 ? { ahead: AHEAD } : undefined)
  return {
    quants: (at, plus, group) =>
      p.w.load(words.add(at.mul(PACKED_ROWS)).add(PACKED_ROWS * plus + width * group), width, ahead(4 * width * group)),
    bytes: (plus, group) =>
      p.bytes
        .load(bytes.add(plus + width * group), width, ahead(plus + width * group))
        .as('i32')
        .to('f32'),
    halves: (plus, group) => p.halves.load(halves.add(plus / 2 + width * group), width, ahead(plus + 2 * width * group)).to('f32'),
    words: (at, plus, byte, group) =>
      p.w.load(scaleWords.add(at.mul(PACKED_ROWS)).add(byte / 4 + PACKED_ROWS * plus + width * group), width, ahead(4 * width * group)),
  }
}

/** How `multiply` sees the activations of a block, given its place among the blocks of all tiles. */
function activationsOf(
  k: LaneScope,
  p: Params,
  { scaled }: Packed,
  { columns, width }: RowTraits,
  tiles: Value<'u32'>,
): (place: Value<'u32'>) => Pick<PackedTile, 'activations' | 'scale' | 'minusSum' | 'sumScale' | 'sums256'> {
  const { quants, scales, sum, sums } = streamsOf(scaled)
  const all = k.let('all', tiles.mul(p.blocks).mul(columns)) // blocks of all rows, those that fill up the last tile too
  const scaleStart = k.let('scaleStart', all.mul(scales.before))
  const sumStart = k.let('sumStart', all.mul(sum.before))
  const sumsStart = k.let('sumsStart', all.mul(sums.before))
  return (place) => {
    const words = k.let('words', place.mul(quants.each * columns))
    const factor = k.let('factor', place.mul(columns))
    const sumOf = (column: number): Value<'f32'> => p.floats.at(sumStart.add(factor).add(column))
    return {
      activations: (at, plus) => {
        const first = words.add(at.mul(columns))
        const place = (word: number, column: number): number => (plus + word) * columns + column
        if (width > NARROW) return (word, column) => p.x.at(first.add(place(word, column))).splat(width)
        // four at a time, since registers are few, and engines take longer to load and repeat one
        const fours = once((i) => k.let('fours', p.x.load(first.add(plus * columns + 4 * i), 4)))
        return (word, column) => {
          const at = word * columns + column
          return fours(at >> 2)
            .lane(at & 3)
            .splat(width)
        }
      },
      scale: (column, quarter) => {
        const first = quarter === undefined ? factor : factor.mul(scales.each).add(quarter.mul(columns))
        return p.floats.at(first.add(scaleStart).add(column))
      },
      minusSum: sumOf,
      sumScale: sumOf,
      sums256: (column, index) => p.x.at(sumsStart.add(factor.mul(sums.each)).add(index * columns + column)),
    }
  }
}

/** The blocks of a run; a run of one needs no loop. */
function eachBlock(k: LaneScope, { run }: Packed, count: Value<'u32'>, body: (b: Value<'u32'>) => void): void {
  if (run === 1) body(k.const('u32', 0))
  else k.for({ name: 'b', to: count }, (b) => body(b))
}

/** A vector of rows: `row` and those after it of the sixteen with number `sixteen`, the first of which is row `first` of the matrix. */
interface Rows {
  readonly sixteen: Value<'u32'>
  readonly row: Value<'u32'>
  readonly first: Value<'u32'>
}

/** Adds what there is to add to the sums of a vector of rows, one for each column of a tile, and stores them. */
function finishRows(k: LaneScope, { p, traits }: Place, tile: Value<'u32'>, rows: Rows, sums: readonly Sum[]): void {
  const { width, columns } = traits
  addJoinedRows(k, p, width, tile.mul(columns), rows, sums)
  sums.forEach((sum, c) => {
    const column = tile.mul(columns).add(c)
    k.when(column.lt(p.n), (inside) => storeRows(inside, p, column, rows.first.add(rows.row), sum.get(), width))
  })
}

/** Adds u times v. */
function addJoinedRows(k: LaneScope, p: Params, width: Width, column: Value<'u32'>, { sixteen, row }: Rows, sums: readonly Sum[]): void {
  k.when(p.rank.gt(0), (k) => {
    // columns past the end repeat the last one and are not stored
    const columns = sums.map((_, c) => k.let('columnOfU', column.add(c).min(p.n.sub(1)).mul(p.rank)))
    const start = k.let('startOfV', sixteen.mul(p.rank).mul(PACKED_ROWS).add(row))
    k.for({ name: 'l', to: p.rank }, (l, k) => {
      const values = k.let('values', p.v.load(start.add(l.mul(PACKED_ROWS)), width))
      sums.forEach((sum, c) => sum.set(values.fma(p.u.at(item(columns, c).add(l)).splat(width), sum.get())))
    })
  })
}

/** A vector of rows of one column; one by one where the matrix ends among them. */
function storeRows(k: LaneScope, p: Params, column: Value<'u32'>, row: Value<'u32'>, sum: VectorOf<'f32'>, width: Width): void {
  const [value, adds] = [k.let('value', sum), k.let('adds', p.adds.ne(0))]
  const [from, to] = [k.let('from', column.mul(p.addedStep).add(row)), k.let('to', column.mul(p.m).add(row))]
  k.when(
    row.add(width).le(p.m),
    (inside) =>
      inside.when(
        adds,
        () => p.y.store(to, value.add(p.added.load(from, width))),
        () => p.y.store(to, value),
      ),
    (inside) => {
      for (let lane = 0; lane < width; lane++) {
        inside.when(row.add(lane).lt(p.m), (here) => {
          const one = here.var('one', value.lane(lane))
          here.when(adds, () => one.set(one.get().add(p.added.at(from.add(lane)))))
          p.y.set(to.add(lane), one.get())
        })
      }
    },
  )
}
