// How many lanes run a program, and how they are grouped: the grid counts blocks, a block counts lanes, along three axes each.

import { IngotError } from '../base/error.ts'

/** Sizes along three axes. */
export type Extent = readonly [x: number, y: number, z: number]

/** What a user says; what is left out is 1, and shared memory none. */
export interface LaunchOptions {
  readonly grid?: readonly [x: number, y?: number, z?: number]
  readonly block?: readonly [x: number, y?: number, z?: number]
  /** bytes of shared memory of a block */
  readonly sharedBytes?: number
}

/** How lanes are grouped, with nothing left out. */
export interface Launch {
  readonly grid: Extent
  readonly block: Extent
  readonly sharedBytes: number
}

const MOST_LANES = 1024

/** A launch with its defaults, checked. */
export function resolveLaunch({ grid = [1], block = [1], sharedBytes = 0 }: LaunchOptions = {}): Launch {
  const launch: Launch = { grid: extentOf('grid', grid), block: extentOf('block', block), sharedBytes }
  if (!Number.isInteger(sharedBytes) || sharedBytes < 0) throw wrong('sharedBytes', sharedBytes, 'a whole number from 0')
  if (lanesOf(launch) > MOST_LANES) throw wrong('block', block, `at most ${MOST_LANES} lanes`)
  if (totalLanes(launch) > 2 ** 32 - 1) throw wrong('grid', grid, 'less than 2^32 lanes in all')
  return launch
}

/** As many blocks of so many lanes as it takes for `lanes` lanes. */
export function linearLaunch(lanes: number, block = 256): Launch {
  return resolveLaunch({ grid: [Math.ceil(lanes / block)], block: [block] })
}

/** Lanes of a block. */
export function lanesOf({ block: [x, y, z] }: Launch): number {
  return x * y * z
}

export function totalBlocks({ grid: [x, y, z] }: Launch): number {
  return x * y * z
}

/** Lanes of all blocks. */
export function totalLanes(launch: Launch): number {
  return totalBlocks(launch) * lanesOf(launch)
}

/** Which place is number `index`, counting x first. */
export function placeOf(index: number, [x, y]: Extent): Extent {
  return [index % x, Math.floor(index / x) % y, Math.floor(index / (x * y))]
}

function extentOf(name: string, [x, y = 1, z = 1]: readonly [x: number, y?: number, z?: number]): Extent {
  if ([x, y, z].some((size) => !Number.isInteger(size) || size < 1)) throw wrong(name, [x, y, z], 'whole numbers from 1')
  return [x, y, z]
}

function wrong(name: string, got: unknown, wanted: string): IngotError {
  return new IngotError('bad-argument', `bad ${name} of a launch`, { op: 'atlas', got, wanted })
}
