// Operations of a whole subgroup: sums, maxima, shuffles and tiles. Only whole subgroups may take part; a lane that is asked
// for but does not exist gives 0. Sums go from the first lane to the last, rounded at each step.
/* oxlint-disable typescript/no-non-null-assertion -- lanes are those of a whole subgroup, and a tile has 64 cells per subgroup */

import { scalarOf, widthOf } from '../../base/dtype.ts'
import type { Node, NodeOf } from '../node.ts'
import { opRecord } from '../op.ts'
import { HALVES } from '../../base/half-table.ts'
import { encodeHalf } from '../../base/half.ts'
import { type Memory, eachOfTile } from './memory.ts'
import type { Clock } from './shadow.ts'
import type { Cells, Mask, State, Action } from './state.ts'
import { combination, rounding } from './vector.ts'

/** Calls `visit` for each active subgroup with its first lane and the one after its last. */
function eachSubgroup(state: State, mask: Mask, what: string, visit: (first: number, end: number, group: number) => void): void {
  const active = state.wholeSubgroups(mask, what)
  for (let group = 0; group < state.subgroups; group++) {
    const first = group * state.subgroup
    if (active[group] !== 0) visit(first, Math.min(first + state.subgroup, state.lanes), group)
  }
}

/** The step of a subgroup operation on values, or undefined if it is none. */
export function subgroupAction(node: Node, out: Cells, [a, b = a]: readonly Cells[], state: State): Action | undefined {
  const { reduces, sourceLane, collective } = opRecord(node.op)
  if (collective !== true || a === undefined || b === undefined) return undefined
  if (reduces !== undefined) return fold(node, out, a, state, reduces)
  if (sourceLane === undefined) return undefined
  return move(node, out, a, state, (sublane, lane) => sourceLane(sublane, Number(node.arg), b[lane]!))
}

type Combining = Parameters<typeof combination>[0]

/** All lanes of a subgroup get what their values make together. */
function fold(node: Node, out: Cells, a: Cells, state: State, reduces: Combining): Action {
  const [scalar, width] = [scalarOf(node.dtype), widthOf(node.dtype)]
  const [combine, round] = [combination(reduces, scalar), rounding(scalar)]
  return (mask) =>
    eachSubgroup(state, mask, node.op, (first, end) => {
      for (let e = 0; e < width; e++) {
        let value = a[first * width + e]!
        for (let lane = first + 1; lane < end; lane++) value = round(combine(value, a[lane * width + e]!, 0))
        for (let lane = first; lane < end; lane++) out[lane * width + e] = value
      }
    })
}

/** Each lane gets the value of the lane that `from` names. */
function move(node: Node, out: Cells, a: Cells, state: State, from: (sublane: number, lane: number) => number): Action {
  const width = widthOf(node.dtype)
  return (mask) =>
    eachSubgroup(state, mask, node.op, (first, end) => {
      for (let lane = first; lane < end; lane++) {
        const other = first + from(lane - first, lane)
        for (let e = 0; e < width; e++) out[lane * width + e] = other < end ? a[other * width + e]! : 0
      }
    })
}

/** Refuses places that differ within a subgroup. */
function checkPlace(what: string, index: Cells, row: Cells, first: number, end: number, state: State): void {
  for (let lane = first + 1; lane < end; lane++) {
    if (index[lane] === index[first] && row[lane] === row[first]) continue
    state.fault('bad-kernel', `${what}: lanes of one subgroup name different places`, lane, { got: index[lane], wanted: index[first] })
  }
}

export function tileFill(out: Cells, value: Cells, state: State): Action {
  return (mask) =>
    eachSubgroup(state, mask, 'tileFill', (first, _end, group) => {
      out.fill(value[first]!, 64 * group, 64 * group + 64)
    })
}

export function tileMma(out: Cells, a: Cells, b: Cells, c: Cells, state: State): Action {
  return (mask) => eachSubgroup(state, mask, 'tileMma', (_first, _end, group) => multiply(out, a, b, c, 64 * group))
}

export function tileLoad({ op, arg }: NodeOf<'tileLoad'>, out: Cells, index: Cells, row: Cells, memory: Memory, state: State): Action {
  return (mask) =>
    eachSubgroup(state, mask, op, (first, end, group) => {
      checkPlace(op, index, row, first, end, state)
      eachOfTile(index[first]!, row[first]!, arg.transposed === true, first, memory, state, (from, cell) => {
        memory.shadow?.read(from, first)
        const value = memory.cells[from]!
        out[64 * group + cell] = memory.half ? HALVES[value]! : value
      })
    })
}

export function tileStore(
  { op, arg }: NodeOf<'tileStore'>,
  index: Cells,
  row: Cells,
  tile: Cells,
  memory: Memory,
  state: State,
  clock: Clock,
): Action {
  return (mask) =>
    eachSubgroup(state, mask, op, (first, end, group) => {
      checkPlace(op, index, row, first, end, state)
      clock.now++
      eachOfTile(index[first]!, row[first]!, arg.transposed === true, first, memory, state, (to, cell) => {
        if (memory.shadow?.write(to, first) === true) memory.shadow.raceInStore(to, first)
        const value = tile[64 * group + cell]!
        memory.cells[to] = memory.half ? encodeHalf(value) : value
      })
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
