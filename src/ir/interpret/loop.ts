// The loops of pure ops over registers, written once per shape and copied for each op that runs them. An engine compiles a function
// for the calls and types that it has seen in it: a loop that all ops share calls another meaning each time and boxes every
// number on the way, a copy that one op uses on one type has the meaning compiled into it. Knows no ops.
//
// Invariant: a loop here uses nothing but its parameters, so that a copy made of its text means the same.
/* oxlint-disable typescript/no-non-null-assertion -- every index is below the length of a register; those of one step fit each other */

import type { Meaning } from '../op/meaning.ts'
import type { Cells, Mask } from './state.ts'

export type Run = () => void
type Round = (x: number) => number

const copies = new Map<string, unknown>()

/** A copy of a loop that only calls with the same purpose share. */
export function copyOf<F extends (...args: never[]) => unknown>(loop: F, purpose: string): F {
  if (!copies.has(purpose)) copies.set(purpose, compileAgain(loop, purpose))
  // what is kept under a purpose is a copy of the loop that it was first asked for
  return copies.get(purpose) as F
}

function compileAgain<F extends (...args: never[]) => unknown>(loop: F, purpose: string): unknown {
  try {
    // oxlint-disable-next-line typescript/no-implied-eval -- the text is that of a function of this file
    return new Function(`return ${String(loop)} // ${purpose}`)()
  } catch {
    return loop // where a page's security policy forbids it: slower, and the same
  }
}

// Each element alone, by the number of operands that the op takes.

type Elementwise = (meaning: Meaning, round: Round, out: Cells, a: Cells, b: Cells, c: Cells) => Run

const one: Elementwise = (meaning, _round, out, a) => () => {
  for (let i = 0; i < out.length; i++) out[i] = meaning(a[i]!, 0, 0)
}
const two: Elementwise = (meaning, _round, out, a, b) => () => {
  for (let i = 0; i < out.length; i++) out[i] = meaning(a[i]!, b[i]!, 0)
}
const three: Elementwise = (meaning, _round, out, a, b, c) => () => {
  for (let i = 0; i < out.length; i++) out[i] = meaning(a[i]!, b[i]!, c[i]!)
}
/** Registers of f16 are arrays of f32, which do not round enough by themselves. */
export const rounded: Elementwise = (meaning, round, out, a, b, c) => () => {
  for (let i = 0; i < out.length; i++) out[i] = round(meaning(a[i]!, b[i]!, c[i]!))
}
export const byArity = (arity: number): Elementwise => (arity === 1 ? one : arity === 2 ? two : three)

/** Active lanes only; an element that is excluded is refused with its lane. */
export const guarded =
  (
    meaning: Meaning,
    excluded: (a: number) => unknown,
    refuse: (lane: number, a: number) => void,
    width: number,
    out: Cells,
    a: Cells,
    b: Cells,
    c: Cells,
  ) =>
  ({ lanes, count }: Mask): void => {
    for (let at = 0; at < count; at++) {
      const first = lanes[at]! * width
      for (let i = first; i < first + width; i++) {
        if (excluded(a[i]!) !== undefined) refuse(lanes[at]!, a[i]!)
        out[i] = meaning(a[i]!, b[i]!, c[i]!)
      }
    }
  }

// Vectors and packed words.

/** Cells from places to places. */
export const move =
  (out: Cells, to: Int32Array, cells: Cells, from: Int32Array): Run =>
  () => {
    for (let i = 0; i < to.length; i++) out[to[i]!] = cells[from[i]!]!
  }

/** Each word becomes `width` elements. */
export const unpacking =
  (unpack: (word: number, e: number) => number, width: number, out: Cells, words: Cells): Run =>
  () => {
    for (let lane = 0, o = 0; lane < words.length; lane++) for (let e = 0; e < width; e++) out[o++] = unpack(words[lane]!, e)
  }

/** Each `width` elements become a word. */
export const packing =
  (pack: (value: number, e: number) => number, width: number, out: Cells, values: Cells): Run =>
  () => {
    for (let lane = 0, i = 0; lane < out.length; lane++) {
      let word = 0
      for (let e = 0; e < width; e++) word |= pack(values[i++]!, e)
      out[lane] = word
    }
  }

/** Each `width` elements become one, from the first to the last, rounded at each step. */
export const reducing =
  (combine: Meaning, round: Round, width: number, out: Cells, values: Cells): Run =>
  () => {
    for (let lane = 0, i = 0; lane < out.length; lane++) {
      let total = values[i++]!
      for (let e = 1; e < width; e++) total = round(combine(total, values[i++]!, 0))
      out[lane] = total
    }
  }

/** What active lanes hold. */
export const copyLanes =
  (out: Cells, cells: Cells, width: number) =>
  ({ lanes, count }: Mask): void => {
    if (count * width === out.length) return out.set(cells)
    for (let at = 0; at < count; at++) {
      const first = lanes[at]! * width
      for (let i = first; i < first + width; i++) out[i] = cells[i]!
    }
    return undefined
  }
