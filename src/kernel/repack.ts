// A weight from its file layout into the packed one (quant/packed.ts): one workgroup takes one block of sixteen rows. Runs once, at
// load. Rows past the end repeat the last; their results are never stored.

import { buffer, kernel, uniform } from '../ir/author.ts'
import { formatOf } from '../quant/index.ts'
import { PACKED_ROWS, type Packed, packedGroupBytes, runOf } from '../quant/packed.ts'
import { GGML_TYPES, type GgmlType } from '../quant/type.ts'
import type { Work } from './record.ts'

export interface RepackParams {
  readonly format: string
  readonly m: number
  readonly k: number
}

/** The packed form of a format, if rows of this length can have it. */
export function packedOf(format: string, inner: number): Packed | undefined {
  const { packed } = formatOf(format)
  return packed !== undefined && inner % packed.block === 0 ? packed : undefined
}

/** Bytes of a packed weight of m rows. */
export function packedBytes({ format, m, k }: RepackParams): number {
  const packed = packedOf(format, k)
  return packed === undefined ? 0 : Math.ceil(m / PACKED_ROWS) * packedGroupBytes(packed, k)
}

/** Reads `w` (file layout) and writes `y`. */
export function repack({ format: name, m, k: inner }: RepackParams): Work {
  const format = formatOf(name)
  const packed = format.packed as Packed
  const [quantWords, scaleWords] = [packed.quantBytes / 4, packed.scaleBytes / 4]
  const written = kernel(
    `repack_${name}`,
    {
      params: {
        w: buffer(format.storage, 'read'),
        y: buffer('u32', 'write'),
        m: uniform('u32'),
        blocks: uniform('u32'),
        fileBlocks: uniform('u32'),
        groupWords: uniform('u32'),
      },
      variant: '',
    },
    (p, k) => {
      const [group, block] = [k.workgroupId.y, k.workgroupId.x]
      const rows = Array.from({ length: PACKED_ROWS }, (_, r) =>
        k.let('row', group.mul(PACKED_ROWS).add(r).min(p.m.sub(1)).mul(p.fileBlocks).add(block)),
      )
      const { begin, count } = runOf(k, packed, block.div(packed.run), p.blocks)
      const start = k.let('start', group.mul(p.groupWords).add(begin.mul(quantWords + scaleWords)))
      const inRun = k.let('inRun', block.sub(begin))
      const scales = k.let('scales', start.add(inRun.mul(scaleWords)))
      const quants = k.let('quants', start.add(count.mul(scaleWords)).add(inRun.mul(quantWords)))
      packed.pack(k, p.w, rows, {
        quant: (word, row, value) => p.y.set(quants.add(word.mul(PACKED_ROWS)).add(row), value),
        scale: (at, plus, value) => p.y.set(scales.add(at).add(plus), value),
      })
    },
  )
  const blocks = inner / packed.block
  const uniforms = { m, blocks, fileBlocks: inner / GGML_TYPES[name as GgmlType].block, groupWords: packedGroupBytes(packed, inner) / 4 }
  return { launches: [{ kernel: written, uniforms, grid: [blocks, Math.ceil(m / PACKED_ROWS), 1] }] }
}
