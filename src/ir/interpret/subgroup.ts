// Operations of a whole subgroup: sums, maxima, shuffles and tiles. Only whole subgroups may take part; a lane that is asked
// for but does not exist gives 0. Sums go from the first lane to the last, rounded at each step.

import { scalarOf, widthOf } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import { HALVES } from './half-table.ts'
import { encodeHalf, roundHalf } from './half.ts'
import { type Memory, eachOfTile } from './memory.ts'
import type { Clock } from './shadow.ts'
import type { Cells, Mask, State, Step } from './state.ts'

/** Calls `visit` for each active subgroup with its first lane and the one after its last. */
function eachSubgroup(state: State, mask: Mask, what: string, visit: (first: number, end: number, group: number) => void): void {
  const active = state.wholeSubgroups(mask, what)
  for (let group = 0; group < state.subgroups; group++) {
    const first = group * state.subgroup
    if (active[group] !== 0) visit(first, Math.min(first + state.subgroup, state.lanes), group)
  }
}

/** The step of a subgroup operation on values, or undefined if it is none. */
export function subgroupStep(node: Node, out: Cells, [a, b]: readonly Cells[], state: State): Step | undefined {
  const width = widthOf(node.dtype)
  const half = node.dtype !== 'void' && scalarOf(node.dtype) === 'f16'
  const round = !(out instanceof Float32Array) ? (x: number) => x : half ? roundHalf : Math.fround
  const fold =
    (combine: (x: number, y: number) => number): Step =>
    (mask) =>
      eachSubgroup(state, mask, node.op, (first, end) => {
        for (let e = 0; e < width; e++) {
          let value = a![first * width + e]!
          for (let lane = first + 1; lane < end; lane++) value = combine(value, a![lane * width + e]!)
          for (let lane = first; lane < end; lane++) out[lane * width + e] = value
        }
      })
  const move =
    (from: (sublane: number, lane: number) => number): Step =>
    (mask) =>
      eachSubgroup(state, mask, node.op, (first, end) => {
        for (let lane = first; lane < end; lane++) {
          const other = from(lane - first, lane)
          for (let e = 0; e < width; e++) out[lane * width + e] = first + other < end ? a![(first + other) * width + e]! : 0
        }
      })
  const arg = node.arg as number
  switch (node.op) {
    case 'subSum':
      return fold((x, y) => round(x + y))
    case 'subMax':
      return fold((x, y) => (y > x ? y : x))
    case 'subMin':
      return fold((x, y) => (y < x ? y : x))
    case 'subAny':
      return fold((x, y) => x | y)
    case 'subAll':
      return fold((x, y) => x & y)
    case 'subBroadcast':
      return move(() => arg)
    case 'subShuffle':
      return move((_, lane) => b![lane]!)
    case 'subShuffleXor':
      return move((sublane) => sublane ^ arg)
    case 'subShuffleDown':
      return move((sublane) => sublane + arg)
    default:
      return undefined
  }
}

/** The step of a tile op or of a tileStore. */
export function tileStep(node: Node, out: Cells, src: readonly Cells[], memory: Memory | undefined, state: State, clock: Clock): Step {
  const [a, b, c] = src
  const { transposed = false } = (node.arg ?? {}) as { transposed?: boolean }
  const place = (first: number, end: number): void => {
    for (let lane = first + 1; lane < end; lane++) {
      if (a![lane] !== a![first] || b![lane] !== b![first]) {
        state.fault('bad-kernel', `${node.op}: lanes of one subgroup name different places`, lane, {
          got: a![lane],
          wanted: a![first],
        })
      }
    }
  }
  return (mask) =>
    eachSubgroup(state, mask, node.op, (first, end, group) => {
      const tile = 64 * group
      switch (node.op) {
        case 'tileFill':
          return void out.fill(a![first]!, tile, tile + 64)
        case 'tileMma':
          return multiply(out, a!, b!, c!, tile)
        case 'tileLoad':
          place(first, end)
          return eachOfTile(a![first]!, b![first]!, transposed, first, memory!, state, (from, cell) => {
            memory!.shadow?.read(from, first)
            out[tile + cell] = memory!.half ? HALVES[memory!.cells[from]!]! : memory!.cells[from]!
          })
        default:
          place(first, end)
          clock.now++
          return eachOfTile(a![first]!, b![first]!, transposed, first, memory!, state, (to, cell) => {
            if (memory!.shadow?.write(to, first) === true) memory!.shadow.raceInStore(to, first)
            memory!.cells[to] = memory!.half ? encodeHalf(c![tile + cell]!) : c![tile + cell]!
          })
      }
    })
}

/** out = a * b + c, each step rounded to f32. `out` is never one of the operands. */
function multiply(out: Cells, a: Cells, b: Cells, c: Cells, tile: number): void {
  for (let row = 0; row < 64; row += 8) {
    for (let column = 0; column < 8; column++) {
      let sum = c[tile + row + column]!
      for (let k = 0; k < 8; k++) sum = Math.fround(a[tile + row + k]! * b[tile + 8 * k + column]! + sum)
      out[tile + row + column] = sum
    }
  }
}
