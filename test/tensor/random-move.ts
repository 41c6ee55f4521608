// Operations of random graphs that move elements, or choose them by indices.

import type { PadMode, SliceRange } from '../../src/tensor/method/shape.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { type Known, movedKnown, sumKnown } from './random-known.ts'
import { type Operate, made } from './random-op.ts'
import { MOST_AXES, type Tape, type Value, fit, sizeOf } from './random-tape.ts'

/** The same elements elsewhere; some may be left out or repeated. */
const moved =
  (of: (x: Tensor, tape: Tape) => Tensor): Operate =>
  (tape) => {
    const x = tape.value()
    return x && made(of(x.tensor, tape), movedKnown(x))
  }
const movedFrom =
  (of: (x: Tensor, tape: Tape) => Tensor): Operate =>
  (tape) => {
    const x = tape.value(({ tensor }) => tensor.rank > 0)
    return x && made(of(x.tensor, tape), movedKnown(x))
  }

function randomPermutation(tape: Tape, count: number): number[] {
  const left = Array.from({ length: count }, (_, i) => i)
  return Array.from({ length: count }, () => left.splice(tape.below(left.length), 1)[0]!)
}

/** A range of an axis with elements. */
function range(tape: Tape, size: number): SliceRange {
  if (tape.below(3) === 0) return null
  const step = tape.of([1, 1, 2, 3, -1, -1, -2])
  const [a, b] = [tape.below(size), tape.below(size)]
  const [low, high] = [Math.min(a, b), Math.max(a, b)]
  if (step > 0) return [tape.flag() ? low : low - size, high + 1 === size && tape.flag() ? null : high + 1, step]
  return [tape.flag() ? high : high - size, low === 0 ? null : low - 1, step]
}

/** As many elements, cut into other axes. */
function anyShape(tape: Tape, size: number): number[] {
  const shape: number[] = []
  for (let rest = size; rest > 1 && shape.length < MOST_AXES - 1;) {
    const divisors = Array.from({ length: rest }, (_, i) => i + 1).filter((each) => rest % each === 0)
    const next = tape.of(divisors)
    shape.push(next)
    rest /= next
    if (shape.length === MOST_AXES - 1 && rest > 1) shape.push(rest)
  }
  return sizeOf(shape) === size ? shape : [...shape, size / sizeOf(shape)]
}

function pad(tape: Tape): Value | undefined {
  const x = tape.value(({ tensor }) => tensor.rank > 0)
  if (x === undefined) return undefined
  const mode = tape.of<PadMode>(['constant', 'constant', 'edge', 'reflect', 'symmetric'])
  const widths = x.tensor.shape.map((size) => {
    const most = mode === 'reflect' ? Math.min(2, size - 1) : mode === 'symmetric' ? Math.min(2, size) : 2
    return [tape.below(most + 1), tape.below(most + 1)] as const
  })
  const value = tape.below(4)
  const constant: Known = { type: x.type, most: value, error: 0, grain: 1 }
  if (mode !== 'constant') return made(x.tensor.pad(widths, { mode }), movedKnown(x))
  return made(x.tensor.pad(widths, { value: x.type === 'bool' ? value % 2 : value }), movedKnown(x, constant))
}

function concat(tape: Tape): Value | undefined {
  const a = tape.value(({ tensor }) => tensor.rank > 0)
  const b = a && tape.value(({ type }) => type === a.type)
  if (a === undefined || b === undefined) return undefined
  const axis = tape.axis(a)
  const other = fit(b.tensor, a.tensor.shape.with(axis, tape.between(1, 4)))
  const parts = tape.flag() ? [a.tensor, other] : [other, a.tensor, other.flip(axis)]
  return made(Tensor.concat(parts, axis), movedKnown(a, b))
}

/** Whole numbers, of which some are out of range, as indices. */
function indices(tape: Tape): Value | undefined {
  return tape.value(({ type }) => type === 'i32' || type === 'u32' || type === 'i64')
}

function gather(tape: Tape): Value | undefined {
  const [x, ids] = [tape.value(({ tensor }) => tensor.rank > 0), indices(tape)]
  if (x === undefined || ids === undefined) return undefined
  const axis = tape.axis(x)
  const count = tape.between(1, 4)
  if (tape.flag()) return made(x.tensor.gather(fit(ids.tensor, tape.flag() ? [count] : [2, count]), axis), movedKnown(x))
  return made(x.tensor.gatherElements(fit(ids.tensor, x.tensor.shape.with(axis, count)), axis), movedKnown(x))
}

function scatter(tape: Tape): Value | undefined {
  const [x, ids] = [tape.value(({ tensor, type }) => tensor.rank > 0 && type !== 'bool' && type !== 'i64'), indices(tape)]
  const values = x && tape.value(({ type }) => type === x.type)
  if (x === undefined || ids === undefined || values === undefined) return undefined
  const axis = tape.axis(x)
  const shape = x.tensor.shape.with(axis, tape.between(1, 4))
  const [places, written] = [fit(ids.tensor, shape), fit(values.tensor, shape)]
  if (tape.flag()) return made(x.tensor.scatter(places, written, axis), movedKnown(x, values))
  const both = movedKnown(x, values)
  return made(x.tensor.scatterAdd(places, written, axis), both && sumKnown(both, 1 + (shape.at(axis) ?? 1)))
}

export const MOVES: readonly Operate[] = [
  moved((x, tape) => x.permute(...randomPermutation(tape, x.rank))),
  movedFrom((x, tape) => x.slice(...x.shape.map((size) => range(tape, size)))),
  movedFrom((x, tape) => x.slice(...x.shape.map((size) => range(tape, size)))),
  movedFrom((x, tape) => x.flip(tape.below(x.rank))),
  moved((x, tape) => x.reshape(...anyShape(tape, x.size))),
  moved((x, tape) => x.reshape(...anyShape(tape, x.size))),
  moved((x, tape) => x.unsqueeze(tape.below(x.rank + 1))),
  moved((x) => x.squeeze()),
  moved((x, tape) => x.expand(tape.between(1, 3), ...x.shape)),
  moved((x, tape) => x.unsqueeze(-1).expand(...x.shape, tape.between(1, 4))),
  movedFrom((x, tape) => x.tile(...x.shape.map(() => tape.between(1, 2)))),
  movedFrom((x, tape) => x.roll(tape.between(-3, 3), tape.below(x.rank))),
  (tape) => {
    const x = tape.value(({ tensor, type }) => tensor.rank >= 2 && type !== 'i64' && type !== 'bool')
    return x && made(tape.flag() ? x.tensor.tril(tape.below(3)) : x.tensor.triu(-1), movedKnown(x))
  },
  pad,
  pad,
  concat,
  concat,
  gather,
  gather,
  scatter,
]
