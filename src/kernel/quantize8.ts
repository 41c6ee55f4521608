// Activations as int8 for the packed layouts: blocks of 32 with one scale, and the scaled sum of each 16. Columns (rows of x) lie side
// by side in tiles, so that a kernel that takes `columns` of them at a time finds what it needs next to each other:
// words [tile][k / 4][columns], then scales [tile][k / 32][columns], sums [tile][k / 16][columns], and minus the sums of 32
// [tile][k / 32][columns].

import type { Caps } from '../base/caps.ts'
import type { Width } from '../base/dtype.ts'
import { buffer, kernel, uniform } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { ACTIVATION_BLOCK } from '../quant/packed.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

export interface Quantize8Params { readonly n: number; readonly k: number }

/** columns that a kernel takes at a time, by the width of a register: what its register file holds */
const COLUMNS: Readonly<Record<Width, readonly number[]>> = { 2: [1], 4: [1, 2], 8: [1, 2, 4], 16: [1, 2, 4, 8] }
const MOST_COLUMNS = 8
/** blocks of one workgroup */
const BLOCKS = 32

/** The tile that serves n columns. */
export function tileColumns({ width }: Caps, n: number): number {
  const sizes = COLUMNS[width]
  return sizes.find((size) => size >= n) ?? sizes.at(-1) ?? 1
}

/** Words that hold n quantised rows of k on any device. */
export function quantizedWords(n: number, k: number): number {
  const columns = n === 1 ? 1 : Math.ceil(n / MOST_COLUMNS) * MOST_COLUMNS
  return columns * (k / 4 + k / 32 + k / 16 + k / 32)
}

export const quantize8: KernelRecord<Quantize8Params> = {
  name: 'quantize8',
  about: 'activations as int8 in blocks of 32, with scales and sums',
  tolerance: 1e-6,
  cases: [{ n: 1, k: 256 }, { n: 1, k: 96 }, { n: 1, k: 2048 }],
  buffers: ({ n, k }) => [
    { name: 'x', role: 'in', type: 'f32', elements: n * k },
    { name: 'y', role: 'out', type: 'u32', elements: quantizedWords(n, k) },
  ],
  work,
  define,
}

function work(caps: Caps, { n, k: inner }: Quantize8Params): Work {
  const columns = tileColumns(caps, n)
  const written = kernel('quantize8', {
    params: {
      x: buffer('f32', 'read'), y: buffer('u32', 'write'),
      blocks: uniform('u32'), rowBlocks: uniform('u32'), columns: uniform('u32'), tiles: uniform('u32'),
    },
    variant: '',
  }, (p, k) => {
    const first = k.let('first', k.workgroupId.x.mul(BLOCKS))
    const scalesStart = k.let('scalesStart', p.tiles.mul(p.rowBlocks).mul(8).mul(p.columns))
    const sumsStart = k.let('sumsStart', scalesStart.add(p.tiles.mul(p.rowBlocks).mul(p.columns)))
    const minusStart = k.let('minusStart', sumsStart.add(p.tiles.mul(p.rowBlocks).mul(2).mul(p.columns)))
    k.for({ name: 'b', from: first, to: first.add(BLOCKS).min(p.blocks) }, (b) => {
      const values = Array.from({ length: 8 }, (_, i) => p.x.load(b.mul(32).add(4 * i), 4))
      const top = k.let('top', values.map((four) => four.abs()).reduce((a, c) => a.max(c)).hmax())
      const scale = k.let('scale', top.div(127))
      const inverse = k.let('inverse', top.gt(0).select(k.const('f32', 127).div(top), k.const('f32', 0)))
      const quants = values.map((four) => k.let('quants', four.mul(inverse).rint().to('i32')))
      const [row, block] = [k.let('row', b.div(p.rowBlocks)), k.let('block', b.rem(p.rowBlocks))]
      const [tile, column] = [k.let('tile', row.div(p.columns)), k.let('column', row.rem(p.columns))]
      const place = k.let('place', tile.mul(p.rowBlocks).add(block)) // among all blocks of all tiles
      const put = (start: Value<'u32'> | number, per: number, i: number, value: Value<'u32'>): void =>
        p.y.set(place.mul(per).add(i).mul(p.columns).add(column).add(start), value)
      quants.forEach((four, i) => put(0, 8, i, four.packI8()))
      put(scalesStart, 1, 0, scale.as('u32'))
      const sumOf = (fours: readonly Value<'i32x4'>[]): Value<'f32'> => fours.reduce((a, c) => a.add(c)).hsum().to('f32').mul(scale)
      const sums = [0, 1].map((half) => k.let('sum', sumOf(quants.slice(4 * half, 4 * half + 4))))
      sums.forEach((sum, half) => put(sumsStart, 2, half, sum.as('u32')))
      put(minusStart, 1, 0, sums[0]!.add(sums[1]!).neg().as('u32'))
    })
  })
  const rowBlocks = inner / ACTIVATION_BLOCK
  const uniforms = { blocks: n * rowBlocks, rowBlocks, columns, tiles: Math.ceil(n / columns) }
  return { launches: [{ kernel: written, uniforms, grid: [Math.ceil((n * rowBlocks) / BLOCKS), 1, 1] }] }
}

/** The meaning for one column; where more lie is the business of the kernels that read them. */
function define({ x }: Arrays, { n, k }: Quantize8Params): Arrays {
  const words = new Uint32Array(quantizedWords(n, k))
  const [bytes, floats] = [new Int8Array(words.buffer), new Float32Array(words.buffer)]
  const blocks = (n * k) / 32
  for (let b = 0; b < blocks; b++) {
    const values = x!.subarray(32 * b, 32 * b + 32) as Float32Array
    const top = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    const scale = Math.fround(top / 127)
    values.forEach((value, i) => { bytes[32 * b + i] = top > 0 ? roundEven(Math.fround(value * Math.fround(127 / top))) : 0 })
    floats[8 * blocks + b] = scale
    for (const half of [0, 1]) {
      const sum = bytes.subarray(32 * b + 16 * half, 32 * b + 16 * half + 16).reduce((total, q) => total + q, 0)
      floats[9 * blocks + 2 * b + half] = sum * scale
    }
    floats[11 * blocks + b] = -Math.fround(floats[9 * blocks + 2 * b]! + floats[9 * blocks + 2 * b + 1]!)
  }
  return { y: words }
}

function roundEven(value: number): number {
  const near = Math.round(value)
  return Math.abs(near - value) === 0.5 && near % 2 !== 0 ? near - 1 : near
}
