// TensorFlow.js with its WebAssembly backend: SIMD, one thread, since the backend starts no threads in Node (its flag
// WASM_HAS_MULTITHREAD_SUPPORT is false there, and set by force its workers do not start). Operations are done when they return.

import { createRequire } from 'node:module'
import { EPS, LORA_SCALE, SHAPES, inputOf, isRead, versionOf } from './input.js'

// The packages name their ES modules in a way that Node does not know.
const require = createRequire(import.meta.url)
/** @type {import('@tensorflow/tfjs-core')} */
const tf = require('@tensorflow/tfjs-core')
require('@tensorflow/tfjs-backend-wasm')

/** @typedef {import('@tensorflow/tfjs-core').Tensor} Tensor */

export async function open() {
  await tf.setBackend('wasm')
  const simd = await tf.env().getAsync('WASM_HAS_SIMD_SUPPORT')
  return {
    info: { version: versionOf('@tensorflow/tfjs-core'), device: 'wasm', detail: `WebAssembly${simd ? ' SIMD' : ''}, 1 thread` },
    prepare,
  }
}

/** @type {Record<string, (tensors: any[], sizes: number[]) => Tensor>} */
const OPERATIONS = {
  add: ([a, b]) => tf.add(a, b),
  mul: ([a, b]) => tf.mul(a, b),
  relu: ([x]) => tf.relu(x),
  matmul: ([a, b]) => tf.matMul(a, b),
  softmax: ([x]) => tf.softmax(x),
  rmsNorm: ([x, weight]) => tf.mul(tf.mul(x, tf.rsqrt(tf.add(tf.mean(tf.square(x), 1, true), EPS))), weight),
  layerNorm: ([x, weight, bias]) => {
    const centred = tf.sub(x, tf.mean(x, 1, true))
    const deviation = tf.rsqrt(tf.add(tf.mean(tf.square(centred), 1, true), EPS))
    return tf.add(tf.mul(tf.mul(centred, deviation), weight), bias)
  },
  sum: ([x]) => tf.sum(x),
  max: ([x]) => tf.max(x),
  sumRows: ([x]) => tf.sum(x, 1),
  sumColumns: ([x]) => tf.sum(x, 0),
  argmaxRows: ([x]) => tf.argMax(x, 1),
  lora: ([x, w, a, b]) => tf.add(tf.matMul(x, w), tf.mul(tf.matMul(tf.matMul(x, a), b), LORA_SCALE)),
  rowChain: ([x], [, count = 1]) => repeat(x, count, (y, i) => (i % 2 === 0 ? tf.softmax(y) : tf.cumsum(y, 1))),
  mapChain: ([x], [, count = 1]) => repeat(x, count, (y, i) => (i % 2 === 0 ? tf.add(y, 1) : tf.mul(y, 0.5))),
}

/** @param {Tensor} x @param {number} count @param {(y: Tensor, i: number) => Tensor} step */
function repeat(x, count, step) {
  let y = x
  for (let i = 0; i < count; i++) y = step(y, i)
  return y
}

/** @param {import('./server.js').Work} work */
async function prepare({ op, sizes }) {
  const [shapes, operation] = [SHAPES[op], OPERATIONS[op]]
  if (shapes === undefined || operation === undefined) return undefined
  const { inputs, weights = [] } = shapes(...sizes)
  const tensors = [...inputs, ...weights].map((shape, which) => tf.tensor(inputOf(shape, which), shape))
  const compute = () => tf.tidy(() => operation(tensors, sizes))
  const run = () => {
    const y = compute()
    if (isRead(op)) y.dataSync()
    y.dispose()
  }
  const first = compute()
  const values = first.dataSync()
  first.dispose()
  return { ways: { eager: run }, values, dispose: () => tf.dispose(tensors) }
}
