// How values become one, in the kernel language: where to start, how to include one more, and what the result is. A maximum or minimum of
// floats is NaN if one of them is, as in NumPy and PyTorch. On CPUs a comparison more for each vector sees to that, which costs nothing
// beside reading memory; GPUs may do with a NaN what they like, so there floats are compared as integers of the same order.

import type { Width } from '../../base/dtype.ts'
import type { Elements, Value, VectorOf } from '../../ir/value.ts'
import type { Register } from '../element.ts'
import type { FoldKind } from './params.ts'

/** What is held while values are included: bools as 0 and 1. */
export type State = Exclude<Register, 'bool'>
type States = Elements<State>

export interface Fold {
  readonly kind: FoldKind
  readonly state: State
  /** what nothing at all gives */
  readonly start: number
  /** a value as a state */
  of(value: Elements<Register>): States
  /** two states as one */
  join(a: States, b: States): States
  /** what registers hold of the result */
  result(state: States): States
}

const LEAST_I32 = -(2 ** 31)
const MOST_I32 = 2 ** 31 - 1

/** Below and above all others. */
const ENDS: Readonly<Record<State, readonly [least: number, most: number]>> = {
  f32: [-Infinity, Infinity],
  f64: [-Infinity, Infinity],
  i32: [LEAST_I32, MOST_I32],
  u32: [0, 2 ** 32 - 1],
}
const FLOATS: readonly Register[] = ['f32', 'f64']

export function isFloat(register: Register): boolean {
  return FLOATS.includes(register)
}

/** What a value is held as. */
export function stateOf(register: Register): State {
  return register === 'bool' ? 'u32' : register
}

const toState = (value: Elements<Register>): States => (value.dtype.startsWith('bool') ? value.to('u32') : (value as States))

/** How values of a register become one. `keys`: floats are compared as integers. */
export function foldOf(kind: FoldKind, register: Register, { keys }: { readonly keys: boolean }): Fold {
  const state = stateOf(register)
  const same = { kind, state, of: toState, result: (value: States) => value }
  switch (kind) {
    case 'sum':
      return { ...same, start: 0, join: (a, b) => a.add(b) }
    case 'prod':
      return { ...same, start: 1, join: (a, b) => a.mul(b) }
    default: {
      if (keys && register === 'f32') return keyFold(kind)
      const start = ENDS[state][kind === 'max' ? 0 : 1]
      if (!isFloat(register)) return { ...same, start, join: (a, b) => (kind === 'max' ? a.max(b) : a.min(b)) }
      const isBetter = (a: States, b: States): Elements<'bool'> => (kind === 'max' ? b.gt(a) : b.lt(a)).or(b.ne(b))
      return { ...same, start, join: (a, b) => isBetter(a, b).select(b, a) }
    }
  }
}

/** The best one where NaN loses, for picks on CPUs: there `max` and `min` give what they compare with, if the other is a NaN. */
export function bestOf(kind: 'max' | 'min', register: Register): Fold {
  return { ...foldOf(kind, register, { keys: false }), join: (a, b) => (kind === 'max' ? a.max(b) : a.min(b)) }
}

const MAGNITUDE = 0x7fffffff
const INFINITY_BITS = 0x7f800000
const NAN_BITS = 0x7fc00000

/** Negative floats have their bits upside down. The same again gives the bits. */
const swap = (bits: Elements<'i32'>): Elements<'i32'> => bits.xor(bits.shr(31).and(MAGNITUDE))

/** A NaN is the best of all: its key lies beyond that of the infinity, and gives the bits of a NaN again. */
function keyFold(kind: 'max' | 'min'): Fold {
  const nan = kind === 'max' ? NAN_BITS : ~NAN_BITS
  return {
    kind,
    state: 'i32',
    start: kind === 'max' ? LEAST_I32 : MOST_I32,
    of: (value) => {
      const bits = (value as Elements<'f32'>).as('i32')
      return bits.and(MAGNITUDE).le(INFINITY_BITS).select(swap(bits), nan)
    },
    join: (a, b) => (kind === 'max' ? a.max(b) : a.min(b)),
    result: (state) => swap(state as Elements<'i32'>).as('f32'),
  }
}

/** A vector's elements as one. */
export function joinAcross(fold: Fold, vector: VectorOf<State>, width: Width): Value<State> {
  if (fold.kind === 'sum') return vector.hsum()
  let rest: VectorOf<State> = vector
  for (let half = width / 2; half >= 2; half /= 2) {
    const size = half as Width
    rest = fold.join(rest.slice(0, size), rest.slice(half, size)) as VectorOf<State>
  }
  return fold.join(rest.lane(0), rest.lane(1)) as Value<State>
}
