// The number of the largest or smallest element, counted over the reduced axes in order: of equal ones the first, and NaN only if there is
// nothing else. CPUs compare values (pick-vectors.ts); on GPUs they become keys (float-order.ts), which no treatment of NaN confuses. Parts
// leave their best with its number, and a last launch compares those.

import type { Caps } from '../../base/caps.ts'
import { type LaneScope, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value } from '../../ir/value.ts'
import { type Register, elements } from '../element.ts'
import { isCpu } from '../family.ts'
import { type Team, combineLanes, flatGroup } from '../lanes.ts'
import { NO_ID, combineBest, orderKey } from '../select/float-order.ts'
import type { Write } from '../template.ts'
import { eachLane, seekResult } from './columns.ts'
import { type Fold, type State, bestOf, stateOf } from './fold.ts'
import { Frame, type FrameTraits, frameParams, registerFor, sideBySide } from './frame.ts'
import type { PickKind } from './params.ts'
import { type Best, beats, pickRow, pickStrip } from './pick-vectors.ts'
import { eachResult } from './rows.ts'

type U32 = Value<'u32'>

export interface PickTraits extends FrameTraits {
  readonly kind: PickKind
  /** leaves the best of a part with its number */
  readonly cut: boolean
}

/** What parts leave their best as: values on CPUs, keys on GPUs. */
export function partialOf(caps: Caps, register: Register): State {
  return isCpu(caps) ? stateOf(register) : 'i32'
}

const foldFor = (kind: PickKind, register: Register): Fold => bestOf(kind === 'argmax' ? 'max' : 'min', register)

/** An integer that is larger the better a value is. */
function keyOf(kind: PickKind, register: Register, value: Value<Register>): Value<'i32'> {
  if (register === 'f32') return orderKey(value as Value<'f32'>, kind === 'argmin')
  const key = register === 'i32' ? (value as Value<'i32'>) : value.to('u32').xor(0x80000000).as('i32')
  return kind === 'argmin' ? key.not() : key
}

const resultParams = (cut: boolean, partial: State) => ({
  ...(cut ? { best: elements(partial, 'write'), ids: buffer('u32', 'write') } : {}),
  ...(cut ? {} : { y: buffer('u32', 'write') }),
})

/** Writes where results or those of parts go. */
type Put = (at: U32, best: Best) => void

function putInto(p: {
  readonly y?: { set(at: U32, id: U32): void }
  readonly best?: { set(at: U32, value: Value<State>): void }
  readonly ids?: { set(at: U32, id: U32): void }
}): Put {
  return (at, { value, id }) => {
    p.best?.set(at, value)
    p.ids?.set(at, id)
    p.y?.set(at, orFirst(id))
  }
}

/** The first element, where nothing but NaN was seen. */
function orFirst(id: U32): U32 {
  return id.eq(NO_ID).select(id.mul(0), id)
}

export function writePickRows(traits: PickTraits, kernel: Write): Kernel {
  const { kind, cut, lanes, subgroup, width } = traits
  const register = registerFor(traits)
  const params = {
    ...frameParams(traits),
    ...resultParams(cut, lanes > 1 ? 'i32' : stateOf(register)),
    ...(lanes === 1 ? { each: uniform('u32') } : {}),
  }
  return kernel(`${kind}Rows`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const frame = new Frame(k, traits, p)
    const combine = combineLanes(k, { lanes, subgroup })
    const fold = foldFor(kind, register)
    const put = putInto(p)
    eachResult(k, frame, p, (places, part, target) => {
      const spans = frame.spans(part)
      if (lanes === 1) return put(target, pickRow(k, frame, places, spans, { fold, width, count: sideBySide(traits) }))
      const { from, to } = spans.at(-1) ?? { from: part, to: part }
      const inner = frame.walks.size(-1)
      const seen = new Keys(k)
      frame.loops(places, spans, frame.reduced.length - 1, (row, ordinal) =>
        k.for({ name: 'c', from: from.add(k.lane), to, step: lanes }, (c) =>
          seen.include(keyOf(kind, register, frame.source.one(row, c)), ordinal.mul(inner).add(c)),
        ),
      )
      const { key, id } = combineBest(combine, seen.value, seen.id)
      return k.when(k.lane.eq(0), () => put(target, { value: key, id }))
    })
  })
}

