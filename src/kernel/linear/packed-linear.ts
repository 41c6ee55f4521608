// y [n, m] = x [n, k] times w [m, k] transposed, plus what there is to add, with w packed sixteen rows side by side and x in int8
// (activations.ts). One workgroup takes sixteen rows of w and walks the columns (rows of x) a few at a time: while they fit the registers,
// weights are loaded once for all.

import { item } from '../../base/list.ts'
import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { type Handles, type LaneScope, type Var, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { formatOf } from '../../quant/index.ts'
import { PACKED_ROWS, type Packed, type PackedTile, packedBlock, packedGroupBytes, runOf } from '../../quant/packed/packed.ts'
import { type PanelTile, paired, panelWords } from '../../quant/packed/panel.ts'
import type { GgmlType } from '../../quant/type.ts'
import { type Arrays, type Work, family, isCpu } from '../family.ts'
import { JOINED_PARAMS, joinedBinds, joinedBuffers } from '../matmul/joined.ts'
import { combinations, template } from '../template.ts'
import { type ActivationShape, dequantized, quantize, quantizedWords, streamsOf, tileSizes } from './activations.ts'
import { PACKED_FORMATS, packedOf } from './repack.ts'

/** Bytes between what is read and what is asked for from memory: a few blocks. */
const AHEAD = 8192
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
  cases: [
    ...PACKED_FORMATS.flatMap((format): PackedLinearParams[] => [
      ...(['nothing', 'bias', 'residual'] as const).flatMap((added) => [
        { format, m: 35, k: 768, n: 1, columns: 1, added },
        { format, m: 16, k: 256, n: 2, columns: 2, added },
        { format, m: 33, k: 512, n: 3, columns: 4, added },
        { format, m: 17, k: 256, n: 13, columns: 8, added },
        { format, m: 416, k: 256, n: 1, columns: 1, added },
        { format, m: 35, k: 256, n: 1, columns: 1, added, rank: 8 },
        { format, m: 33, k: 256, n: 7, columns: 4, added, rank: 3 },
      ]),
      { format, m: 17, k: 768, n: 13, columns: 4, added: 'residual', rank: 3 },
    ]),
    { format: 'q4_0', m: 16, k: 32, n: 133, columns: 4, added: 'nothing' },
  ],
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
      name: 'panels',
      fits: (caps, { format, k, n, columns }) =>
        caps.pairs === true && isCpu(caps) && packedOf(format, k) !== undefined && columns === panelColumns(caps) && n >= LEAST_FOR_PANELS,
      work: (caps, params) => workOf(params, panels({ format: params.format, width: caps.width, columns: params.columns }), 1),
      kernels: (caps) => PACKED_FORMATS.map((format) => panels({ format, width: caps.width, columns: panelColumns(caps) })),
    },
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
  const { format, columns } = params
  const streams = streamsFor(caps, params)
  return workOf(params, rows({ format, width: caps.width, columns, streams }), streams)
}

function workOf(params: PackedLinearParams, kernel: Kernel, streams: number): Work {
  const { format, m, k, n, added, rank = 0 } = params
  const packed = packedOf(format, k)
  if (packed === undefined) return { launches: [] }
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
  const { quantBytes, scaleBytes } = packedBlock(packed)
  const [quantWords, scaleWords] = [quantBytes / 4, scaleBytes / 4]
  const perStream = PACKED_ROWS / width
  const name = `packed_${format}${columns > 1 ? `_n${columns}` : ''}${streams > 1 ? `_s${streams}` : ''}`
  return kernel(name, { params: PARAMS }, (p, k) => {
    const first = k.let('first', k.workgroupId.x.mul(PACKED_ROWS * streams))
    // where the matrix ends among the streams of a workgroup, the last sixteen rows are read again, and not stored
    const last = p.m.sub(1).div(PACKED_ROWS)
    const sixteens = Array.from({ length: streams }, (_, stream) => {
      const sixteen = k.workgroupId.x.mul(streams).add(stream)
      return k.let('sixteen', streams > 1 ? sixteen.min(last) : sixteen)
    })
    const starts = sixteens.map((sixteen) => k.let('start', sixteen.mul(p.groupWords)))
    const tiles = k.let('tiles', p.n.add(columns - 1).div(columns))
    const activations = activationsOf(k, p, packed, columns, tiles)
    k.for({ name: 'tile', to: tiles }, (tileId) => {
      const sums = Array.from({ length: streams * perStream }, () =>
        Array.from({ length: columns }, () => k.var('sum', k.const('f32', 0).splat(width))),
      )
      k.for({ name: 'run', to: p.blocks.add(packed.run - 1).div(packed.run) }, (run) => {
        const { begin, count } = runOf(k, packed, run, p.blocks)
        const runStarts = starts.map((start) => k.let('runStart', start.add(begin.mul(quantWords + scaleWords))))
        const quantStarts = runStarts.map((start) => k.let('quantStart', start.add(count.mul(scaleWords))))
        eachBlock(k, packed, count, (b) => {
          const quants = quantStarts.map((start) => k.let('quants', start.add(b.mul(quantWords))))
          const scales = runStarts.map((start) => k.let('scales', start.add(b.mul(scaleWords))))
          const place = k.let('place', tileId.mul(p.blocks).add(begin).add(b)) // of the block, among those of all tiles
          packed.multiply(k, { width, sums, streams, ...weightsOf(p, traits, quants, scales), ...activations(place) })
        })
      })
      addJoinedRows(k, p, width, tileId.mul(columns), sixteens, sums)
      storeTile(k, p, width, tileId.mul(columns), first, sums)
    })
  })
})

