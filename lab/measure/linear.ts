// Linear layers as entries: with packed weights and int8 activations where the device prefers them and the format has such a layout, else
// as the file has them. What is timed is the product alone; quantising its input is an entry of the experiment `small`.

import { tileColumns } from '../../src/kernel/linear/activations.ts'
import { linear } from '../../src/kernel/linear/linear.ts'
import { packedLinear } from '../../src/kernel/linear/packed-linear.ts'
import { packedOf } from '../../src/kernel/linear/repack.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { GGML_TYPES, type GgmlType } from '../../src/quant/type.ts'
import { SHAPES } from '../../src/weights/synth/synth.ts'
import { type Entry, entryOf } from './entry.ts'

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

function linearEntriesOf(format: GgmlType, m: number, k: number, n: number, quick: boolean): Entry[] {
  const facts = { shape: `${m}x${k}${n === 1 ? '' : `, ${n} rows`}`, quick }
  const plain = entryOf(linear, { format, m, k, n, bias: false }, { ...facts, kernel: format })
  if (packedOf(format, k) === undefined) return [plain]
  const packed = entryOf(
    packedLinear,
    { format, m, k, n, columns: 1, added: 'nothing' },
    { ...facts, kernel: `${format} packed` },
    (caps, params) => ({ ...params, columns: tileColumns(caps, n) }),
  )
  return [
    { ...plain, work: (caps) => (caps.dot ? undefined : plain.work(caps)) },
    { ...packed, work: (caps) => (caps.dot ? packed.work(caps) : undefined) },
  ]
}
