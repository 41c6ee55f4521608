// What operations are given: the same numbers that Ingot gets (src/bench/op/workload.ts), and the shapes that they come in
// (src/bench/op/ingot-operation.ts).

import { readFileSync } from 'node:fs'

/** Elements of input number `which`. @param {readonly number[]} shape @param {number} which */
export function inputOf(shape, which) {
  const length = shape.reduce((a, b) => a * b, 1)
  return Float32Array.from({ length }, (_, i) => ((i * 7919 + which * 104_729) % 10_007) / 5003 - 0.75)
}

/**
 * Shapes of what changes from call to call, and of weights.
 * @type {Record<string, (...sizes: number[]) => { inputs: number[][], weights?: number[][] }>}
 */
export const SHAPES = {
  add: (n) => ({ inputs: [[n], [n]] }),
  mul: (n) => ({ inputs: [[n], [n]] }),
  relu: (n) => ({ inputs: [[n]] }),
  matmul: (n) => ({
    inputs: [
      [n, n],
      [n, n],
    ],
  }),
  softmax: (...shape) => ({ inputs: [shape] }),
  rmsNorm: (rows, cols) => ({ inputs: [[rows, cols]], weights: [[cols]] }),
  layerNorm: (rows, cols) => ({ inputs: [[rows, cols]], weights: [[cols], [cols]] }),
  sum: (n) => ({ inputs: [[n]] }),
  max: (n) => ({ inputs: [[n]] }),
  sumRows: (...shape) => ({ inputs: [shape] }),
  sumColumns: (...shape) => ({ inputs: [shape] }),
  argmaxRows: (...shape) => ({ inputs: [shape] }),
  lora: (rows, side, rank) => ({
    inputs: [[rows, side]],
    weights: [
      [side, side],
      [side, rank],
      [rank, side],
    ],
  }),
  rowChain: (elements) => ({ inputs: [[1, elements]] }),
  mapChain: (elements) => ({ inputs: [[elements]] }),
}

export const LORA_SCALE = 2
export const EPS = 1e-5

/** Whether the program wants the numbers of a result. @param {string} op */
export const isRead = (op) => op.endsWith('Chain')

/** @param {string} name */
export function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url), 'utf8')).version
}
