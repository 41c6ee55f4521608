// How a product is cut into blocks for the threads of a CPU: few enough that little is packed twice, and as many as keep all threads busy.

import type { Caps } from '../../base/caps.ts'
import type { TileShape } from './micro-kernel.ts'

export interface ProductSize {
  readonly m: number
  readonly n: number
  readonly k: number
  readonly batch: number
  /** that are packed at a time; rows are packed again for the next ones */
  readonly columns: number
  /** numbers of b are decoded */
  readonly decoded: boolean
}

// What things take, counted in multiplications of a register.
const PACK = 1
const DECODE = 8
const START_BLOCK = 1000
const TAKE_BLOCK = 500
/** Threads do not run alike: the last block is waited for, on average this share of it. */
const WAIT = 0.1
/** Blocks of a thread, at most, along each axis. */
const MOST_EACH = 4

/** [parts of the rows, parts of the columns, batch] */
export function splitBlocks({ parallel }: Caps, { width, rows, vectors }: TileShape, size: ProductSize): [number, number, number] {
  const { m, n, k, batch, columns, decoded } = size
  const lanes = width * vectors
  const [down, across] = [Math.ceil(m / rows), Math.ceil(n / lanes)] // in tiles
  const wait = parallel === 1 ? 0 : WAIT
  let best: [number, number, number] = [1, 1, batch]
  let least = Infinity
  for (const wishedRows of countsTo(Math.min(down, MOST_EACH * parallel))) {
    for (const wishedColumns of countsTo(Math.min(across, MOST_EACH * parallel))) {
      const [tileRows, tileColumns] = [Math.ceil(down / wishedRows), Math.ceil(across / wishedColumns)]
      const [x, y] = [Math.ceil(down / tileRows), Math.ceil(across / tileColumns)]
      const multiplied = tileRows * rows * tileColumns * vectors * k
      const packedA = tileRows * rows * Math.ceil((tileColumns * lanes) / columns) * k * PACK
      const packedB = tileColumns * lanes * k * (decoded ? DECODE : PACK)
      const blocks = x * y * batch
      const cost = (Math.ceil(blocks / parallel) + wait) * (multiplied + packedA + packedB + START_BLOCK) + blocks * TAKE_BLOCK
      if (cost < least) [best, least] = [[x, y, batch], cost]
    }
  }
  return best
}

/** 1, 2, 3, 4, 6, 8, 12, ... */
const COUNTS = Array.from({ length: 31 }, (_, i) => [2 ** i, 3 * 2 ** i]).flat()

function countsTo(most: number): number[] {
  return COUNTS.filter((count) => count <= most)
}
