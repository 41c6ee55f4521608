// The bytes of ONNX models that bench/peers makes, read back by the rules of protocol buffers: no runtime is needed to know them right.

import { expect, test } from 'vitest'

interface Onnx {
  readonly INT64: number
  modelBytes(graph: object): Uint8Array
}
const { INT64, modelBytes } = (await import(new URL('../../bench/peers/ops/onnx.js', import.meta.url).href)) as Onnx

/** Fields of a message, by number: numbers, or bytes. */
function fieldsOf(bytes: Uint8Array): Map<number, (number | Uint8Array)[]> {
  const fields = new Map<number, (number | Uint8Array)[]>()
  let at = 0
  const varint = (): number => {
    let [value, shift, byte] = [0n, 0n, 0]
    do {
      byte = bytes[at++] ?? 0
      value |= BigInt(byte & 127) << shift
      shift += 7n
    } while (byte > 127)
    return Number(BigInt.asIntN(64, value))
  }
  const take = (length: number): Uint8Array => bytes.subarray(at, (at += length))
  while (at < bytes.length) {
    const key = varint()
    const [field, kind] = [key >> 3, key & 7]
    const value = kind === 0 ? varint() : kind === 5 ? new DataView(take(4).slice().buffer).getFloat32(0, true) : take(varint())
    fields.set(field, [...(fields.get(field) ?? []), value])
  }
  return fields
}

/** What lies at a path of fields, the first of each, but for the last. */
function find(bytes: Uint8Array, ...path: number[]): (number | string)[] {
  const [field = 0, ...rest] = path
  const values = fieldsOf(bytes).get(field) ?? []
  if (rest.length > 0) return values.flatMap((value) => (typeof value === 'number' ? [] : find(value, ...rest)))
  return values.map((value) => (typeof value === 'number' ? value : new TextDecoder().decode(value)))
}

const GRAPH = 7
const NODE = 1

test('a model has its nodes, values and constants', () => {
  const bytes = modelBytes({
    nodes: [
      { type: 'ReduceSum', inputs: ['x', 'axes'], outputs: ['s'], attributes: { keepdims: 0 } },
      { type: 'Norm', inputs: ['s'], outputs: ['y'], attributes: { axis: -1, epsilon: 0.5, list: [1, 300] } },
    ],
    inputs: [{ name: 'x', shape: [2, 1000] }],
    outputs: [{ name: 'y', shape: [2], type: INT64 }],
    constants: [{ name: 'axes', shape: [1], data: BigInt64Array.of(1n) }],
  })
  expect(find(bytes, 8, 2)).toEqual([18]) // the version of operations
  expect(find(bytes, GRAPH, NODE, 4)).toEqual(['ReduceSum', 'Norm'])
  expect(find(bytes, GRAPH, NODE, 1)).toEqual(['x', 'axes', 's'])
  expect(find(bytes, GRAPH, NODE, 2)).toEqual(['s', 'y'])
  expect(find(bytes, GRAPH, NODE, 5, 1)).toEqual(['keepdims', 'axis', 'epsilon', 'list'])
  expect(find(bytes, GRAPH, NODE, 5, 3)).toEqual([0, -1])
  expect(find(bytes, GRAPH, NODE, 5, 2)).toEqual([0.5])
  expect(find(bytes, GRAPH, NODE, 5, 8)).toEqual([1, 300])
  expect(find(bytes, GRAPH, 11, 1)).toEqual(['x'])
  expect(find(bytes, GRAPH, 11, 2, 1, 2, 1, 1)).toEqual([2, 1000])
  expect(find(bytes, GRAPH, 12, 2, 1, 1)).toEqual([INT64])
  expect(find(bytes, GRAPH, 5, 8)).toEqual(['axes'])
  expect(find(bytes, GRAPH, 5, 9)).toEqual(['\u0001\0\0\0\0\0\0\0'])
})
