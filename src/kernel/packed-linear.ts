// y [n, m] = x [n, k] times w [m, k] transposed, with w packed sixteen rows side by side and x in int8 (quantize8). One workgroup takes
// sixteen rows of w and walks the columns (rows of x) a few at a time: while they fit the registers, weights are loaded once for all.

import type { Caps } from '../base/caps.ts'
import type { Width } from '../base/dtype.ts'
import { type LaneScope, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { PACKED_ROWS, type Sum, type Tile, packedGroupBytes } from '../quant/packed.ts'
import type { LinearParams } from './linear-params.ts'
import type { Work } from './record.ts'
import { packedOf } from './repack.ts'

/** columns at a time, by the width of a register: what its register file holds */
const COLUMNS: Readonly<Record<Width, readonly number[]>> = { 2: [1], 4: [1, 2], 8: [1, 4], 16: [1, 2, 4, 8] }

/** Reads `x` (quantised), `w` (packed; also seen as bytes and halves) and an optional bias; writes `y`. */
export function packedLinear(caps: Caps, { format, m, k: inner, n, bias }: LinearParams): Work {
  const packed = packedOf(format, inner)!
  const { width } = caps
  const most = COLUMNS[width]
  const columns = most.find((count) => count >= n) ?? most.at(-1) ?? 1
  const groups = PACKED_ROWS / width
  const [quantWords, blockWords] = [packed.quantBytes / 4, packed.block / 4]
  const written = kernel(`packed_${format}${columns > 1 ? `_n${columns}` : ''}`, {
    params: {
      x: buffer('u32', 'read'), floats: buffer('f32', 'read'),
      w: buffer('u32', 'read'), bytes: buffer('u8', 'read'), signed: buffer('i8', 'read'), halves: buffer('f16', 'read'),
      ...(bias ? { bias: buffer('f32', 'read') } : {}),
      y: buffer('f32', 'write'), m: uniform('u32'), n: uniform('u32'), blocks: uniform('u32'), groupWords: uniform('u32'),
    },
  }, (p, k) => {
    const times16 = (index: Value<'u32'> | number): Value<'u32'> => (typeof index === 'number' ? k.const('u32', 16 * index) : index.mul(16))
    const first = k.let('first', k.workgroupId.x.mul(PACKED_ROWS))
    const start = k.let('start', k.workgroupId.x.mul(p.groupWords))
    const scalesStart = k.let('scalesStart', start.add(p.blocks.mul(quantWords)).mul(4)) // in bytes
    const rowWords = k.let('rowWords', p.blocks.mul(blockWords)) // words of one row of x
    const scales = k.let('scaleStart', p.n.mul(rowWords))
    const sumsAt = k.let('sumStart', scales.add(p.n.mul(rowWords.shr(3))))
    k.for({ name: 'from', to: p.n, step: columns }, (from) => {
      const column = Array.from({ length: columns }, (_, c) => k.let('column', columns === 1 ? from : from.add(c).min(p.n.sub(1))))
      const sums = Array.from({ length: groups }, () => column.map(() => k.var('sum', k.const('f32', 0).splat(width)) as unknown as Sum))
      k.for({ name: 'b', to: p.blocks }, (b) => {
        const quants = k.let('quants', start.add(b.mul(quantWords)))
        const at = k.let('scalesAt', scalesStart.add(b.mul(packed.scaleBytes)))
        const words = column.map((c) => k.let('words', c.mul(rowWords).add(b.mul(blockWords))))
        const factors = column.map((c) => k.let('factors', scales.add(c.mul(rowWords.shr(3))).add(b.mul(packed.block / 32))))
        const offsets = column.map((c) => k.let('offsets', sumsAt.add(c.mul(rowWords.shr(2))).add(b.mul(packed.block / 16))))
        const tile: Tile = {
          width,
          sums,
          quants: (index, group) => p.w.load(times16(index).add(quants).add(group * width), width) as never,
          bytes: (offset, group) => p.bytes.load(at.add(offset).add(group * width), width).to('f32') as never,
          signedBytes: (offset, group) => p.signed.load(at.add(offset).add(group * width), width).to('f32') as never,
          halves: (offset, group) => p.halves.load(at.add(offset).shr(1).add(group * width), width).to('f32') as never,
          activations: (c, index) => p.x.at(words[c]!.add(index)),
          scale: (c, index) => p.floats.at(factors[c]!.add(index)),
          sum: (c, index) => p.floats.at(offsets[c]!.add(index)),
        }
        packed.multiply(k, tile)
      })
      sums.forEach((all, group) => all.forEach((sum, c) => {
        const row = first.add(group * width)
        k.when(from.add(c).lt(p.n), (inside) => storeRows(inside, { y: p.y, bias: p.bias }, column[c]!.mul(p.m), row, p.m, sum.get() as never, width))
      }))
    })
  })
  const uniforms = { m, n, blocks: inner / packed.block, groupWords: packedGroupBytes(packed, inner) / 4 }
  return { launches: [{ kernel: written, uniforms, grid: [Math.ceil(m / PACKED_ROWS), 1, 1] }] }
}

interface Out { readonly y: Writable<'f32'>; readonly bias: Readable<'f32', Uniformity> | undefined }

/** A vector of rows of one column; one by one where the matrix ends among them. */
function storeRows(k: LaneScope, { y, bias }: Out, start: Value<'u32'>, row: Value<'u32'>, m: Value<'u32'>, sum: Value<'f32x16'>, width: Width): void {
  const value = k.let('value', sum)
  k.when(row.add(width).le(m), () => {
    y.store(start.add(row), bias === undefined ? value : value.add(bias.load(row, width as 16)))
  }, (inside) => {
    for (let lane = 0; lane < width; lane++) {
      inside.when(row.add(lane).lt(m), () => {
        const one = value.lane(lane)
        y.set(start.add(row).add(lane), bias === undefined ? one : one.add(bias.at(row.add(lane))))
      })
    }
  })
}
