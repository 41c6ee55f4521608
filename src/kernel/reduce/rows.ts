// Reductions along the last of the reduced axes: each workgroup takes results, or a part of one. On a CPU it goes in vectors, several
// side by side so that none waits for the one before; on a GPU its lanes go side by side and meet at the end.

import type { Vector, Width } from '../../base/dtype.ts'
import { type LaneScope, type Scope, type Var, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { type Register, elements, registerOf, writeOne } from '../element.ts'
import { combineLanes, flatGroup } from '../lanes.ts'
import type { Places, Source } from '../map/source.ts'
import type { Write } from '../template.ts'
import { type Fold, type State, foldOf, joinAcross } from './fold.ts'
import { AHEAD, type FoldTraits, Frame, finish, frameParams, isDivided, joinAll, registerFor, sideBySide } from './frame.ts'

type U32 = Value<'u32'>
type Uniform = Value<'u32', 'uniform'>

/** Elements of a cache line: one load of each asks for what is further on. */
const LINE = 16

export function writeRows(traits: FoldTraits, kernel: Write): Kernel {
  const { kind, type, lanes, subgroup, width } = traits
  const fold = foldOf(kind, registerFor(traits), { keys: lanes > 1 })
  const params = {
    ...frameParams(traits),
    y: elements(type, 'write'),
    ...(lanes === 1 ? { each: uniform('u32') } : {}),
    ...(isDivided(fold) ? { divisor: uniform('u32') } : {}),
  }
  return kernel(`${kind}Rows`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const frame = new Frame(k, traits, p)
    const combine = combineLanes(k, { lanes, subgroup })
    eachResult(k, frame, p, (places, part, target) => {
      const spans = frame.spans(part)
      const { from, to } = spans.at(-1) ?? { from: part, to: part }
      const count = sideBySide(traits)
      const run = lanes === 1 ? new VectorRun(k, fold, frame.source, width, count) : new LaneRun(k, fold, frame.source, lanes, count)
      frame.loops(places, spans, frame.reduced.length - 1, (row) => run.include(row, from, to))
      const state = combine(fold.kind, run.total())
      const result = finish(fold, state, registerOf(type), p.divisor) as Value<Register>
      k.when(k.lane.eq(0), () => writeOne(type, p.y, target, result))
    })
  })
}

interface Groups {
  readonly outputs: Uniform
  /** results of a workgroup of a CPU, side by side on the last kept axis; a workgroup of a GPU takes one */
  readonly each?: Uniform
}

/** The results of a workgroup: where their values begin, which part of them it takes, and where its result goes. */
export function eachResult(
  k: Scope,
  frame: Frame,
  { outputs, each }: Groups,
  body: (places: Places<'uniform'>, part: Uniform, target: Uniform) => void,
): void {
  const { walks, kept, parts } = frame
  const group = k.let('group', flatGroup(k))
  const part = k.let('number', group.rem(parts))
  const rest = k.let('rest', group.div(parts))
  const targetOf = (output: Uniform): Uniform => output.mul(parts).add(part)
  if (each === undefined) return k.when(rest.lt(outputs), () => body(walks.seek(walks.start(), kept, rest), part, targetOf(rest)))
  const inner = kept.at(-1) ?? 0
  const chunks = k.let('chunks', walks.size(inner).add(each).sub(1).div(each))
  const row = k.let('row', rest.div(chunks))
  const starts = walks.seek(walks.start(), kept.slice(0, -1), row)
  const from = k.let('first', rest.rem(chunks).mul(each))
  const to = from.add(each).min(walks.size(inner))
  return k.when(row.mul(walks.size(inner)).lt(outputs), () =>
    k.for({ name: 'output', from, to }, (i) => body(walks.step(starts, inner, i), part, targetOf(row.mul(walks.size(inner)).add(i)))),
  )
}

/** Includes runs of elements along the last axis. */
interface Run {
  include(places: Places, from: Uniform, to: Uniform): void
  total(): Value<State>
}

export class VectorRun implements Run {
  readonly #k: LaneScope
  readonly #fold: Fold
  readonly #source: Source
  readonly #width: Width
  readonly #vectors: readonly Var<Vector<State>>[]
  readonly #rest: Var<State>

  constructor(k: LaneScope, fold: Fold, source: Source, width: Width, count: number) {
    this.#k = k
    this.#fold = fold
    this.#source = source
    this.#width = width
    const start = k.const(fold.state, fold.start)
    this.#vectors = Array.from({ length: count }, () => k.var(fold.kind, start.splat(width)))
    this.#rest = k.var(fold.kind, start)
  }

  include(places: Places, from: U32, to: U32): void {
    const [k, fold, width] = [this.#k, this.#fold, this.#width]
    const wide = width * this.#vectors.length
    const wholes = k.let('wholes', from.add(to.sub(from).div(wide).mul(wide)))
    const whole = k.let('whole', from.add(to.sub(from).div(width).mul(width)))
    const add = (at: number, c: U32, isAhead: boolean): void => {
      const vector = this.#vectors[at]
      const value = fold.of(this.#source.vector(places, c, width, isAhead ? AHEAD : undefined))
      vector?.set(fold.join(vector.get(), value) as VectorOf<State>)
    }
    k.for({ name: 'c', from, to: wholes, step: wide }, (c) =>
      this.#vectors.forEach((_, i) => add(i, c.add(i * width), (i * width) % LINE === 0)),
    )
    if (this.#vectors.length > 1) k.for({ name: 'c', from: wholes, to: whole, step: width }, (c) => add(0, c, false))
    k.for({ name: 'c', from: whole, to }, (c) => {
      this.#rest.set(fold.join(this.#rest.get(), fold.of(this.#source.one(places, c))) as Value<State>)
    })
  }

  total(): Value<State> {
    const fold = this.#fold
    const vector = joinAll(
      fold,
      this.#vectors.map((each) => each.get()),
    )
    return this.#k.let('total', fold.join(joinAcross(fold, vector, this.#width), this.#rest.get()) as Value<State>)
  }
}

class LaneRun implements Run {
  readonly #k: LaneScope
  readonly #fold: Fold
  readonly #source: Source
  readonly #lanes: number
  readonly #states: readonly Var<State>[]

  constructor(k: LaneScope, fold: Fold, source: Source, lanes: number, count: number) {
    this.#k = k
    this.#fold = fold
    this.#source = source
    this.#lanes = lanes
    this.#states = Array.from({ length: count }, () => k.var(fold.kind, k.const(fold.state, fold.start)))
  }

  include(places: Places, from: U32, to: U32): void {
    const [k, fold, lanes] = [this.#k, this.#fold, this.#lanes]
    const wide = lanes * this.#states.length
    const whole = wide === lanes ? from : k.let('whole', from.add(to.sub(from).div(wide).mul(wide)))
    const add = (at: number, c: U32): void => {
      const state = this.#states[at]
      state?.set(fold.join(state.get(), fold.of(this.#source.one(places, c))) as Value<State>)
    }
    const addAll = (c: U32): void => this.#states.forEach((_, i) => add(i, c.add(i * lanes)))
    if (wide > lanes) k.for({ name: 'c', from: from.add(k.lane), to: whole, step: wide }, addAll)
    k.for({ name: 'c', from: whole.add(k.lane), to, step: lanes }, (c) => add(0, c))
  }

  total(): Value<State> {
    return joinAll(
      this.#fold,
      this.#states.map((each) => each.get()),
    )
  }
}
