// Documents as rows of one length, several in a row: each begins at position 0, so that they do not see each other.

import { IGNORED } from '../../dist/train/batch.js'
import { Tensor } from '../../dist/tensor/tensor.js'

/** Documents that are packed together: the more, the fuller the rows. */
const POOL = 256

/** @typedef {{ tokens: number[], targets: number[], positions: number[] }} Row */

/**
 * Rows without end, of pools of documents. @param {Iterator<number[]>} documents @param {number} length @param {() => number} random
 * @returns {Generator<Row, never>}
 */
export function* packRows(documents, length, random) {
  for (;;) {
    const rows = packPool(
      Array.from({ length: POOL }, () => documents.next().value),
      length,
    )
    for (let i = rows.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1))
      ;[rows[i], rows[j]] = [rows[j], rows[i]]
    }
    yield* rows
  }
}

/** The longest documents are placed first, each in the fullest row that has room for it. @param {number[][]} documents @param {number} length */
export function packPool(documents, length) {
  const pool = documents.map((ids) => ids.slice(0, length + 1)).sort((a, b) => b.length - a.length)
  /** @type {{ ids: number[][], room: number }[]} */
  const rows = []
  for (const ids of pool) {
    const needed = ids.length - 1
    const best = rows.filter(({ room }) => room >= needed).sort((a, b) => a.room - b.room)[0]
    if (best === undefined) rows.push({ ids: [ids], room: length - needed })
    else {
      best.ids.push(ids)
      best.room -= needed
    }
  }
  return rows.map(({ ids }) => toRow(ids, length))
}

/** @param {number[][]} documents @param {number} length @returns {Row} */
function toRow(documents, length) {
  const fill = (/** @type {number[]} */ list, /** @type {number} */ value) => [...list, ...Array(length - list.length).fill(value)]
  return {
    tokens: fill(
      documents.flatMap((ids) => ids.slice(0, -1)),
      0,
    ),
    targets: fill(
      documents.flatMap((ids) => ids.slice(1)),
      IGNORED,
    ),
    positions: fill(
      documents.flatMap((ids) => ids.slice(1).map((_, at) => at)),
      0,
    ),
  }
}

/** @param {import('../../dist/device/device.js').Device} device @param {Row[]} rows */
export function toBatch(device, rows) {
  return {
    tokens: Tensor.from(
      rows.map(({ tokens }) => tokens),
      { dtype: 'u32', device },
    ),
    targets: Tensor.from(
      rows.map(({ targets }) => targets),
      { dtype: 'i32', device },
    ),
    positions: Tensor.from(
      rows.map(({ positions }) => positions),
      { dtype: 'u32', device },
    ),
  }
}
