// What products on GPUs share: reading matrices four elements along l at a time, whichever way they lie and however long their rows are,
// and dealing such fours to lanes.

import type { LaneScope, Readable } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import type { Format, WeightStorage, Weights } from '../../quant/format.ts'

type U32 = Value<'u32'>
type Four = Value<'f32x4'>

/** A matrix of which rows along l are wanted. */
export interface Source {
  /** undefined: memory holds vectors of four */
  readonly element: Format['element']
  readonly memory: Readable<WeightStorage | 'f32x4', Uniformity>
  /** its first element; none: the first of memory */
  readonly start?: U32
  /** rows along l, those past the end repeat the last one */
  readonly rows: U32
  /** l */
  readonly inner: U32
  /** it lies the other way around: what is wanted as a row is a column of memory */
  readonly turned: boolean
  /** rows of memory are multiples of four elements, and so is where it starts */
  readonly aligned: boolean
  /** l may be past the end, where everything is 0 */
  readonly ragged: boolean
}

/** Elements `at`, a multiple of four, to at + 3 of a row. */
export function readFour(k: LaneScope, source: Source, row: U32, at: U32): Four {
  const { element, memory, start, rows, inner, turned, aligned, ragged } = source
  const own = row.min(rows.sub(1))
  const from = (index: U32): U32 => (start === undefined ? index : start.add(index))
  if (aligned && !turned) {
    const index = from(own.mul(inner).add(ragged ? at.min(inner.sub(4)) : at))
    const four = element === undefined ? (memory as Readable<'f32x4', Uniformity>).at(index.shr(2)) : element.four(memory as Weights, index)
    return ragged ? at.lt(inner).select(four, 0) : four
  }
  if (element === undefined) throw new TypeError('only aligned rows are read as vectors')
  const one = (lane: number): Value<'f32'> => {
    const l = at.add(lane)
    const inside = ragged ? l.min(inner.sub(1)) : l
    const value = element.one(memory as Weights, from(turned ? inside.mul(rows).add(own) : own.mul(inner).add(inside)))
    return ragged ? l.lt(inner).select(value, 0) : value
  }
  return k.vec(one(0), one(1), one(2), one(3))
}

/** Which lanes stage a matrix: the first, and how many. */
export interface Team {
  readonly lane: U32
  readonly lanes: number
}

/** Deals the fours of `count` rows of `steps` numbers, a multiple of four, to lanes. Neighbouring lanes read neighbours in memory. */
export function eachFour(
  k: LaneScope,
  { lane, lanes }: Team,
  { turned }: Source,
  count: number,
  steps: number | U32,
  visit: (i: U32, four: U32) => void,
): void {
  const fours = typeof steps === 'number' ? k.const('u32', steps / 4) : k.let('fours', steps.div(4))
  k.for({ name: 'e', from: lane, to: fours.mul(count), step: lanes }, (e) => {
    const [i, four] = turned ? [e.rem(count), e.div(count)] : [e.div(fours), e.rem(fours)]
    visit(k.let('i', i), k.let('four', four))
  })
}