/** fewest columns that make it worth while to decode weights into panels */
const LEAST_FOR_PANELS = 8
/** tiles of columns whose sums stay in the nearest caches */
const TILES_TOGETHER = 32

function panelColumns(caps: Caps): number {
  return tileSizes(caps).at(-1) ?? 1
}

/** A run of blocks of sixteen rows is decoded once (quant/packed/panel.ts), then multiplied with all columns; their sums wait in memory. */
const panels = template<Omit<RowTraits, 'streams'>>({ family: 'packedLinear', form: 'panels' }, ({ format, width, columns }, kernel) => {
  const { packed } = formatOf(format)
  if (packed === undefined) throw new TypeError(`${format} has no packed layout`)
  const { quantBytes, scaleBytes } = packedBlock(packed)
  const [quantWords, scaleWords] = [quantBytes / 4, scaleBytes / 4]
  const { panel, run: most } = packed
  const each = panelWords(panel)
  const groups = Array.from({ length: PACKED_ROWS / width }, (_, group) => group)
  return kernel(`panels_${format}`, { params: PARAMS }, (p, k) => {
    const quantPanel = k.shared('quantPanel', 'u32', most * each.quants)
    const factorPanel = k.shared('factorPanel', 'u32', Math.max(1, most * each.factors))
    const sumsOfTiles = k.shared('sumsOfTiles', 'f32', TILES_TOGETHER * columns * PACKED_ROWS)
    const start = k.let('start', k.workgroupId.x.mul(p.groupWords))
    const tiles = k.let('tiles', p.n.add(columns - 1).div(columns))
    const activations = activationsOf(k, p, packed, columns, tiles)
    const placeOf = (tile: Value<'u32'>, group: number, column: number): Value<'u32'> =>
      tile.mul(columns * PACKED_ROWS).add(column * PACKED_ROWS + group * width)
    const sumsOf = (tile: Value<'u32'>) =>
      groups.map((group) => Array.from({ length: columns }, (_, c) => k.var('sum', sumsOfTiles.load(placeOf(tile, group, c), width))))
    k.for({ name: 'from', to: tiles, step: TILES_TOGETHER }, (from) => {
      const count = k.let('count', tiles.sub(from).min(TILES_TOGETHER))
      const zero = k.const('f32', 0).splat(width)
      k.for({ name: 'i', to: count.mul((columns * PACKED_ROWS) / width) }, (i) => sumsOfTiles.store(i.mul(width), zero))
      k.for({ name: 'run', to: p.blocks.add(most - 1).div(most) }, (run) => {
        const { begin, count: blocks } = runOf(k, packed, run, p.blocks)
        const scaleStart = k.let('runStart', start.add(begin.mul(quantWords + scaleWords)))
        const quantStart = k.let('quantStart', scaleStart.add(blocks.mul(scaleWords)))
        const weightsAt = (b: Value<'u32'>) => {
          const [quants, scales] = [k.let('quants', quantStart.add(b.mul(quantWords))), k.let('scales', scaleStart.add(b.mul(scaleWords)))]
          return { width, ...weightsOf(p, { width, columns: MOST_AHEAD + 1 }, [quants], [scales]) }
        }
        eachBlock(k, packed, blocks, (b) => {
          const weights = weightsAt(b)
          for (const group of groups) {
            const place = (words: number, at: Value<'u32'>, plus: number): Value<'u32'> =>
              b
                .mul(words)
                .add(at.mul(PACKED_ROWS))
                .add(PACKED_ROWS * plus + group * width)
            panel.quants(k, weights, group, (at, plus, bytes) => quantPanel.store(place(each.quants, at, plus), bytes))
            panel.factors?.(k, weights, group, (at, plus, factor) => factorPanel.store(place(each.factors, at, plus), paired(factor)))
          }
        })
        k.for({ name: 'tile', to: count }, (tile) => {
          const sums = sumsOf(tile)
          eachBlock(k, packed, blocks, (b) => {
            const place = k.let('place', from.add(tile).mul(p.blocks).add(begin).add(b)) // of the block, among those of all tiles
            const load = (memory: typeof quantPanel, words: number): PanelTile['panel'] => {
              const first = k.let('panel', b.mul(words))
              return (at, plus, group) => memory.load(first.add(at.mul(PACKED_ROWS)).add(PACKED_ROWS * plus + group * width), width)
            }
            const panels = { panel: load(quantPanel, each.quants), factors: load(factorPanel, each.factors) }
            panel.multiply(k, { sums, streams: 1, ...weightsAt(b), ...activations(place), ...panels })
          })
          sums.forEach((all, group) => all.forEach((sum, c) => sumsOfTiles.store(placeOf(tile, group, c), sum.get())))
        })
      })
      k.for({ name: 'tile', to: count }, (tile) => {
        const sums = sumsOf(tile)
        const firstColumn = k.let('firstColumn', from.add(tile).mul(columns))
        addJoinedRows(k, p, width, firstColumn, [k.workgroupId.x], sums)
        storeTile(k, p, width, firstColumn, k.workgroupId.x.mul(PACKED_ROWS), sums)
      })
    })
  })
})

