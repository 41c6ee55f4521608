// A weight from its file layout into the packed one (quant/packed/packed.ts): one workgroup takes one block of sixteen rows. Runs once, at
// load. Rows past the end repeat the last; their results are never stored.

import { type LaneScope, type Writable, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { FORMATS, formatOf } from '../../quant/index.ts'
import { type Field, PACKED_ROWS, type Packed, type ReadBlock, packedBlock, packedGroupBytes, runOf } from '../../quant/packed/packed.ts'
import { GGML_TYPES, type GgmlType } from '../../quant/type.ts'
import { readerOf } from '../../quant/unaligned.ts'
import { type Work, family, isCpu } from '../family.ts'
import { template } from '../template.ts'

export interface RepackParams {
  readonly format: GgmlType
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

/** Formats that have a packed layout. */
export const PACKED_FORMATS: readonly GgmlType[] = FORMATS.filter(({ packed }) => packed !== undefined).map(({ name }) => name)

export const repack = family<RepackParams>({
  name: 'repack',
  about: 'a weight from its file layout into the one for int8 arithmetic',
  tolerance: () => 0,
  cases: PACKED_FORMATS.flatMap((format) => [
    { format, m: 16, k: 256 },
    { format, m: 35, k: 768 },
  ]),
  buffers: (params) => [
    { name: 'w', role: 'in', type: 'u8', elements: fileBytes(params) },
    { name: 'y', role: 'out', type: 'u32', elements: packedBytes(params) / 4 },
  ],
  // Bits are moved, whatever they mean.
  inputs: (params, random) => ({ w: Uint8Array.from({ length: fileBytes(params) }, () => Math.floor(256 * random())) }),
  forms: [
    {
      name: 'blocks',
      fits: (caps, { format, k }) => isCpu(caps) && packedOf(format, k) !== undefined,
      work,
      kernels: () => PACKED_FORMATS.map((format) => blocks({ format })),
    },
  ],
  cost: () => ({ operations: 0, arithmetic: 'i8' }),
  define: ({ w = new Uint8Array() }, params) => ({ y: new Uint32Array(pack(Uint8Array.from(w), params).buffer) }),
  // Between sixteen rows and the next there may be bytes to fill up a cache line, which nobody writes.
  meaning: ({ y }, params) => ({ y: withoutPadding(Uint32Array.from(y ?? []), params) }),
})

function fileBytes({ format, m, k }: RepackParams): number {
  const { block, bytes } = GGML_TYPES[format]
  return (m * k * bytes) / block
}

function withoutPadding(words: Uint32Array, { format, k }: RepackParams): Uint32Array {
  const packed = packedOf(format, k)
  if (packed === undefined) return words
  const { quantBytes, scaleBytes } = packedBlock(packed)
  const [used, all] = [((k / packed.block) * (quantBytes + scaleBytes)) / 4, packedGroupBytes(packed, k) / 4]
  return words.filter((_, at) => at % all < used)
}

/** The layout in plain terms: in each run of blocks the scales of all, then the quants of all. */
function pack(w: Uint8Array, { format, m, k }: RepackParams): Uint8Array {
  const packed = packedOf(format, k)
  const out = new Uint8Array(packedBytes({ format, m, k }))
  if (packed === undefined) return out
  const blocks = k / packed.block
  const blockBytes = fileBytes({ format, m: 1, k: packed.block })
  let at = 0
  const bytesAt =
    (start: number): ReadBlock<number> =>
    (from, bytes) => {
      let value = 0
      for (let byte = 0; byte < bytes; byte++) value += (w[start + from + byte] ?? 0) * 256 ** byte
      return value
    }
  /** Sixteen rows of every element of a field, side by side. */
  const put = (group: number, block: number, field: Field): void => {
    for (let i = 0; i < field.count; i++) {
      for (let r = 0; r < PACKED_ROWS; r++) {
        const row = Math.min(group * PACKED_ROWS + r, m - 1)
        const value = field.define(bytesAt((row * blocks + block) * blockBytes), i)
        for (let byte = 0; byte < field.bytes; byte++) out[at++] = (value >>> (8 * byte)) & 255
      }
    }
  }
  for (let group = 0; group < Math.ceil(m / PACKED_ROWS); group++) {
    at = group * packedGroupBytes(packed, k)
    for (let begin = 0; begin < blocks; begin += packed.run) {
      const run = Array.from({ length: Math.min(packed.run, blocks - begin) }, (_, i) => begin + i)
      for (const block of run) for (const field of packed.scales) put(group, block, field)
      for (const block of run) for (const field of packed.quants) put(group, block, field)
    }
  }
  return out
}

function work(_caps: unknown, { format, m, k }: RepackParams): Work {
  const packed = packedOf(format, k)
  if (packed === undefined) return { launches: [] }
  const count = k / packed.block
  const uniforms = { m, blocks: count, groupWords: packedGroupBytes(packed, k) / 4 }
  return { launches: [{ kernel: blocks({ format }), uniforms, grid: [count, Math.ceil(m / PACKED_ROWS), 1] }] }
}

const blocks = template<{ readonly format: GgmlType }>({ family: 'repack', form: 'blocks' }, ({ format: name }, kernel) => {
  const { storage, packed } = formatOf(name)
  if (packed === undefined) throw new TypeError(`${name} has no packed layout`)
  const bytes = (packed.block / GGML_TYPES[name].block) * GGML_TYPES[name].bytes // of a row in a block
  const { quantBytes, scaleBytes } = packedBlock(packed)
  const [quantWords, scaleWords] = [quantBytes / 4, scaleBytes / 4]
  const params = {
    w: buffer(storage, 'read'),
    y: buffer('u32', 'write'),
    m: uniform('u32'),
    blocks: uniform('u32'),
    groupWords: uniform('u32'),
  }
  return kernel(`repack_${name}`, { params }, (p, k) => {
    const [group, block] = [k.workgroupId.y, k.workgroupId.x]
    const rows = Array.from({ length: PACKED_ROWS }, (_, r) =>
      k.let('row', group.mul(PACKED_ROWS).add(r).min(p.m.sub(1)).mul(p.blocks).add(block).mul(bytes)),
    )
    const { begin, count } = runOf(k, packed, block.div(packed.run), p.blocks)
    const start = k.let('start', group.mul(p.groupWords).add(begin.mul(quantWords + scaleWords)))
    const inRun = k.let('inRun', block.sub(begin))
    const scales = k.let('scales', start.add(inRun.mul(scaleWords)))
    const quants = k.let('quants', start.add(count.mul(scaleWords)).add(inRun.mul(quantWords)))
    const read = readerOf(storage, p.w)
    putFields(k, packed.scales, read, rows, p.y, scales)
    putFields(k, packed.quants, read, rows, p.y, quants)
  })
})

/** Elements of each field from all rows; `rows` are bytes, `to` is a word. */
function putFields(
  k: LaneScope,
  fields: readonly Field[],
  read: ReadBlock<Value<'u32'>>,
  rows: readonly Value<'u32'>[],
  y: Writable<'u32'>,
  to: Value<'u32'>,
): void {
  let before = 0
  for (const field of fields) {
    const perWord = 4 / field.bytes // rows whose elements share a word
    const words = PACKED_ROWS / perWord
    const first = before
    k.for({ name: 'i', to: field.count }, (i) => {
      for (let word = 0; word < words; word++) {
        const some = rows.slice(word * perWord, (word + 1) * perWord)
        const parts = some.map((row) => field.write(k, (at, bytes) => read(row.add(at), bytes), i))
        const whole = parts.map((part, j) => (j === 0 ? part : part.shl(8 * field.bytes * j))).reduce((a, b) => a.or(b))
        y.set(to.add(first + word).add(i.mul(words)), whole)
      }
    })
    before += words * field.count
  }
}
