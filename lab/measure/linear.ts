// Linear layers as entries: with packed weights and int8 activations where the device prefers them and the format has such a layout, else
// as the file has them. What is timed is the product alone; quantising its input is an entry of the experiment `small`.

import { matmul } from '../../src/kernel/matmul.ts'
import { MATVEC_ROWS, matvec } from '../../src/kernel/matvec.ts'
import { packedLinear } from '../../src/kernel/packed-linear.ts'
import { quantizedWords } from '../../src/kernel/quantize8.ts'
import { packedBytes, packedOf } from '../../src/kernel/repack.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { GGML_TYPES } from '../../src/quant/type.ts'
import { SHAPES } from '../../src/weights/synth.ts'
import { type Entry, bytesOf, entryOf } from './entry.ts'

const QUICK_FORMATS = ['q4_0', 'q8_0', 'q4_k', 'q6_k', 'f16']

/** [rows, columns] of a model's weights, each size once; the embedding is the last. */
export function weightSizes(model: '1b' | '160m'): (readonly [m: number, k: number])[] {
  const { width, heads, kvHeads, hidden, vocabulary } = SHAPES[model]!
  const all = [
    [width, width],
    [(width / heads) * kvHeads, width],
    [hidden, width],
    [width, hidden],
    [vocabulary, width],
  ] as const
  return [...new Map(all.map((size) => [size.join('x'), size])).values()]
}

/** Every format that kernels read, times these sizes and numbers of rows. */
export function linearEntries(
  sizes: readonly (readonly [number, number])[],
  rows: readonly number[],
  isQuick: (m: number, k: number, n: number) => boolean,
): Entry[] {
  return sizes.flatMap(([m, k]) =>
    rows.flatMap((n) =>
      FORMATS.flatMap(({ name: format }) =>
        k % GGML_TYPES[format].block === 0 ? linearEntriesOf(format, m, k, n, QUICK_FORMATS.includes(format) && isQuick(m, k, n)) : [],
      ),
    ),
  )
}

function linearEntriesOf(format: string, m: number, k: number, n: number, quick: boolean): Entry[] {
  const params = { format, m, k, n, bias: false }
  const facts = { shape: `${m}x${k}${n === 1 ? '' : `, ${n} rows`}`, operations: 2 * m * k * n, cold: ['w'], quick }
  const packed = packedOf(format, k)
  const record = n > MATVEC_ROWS ? matmul : matvec
  const plain: Entry = {
    ...entryOf(record, params, { ...facts, kernel: format }),
    work: (caps) => (caps.dot && packed !== undefined ? undefined : record.work(caps, params)),
  }
  if (packed === undefined) return [plain]
  const buffers = [
    { name: 'x', role: 'in', type: 'u32', elements: quantizedWords(n, k, packed.scaled) },
    { name: 'w', role: 'in', type: 'u32', elements: packedBytes(params) / 4 },
    { name: 'y', role: 'out', type: 'f32', elements: n * m },
  ] as const
  return [
    plain,
    {
      ...facts,
      buffers,
      kernel: `${format} packed`,
      arithmetic: 'i8',
      bytes: buffers.reduce((sum, shape) => sum + bytesOf(shape), 0),
      aliases: { floats: 'x', bytes: 'w', halves: 'w' },
      work: (caps) => (caps.dot ? packedLinear(caps, params) : undefined),
    },
  ]
}
