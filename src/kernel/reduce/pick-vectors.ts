// Picks on CPUs: the number of the best element, and its value. Values start below all others and must beat what was there before, which
// NaN never does. So a row or column that has nothing but NaN and values as bad as the start is searched once more, in order, for the
// first that is no NaN.

import type { Width } from '../../base/dtype.ts'
import type { LaneScope, Scope } from '../../ir/author.ts'
import type { Elements, Uniformity, Value } from '../../ir/value.ts'
import type { Places } from '../map/source.ts'
import { NO_ID } from '../select/float-order.ts'
import { type Fold, type State, foldOf, joinAcross } from './fold.ts'
import type { Frame, Span } from './frame.ts'
import { VectorRun } from './rows.ts'
import { STRIP, Strip, getCells, setCells } from './strip.ts'

type U32<U extends Uniformity = Uniformity> = Value<'u32', U>

export interface Best {
  readonly value: Value<State>
  /** NO_ID: nothing but NaN */
  readonly id: U32
}

/** What is picked by: a maximum or minimum, in vectors. */
interface Choice {
  readonly fold: Fold
  readonly width: Width
  /** vectors side by side */
  readonly count: number
}

/** Whether b beats a. */
export function beats(fold: Fold, a: Elements<State>, b: Elements<State>): Elements<'bool'> {
  return fold.kind === 'max' ? b.gt(a) : b.lt(a)
}

/** Elements of a block: enough that the end of each costs little, and few enough to be searched. */
const blockOf = (width: Width): number => 64 * width

/** The best of a row in blocks: which block it is in is seen while the best is found, and only that one is searched for it. */
export function pickRow(k: LaneScope, frame: Frame, places: Places, spans: readonly Span[], { fold, width, count }: Choice): Best {
  const { from, to } = spans.at(-1) ?? { from: k.const('u32', 0), to: k.const('u32', 0) }
  const outer = frame.reduced.slice(0, -1)
  const size = blockOf(width)
  const best = k.var('best', k.const(fold.state, fold.start))
  const [bestRow, bestBlock] = [k.var('row', k.const('u32', 0)), k.var('block', from)]
  frame.loops(places, spans, outer.length, (row, ordinal) => {
    k.for({ name: 'block', from, to, step: size }, (block) => {
      const run = new VectorRun(k, fold, frame.source, width, count)
      run.include(row, block, k.let('end', block.add(size).min(to)))
      const top = run.total()
      k.when(beats(fold, best.get(), top) as Value<'bool'>, () => {
        best.set(top)
        bestRow.set(ordinal)
        bestBlock.set(block)
      })
    })
  })
  const value = best.get()
  const [row, block] = [bestRow.get(), bestBlock.get()]
  const id = k.var('id', k.const('u32', NO_ID))
  const search = (where: Places, ordinal: U32, span: { from: U32; to: U32 }): void => {
    const found = findFirst(k, frame, where, span, value, { fold, width, count })
    const inner = frame.walks.size(-1)
    id.set(id.get().min(found.eq(NO_ID).select(found, ordinal.mul(inner).add(found))))
  }
  k.when(
    value.ne(fold.start),
    () => search(frame.walks.seek(places, outer, row), row, { from: block, to: block.add(size).min(to) }),
    () => frame.loops(places, spans, outer.length, (each, ordinal) => search(each, ordinal, { from, to })),
  )
  return { value, id: id.get() }
}

/** The first element of a row that is equal to that one. It is computed just as when it was found, in vectors or alone. */
function findFirst(
  k: LaneScope,
  frame: Frame,
  row: Places,
  { from, to }: { from: U32; to: U32 },
  value: Value<State>,
  { fold, width }: Choice,
): U32 {
  const none = k.const('u32', NO_ID)
  const firsts = k.var('firsts', none.splat(width))
  const first = k.var('first', none)
  const numbers = k.vec(...Array.from({ length: width }, (_, i) => k.const('u32', i)))
  const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
  k.for({ name: 'c', from, to: whole, step: width }, (c) => {
    const same = fold.of(frame.source.vector(row, c, width)).eq(value.splat(width))
    firsts.set(firsts.get().min(same.select(numbers.add(c), NO_ID)))
  })
  k.for({ name: 'c', from: whole, to }, (c) => {
    const same = fold.of(frame.source.one(row, c)).eq(value) as Value<'bool'>
    first.set(first.get().min(same.select(c, NO_ID)))
  })
  const across = joinAcross(foldOf('min', 'u32', { keys: false }), firsts.get(), width) as U32
  return k.let('found', across.min(first.get()))
}

/** The best of every column of a strip. */
export function pickStrip(k: Scope, frame: Frame, { fold, width, count }: Choice, put: (output: U32, part: U32, best: Best) => void): void {
  const [bests, ids] = [k.shared('bests', fold.state, STRIP), k.shared('found', 'u32', STRIP)]
  Strip.take(k, frame, width, (strip) => {
    strip.eachOne((c) => {
      bests.set(c, k.const(fold.state, fold.start))
      ids.set(c, NO_ID)
    })
    strip.rows(count, (rows, ordinals) =>
      strip.each((c, wide) => {
        let [best, id] = [getCells(bests, c, wide), getCells(ids, c, wide)]
        rows.forEach((row, i) => {
          const value = k.let('value', strip.values(fold, row, c, wide))
          id = beats(fold, best, value).select(ordinals[i]?.like(id) ?? id, id)
          best = fold.join(best, value)
        })
        setCells(ids, c, id, wide)
        setCells(bests, c, best, wide)
      }),
    )
    strip.eachOne((c) => {
      const id = k.var('id', ids.at(c))
      k.when(id.get().eq(NO_ID), () =>
        frame.loops(strip.places, strip.spans, frame.reduced.length, (row, ordinal) => {
          const isFirst = strip.values(fold, row, c, 1).eq(fold.start) as Value<'bool'>
          id.set(isFirst.select(ordinal.min(id.get()), id.get()))
        }),
      )
      put(strip.first.add(c), strip.part, { value: bests.at(c), id: id.get() })
    })
  })
}
