// Sorting rows on GPUs. A workgroup sorts a block of a row in its memory, as a bitonic network of pairs: a key, and the index, which makes
// the order of equal keys that of their indices. Longer rows are then merged, two runs to one of twice the length in every launch: each
// lane finds by bisection which elements of the two its few results come from, and merges those.

import type { Caps } from '../../base/caps.ts'
import { type Scope, type Shared, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Form, type Launch, type Work, isGpu } from '../family.ts'
import { flatGrid, flatGroup, flatLane } from '../lanes.ts'
import { template } from '../template.ts'
import { type ArgsortParams, type SortType, flipOf, keyWord, sortKey } from './sort-key.ts'

/** Most elements of a block: eight bytes each fit the memory of any workgroup. */
const BLOCK = 1024
/** Results of a lane that merges. */
const EACH = 8
const MERGE_LANES = 64
const MOST_LANES = 256
const LARGEST = 0xffffffff

type U32 = Value<'u32'>

interface BlockTraits {
  readonly type: SortType
  /** log2 of its elements */
  readonly bits: number
  readonly lanes: number
  /** it is a whole row: only indices are written */
  readonly whole: boolean
}

const blocks = template<BlockTraits>({ family: 'argsort', form: 'merge', stage: 'blocks' }, ({ type, bits, lanes, whole }, kernel) => {
  const size = 2 ** bits
  const number = uniform('u32')
  const params = {
    x: buffer(keyWord(type), 'read'),
    ...(whole ? {} : { keys: buffer('u32', 'write') }),
    y: buffer('u32', 'write'),
    rows: number,
    cols: number,
    flip: number,
    /** blocks of a row */
    parts: number,
  }
  return kernel('argsort', { params, workgroup: [lanes] }, (p, k) => {
    const [keys, ids] = [k.shared('sortKeys', 'u32', size), k.shared('sortIds', 'u32', size)]
    const group = k.let('group', flatGroup(k))
    k.when(group.lt(p.rows.mul(p.parts)), (k) => {
      const from = k.let('from', group.rem(p.parts).mul(size))
      const start = k.let('start', group.div(p.parts).mul(p.cols))
      k.for({ name: 'i', from: k.lane, to: size, step: lanes }, (i) => {
        const c = k.let('c', from.add(i))
        // What lies past the end of the row comes last: its key is the largest, and so is its index.
        const key = sortKey(type, p.x.at(start.add(c.min(p.cols.sub(1)))), p.flip)
        keys.set(i, c.lt(p.cols).select(key, LARGEST))
        ids.set(i, c)
      })
      sortPairs(k, keys, ids, bits, lanes)
      k.for({ name: 'i', from: k.lane, to: p.cols.sub(from).min(size), step: lanes }, (i) => {
        const at = k.let('at', start.add(from).add(i))
        p.keys?.set(at, keys.at(i))
        p.y.set(at, ids.at(i))
      })
    })
  })
})

/** Ends with a barrier: every lane sees the result. */
function sortPairs(k: Scope, keys: Shared<'u32'>, ids: Shared<'u32'>, bits: number, lanes: number): void {
  k.barrier()
  k.for({ name: 'stage', to: bits }, (stage) => {
    k.for({ name: 'step', to: stage.add(1) }, (step) => {
      const apart = k.let('apart', k.const('u32', 1).shl(stage.sub(step)))
      k.for({ name: 'pair', from: k.lane, to: 2 ** (bits - 1), step: lanes }, (pair) => {
        const low = k.let('low', pair.div(apart).mul(apart).mul(2).add(pair.rem(apart)))
        const high = k.let('high', low.add(apart))
        const [a, b] = [k.let('a', keys.at(low)), k.let('b', keys.at(high))]
        const [idA, idB] = [k.let('idA', ids.at(low)), k.let('idB', ids.at(high))]
        const isAbove = a.gt(b).or(a.eq(b).and(idA.gt(idB)))
        const isDown = low.shr(stage.add(1)).and(1).ne(0) // every second run, so that two make a sequence that rises and falls
        k.when(isAbove.xor(isDown), () => {
          keys.set(low, b)
          keys.set(high, a)
          ids.set(low, idB)
          ids.set(high, idA)
        })
      })
      k.barrier()
    })
  })
}

interface MergeTraits {
  readonly last: boolean
}

