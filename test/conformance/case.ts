// What the conformance suite runs: every case of every family, every weight format in the kernels that read weights, and inputs with
// infinities and NaN.

import type { Arrays, Family } from '../../src/kernel/family.ts'
import { FAMILIES } from '../../src/kernel/index.ts'
import { plainReduce } from '../../src/kernel/reduce/reduce.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { EMULATED } from '../emulated.ts'

export interface Case {
  readonly family: Family
  readonly params: object
  /** instead of random numbers */
  readonly given?: Arrays
}

/** All cases that the families name, by family. */
export function familyCases(): ReadonlyMap<string, readonly Case[]> {
  return new Map(FAMILIES.map((family) => [family.name, family.cases.filter(few).map((params) => ({ family, params }))]))
}

/** All of them, or of each family the first and some more. */
function few(_: unknown, at: number): boolean {
  return !EMULATED || at % 5 === 0
}

/** Few rows, which mat-vecs take, and many, which mat-mats do. */
const ROWS = EMULATED ? [1, 5, 32] : [1, 2, 3, 4, 5, 7, 8, 9, 32]

const BIASES = EMULATED ? [true] : [false, true]

/** One weight format everywhere it is read. */
export function formatCases(format: string): readonly Case[] {
  const linear = (n: number, bias: boolean): object => ({ format, m: bias ? 17 : 16, k: 256, n, bias })
  return [
    ...ROWS.flatMap((n) => BIASES.map((bias) => of('linear', linear(n, bias)))),
    // sums that go on along a rank, forwards and backwards
    ...[1, 2, 9].flatMap((n) => BIASES.map((bias) => of('linear', { ...linear(n, bias), rank: 5 }))),
    of('linearTransposed', { format, m: 17, k: 256, n: 9, rank: 5 }),
    of('gather', { format, rows: 3, cols: 512, tableRows: 4 }),
    of('dequantize', { format, elements: 2304 }),
  ]
}

export const FORMAT_NAMES: readonly string[] = FORMATS.map(({ name }) => name)

const INF = Infinity
const NAN = Number.NaN

