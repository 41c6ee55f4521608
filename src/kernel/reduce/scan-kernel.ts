// The kernels of scan.ts. What has been added up is held in two numbers, what the last few elements give and what came before them: so few
// are added one by one that rounding stays small, and the longer sum is not what each step waits for.

import type { Width } from '../../base/dtype.ts'
import type { ElementType } from '../../base/element.ts'
import { type Handles, type LaneScope, type Scope, type Var, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Elements, Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { type Register, elements, readOne, readVector, registerOf, writeOne, writeVector } from '../element.ts'
import { type Team, flatGroup, scanLanes } from '../lanes.ts'
import type { Write } from '../template.ts'
import { type Fold, type State, foldOf, stateOf } from './fold.ts'
import { STRIP, getCells, setCells } from './strip.ts'

type U32<U extends Uniformity = Uniformity> = Value<'u32', U>
type Uniform = U32<'uniform'>

/** What a kernel is written for. */
export interface ScanTraits extends Team {
  readonly kind: 'sum' | 'prod'
  readonly type: ElementType
  /** what comes before each part is given */
  readonly carried: boolean
  readonly width: Width
}

/** Elements that are added one by one. */
const BLOCK = 128
/** Neighbours that a lane takes at a time: a power of two. */
const AT_ONCE = 4

const paramsOf = ({ type, carried }: ScanTraits) => ({
  x: elements(type, 'read'),
  ...(carried ? { carry: buffer(stateOf(registerOf(type)), 'read') } : {}),
  y: elements(type, 'write'),
  /** of the axes before, the axis itself, and the axes behind */
  outer: uniform('u32'),
  length: uniform('u32'),
  inner: uniform('u32'),
  parts: uniform('u32'),
  part: uniform('u32'),
  /** 1 or 0 */
  exclusive: uniform('u32'),
  reversed: uniform('u32'),
})
type ScanHandles = Handles<ReturnType<typeof paramsOf>>

const foldFor = ({ kind, type }: ScanTraits): Fold => foldOf(kind, registerOf(type), { keys: false })

/** Elements of the axis in the order that they are included: `count` of them. */
interface Course {
  readonly count: Uniform
  /** the place on the axis of number `j` */
  at(j: U32): U32
}

function courseOf(k: LaneScope, { length, part: size, reversed }: ScanHandles, part: Uniform): Course {
  const from = k.let('from', part.mul(size))
  const to = k.let('to', from.add(size).min(length))
  const isBack = reversed.ne(0)
  const first = k.let('begin', isBack.select(to.sub(1), from))
  const step = k.let('step', isBack.select(k.const('u32', 0xffffffff), 1)) // backwards, modulo 2^32
  return { count: k.let('count', to.sub(from)), at: (j) => first.add(j.mul(step)) }
}

/** What is written where a sum goes from `before` to `after`. */
const chosen = (p: ScanHandles, before: Elements<State>, after: Elements<State>): Elements<State> => p.exclusive.ne(0).select(before, after)

/** Rows that lie in one piece. A workgroup takes one, or a part of it: one by one on a CPU. */
export function writeScanRows(traits: ScanTraits, kernel: Write): Kernel {
  const { kind, lanes, subgroup } = traits
  const fold = foldFor(traits)
  return kernel(`${kind}Scan`, { params: paramsOf(traits), workgroup: [lanes], subgroup }, (p, k) => {
    const group = k.let('group', flatGroup(k))
    const [row, part] = [k.let('row', group.div(p.parts)), k.let('number', group.rem(p.parts))]
    const scan = lanes > 1 ? scanLanes(k, { lanes, subgroup }) : undefined
    k.when(row.lt(p.outer), () => {
      const start = k.let('start', row.mul(p.length))
      const course = courseOf(k, p, part)
      const carry = k.var('carry', p.carry?.at(group) ?? k.const(fold.state, fold.start))
      if (scan === undefined) return scanSerially(k, traits.type, fold, p, { start, course, carry })
      const before = (value: Value<State>): { before: Value<State>; all: Value<State> } =>
        scan(value, fold.start, (a, b) => fold.join(a, b) as Value<State>)
      return scanChunks(k, traits, fold, p, { start, course, carry, before })
    })
  })
}

interface Row {
  readonly start: U32
  readonly course: Course
  readonly carry: Var<State>
}

function scanSerially(k: LaneScope, type: ElementType, fold: Fold, p: ScanHandles, { start, course, carry }: Row): void {
  const none = k.const(fold.state, fold.start)
  k.for({ name: 'block', to: course.count, step: BLOCK }, (block) => {
    const local = k.var(fold.kind, none)
    const include = (j: U32, count: number): void => {
      const places = Array.from({ length: count }, (_, i) => k.let('at', start.add(course.at(j.add(i)))))
      const sums = prefixes(
        k,
        fold,
        places.map((at) => readOne(type, p.x, at) as Value<State>),
      )
      const earlier = k.let('earlier', fold.join(carry.get(), local.get()) as Value<State>)
      places.forEach((at, i) => {
        writeOne(type, p.y, at, fold.join(earlier, chosen(p, sums[i - 1] ?? none, sums[i] ?? none)) as Value<Register>)
      })
      local.set(fold.join(local.get(), sums.at(-1) ?? none) as Value<State>)
    }
    const end = k.let('end', block.add(BLOCK).min(course.count))
    const whole = k.let('whole', block.add(end.sub(block).div(AT_ONCE).mul(AT_ONCE)))
    k.for({ name: 'j', from: block, to: whole, step: AT_ONCE }, (j) => include(j, AT_ONCE))
    k.for({ name: 'j', from: whole, to: end }, (j) => include(j, 1))
    carry.set(fold.join(carry.get(), local.get()) as Value<State>)
  })
}

/** What the first one, two... of some values give; what all give takes as few steps after each other as can be. */
function prefixes(k: LaneScope, fold: Fold, values: readonly Value<State>[]): Value<State>[] {
  if (values.length === 1) return [...values]
  const half = values.length / 2
  const [first, second] = [prefixes(k, fold, values.slice(0, half)), prefixes(k, fold, values.slice(half))]
  const all = first.at(-1)
  return [...first, ...second.map((value) => k.let('sum', all === undefined ? value : (fold.join(all, value) as Value<State>)))]
}

interface LaneRow extends Row {
  /** what the lanes before this one have, and what all have */
  before(value: Value<State>): { before: Value<State>; all: Value<State> }
}

/** Each lane takes neighbours, and learns from the others what comes before them. */
function scanChunks(k: Scope, { type, lanes }: ScanTraits, fold: Fold, p: ScanHandles, { start, course, carry, before }: LaneRow): void {
  const none = k.const(fold.state, fold.start)
  k.for({ name: 'chunk', to: course.count, step: lanes * AT_ONCE }, (chunk) => {
    const own = Array.from({ length: AT_ONCE }, (_, i) => k.let('j', chunk.add(k.lane.mul(AT_ONCE)).add(i)))
    const values = own.map((j) => {
      const value = readOne(type, p.x, start.add(course.at(j.min(course.count.sub(1))))) as Value<State>
      return j.lt(course.count).select(value, none)
    })
    const sums = prefixes(k, fold, values)
    const others = before(sums.at(-1) ?? none)
    const earlier = k.let('earlier', fold.join(carry.get(), others.before) as Value<State>)
    own.forEach((j, i) => {
      const result = fold.join(earlier, chosen(p, sums[i - 1] ?? none, sums[i] ?? none)) as Value<Register>
      k.when(j.lt(course.count), () => writeOne(type, p.y, start.add(course.at(j)), result))
    })
    carry.set(fold.join(carry.get(), others.all) as Value<State>)
  })
}

/** Where the axis is not the last: a strip of columns for each workgroup of a CPU, a lane for each column on a GPU. */
export function writeScanColumns(traits: ScanTraits, kernel: Write): Kernel {
  const { kind, lanes } = traits
  const fold = foldFor(traits)
  return kernel(`${kind}ScanColumns`, { params: paramsOf(traits), workgroup: [lanes] }, (p, k) => {
    if (lanes === 1) scanStrip(k, traits, fold, p)
    else scanLane(k, traits, fold, p)
  })
}

function scanLane(k: Scope, { type, lanes }: ScanTraits, fold: Fold, p: ScanHandles): void {
  const columns = k.let('columns', p.outer.mul(p.inner))
  const groups = columns.add(lanes - 1).div(lanes)
  const group = k.let('group', flatGroup(k))
  const part = k.let('number', group.div(groups))
  const column = k.let('column', group.rem(groups).mul(lanes).add(k.lane))
  k.when(column.lt(columns).and(part.lt(p.parts)), () => {
    const course = courseOf(k, p, part)
    const start = k.let('start', column.div(p.inner).mul(p.length).mul(p.inner).add(column.rem(p.inner)))
    const carry = k.var('carry', p.carry?.at(part.mul(columns).add(column)) ?? k.const(fold.state, fold.start))
    const along: Course = { count: course.count, at: (j) => course.at(j).mul(p.inner) }
    scanSerially(k, type, fold, p, { start, course: along, carry })
  })
}

function scanStrip(k: Scope, { type, width }: ScanTraits, fold: Fold, p: ScanHandles): void {
  const [carries, locals] = [k.shared('carries', fold.state, STRIP), k.shared('locals', fold.state, STRIP)]
  const strips = k.let('strips', p.inner.add(STRIP - 1).div(STRIP))
  const group = k.let('group', flatGroup(k))
  const part = k.let('number', group.div(strips).div(p.outer))
  const none = k.const(fold.state, fold.start)
  k.when(part.lt(p.parts), () => {
    const row = k.let('row', group.div(strips).rem(p.outer))
    const column = k.let('column', group.rem(strips).mul(STRIP))
    const count = k.let('width', p.inner.sub(column).min(STRIP))
    const whole = k.let('whole', count.div(width).mul(width))
    const each = (visit: (c: U32, wide: 1 | Width) => void): void => {
      k.for({ name: 'c', to: whole, step: width }, (c) => visit(c, width))
      k.for({ name: 'c', from: whole, to: count }, (c) => visit(c, 1))
    }
    const first = k.let('first', part.mul(p.outer).add(row).mul(p.inner).add(column))
    each((c, wide) => {
      const { carry } = p
      const given = carry === undefined ? undefined : wide === 1 ? carry.at(first.add(c)) : carry.load(first.add(c), wide)
      setCells(carries, c, given ?? (wide === 1 ? none : none.splat(wide)), wide)
    })
    const course = courseOf(k, p, part)
    k.for({ name: 'block', to: course.count, step: BLOCK }, (block) => {
      each((c, wide) => setCells(locals, c, wide === 1 ? none : none.splat(wide), wide))
      k.for({ name: 'j', from: block, to: block.add(BLOCK).min(course.count) }, (j) => {
        const start = k.let('start', row.mul(p.length).add(course.at(j)).mul(p.inner).add(column))
        each((c, wide) => {
          const at = start.add(c)
          const before = getCells(locals, c, wide)
          const value = wide === 1 ? readOne(type, p.x, at) : readVector(k, type, p.x, at, wide)
          const after = k.let('after', fold.join(before, value as Elements<State>))
          setCells(locals, c, after, wide)
          const result = fold.join(getCells(carries, c, wide), chosen(p, before, after))
          if (wide === 1) writeOne(type, p.y, at, result as Value<Register>)
          else writeVector(type, p.y, at, result as VectorOf<Register>, wide)
        })
      })
      each((c, wide) => setCells(carries, c, fold.join(getCells(carries, c, wide), getCells(locals, c, wide)), wide))
    })
  })
}
