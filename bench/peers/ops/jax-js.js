// jax-js on its WebAssembly backend; one thread, since it starts workers only where there are Web Workers. An operation takes its operands
// over: `.ref` keeps one. Arrays are ready when `blockUntilReady` resolves.

import { blockUntilReady, defaultDevice, init, jit, nn, numpy as np } from '@jax-js/jax'
import { EPS, LORA_SCALE, SHAPES, inputOf, isRead, versionOf } from './input.js'

export async function open() {
  // Asked for by name: looking for a GPU, it trips over what Node 20 does not have.
  await init('wasm')
  defaultDevice('wasm')
  return { info: { version: versionOf('@jax-js/jax'), device: 'wasm', detail: 'WebAssembly SIMD, 1 thread' }, prepare }
}

/** @typedef {import('@jax-js/jax').Array} Tensor */

/** @type {Record<string, (tensors: Tensor[], sizes: number[]) => Tensor>} */
const OPERATIONS = {
  add: ([a, b]) => np.add(a, b),
  mul: ([a, b]) => np.multiply(a, b),
  relu: ([x]) => nn.relu(x),
  matmul: ([a, b]) => np.matmul(a, b),
  softmax: ([x]) => nn.softmax(x, -1),
  rmsNorm: ([x, weight]) => {
    const mean = np.mean(np.square(x.ref), 1, { keepdims: true })
    return x.mul(np.reciprocal(np.sqrt(mean.add(EPS)))).mul(weight)
  },
  layerNorm: ([x, weight, bias]) => {
    const centred = x.ref.sub(np.mean(x, 1, { keepdims: true }))
    const variance = np.mean(np.square(centred.ref), 1, { keepdims: true })
    return centred
      .mul(np.reciprocal(np.sqrt(variance.add(EPS))))
      .mul(weight)
      .add(bias)
  },
  sum: ([x]) => np.sum(x),
  max: ([x]) => np.max(x),
  sumRows: ([x]) => np.sum(x, 1),
  sumColumns: ([x]) => np.sum(x, 0),
  argmaxRows: ([x]) => np.argmax(x, 1),
  lora: ([x, w, a, b]) => np.matmul(x.ref, w).add(np.matmul(np.matmul(x, a), b).mul(LORA_SCALE)),
  rowChain: ([x], [, count = 1]) => repeat(x, count, (y, i) => (i % 2 === 0 ? nn.softmax(y, -1) : np.cumsum(y, 1))),
  mapChain: ([x], [, count = 1]) => repeat(x, count, (y, i) => (i % 2 === 0 ? y.add(1) : y.mul(0.5))),
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
  const tensors = [...inputs, ...weights].map((shape, which) => np.array(inputOf(shape, which)).reshape(shape))
  const refs = () => tensors.map((tensor) => tensor.ref)
  const planned = jit((/** @type {Tensor[]} */ ...given) => operation(given, sizes))
  const finish = async (/** @type {Tensor} */ y) => {
    if (isRead(op)) return void (await y.data()) // which takes it over
    await blockUntilReady(y)
    y.dispose()
  }
  const values = await operation(refs(), sizes).data()
  return {
    ways: { eager: () => finish(operation(refs(), sizes)), compiled: () => finish(planned(...refs())) },
    values,
    dispose: () => tensors.forEach((tensor) => tensor.dispose()),
  }
}