/** Infinities and NaN: results must be of the same class and sign. */
export function classCases(): readonly Case[] {
  const floats = (...values: number[]): Float32Array => Float32Array.from(values)
  const repeat = (length: number, value: (i: number) => number): Float32Array => Float32Array.from({ length }, (_, i) => value(i))
  const map = (op: string, values: Float32Array): Case =>
    of(
      'map',
      {
        expr: { op, args: [{ input: 0 }] },
        type: 'f32',
        shape: [values.length],
        inputs: [{ type: 'f32', strides: [1] }],
      },
      { in0: values },
    )
  const sparse = (length: number, at: Readonly<Record<number, number>>): Float32Array => repeat(length, (i) => at[i] ?? (i % 7) / 8)
  const f32 = { format: 'f32', m: 5, k: 64, bias: false }
  const norm = { kind: 'rms', rows: 1, cols: 67, eps: 1e-5, weight: false, bias: false }
  return [
    ...['exp', 'silu', 'sigmoid', 'softplus', 'gelu', 'geluErf', 'tanh', 'relu'].map((op) => map(op, floats(-1e30, -200, 0, 50, 1e30))),
    map('exp', floats(-INF, 89, INF)),
    map('log', floats(1, INF)), // what log(0) is, WGSL leaves open
    map('neg', floats(INF, -INF, 1)),
    of('softmax', { rows: 2, cols: 67 }, { x: repeat(134, (i) => (i >= 67 || i % 3 === 0 ? -INF : i / 67)) }),
    of('softmax', { rows: 2, cols: 67, log: true }, { x: repeat(134, (i) => (i >= 67 || i % 3 === 0 ? -INF : i / 67)) }),
    of('softmax', { rows: 1, cols: 193 }, { x: repeat(193, (i) => 1e4 + (i % 5)) }),
    of('reduce', plainReduce('max', [0], [67]), { in0: repeat(67, () => -INF) }),
    of('reduce', plainReduce('min', [1], [2, 67]), { in0: sparse(134, { 3: -INF, 70: INF }) }),
    of('reduce', plainReduce('sum', [1], [2, 67]), { in0: sparse(134, { 66: INF, 67: -INF }) }),
    ...(['max', 'min'] as const).flatMap((kind) => [
      of('reduce', plainReduce(kind, [1], [4, 67]), { in0: sparse(268, { 3: NAN, 70: -INF, 133: -NAN, 134: INF }) }),
      of('reduce', plainReduce(kind, [0], [67, 4]), { in0: sparse(268, { 0: NAN, 1: -INF, 133: INF, 267: NAN }) }),
      of('reduce', plainReduce(kind, [0], [40001]), { in0: sparse(40001, { 39999: NAN }) }),
    ]),
    ...(['argmax', 'argmin'] as const).flatMap((kind) => [
      of('reduce', plainReduce(kind, [1], [4, 67]), { in0: repeat(268, (i) => (i < 67 ? -INF : i < 134 ? NAN : i % 5 < 2 ? NAN : i % 7)) }),
      of('reduce', plainReduce(kind, [0], [67, 4]), { in0: repeat(268, (i) => (i % 4 < 1 ? -INF : i % 4 < 2 ? NAN : i < 9 ? NAN : INF)) }),
      // all but the last are NaN
      of('reduce', plainReduce(kind, [0], [40001]), { in0: repeat(40001, (i) => (i < 40000 ? NAN : kind === 'argmax' ? -INF : INF)) }),
    ]),
    of('norm', norm, { x: repeat(67, (i) => (i - 33) * 1e17) }),
    of('reduce', plainReduce('argmax', [1], [3, 67]), {
      in0: repeat(201, (i) => (i < 67 ? -INF : i === 70 ? NAN : i === 150 || i === 160 ? INF : i % 11)),
    }),
    of(
      'topk',
      { rows: 1, cols: 193, k: 7 },
      { x: repeat(193, (i) => (i % 3 === 0 ? NAN : i === 100 ? INF : i % 5 === 0 ? -INF : i % 13)) },
    ),
    of(
      'map',
      { expr: { input: 0 }, type: 'f32', shape: [4], inputs: [{ type: 'f32', strides: [1] }], to: { strides: [1], size: 4 } },
      { in0: floats(INF, -INF, 3e38, 1), y: floats(0, 0, 0, 0) },
    ),
    of('gather', { format: 'f16', rows: 1, cols: 5, tableRows: 1 }, { table: floats(INF, -INF, 65504, 0, -1), ids: Uint32Array.of(0) }),
    of('cacheWrite', { type: 'f16', rows: 1, heads: 1, headDim: 4, context: 1, slots: 1, pages: 2 }, { x: floats(65504, -65504, 1e-7, 0) }),
    of('linear', { ...f32, n: 1 }, { w: sparse(5 * 64, { 3: INF, 70: -INF }), x: repeat(64, () => 1) }),
    of('linear', { ...f32, n: 9 }, { w: sparse(5 * 64, { 3: INF, 70: -INF }), x: repeat(9 * 64, () => 1) }),
  ]
}

/** All that the suite runs. */
export function allCases(): readonly Case[] {
  return [...[...familyCases().values()].flat(), ...FORMAT_NAMES.flatMap(formatCases), ...classCases()]
}

function of(name: string, params: object, given?: Arrays): Case {
  const family = FAMILIES.find((each) => each.name === name)
  if (family === undefined) throw new Error(`no family ${name}`)
  return given === undefined ? { family, params } : { family, params, given }
}

/** `linear {"format":"q4_k","m":16}` */
export function nameOf({ family, params }: Case): string {
  return `${family.name} ${JSON.stringify(params)}`
}
