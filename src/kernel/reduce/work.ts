// The launches of a reduction: which kernel, how it is cut, and what more it takes until nothing is left in parts.

import type { Caps } from '../../base/caps.ts'
import { ELEMENT_BYTES, type ElementType } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import type { Register } from '../element.ts'
import { type Launch, type Work, isCpu } from '../family.ts'
import { flatGrid, teamFor } from '../lanes.ts'
import { mergeSource } from '../map/params.ts'
import { sizeOf } from '../map/walk.ts'
import { template } from '../template.ts'
import { writeColumns } from './columns.ts'
import { foldOf, stateOf } from './fold.ts'
import { type FoldTraits, type FrameTraits, isDivided } from './frame.ts'
import { type Cut, type Layout, cutInto, cutOf, layoutOf, orderOf, partsOf, walksOf } from './layout.ts'
import { type FoldKind, type ReduceParams, axesOf, checkReduce, isPick, plainReduce } from './params.ts'
import { type JoinTraits, type PickTraits, partialOf, writeJoin, writePickColumns, writePickRows } from './pick.ts'
import { writeRows } from './rows.ts'
import { STRIP } from './strip.ts'

const FOLDS = {
  rows: template<FoldTraits>({ family: 'reduce', form: 'rows' }, writeRows),
  columns: template<FoldTraits>({ family: 'reduce', form: 'columns' }, writeColumns),
} as const
const PICKS = {
  rows: template<PickTraits>({ family: 'reduce', form: 'rows', stage: 'pick' }, writePickRows),
  columns: template<PickTraits>({ family: 'reduce', form: 'columns', stage: 'pick' }, writePickColumns),
} as const
const join = template<JoinTraits>({ family: 'reduce', form: 'rows', stage: 'join' }, writeJoin)

/** Elements that a workgroup of a CPU takes, at least. */
const CHUNK = 4096
const LANES = 64

/** A launch without its kernel, and the facts that one is written for. */
interface Plan {
  readonly traits: FrameTraits
  readonly layout: Layout
  readonly cut: Cut
  readonly launch: Omit<Launch, 'kernel'>
}

/** `part`: elements of a result that a workgroup takes, if somebody wants to say so. */
function plan(caps: Caps, params: ReduceParams, part?: number): Plan {
  const layout = layoutOf(caps, params)
  const { arrangement, kept, reduced, outputs, count } = layout
  const cpu = isCpu(caps)
  const columns = kept.at(-1)?.size ?? 1
  const each = Math.max(1, Math.min(Math.floor(CHUNK / count), columns, Math.ceil(outputs / (4 * caps.parallel))))
  const lanes = Math.min(LANES, caps.lanes)
  const groups =
    arrangement === 'rows'
      ? (outputs / columns) * Math.ceil(columns / (cpu ? each : 1))
      : cpu
        ? (outputs / columns) * Math.ceil(columns / STRIP)
        : Math.ceil(outputs / lanes)
  const cut = part === undefined ? cutOf(caps, layout, groups) : cutInto(layout, part)
  const team = arrangement === 'rows' ? teamFor(caps, cut.part.at(-1) ?? 1) : { lanes, subgroup: 0 }
  const source = mergeSource(
    params,
    orderOf(layout).map(({ size }) => size),
    walksOf(caps, layout, params.inputs),
  )
  const numbers = (name: string, list: readonly number[]): [string, number][] => list.map((value, i) => [`${name}${i}`, value])
  return {
    layout,
    cut,
    traits: { ...source.traits, ...team, arrangement, kept: kept.length, reduced: reduced.length, width: caps.width },
    launch: {
      binds: source.binds,
      grid: flatGrid(caps, groups * partsOf(cut)),
      uniforms: {
        ...source.uniforms,
        outputs,
        ...Object.fromEntries([...numbers('parts', cut.parts), ...numbers('part', cut.part)]),
        ...(arrangement === 'rows' && cpu ? { each } : {}),
      },
    },
  }
}

