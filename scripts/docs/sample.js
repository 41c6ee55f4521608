// How a method is tried for its row of the table (operation.js): the shapes of two tensors, [2, 3] where nothing is said, and what is
// called with them. A method that takes nothing but tensors of that shape, as those of single elements do, needs no line here.

/**
 * @typedef {object} Sample
 * @property {number[]} [x]
 * @property {number[]} [y] default: that of x
 * @property {(x: any, y: any, more: { ids: (...shape: number[]) => any, Tensor: any }) => unknown} [call]
 */

const WINDOWS = { kernel: [2, 2], strides: [1, 1], dilations: [1, 1], padding: [[0, 0], [0, 0]], out: [5, 5] } // prettier-ignore
const ROPE = { style: 'half', heads: 2, dims: 4, magnitude: 1 }
/** Where rows lie in a cache. @param {(...shape: number[]) => any} ids */
const places = (ids) => ({ positions: ids(1), slots: ids(1), table: ids(1).reshape(1, 1) })
const ATTENTION = { heads: 2, scale: 1, window: 0, softcap: 0, apart: true }
const image = [1, 2, 6, 6]
const cell = (/** @type {any} */ y, /** @type {number} */ gates) => ({ weight: y.tile(gates, 1), recurrentWeight: y.tile(gates, 1) })

/** @type {Record<string, Sample>} */
export const SAMPLES = {
  expression: { call: (x, y) => x.expression({ op: 'add', args: [{ input: 0 }, { input: 1 }] }, [x, y], x.dtype) },
  to: { call: (x) => x.to(x.dtype === 'f16' ? 'f32' : 'f16') },
  where: { call: (x, y, { ids }) => ids(2, 3).where(x, y) },
  clamp: { call: (x) => x.clamp(0, 1) },
  shiftLeft: { call: (x) => x.shiftLeft(1) },
  shiftRight: { call: (x) => x.shiftRight(1) },

  reshape: { call: (x) => x.reshape(6) },
  unsqueeze: { call: (x) => x.unsqueeze(0) },
  squeeze: { x: [1, 3], call: (x) => x.squeeze(0) },
  permute: { call: (x) => x.permute(1, 0) },
  expand: { call: (x) => x.expand(4, 2, 3) },
  slice: { call: (x) => x.slice([0, 1]) },
  cut: { call: (x) => x.cut([0, 0], [1, 2], [1, 1]) },
  place: { call: (x) => x.place([4, 6], [0, 0], [1, 1]) },
  at: { call: (x) => x.at(0) },
  narrow: { call: (x) => x.narrow(1, 0, 2) },
  split: { call: (x) => x.split(2) },
  concat: { call: (x, y) => x.concat([y]) },
  pad: { call: (x) => x.pad([[1, 1], [0, 0]]) }, // prettier-ignore
  tile: { call: (x) => x.tile(2, 1) },
  roll: { call: (x) => x.roll(1) },
  indices: { call: (x) => x.indices([2, 3], 0) },
  sumTo: { call: (x) => x.sumTo([3]) },

  gather: { call: (x, _, { ids }) => x.gather(ids(4)) },
  gatherElements: { call: (x, _, { ids }) => x.gatherElements(ids(2, 3)) },
  gatherNd: { call: (x, _, { ids }) => x.gatherNd(ids(4, 2)) },
  scatter: { call: (x, y, { ids }) => x.scatter(ids(2, 3), y) },
  scatterAdd: { call: (x, y, { ids }) => x.scatterAdd(ids(2, 3), y) },
  scatterRows: { call: (x, y, { ids }) => x.scatterRows(ids(2), y, 0, 'set') },
  scatterNd: { call: (x, y, { ids }) => x.scatterNd(ids(2, 1), y) },
  oneHot: { call: (x) => x.oneHot(4) },
  topK: { call: (x) => x.topK(2) },

  matmul: { y: [3, 2], call: (x, y) => x.matmul(y) },
  dot: { x: [3], call: (x, y) => x.dot(y) },
  linear: { call: (x, y) => x.linear(y) },
  linearTransposed: { y: [2, 4], call: (x, y) => x.transpose().linearTransposed(y) },
  lora: { call: (x, y) => x.lora(y, y, y.slice(null, [0, 2])) },
  embedding: { call: (x, _, { ids }) => x.embedding(ids(4)) },
  einsum: { call: (x, y) => x.einsum('ij,kj->ik', y) },

  unfold: { x: image, call: (x) => x.unfold(WINDOWS) },
  fold: { x: [1, 2, 2, 2, 5, 5], call: (x) => x.fold([6, 6], WINDOWS) },
  pool: { x: image, call: (x) => x.pool('max', WINDOWS) },
  conv1d: { x: [1, 2, 6], y: [3, 2, 3], call: (x, y) => x.conv1d(y) },
  conv2d: { x: image, y: [3, 2, 3, 3], call: (x, y) => x.conv2d(y) },
  convTranspose1d: { x: [1, 2, 6], y: [2, 3, 3], call: (x, y) => x.convTranspose1d(y) },
  convTranspose2d: { x: image, y: [2, 3, 3, 3], call: (x, y) => x.convTranspose2d(y) },
  maxPool2d: { x: image, call: (x) => x.maxPool2d(2) },
  averagePool2d: { x: image, call: (x) => x.averagePool2d(2) },
  l2Pool2d: { x: image, call: (x) => x.l2Pool2d(2) },
  resize: { x: image, call: (x) => x.resize([12, 12], { mode: 'linear' }) },

  standardize: { call: (x) => x.standardize(-1) },
  batchNorm: { y: [3], call: (x, y) => x.batchNorm(y, y) },
  instanceNorm: { x: image },
  groupNorm: { x: image, call: (x) => x.groupNorm(2) },
  scaledDotProductAttention: { x: [1, 2, 4, 8], call: (x, y) => x.scaledDotProductAttention(y, y) },
  crossEntropy: { call: (x, _, { ids }) => x.crossEntropy(ids(2)) },
  gruCell: { x: [3, 3], call: (x, y) => x.gruCell(x, cell(y, 3)) },
  lstmCell: { x: [3, 3], call: (x, y) => x.lstmCell(x, x, cell(y, 4)) },
  rope: { x: [2, 8], y: [2], call: (x, y, { ids }) => x.rope(ids(2), y, ROPE) },
  cacheWrite: { x: [2, 64, 4], y: [1, 8], call: (x, y, { ids }) => x.cacheWrite(y, places(ids)) },
  cachedAttention: { x: [1, 8], y: [2, 64, 4], call: (x, y, { ids }) => x.cachedAttention(y, y, places(ids), ATTENTION) },
  candidates: { x: [1, 8], call: (x) => x.candidates(4) },
  draw: { x: [8], call: (x, _, { ids }) => x.draw(ids(7), ids(1)) },
}