/** The best key that a lane has seen, and its number. */
class Keys implements Best {
  readonly #best
  readonly #id

  constructor(k: LaneScope) {
    this.#best = k.var('best', k.const('i32', -(2 ** 31)))
    this.#id = k.var('id', k.const('u32', NO_ID))
  }
  get value(): Value<'i32'> {
    return this.#best.get()
  }
  get id(): U32 {
    return this.#id.get()
  }
  /** Later ones must beat those before. */
  include(key: Value<'i32'>, id: U32): void {
    const [best, before] = [this.value, this.id]
    this.#id.set(key.gt(best).or(before.eq(NO_ID)).select(id, before))
    this.#best.set(key.max(best))
  }
}

export function writePickColumns(traits: PickTraits, kernel: Write): Kernel {
  const { kind, cut, lanes, width } = traits
  const register = registerFor(traits)
  const params = { ...frameParams(traits), ...resultParams(cut, lanes > 1 ? 'i32' : stateOf(register)) }
  return kernel(`${kind}Columns`, { params, workgroup: [lanes] }, (p, k) => {
    const frame = new Frame(k, traits, p)
    const put = putInto(p)
    const targetOf = (output: U32, part: U32): U32 => part.mul(p.outputs).add(output)
    if (lanes === 1) {
      const choice = { fold: foldFor(kind, register), width, count: sideBySide(traits) }
      return pickStrip(k, frame, choice, (output, part, best) => put(targetOf(output, part), best))
    }
    return eachLane(k, frame, p.outputs, lanes, (output, part) => {
      const [places, column] = seekResult(frame, output)
      const seen = new Keys(k)
      frame.loops(places, frame.spans(part), frame.reduced.length, (here, ordinal) =>
        seen.include(keyOf(kind, register, frame.source.one(here, column)), ordinal),
      )
      put(targetOf(output, part), seen)
    })
  })
}

export interface JoinTraits extends Team {
  readonly kind: PickKind
  readonly partial: State
}

/** The best of what parts have left. Part `i` of result `o` is at `o * step0 + i * step1`. */
export function writeJoin({ kind, partial, lanes, subgroup }: JoinTraits, kernel: Write): Kernel {
  const params = {
    best: elements(partial, 'read'),
    ids: buffer('u32', 'read'),
    y: buffer('u32', 'write'),
    outputs: uniform('u32'),
    parts: uniform('u32'),
    step: [uniform('u32'), uniform('u32')],
  }
  // keys are larger the better, whatever the kind
  const fold = foldFor(lanes > 1 ? 'argmax' : kind, partial)
  return kernel(`${kind}Join`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const combine = combineLanes(k, { lanes, subgroup })
    const output = k.let('output', flatGroup(k))
    const [across, along] = [p.step[0] ?? p.parts, p.step[1] ?? p.parts]
    k.when(output.lt(p.outputs), () => {
      const [best, id] = [k.var('best', k.const(partial, fold.start)), k.var('id', k.const('u32', NO_ID))]
      k.for({ name: 'part', from: k.lane, to: p.parts, step: lanes }, (part) => {
        const at = k.let('at', output.mul(across).add(part.mul(along)))
        const [value, found] = [p.best.at(at) as Value<State>, p.ids.at(at)]
        const isFirst = value.eq(best.get()).and(found.lt(id.get())) // parts need not follow each other as elements do
        const taken = beats(fold, best.get(), value).or(isFirst) as Value<'bool'>
        id.set(taken.select(found, id.get()))
        best.set(taken.select(value, best.get()))
      })
      const found = lanes === 1 ? id.get() : combineBest(combine, best.get() as Value<'i32'>, id.get()).id
      k.when(k.lane.eq(0), () => p.y.set(output, orFirst(found)))
    })
  })
}