const merge = template<MergeTraits>({ family: 'argsort', form: 'merge', stage: 'runs' }, ({ last }, kernel) => {
  const number = uniform('u32')
  const params = {
    keys: buffer('u32', 'read'),
    ids: buffer('u32', 'read'),
    ...(last ? {} : { keysNext: buffer('u32', 'write') }),
    y: buffer('u32', 'write'),
    rows: number,
    cols: number,
    /** elements of a sorted run */
    run: number,
    /** lanes for a row */
    across: number,
  }
  return kernel('argsort', { params, workgroup: [MERGE_LANES] }, (p, k) => {
    const lane = k.let('number', flatLane(k, MERGE_LANES))
    k.when(lane.lt(p.rows.mul(p.across)), () => {
      const start = k.let('start', lane.div(p.across).mul(p.cols))
      const from = k.let('from', lane.rem(p.across).mul(EACH))
      const both = k.let('both', p.run.mul(2))
      const left = k.let('left', from.div(both).mul(both))
      const right = k.let('right', left.add(p.run).min(p.cols))
      const end = k.let('end', left.add(both).min(p.cols))
      const lefts = k.let('lefts', right.sub(left))
      const rights = k.let('rights', end.sub(right))
      const before = k.let('before', from.sub(left)) // results of other lanes
      const keyAt = (c: U32): U32 => p.keys.at(start.add(c))

      // How many of those come from the left run: as many as are not above what the right run would give instead.
      const low = k.var('low', before.gt(rights).select(before.sub(rights), 0))
      const high = k.var('high', before.min(lefts))
      k.loop(() => {
        k.breakIf(low.get().ge(high.get()))
        const middle = k.let('middle', low.get().add(high.get()).shr(1))
        const isLeft = keyAt(left.add(middle)).le(keyAt(right.add(before.sub(1).sub(middle))))
        low.set(isLeft.select(middle.add(1), low.get()))
        high.set(isLeft.select(high.get(), middle))
      })
      const [i, j] = [k.var('i', low.get()), k.var('j', before.sub(low.get()))]
      k.for({ name: 'c', from, to: from.add(EACH).min(end) }, (c) => {
        const [ofLeft, ofRight] = [k.let('ofLeft', i.get()), k.let('ofRight', j.get())]
        const keyLeft = keyAt(left.add(ofLeft.min(lefts.sub(1))))
        const keyRight = keyAt(right.add(ofRight).min(p.cols.sub(1)))
        const isLeft = k.let('isLeft', ofLeft.lt(lefts).and(ofRight.ge(rights).or(keyLeft.le(keyRight))))
        const place = k.let('place', start.add(isLeft.select(left.add(ofLeft), right.add(ofRight))))
        p.keysNext?.set(start.add(c), p.keys.at(place))
        p.y.set(start.add(c), p.ids.at(place))
        i.set(isLeft.select(ofLeft.add(1), ofLeft))
        j.set(isLeft.select(ofRight, ofRight.add(1)))
      })
    })
  })
})

function work(caps: Caps, { type, rows, cols, descending }: ArgsortParams): Work {
  const bits = Math.max(1, Math.ceil(Math.log2(Math.min(cols, BLOCK))))
  const size = 2 ** bits
  const parts = Math.ceil(cols / size)
  const passes = Math.ceil(Math.log2(parts))
  const lanes = Math.min(MOST_LANES, caps.lanes, Math.max(32, size / 2))
  const bytes = 4 * rows * cols
  const places = [
    { keys: 'keysA', ids: 'idsA' },
    { keys: 'keysB', ids: 'idsB' },
  ] as const
  const [first] = places
  const sort: Launch = {
    kernel: blocks({ type, bits, lanes, whole: passes === 0 }),
    binds: passes === 0 ? {} : { keys: first.keys, y: first.ids },
    uniforms: { rows, cols, parts, flip: flipOf(type, descending) },
    grid: flatGrid(caps, rows * parts),
  }
  const across = Math.ceil(cols / EACH)
  const merges = Array.from({ length: passes }, (_, pass): Launch => {
    const last = pass === passes - 1
    const [from, to] = pass % 2 === 0 ? places : [places[1], places[0]]
    return {
      kernel: merge({ last }),
      binds: { ...from, ...(last ? {} : { keysNext: to.keys, y: to.ids }) },
      uniforms: { rows, cols, run: size * 2 ** pass, across },
      grid: flatGrid(caps, Math.ceil((rows * across) / MERGE_LANES)),
    }
  })
  const scratch = places.slice(0, Math.min(2, passes)).flatMap(({ keys, ids }) => [[keys, bytes] as const, [ids, bytes] as const])
  return { launches: [sort, ...merges], ...(passes > 0 && { scratch: Object.fromEntries(scratch) }) }
}

export const argsortMerge: Form<ArgsortParams> = { name: 'merge', fits: isGpu, work }
