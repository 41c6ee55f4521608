// Ops that work on each element alone, as their records mean them. All lanes are computed, active or not, unless an op has no
// meaning for some operands: then only the active ones, and a lane that asks for it is reported.

import { scalarOf, widthOf } from '../../base/dtype.ts'
import { roundHalf } from '../../base/half.ts'
import type { Node } from '../node.ts'
import { opRecord } from '../op.ts'
import { byArity, copyOf, guarded, rounded } from './loop.ts'
import type { Cells, State, Action } from './state.ts'

/** Ops whose meaning includes a fault: they run only where they are written, for the lanes that are there. */
export function canFail({ op }: Node): boolean {
  return opRecord(op).excludes !== undefined
}

/** The step of an elementwise pure op, or undefined if it is none. */
export function elementwise(
  { op, dtype, src, arg }: Node,
  out: Cells,
  [a, b = a, c = a]: readonly Cells[],
  state: State,
): Action | undefined {
  const { js, excludes, arity } = opRecord(op)
  const [first] = src
  if (js === undefined || first === undefined || a === undefined || b === undefined || c === undefined) return undefined
  const [from, to] = [scalarOf(first.dtype), scalarOf(dtype)]
  const meaning = js(from, to, arg)
  const purpose = `${op} ${from} ${to}`
  if (excludes === undefined) return copyOf(to === 'f16' ? rounded : byArity(arity), purpose)(meaning, roundHalf, out, a, b, c)
  const excluded = excludes(arg)
  const refuse = (lane: number, value: number): void => {
    const { what = '', ...facts } = excluded(value) ?? {}
    state.fault('out-of-range', what, lane, facts)
  }
  return copyOf(guarded, purpose)(meaning, excluded, refuse, widthOf(dtype), out, a, b, c)
}