type Params = Handles<typeof PARAMS>

/** How `multiply` sees the weights of a block; `quants` and `scales` are where they begin in each stream, in words. */
function weightsOf(
  p: Params,
  { width, columns }: Pick<RowTraits, 'width' | 'columns'>,
  quants: readonly Value<'u32'>[],
  scales: readonly Value<'u32'>[],
): Pick<PackedTile, 'quants' | 'bytes' | 'halves' | 'words'> {
  const perStream = PACKED_ROWS / width
  const inStream = (starts: readonly Value<'u32'>[], group: number): Value<'u32'> => item(starts, Math.floor(group / perStream))
  const rowOf = (group: number): number => (group % perStream) * width
  /** One load of every cache line asks for the one ahead. */
  const ahead = (byte: number): { ahead: number } | undefined => (columns <= MOST_AHEAD && byte % 64 === 0 ? { ahead: AHEAD } : undefined)
  return {
    quants: (at, plus, group) => {
      const word = inStream(quants, group).add(at.mul(PACKED_ROWS))
      return p.w.load(word.add(PACKED_ROWS * plus + rowOf(group)), width, ahead(4 * rowOf(group)))
    },
    bytes: (plus, group) => {
      const byte = inStream(scales, group).mul(4)
      return p.bytes
        .load(byte.add(plus + rowOf(group)), width, ahead(plus + rowOf(group)))
        .as('i32')
        .to('f32')
    },
    halves: (plus, group) => {
      const half = inStream(scales, group).mul(2)
      return p.halves.load(half.add(plus / 2 + rowOf(group)), width, ahead(plus + 2 * rowOf(group))).to('f32')
    },
    words: (at, plus, byte, group) => {
      const word = inStream(scales, group).add(at.mul(PACKED_ROWS))
      return p.w.load(word.add(byte / 4 + PACKED_ROWS * plus + rowOf(group)), width, ahead(4 * rowOf(group)))
    },
  }
}

/** How `multiply` sees the activations of a block, given its place among the blocks of all tiles. */
function activationsOf(
  k: LaneScope,
  p: Params,
  { scaled }: Packed,
  columns: number,
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
      activations: (column, at, plus) => p.x.at(words.add(at.mul(columns)).add(plus * columns + column)),
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

/** Adds u times v to the sums of all rows and columns; `sixteens` are the numbers of the sixteen rows of each stream. */
function addJoinedRows(
  k: LaneScope,
  p: Params,
  width: Width,
  column: Value<'u32'>,
  sixteens: readonly Value<'u32'>[],
  sums: readonly (readonly Var<`f32x${Width}`>[])[],
): void {
  const perStream = PACKED_ROWS / width
  k.when(p.rank.gt(0), (k) => {
    // columns past the end repeat the last one and are not stored
    const columns = (sums[0] ?? []).map((_, c) => k.let('columnOfU', column.add(c).min(p.n.sub(1)).mul(p.rank)))
    const starts = sixteens.map((sixteen) => k.let('startOfV', sixteen.mul(p.rank).mul(PACKED_ROWS)))
    k.for({ name: 'l', to: p.rank }, (l, k) => {
      const factors = columns.map((of): VectorOf<'f32'> => k.let('factor', p.u.at(of.add(l)).splat(width)))
      sums.forEach((ofRows, group) => {
        const at = item(starts, Math.floor(group / perStream)).add(l.mul(PACKED_ROWS))
        const values = k.let('values', p.v.load(at.add((group % perStream) * width), width))
        ofRows.forEach((sum, c) => sum.set(values.fma(item(factors, c), sum.get())))
      })
    })
  })
}

/** The sums of some columns and of rows from `row` on. */
function storeTile(
  k: LaneScope,
  p: Params,
  width: Width,
  firstColumn: Value<'u32'>,
  row: Value<'u32'>,
  sums: readonly (readonly Var<`f32x${Width}`>[])[],
): void {
  sums.forEach((all, group) =>
    all.forEach((sum, c) => {
      const column = firstColumn.add(c)
      k.when(column.lt(p.n), (inside) => storeRows(inside, p, column, row.add(group * width), sum.get(), width))
    }),
  )
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
