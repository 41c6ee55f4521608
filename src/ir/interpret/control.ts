// Control flow of a workgroup in lockstep: a branch runs for the lanes that take it, a loop until no lane wants another
// turn. Where all active lanes agree, the mask is passed on as it is.
/* oxlint-disable typescript/no-non-null-assertion -- a mask's lanes are counted by `count`, and every register has a cell per lane */

import type { Cells, Mask, State, Action } from './state.ts'

/** Turns of a loop after which it is taken to be endless. */
const ENDLESS = 2 ** 28

/** Lanes that have left a `loop` by breakIf. */
export interface Exit {
  readonly left: Uint8Array
  count: number
}

/** Steps in order. Those at `exits` may leave the loop: what follows runs for the lanes that stay. */
export function sequence(steps: readonly Action[], exits: ReadonlySet<number>, exit: Exit | undefined, state: State): Action {
  const [only] = steps
  if (exits.size === 0 || exit === undefined) {
    if (only !== undefined && steps.length === 1) return only
    return (mask) => {
      for (let at = 0; at < steps.length; at++) steps[at]!(mask) // twice as quick as for-of here, and all steps run through it
    }
  }
  const staying = state.mask()
  return (mask) => {
    let current = mask
    for (let at = 0; at < steps.length; at++) {
      const before = exit.count
      steps[at]!(current)
      if (!exits.has(at) || exit.count === before) continue
      keep(current, staying, exit.left)
      current = staying
      if (current.count === 0) return
    }
  }
}

/** Copies the lanes that are not marked; `to` may be `from`. */
function keep(from: Mask, to: Mask, marked: Uint8Array): void {
  let count = 0
  for (let at = 0; at < from.count; at++) {
    const lane = from.lanes[at]!
    if (marked[lane] === 0) to.lanes[count++] = lane
  }
  to.count = count
}

export function branch(condition: Cells, then: Action, otherwise: Action | undefined, state: State): Action {
  const yes = state.mask()
  const no = state.mask()
  return (mask) => {
    let taken = 0
    let passed = 0
    for (let at = 0; at < mask.count; at++) {
      const lane = mask.lanes[at]!
      if (condition[lane] === 0) no.lanes[passed++] = lane
      else yes.lanes[taken++] = lane
    }
    yes.count = taken
    no.count = passed
    if (taken > 0) then(passed === 0 ? mask : yes)
    if (passed > 0 && otherwise !== undefined) otherwise(taken === 0 ? mask : no)
  }
}

export function repeat(body: Action, exit: Exit, state: State): Action {
  const alive = state.mask()
  return (mask) => {
    exit.left.fill(0)
    exit.count = 0
    let current = mask
    for (let turn = 0; current.count > 0; turn++) {
      const before = exit.count
      if (turn === ENDLESS) state.fault('bad-kernel', 'a loop does not end', current.lanes[0])
      body(current)
      if (exit.count === before) continue
      keep(current, alive, exit.left)
      current = alive
    }
  }
}

export function leave(condition: Cells, exit: Exit): Action {
  return ({ lanes, count }) => {
    for (let at = 0; at < count; at++) {
      const lane = lanes[at]!
      if (condition[lane] === 0) continue
      exit.left[lane] = 1
      exit.count++
    }
  }
}

/** `for`: bounds are read once, on entry; the variable never passes 2^32. */
export function count(variable: Uint32Array, from: Cells, to: Cells, step: Cells, body: Action, state: State): Action {
  const alive = state.mask()
  return (mask) => {
    const { lanes } = mask
    const head = lanes[0]!
    let same = true
    for (let at = 0; at < mask.count; at++) {
      const lane = lanes[at]!
      if (step[lane] === 0) state.fault('bad-kernel', 'a for with step 0 does not end', lane)
      same &&= from[lane] === from[head] && to[lane] === to[head] && step[lane] === step[head]
    }
    if (same) {
      const end = to[head]!
      const by = step[head]!
      for (let i = from[head]!; i < end; i += by) {
        variable.fill(i)
        body(mask)
      }
      return
    }
    variable.set(from)
    for (let left = within(variable, to, mask, alive); left > 0; left = within(variable, to, alive, alive)) {
      body(alive)
      for (let at = 0; at < left; at++) {
        const lane = alive.lanes[at]!
        // Past 2^32 is past every end; keeping the end says the same in 32 bits.
        variable[lane] = Math.min(variable[lane]! + step[lane]!, to[lane]!)
      }
    }
  }
}

function within(variable: Uint32Array, to: Cells, from: Mask, alive: Mask): number {
  let count = 0
  for (let at = 0; at < from.count; at++) {
    const lane = from.lanes[at]!
    if (variable[lane]! < to[lane]!) alive.lanes[count++] = lane
  }
  alive.count = count
  return count
}
