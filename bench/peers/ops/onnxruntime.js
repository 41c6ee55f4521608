// ONNX Runtime, natively or as WebAssembly: an operation is a model of one or a few nodes, with weights as constants. Results come back to
// JavaScript, as its API has it; natively also into memory that is given, whichever is faster.

import { FLOAT, INT64, modelBytes } from './onnx.js'
import { EPS, LORA_SCALE, SHAPES, inputOf } from './input.js'

/**
 * @typedef {import('./onnx.js').Node} Node
 * @typedef {{ nodes: Node[], shape: number[], type?: number, integers?: Record<string, number[]> }} Written
 */

/** A node between values of these names. @returns {Node} */
const node = (
  /** @type {string} */ type,
  /** @type {string[]} */ inputs,
  /** @type {string} */ output = 'y',
  /** @type {Record<string, number | number[]>} */ attributes = {},
) => ({ type, inputs, outputs: [output], attributes })

const AXES = ['axes'] // an integer constant of this name

/** Inputs are x0, x1, ..., weights after them. @type {Record<string, (...sizes: number[]) => Written>} */
const OPERATIONS = {
  add: (n) => ({ nodes: [node('Add', ['x0', 'x1'])], shape: [n] }),
  mul: (n) => ({ nodes: [node('Mul', ['x0', 'x1'])], shape: [n] }),
  relu: (n) => ({ nodes: [node('Relu', ['x0'])], shape: [n] }),
  matmul: (n) => ({ nodes: [node('MatMul', ['x0', 'x1'])], shape: [n, n] }),
  softmax: (...shape) => ({ nodes: [node('Softmax', ['x0'], 'y', { axis: -1 })], shape }),
  // ONNX Runtime's own operation, which it also fuses the longer form into
  rmsNorm: (...shape) => ({ nodes: [node('SimplifiedLayerNormalization', ['x0', 'x1'], 'y', { axis: -1, epsilon: EPS })], shape }),
  layerNorm: (...shape) => ({ nodes: [node('LayerNormalization', ['x0', 'x1', 'x2'], 'y', { axis: -1, epsilon: EPS })], shape }),
  sum: () => ({ nodes: [node('ReduceSum', ['x0'], 'y', { keepdims: 0 })], shape: [] }),
  max: () => ({ nodes: [node('ReduceMax', ['x0'], 'y', { keepdims: 0 })], shape: [] }),
  sumRows: (rows) => ({ nodes: [node('ReduceSum', ['x0', ...AXES], 'y', { keepdims: 0 })], shape: [rows], integers: { axes: [1] } }),
  sumColumns: (_, cols) => ({ nodes: [node('ReduceSum', ['x0', ...AXES], 'y', { keepdims: 0 })], shape: [cols], integers: { axes: [0] } }),
  argmaxRows: (rows) => ({ nodes: [node('ArgMax', ['x0'], 'y', { axis: 1, keepdims: 0 })], shape: [rows], type: INT64 }),
  lora: (rows, side) => ({
    nodes: [
      node('MatMul', ['x0', 'x1'], 'base'),
      node('MatMul', ['x0', 'x2'], 'down'),
      node('MatMul', ['down', 'x3'], 'up'),
      node('Mul', ['up', 'scale'], 'scaled'),
      node('Add', ['base', 'scaled']),
    ],
    shape: [rows, side],
  }),
  rowChain: (elements, count) => ({
    nodes: chain(count, (from, to, i) => (i % 2 === 0 ? node('Softmax', [from], to, { axis: -1 }) : node('CumSum', [from, ...AXES], to))),
    shape: [1, elements],
    integers: { axes: [1] },
  }),
  mapChain: (elements, count) => ({
    nodes: chain(count, (from, to, i) => (i % 2 === 0 ? node('Add', [from, 'one'], to) : node('Mul', [from, 'half'], to))),
    shape: [elements],
  }),
}
/** Numbers that nodes may name. */
const NUMBERS = { scale: LORA_SCALE, one: 1, half: 0.5 }

/** @param {number} count @param {(from: string, to: string, i: number) => Node} step */
function chain(count, step) {
  return Array.from({ length: count }, (_, i) => step(i === 0 ? 'x0' : `y${i - 1}`, i === count - 1 ? 'y' : `y${i}`, i))
}

/**
 * @param {any} ort
 * @param {{ options: object, into: boolean }} how  `into`: results can be written to memory that is given
 */
export function preparer(ort, { options, into }) {
  return async (/** @type {import('./server.js').Work} */ { op, sizes }) => {
    const [shapes, write] = [SHAPES[op], OPERATIONS[op]]
    if (shapes === undefined || write === undefined) return undefined
    const { inputs, weights = [] } = shapes(...sizes)
    const { nodes, shape, type = FLOAT, integers = {} } = write(...sizes)
    const used = new Set(nodes.flatMap((each) => each.inputs))
    const constants = [
      ...weights.map((size, i) => ({ name: `x${inputs.length + i}`, shape: size, data: inputOf(size, inputs.length + i) })),
      ...Object.entries(NUMBERS)
        .filter(([name]) => used.has(name))
        .map(([name, value]) => ({ name, shape: [], data: Float32Array.of(value) })),
      ...Object.entries(integers).map(([name, list]) => ({ name, shape: [list.length], data: BigInt64Array.from(list.map(BigInt)) })),
    ]
    const values = inputs.map((size, i) => ({ name: `x${i}`, shape: size }))
    const bytes = modelBytes({ nodes, inputs: values, outputs: [{ name: 'y', shape, type }], constants })
    const session = await ort.InferenceSession.create(bytes, options)
    const feeds = Object.fromEntries(inputs.map((size, i) => [`x${i}`, new ort.Tensor('float32', inputOf(size, i), size)]))
    const first = (await session.run(feeds)).y
    const fetches = { y: new ort.Tensor(first.type, first.data.slice(), shape) }
    return {
      ways: {
        compiled: async () => void (await session.run(feeds)),
        ...(into ? { 'compiled, into': async () => void (await session.run(feeds, fetches)) } : {}),
      },
      values: first.data,
      dispose: () => void session.release(),
    }
  }
}
