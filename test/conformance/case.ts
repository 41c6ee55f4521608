// What the conformance suite runs: every case of every record, every weight format in the kernels that read weights, and inputs
// with infinities and NaN. Each comes with its inputs, as a device gets them and as the definition does. The same on every run.

import { HALVES } from '../../src/ir/interpret/half-table.ts'
import { encodeHalf } from '../../src/ir/interpret/half.ts'
import { KERNELS, type KernelName, kernelRecords } from '../../src/kernel/index.ts'
import type { Arrays, BufferShape, KernelRecord, NumberArray } from '../../src/kernel/record.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { encodeBlocks } from '../kernel/block.ts'
import { randomFrom } from '../kernel/interpret-case.ts'

export interface Case {
  readonly record: KernelRecord
  readonly params: object
  /** instead of random numbers */
  readonly given?: Arrays
}

/** Values of the inputs: bytes of a quantised weight are numbers to the definition. */
export interface Inputs {
  readonly device: Arrays
  readonly oracle: Arrays
}

/** All cases that the records name, by record. */
export function recordCases(): ReadonlyMap<string, readonly Case[]> {
  return new Map(kernelRecords().map((record) => [record.name, record.cases.map((params) => ({ record, params }))]))
}

/** Few rows, which mat-vec takes, and many, which mat-mat does. */
const FEW = [1, 2, 3, 4, 5, 6, 7, 8] as const
const MANY = [9, 32] as const

/** One weight format everywhere it is read. */
export function formatCases(format: string): readonly Case[] {
  const linear = (n: number): object => ({ format, m: 16, k: 256, n, bias: false })
  return [
    ...FEW.map((n) => of('matvec', linear(n))),
    ...MANY.map((n) => of('matmul', linear(n))),
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
    of('softmax', { rows: 1, cols: 193 }, { x: repeat(193, (i) => 1e4 + (i % 5)) }),
    of('reduce', { kind: 'max', axes: [0], shape: [67] }, { x: repeat(67, () => -INF) }),
    of('reduce', { kind: 'min', axes: [1], shape: [2, 67] }, { x: sparse(134, { 3: -INF, 70: INF }) }),
    of('reduce', { kind: 'sum', axes: [1], shape: [2, 67] }, { x: sparse(134, { 66: INF, 67: -INF }) }),
    of('norm', norm, { x: repeat(67, (i) => (i - 33) * 1e17) }),
    of(
      'argmax',
      { rows: 3, cols: 67 },
      { x: repeat(201, (i) => (i < 67 ? -INF : i === 70 ? NAN : i === 150 || i === 160 ? INF : i % 11)) },
    ),
    of('topk', { cols: 193, k: 7 }, { x: repeat(193, (i) => (i % 3 === 0 ? NAN : i === 100 ? INF : i % 5 === 0 ? -INF : i % 13)) }),
    of(
      'copy',
      { type: 'f32', shape: [4], from: { offset: 0, strides: [1], size: 4 }, to: { offset: 0, strides: [1], size: 4 } },
      {
        x: floats(INF, -INF, 3e38, 1),
        y: floats(0, 0, 0, 0),
      },
    ),
    of('gather', { format: 'f16', rows: 1, cols: 5, tableRows: 1 }, { table: floats(INF, -INF, 65504, 0, -1), ids: Uint32Array.of(0) }),
    of('cacheWrite', { type: 'f16', rows: 1, heads: 1, headDim: 4, capacity: 1 }, { x: floats(65504, -65504, 1e-7, 0) }),
    of('matvec', { ...f32, n: 1 }, { w: sparse(5 * 64, { 3: INF, 70: -INF }), x: repeat(64, () => 1) }),
    of('matmul', { ...f32, n: 9 }, { w: sparse(5 * 64, { 3: INF, 70: -INF }), x: repeat(9 * 64, () => 1) }),
  ]
}

function of(name: KernelName, params: object, given?: Arrays): Case {
  const record = KERNELS[name] as unknown as KernelRecord
  return given === undefined ? { record, params } : { record, params, given }
}

/** `matvec {"format":"q4_k","m":16}` */
export function nameOf({ record, params }: Case): string {
  return `${record.name} ${JSON.stringify(params)}`
}

/** Random numbers in [-1, 1), what the record says, or what the case gives. */
export function inputsOf({ record, params, given = {} }: Case): Inputs {
  const random = randomFrom(11)
  const chosen = { ...record.inputs?.(params, random), ...given }
  const device: Record<string, NumberArray> = {}
  const oracle: Record<string, NumberArray> = {}
  for (const shape of record.buffers(params)) {
    if (shape.role === 'out') continue
    const { name } = shape
    ;({ device: device[name]!, oracle: oracle[name]! } = oneInput(shape, chosen[name], random))
  }
  return { device, oracle }
}

function oneInput(shape: BufferShape, chosen: NumberArray | undefined, random: () => number): { device: NumberArray; oracle: NumberArray } {
  const { type, elements } = shape
  const encoded = encodeBlocks(shape, random)
  if (encoded !== undefined) return { device: encoded.bytes, oracle: encoded.values }
  if (type === 'u32' || type === 'i32') {
    const values = chosen ?? Uint32Array.from({ length: elements }, () => Math.floor(random() * 2 ** 32))
    return { device: values, oracle: values }
  }
  const plain = chosen ?? Float32Array.from({ length: elements }, () => 2 * random() - 1)
  if (type === 'f32') return { device: plain, oracle: plain }
  if (type === 'f16') {
    const rounded = Float32Array.from(plain, (value) => HALVES[encodeHalf(value)] as number)
    return { device: rounded, oracle: rounded }
  }
  // bf16: the upper halves of f32
  const words = new Uint32Array(Float32Array.from(plain).buffer)
  return {
    device: new Uint8Array(Uint16Array.from(words, (bits) => bits >>> 16).buffer),
    oracle: new Float32Array(words.map((bits) => bits & 0xffff0000).buffer),
  }
}
