// What all kernels of reduce.ts share: parameters, which results and which part of the reduced axes a workgroup takes, and the loops over
// those axes. What is done with the values is in rows.ts, columns.ts and pick.ts.

import type { Width } from '../../base/dtype.ts'
import type { ElementType } from '../../base/element.ts'
import { type Handles, type LaneScope, uniform } from '../../ir/author.ts'
import type { Elements, Uniformity, Value } from '../../ir/value.ts'
import type { Register } from '../element.ts'
import { countOperations, typeOf } from '../map/expr.ts'
import { typesOf } from '../map/params.ts'
import { type Places, Source, type SourceTraits, Walks, sourceParams } from '../map/source.ts'
import type { Team } from '../lanes.ts'
import { type Fold, isFloat } from './fold.ts'
import { type Arrangement, cutsOf } from './layout.ts'
import type { FoldKind } from './params.ts'

type U32<U extends Uniformity = Uniformity> = Value<'u32', U>

/** What a kernel is written for. `kept` and `reduced`: numbers of axes after merging. */
export interface FrameTraits extends SourceTraits, Team {
  readonly arrangement: Arrangement
  readonly kept: number
  readonly reduced: number
  readonly width: Width
}

export interface FoldTraits extends FrameTraits {
  readonly kind: FoldKind
  /** of the result */
  readonly type: ElementType
}

const many = (count: number) => Array.from({ length: count }, () => uniform('u32'))

export const frameParams = ({ reduced, ...source }: FrameTraits) => ({
  ...sourceParams(source),
  outputs: uniform('u32'),
  parts: many(cutsOf(reduced)),
  part: many(cutsOf(reduced)),
})

type FrameHandles = Handles<ReturnType<typeof frameParams>>

/** What registers hold of the values that are reduced. */
export function registerFor({ expr, inputs }: SourceTraits): Register {
  return typeOf(expr, typesOf(inputs))
}

/** How many values of an expression are computed side by side: several, unless that would be much code. */
export function sideBySide({ expr }: SourceTraits): 1 | 4 {
  return countOperations(expr) > 8 ? 1 : 4
}

/** Bytes between what is read and what is asked for from memory. */
export const AHEAD = { ahead: 8192 } as const

/** Where a loop begins and ends. */
export interface Span {
  readonly from: U32<'uniform'>
  readonly to: U32<'uniform'>
}

export class Frame {
  readonly source: Source
  readonly walks: Walks
  /** axes by the numbers that walks know them by */
  readonly kept: readonly number[]
  readonly reduced: readonly number[]
  readonly #k: LaneScope
  readonly #p: FrameHandles

  constructor(k: LaneScope, { arrangement, kept, reduced, ...traits }: FrameTraits, p: FrameHandles) {
    const numbers = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i)
    this.#k = k
    this.#p = p
    this.walks = new Walks(k, traits.inputs, p)
    this.source = new Source(k, traits, p, this.walks)
    this.kept = numbers(arrangement === 'rows' ? 0 : reduced, kept)
    this.reduced = numbers(arrangement === 'rows' ? kept : 0, reduced)
  }

  /** of a result */
  get parts(): U32<'uniform'> {
    return this.#p.parts.reduce((product, count) => product.mul(count))
  }

  /** What belongs to a part, of every reduced axis. */
  spans(part: U32<'uniform'>): Span[] {
    const k = this.#k
    const { parts, part: sizes } = this.#p
    const last = parts.at(-1) ?? k.const('u32', 1)
    const numbers = parts.length === 1 ? [part] : [part.div(last), part.rem(last)]
    return this.reduced.map((axis, i) => {
      const cut = i === 0 ? 0 : i === this.reduced.length - 1 ? 1 : undefined
      const [number, size, whole] = [numbers[cut ?? -1], sizes[cut ?? -1], this.walks.size(axis)]
      if (number === undefined || size === undefined) return { from: k.const('u32', 0), to: whole }
      const from = k.let('from', number.mul(size))
      return { from, to: k.let('to', from.add(size).min(whole)) }
    })
  }

  /** Goes over the first `count` reduced axes; the body gets the places there, and the number of what follows. */
  loops(places: Places, spans: readonly Span[], count: number, body: (places: Places, ordinal: U32) => void): void {
    const enter = (level: number, here: Places, ordinal: U32 | undefined): void => {
      const [axis, span] = [this.reduced[level], spans[level]]
      if (level === count || axis === undefined || span === undefined) return body(here, ordinal ?? this.#k.const('u32', 0))
      return this.#k.for({ name: `r${level}`, ...span }, (i) =>
        enter(level + 1, this.walks.step(here, axis, i), ordinal === undefined ? i : ordinal.mul(this.walks.size(axis)).add(i)),
      )
    }
    enter(0, places, undefined)
  }
}

/** The result of a fold as registers hold elements of that type; `divisor`: of a mean, else 1. */
export function finish(fold: Fold, state: ReturnType<Fold['join']>, type: Register, divisor: U32 | undefined): Elements<Register> {
  const result = fold.result(state)
  if (type === 'bool') return result.ne(0)
  return divisor === undefined ? result : result.div(divisor.to(type).like(result))
}

/** Whether a kernel is told what to divide by: a mean is a sum that is divided. */
export function isDivided({ kind, state }: Fold): boolean {
  return kind === 'sum' && isFloat(state)
}

/** Several states as one, in pairs. */
export function joinAll<V extends ReturnType<Fold['join']>>(fold: Fold, states: readonly V[]): V {
  const [first, second, ...rest] = states
  if (first === undefined) throw new TypeError('no states')
  if (second === undefined) return first
  const half = Math.ceil(states.length / 2)
  if (rest.length === 0) return fold.join(first, second) as V
  return fold.join(joinAll(fold, states.slice(0, half)), joinAll(fold, states.slice(half))) as V
}
