// What the operations of `ingot bench --ops` mean, in plain doubles.

import { type OpName, type OpWork, inputValue } from '../../src/bench/op/workload.ts'

/** Element i of input number `which`, as f32. */
const at = (i: number, which = 0): number => Math.fround(inputValue(i, which))
const list = (length: number, value: (i: number) => number): number[] => Array.from({ length }, (_, i) => value(i))
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)
const row = (r: number, columns: number): number[] => list(columns, (c) => at(r * columns + c))

/** [rows, inner] times [inner, columns] */
function product(a: (i: number) => number, b: (i: number) => number, rows: number, inner: number, columns: number): number[] {
  return list(rows * columns, (i) => {
    const [r, c] = [Math.floor(i / columns), i % columns]
    return sum(list(inner, (k) => a(r * inner + k) * b(k * columns + c)))
  })
}

function softmax(values: readonly number[]): number[] {
  const weights = values.map(Math.exp)
  return weights.map((weight) => weight / sum(weights))
}

function normalize(values: readonly number[], centre: boolean): number[] {
  const mean = centre ? sum(values) / values.length : 0
  const centred = values.map((value) => value - mean)
  const deviation = Math.sqrt(sum(centred.map((value) => value * value)) / values.length + 1e-5)
  return centred.map((value) => value / deviation)
}

function cumulate(values: readonly number[]): number[] {
  let total = 0
  return values.map((value) => (total += value))
}

const rows = (count: number, columns: number, f: (values: number[]) => number[]): number[] =>
  list(count, (r) => r).flatMap((r) => f(row(r, columns)))

const DEFINITIONS: Readonly<Record<OpName, (...sizes: number[]) => number[]>> = {
  add: (n) => list(n, (i) => at(i) + at(i, 1)),
  mul: (n) => list(n, (i) => at(i) * at(i, 1)),
  relu: (n) => list(n, (i) => Math.max(0, at(i))),
  matmul: (n) =>
    product(
      (i) => at(i),
      (i) => at(i, 1),
      n,
      n,
      n,
    ),
  softmax: (count, columns) => rows(count, columns, softmax),
  rmsNorm: (count, columns) => rows(count, columns, (values) => normalize(values, false).map((value, i) => value * at(i, 1))),
  layerNorm: (count, columns) => rows(count, columns, (values) => normalize(values, true).map((value, i) => value * at(i, 1) + at(i, 2))),
  sum: (n) => [sum(row(0, n))],
  max: (n) => [Math.max(...row(0, n))],
  sumRows: (count, columns) => rows(count, columns, (values) => [sum(values)]),
  sumColumns: (count, columns) => list(columns, (c) => sum(list(count, (r) => at(r * columns + c)))),
  argmaxRows: (count, columns) => rows(count, columns, (values) => [values.indexOf(Math.max(...values))]),
  lora: (count, side, rank) => {
    const down = product(
      (i) => at(i),
      (i) => at(i, 2),
      count,
      side,
      rank,
    )
    const up = product(
      (i) => down[i] ?? NaN,
      (i) => at(i, 3),
      count,
      rank,
      side,
    )
    return product(
      (i) => at(i),
      (i) => at(i, 1),
      count,
      side,
      side,
    ).map((value, i) => value + 2 * (up[i] ?? NaN))
  },
  rowChain: (n, count) => list(count, (i) => i).reduce((values, i) => (i % 2 === 0 ? softmax(values) : cumulate(values)), row(0, n)),
  mapChain: (n, count) =>
    list(count, (i) => i).reduce((values, i) => values.map((value) => (i % 2 === 0 ? value + 1 : value * 0.5)), row(0, n)),
}

export function defineOperation({ op, sizes }: OpWork): number[] {
  return DEFINITIONS[op](...sizes)
}
