// y [n, m] = x [n, k] times w [m, k] transposed, with w packed sixteen rows side by side and x in int8 (quantize8). One workgroup takes
// sixteen rows of w and walks the columns (rows of x) a few at a time: while they fit the registers, weights are loaded once for all.

import type { Caps } from '../base/caps.ts'
import type { Width } from '../base/dtype.ts'
import { type LaneScope, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { PACKED_ROWS, type Packed, QUARTERS, SUMS, type Sum, type Tile, packedGroupBytes, runOf } from '../quant/packed.ts'
import type { LinearParams } from './linear-params.ts'
import { tileColumns } from './quantize8.ts'
import type { Work } from './record.ts'
import { packedOf } from './repack.ts'

/** Bytes between what is read and what is asked for from memory: a few blocks. */
const AHEAD = 8192
/** More columns compute longer than memory takes. */
const MOST_AHEAD = 4

export interface PackedLinearParams extends LinearParams {
  /** a tensor like y is added; not together with a bias */
  readonly residual?: boolean
}

/** Reads `x` (quantised), `w` (packed; also seen as bytes and halves), an optional bias [m] and residual [n, m]; writes `y`. */
export function packedLinear(caps: Caps, { format, m, k: inner, n, bias, residual = false }: PackedLinearParams): Work {
  const packed = packedOf(format, inner)!
  const { width } = caps
  const columns = tileColumns(caps, n)
  const streams = packed.streamed === true && columns === 1 ? streamsOf(caps, m) : 1
  const perStream = PACKED_ROWS / width
  const groups = streams * perStream
  const [quantWords, scaleWords, blockWords] = [packed.quantBytes / 4, packed.scaleBytes / 4, packed.block / 4]
  const streamOf = (group: number): number => Math.floor(group / perStream)
  const rowOf = (group: number): number => (group % perStream) * width
  /** One load of every cache line asks for the one ahead. */
  const ahead = (byte: number): { ahead: number } | undefined => (columns <= MOST_AHEAD && byte % 64 === 0 ? { ahead: AHEAD } : undefined)
  const written = kernel(
    `packed_${format}${columns > 1 ? `_n${columns}` : ''}${streams > 1 ? `_s${streams}` : ''}`,
    {
      params: {
        x: buffer('u32', 'read'),
        floats: buffer('f32', 'read'),
        w: buffer('u32', 'read'),
        bytes: buffer('u8', 'read'),
        halves: buffer('f16', 'read'),
        ...(bias ? { bias: buffer('f32', 'read') } : {}),
        ...(residual ? { residual: buffer('f32', 'read') } : {}),
        y: buffer('f32', 'write'),
        m: uniform('u32'),
        n: uniform('u32'),
        blocks: uniform('u32'),
        groupWords: uniform('u32'),
      },
      variant: `${format}, width ${width}, ${columns} columns${streams > 1 ? `, ${streams} streams` : ''}`,
    },
    (p, k) => {
      const first = k.let('first', k.workgroupId.x.mul(PACKED_ROWS * streams))
      // where the matrix ends among the streams of a workgroup, the last sixteen rows are read again, and not stored
      const last = p.m.sub(1).div(PACKED_ROWS)
      const starts = Array.from({ length: streams }, (_, stream) => {
        const sixteen = k.workgroupId.x.mul(streams).add(stream)
        return k.let('start', (streams > 1 ? sixteen.min(last) : sixteen).mul(p.groupWords))
      })
      const tileWords = k.let('tileWords', p.blocks.mul(blockWords * columns)) // words of one tile of x
      const tiles = k.let('tiles', p.n.add(columns - 1).div(columns))
      // behind the quants of all tiles: scales of the blocks, then their sums
      const factorStart = k.let('factorStart', tiles.mul(tileWords))
      const scalesEach = packed.scaled === 32 ? 1 : QUARTERS
      const sumStart = k.let('sumStart', factorStart.add(factorStart.div(blockWords).mul(scalesEach)))
      const sumWordStart = k.let('sumWordStart', sumStart.add(factorStart.div(blockWords)))
      k.for({ name: 'tile', to: tiles }, (tileId) => {
        const sums = Array.from({ length: groups }, () =>
          Array.from({ length: columns }, () => k.var('sum', k.const('f32', 0).splat(width)) as unknown as Sum),
        )
        k.for({ name: 'run', to: p.blocks.add(packed.run - 1).div(packed.run) }, (run) => {
          const { begin, count } = runOf(k, packed, run, p.blocks)
          const runStarts = starts.map((start) => k.let('runStart', start.add(begin.mul(quantWords + scaleWords))))
          const quantStarts = runStarts.map((start) => k.let('quantStart', start.add(count.mul(scaleWords))))
          eachBlock(k, packed, count, (b) => {
            const quants = quantStarts.map((start) => k.let('quants', start.add(b.mul(quantWords))))
            const scales = runStarts.map((start) => k.let('scales', start.add(b.mul(scaleWords))))
            const words = k.let('words', tileId.mul(tileWords).add(begin.add(b).mul(blockWords * columns)))
            const factor = k.let('factor', words.div(blockWords))
            const tile: Tile = {
              width,
              sums,
              streams,
              quants: (at, plus, group) =>
                p.w.load(quants[streamOf(group)]!.add(at.mul(16)).add(16 * plus + rowOf(group)), width, ahead(4 * rowOf(group))) as never,
              bytes: (plus, group) =>
                p.bytes
                  .load(scales[streamOf(group)]!.mul(4).add(plus + rowOf(group)), width, ahead(plus + rowOf(group)))
                  .as('i32')
                  .to('f32') as never,
              halves: (plus, group) =>
                p.halves
                  .load(scales[streamOf(group)]!.mul(2).add(plus / 2 + rowOf(group)), width, ahead(plus + 2 * rowOf(group)))
                  .to('f32') as never,
              words: (at, plus, byte, group) =>
                p.w.load(
                  scales[streamOf(group)]!.add(at.mul(16)).add(byte / 4 + 16 * plus + rowOf(group)),
                  width,
                  ahead(4 * rowOf(group)),
                ) as never,
              activations: (column, at, plus) => p.x.at(words.add(at.mul(columns)).add(plus * columns + column)),
              scale: (column, quarter) =>
                p.floats.at((quarter === undefined ? factor : factor.mul(QUARTERS).add(quarter.mul(columns))).add(factorStart).add(column)),
              minusSum: (column) => p.floats.at(sumStart.add(factor).add(column)),
              sumScale: (column) => p.floats.at(sumStart.add(factor).add(column)),
              sums256: (column, index) => p.x.at(sumWordStart.add(factor.mul(SUMS.words)).add(index * columns + column)),
            }
            packed.multiply(k, tile)
          })
        })
        sums.forEach((all, group) =>
          all.forEach((sum, c) => {
            const row = first.add(group * width)
            const column = tileId.mul(columns).add(c)
            k.when(column.lt(p.n), (inside) => storeRows(inside, p, column.mul(p.m), row, p.m, sum.get() as never, width))
          }),
        )
      })
    },
  )
  const uniforms = { m, n, blocks: inner / packed.block, groupWords: packedGroupBytes(packed, inner) / 4 }
  return { launches: [{ kernel: written, uniforms, grid: [Math.ceil(m / PACKED_ROWS / streams), 1, 1] }] }
}

/** workgroups that a thread should have at the least: fewer, and some wait for others */
const LEAST_WORKGROUPS = 3

/**
 * Sixteen rows of each of several places, side by side, where the weights are read for one column only. A core looks a fixed number of
 * instructions ahead and fetches what it sees there: in four streams that is four times as much of the weights.
 */
function streamsOf({ streams = 1, parallel }: Caps, m: number): number {
  return m >= streams * PACKED_ROWS * LEAST_WORKGROUPS * parallel ? streams : 1
}

/** The blocks of a run; a run of one needs no loop. */
function eachBlock(k: LaneScope, { run }: Packed, count: Value<'u32'>, body: (b: Value<'u32'>) => void): void {
  if (run === 1) body(k.const('u32', 0))
  else k.for({ name: 'b', to: count }, (b) => body(b))
}

interface Out {
  readonly y: Writable<'f32'>
  readonly bias?: Readable<'f32', Uniformity> | undefined
  readonly residual?: Readable<'f32', Uniformity> | undefined
}

/** A vector of rows of one column; one by one where the matrix ends among them. */
function storeRows(
  k: LaneScope,
  { y, bias, residual }: Out,
  start: Value<'u32'>,
  row: Value<'u32'>,
  m: Value<'u32'>,
  sum: Value<'f32x16'>,
  width: Width,
): void {
  const value = k.let('value', sum)
  k.when(
    row.add(width).le(m),
    () => {
      const biased = bias === undefined ? value : value.add(bias.load(row, width as 16))
      y.store(start.add(row), residual === undefined ? biased : biased.add(residual.load(start.add(row), width as 16)))
    },
    (inside) => {
      for (let lane = 0; lane < width; lane++) {
        inside.when(row.add(lane).lt(m), () => {
          const one = value.lane(lane)
          const biased = bias === undefined ? one : one.add(bias.at(row.add(lane)))
          y.set(start.add(row).add(lane), residual === undefined ? biased : biased.add(residual.at(start.add(row).add(lane))))
        })
      }
    },
  )
}
