// Expressions as plain data, before their operations are known by name: what slopes are written with (slope.ts), so that an operation's
// record may hold its slope. expr.ts has the same with names that TypeScript checks.

import type { ElementType } from '../../base/element.ts'
import type { Register } from '../element.ts'

/** An input by number. */
export interface Input {
  readonly input: number
}
/** A number that a kernel is written with. */
export interface Constant {
  readonly const: number
  readonly type: Register
}
/** A number that a kernel is given when it runs. */
export interface Slot {
  readonly slot: number
  readonly type: Register
}
/** The same value as an element of that type would hold it. */
export interface Cast<T> {
  readonly cast: ElementType
  readonly of: T
}
export interface Call<T, Op extends string> {
  readonly op: Op
  readonly args: readonly T[]
}
export type Term = Input | Constant | Slot | Cast<Term> | Call<Term, string>

const of = (op: string, ...args: readonly Term[]): Term => ({ op, args })
const pair = (op: string) => (a: Term, b: Term) => of(op, a, b)
const single = (op: string) => (a: Term) => of(op, a)

export const [add, sub, mul, div, pow] = [pair('add'), pair('sub'), pair('mul'), pair('div'), pair('pow')]
export const [lt, le, gt, ge, eq, and, min] = [pair('lt'), pair('le'), pair('gt'), pair('ge'), pair('eq'), pair('and'), pair('min')]
export const [neg, sign, step, square, abs] = [single('neg'), single('sign'), single('step'), single('square'), single('abs')]
export const [reciprocal, rsqrt, exp, log] = [single('reciprocal'), single('rsqrt'), single('exp'), single('log')]
export const [sin, cos, tanh, sigmoid, erf] = [single('sin'), single('cos'), single('tanh'), single('sigmoid'), single('erf')]
export const when = (condition: Term, a: Term, b: Term): Term => of('select', condition, a, b)
