// The order of the elements of each row: indices that sort it, upwards or downwards. Stable: equal elements stay in their order, and NaN
// comes last either way.

import type { Caps } from '../../base/caps.ts'
import { checkSizes } from '../move/size.ts'
import { type Arrays, type Form, NONE, family } from '../family.ts'
import { argsortMerge } from './argsort-merge.ts'
import { argsortInsertion, argsortRadix } from './argsort-serial.ts'
import { logits } from './topk.ts'
import { type ArgsortParams, SORT_TYPES, type SortType, sortingOrder } from './sort-key.ts'

export type { ArgsortParams, SortType }

const checked = (form: Form<ArgsortParams>): Form<ArgsortParams> => ({
  ...form,
  work: (caps: Caps, params: ArgsortParams) => {
    checkSizes('argsort', { rows: params.rows, cols: params.cols })
    return form.work(caps, params)
  },
})

const plain = { type: 'f32', rows: 3, cols: 67, descending: false } as const

export const argsort = family<ArgsortParams>({
  name: 'argsort',
  about: 'indices that sort each row, stable, NaN last',
  tolerance: () => 0,
  cases: [
    plain,
    { ...plain, rows: 1, cols: 1 },
    { ...plain, rows: 5, cols: 2, descending: true },
    { ...plain, rows: 300, cols: 7 },
    ...SORT_TYPES.flatMap((type) => [false, true].flatMap((descending) => [33, 193].map((cols) => ({ ...plain, type, cols, descending })))),
    { ...plain, cols: 1024 },
    { ...plain, cols: 1025, descending: true },
    { ...plain, rows: 2, cols: 5003 },
    { ...plain, rows: 1, cols: 9001, type: 'u8' },
  ],
  buffers: ({ type, rows, cols }) => [
    { name: 'x', role: 'in', type, elements: rows * cols },
    { name: 'y', role: 'out', type: 'u32', elements: rows * cols },
  ],
  // with ties, and with what no other number is like
  inputs: ({ type, rows, cols }, random): Arrays => {
    if (type === 'f32' || type === 'f16' || type === 'bf16') return { x: logits(rows * cols, random) }
    const [least, range] = { i32: [-(2 ** 31), 2 ** 32], u32: [0, 2 ** 32], i8: [-128, 256], u8: [0, 256] }[type] as [number, number]
    const anywhere = (): number => least + Math.floor(range * random())
    return { x: Float64Array.from({ length: rows * cols }, () => (random() < 0.3 ? least + range / 2 : anywhere())) }
  },
  forms: [argsortInsertion, argsortRadix, argsortMerge].map(checked),
  cost: ({ rows, cols }) => ({ operations: rows * cols * Math.ceil(Math.log2(cols + 1)), arithmetic: 'f32' }),
  define: ({ x = NONE }, { rows, cols, descending }) => {
    const y = new Uint32Array(rows * cols)
    for (let at = 0; at < y.length; at += cols) y.set(sortingOrder(x.subarray(at, at + cols), descending), at)
    return { y }
  },
})