export function reduceWork(caps: Caps, params: ReduceParams): Work {
  const register = checkReduce(params)
  const { kind, type } = params
  if (isPick(kind)) return pickWork(caps, { ...params, kind }, register)
  return foldWork(caps, params, {
    kind: kind === 'mean' ? 'sum' : kind,
    register,
    type,
    divisor: kind === 'mean' ? reducedCount(params) : 1,
  })
}

function reducedCount(params: ReduceParams): number {
  return sizeOf(axesOf(params).reduced.map((axis) => params.shape[axis] ?? 1))
}

interface FoldFacts {
  readonly kind: FoldKind
  readonly register: Register
  /** of the last result, and what that is divided by */
  readonly type: ElementType
  readonly divisor: number
}

/** As many launches as it takes until nothing is left in parts. */
function foldWork(caps: Caps, params: ReduceParams, facts: FoldFacts, level = 0): Work {
  const { kind, register, type, divisor } = facts
  const { traits, layout, cut, launch } = plan(caps, params)
  const { arrangement, outputs } = layout
  const parts = partsOf(cut)
  const state = stateOf(register)
  const isLast = parts === 1
  const kernel = FOLDS[arrangement]({ ...traits, kind, type: isLast ? type : state })
  const divides = isDivided(foldOf(kind, register, { keys: false }))
  const before = level === 0 ? launch.binds : { in0: `partial${level - 1}` }
  const own: Launch = {
    ...launch,
    kernel,
    binds: { ...before, ...(isLast ? {} : { y: `partial${level}` }) },
    uniforms: { ...launch.uniforms, ...(divides ? { divisor: isLast ? divisor : 1 } : {}) },
  }
  if (isLast) return { launches: [own] }
  const shape = arrangement === 'rows' ? [outputs, parts] : [parts, outputs]
  const rest: ReduceParams = { ...plainReduce(kind, [arrangement === 'rows' ? 1 : 0], shape, state), type }
  const { launches, scratch } = foldWork(caps, rest, { ...facts, register: state }, level + 1)
  return { launches: [own, ...launches], scratch: { [`partial${level}`]: ELEMENT_BYTES[state] * outputs * parts, ...scratch } }
}

/** One launch; or one that leaves the best of every part, and one that compares those. */
function pickWork(caps: Caps, params: ReduceParams & Pick<PickTraits, 'kind'>, register: Register): Work {
  const { kind } = params
  if (register === 'f64' && !isCpu(caps))
    throw new IngotError('unsupported', 'lanes compare keys of 32 bits, which hold no double', { op: kind, got: register })
  const { traits, layout, cut, launch } = plan(caps, params)
  const { arrangement, outputs } = layout
  const parts = partsOf(cut)
  const own = { ...launch, kernel: PICKS[arrangement]({ ...traits, kind, cut: parts > 1 }) }
  if (parts === 1) return { launches: [own] }
  const partial = partialOf(caps, register)
  const [step0, step1] = arrangement === 'rows' ? [parts, 1] : [1, outputs]
  const last: Launch = {
    kernel: join({ kind, partial, ...teamFor(caps, parts) }),
    uniforms: { outputs, parts, step0, step1 },
    grid: flatGrid(caps, outputs),
  }
  return { launches: [own, last], scratch: { best: ELEMENT_BYTES[partial] * outputs * parts, ids: 4 * outputs * parts } }
}

/** The values of parts of so many elements along one axis, in `partial`. Rows: all parts of a result side by side; columns: all results. */
export function partsLaunch(
  caps: Caps,
  params: ReduceParams & { readonly kind: FoldKind },
  part: number,
): { launch: Launch; layout: Layout; parts: number } {
  const register = checkReduce(params)
  const { kind } = params
  const { traits, layout, cut, launch } = plan(caps, params, part)
  const kernel = FOLDS[layout.arrangement]({ ...traits, kind, type: stateOf(register) })
  const uniforms = { ...launch.uniforms, ...(isDivided(foldOf(kind, register, { keys: false })) ? { divisor: 1 } : {}) }
  return { launch: { ...launch, kernel, uniforms, binds: { ...launch.binds, y: 'partial' } }, layout, parts: partsOf(cut) }
}
