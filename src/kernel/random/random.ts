// Random numbers without a state: element i of a key is a function of both (threefry.ts), so any device computes any part, and the same key
// gives the same numbers everywhere: bit for bit, and normal ones but for the last bits. The key is given with the launch, or read from
// memory, so that a recorded plan gives other numbers each time.
//
// A counter makes two numbers. Elements come in groups of 32: the first numbers of 16 counters, then their second ones, so that vectors of
// counters are stored as they are.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { item } from '../../base/list.ts'
import { type LaneScope, type Readable, type Writable, buffer, uniform } from '../../ir/author.ts'
import type { Elements, Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { NONE, type Work, family, isCpu, isGpu } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { checkSizes } from '../move/size.ts'
import { template } from '../template.ts'
import { normalOf, uniformOf, writeNormal, writeUniform } from './normal.ts'
import { threefry, writeThreefry } from './threefry.ts'

/** 32 random bits as u32; or f32: from 0 to below 1, or normally distributed around 0 with a deviation of 1. */
export type RandomKind = 'bits' | 'uniform' | 'normal'

export interface RandomParams {
  readonly kind: RandomKind
  readonly count: number
  /** two words; absent: they are read from the buffer `seed` */
  readonly key?: readonly [number, number]
}

/** Counters of a group, which has twice as many elements. */
const COUNTERS = 16
const GROUP = 2 * COUNTERS
/** Groups that a workgroup of a CPU fills. */
const GROUPS_EACH = 128

type Words = Elements<'u32'>

interface RandomTraits {
  readonly kind: RandomKind
  /** the key is in memory */
  readonly seeded: boolean
}

const paramsOf = ({ seeded }: RandomTraits) => ({
  ...(seeded ? { seed: buffer('u32', 'read') } : { key: [uniform('u32'), uniform('u32')] }),
  /** floats are written as their bits */
  y: buffer('u32', 'write'),
  count: uniform('u32'),
})

/** The key of a launch, wherever it is. */
interface KeyHandles {
  readonly seed?: Readable<'u32', Uniformity>
  readonly key?: readonly Value<'u32'>[]
}

function keyOf({ seed, key = [] }: KeyHandles): [Value<'u32'>, Value<'u32'>] {
  return seed === undefined ? [item(key, 0), item(key, 1)] : [seed.at(0), seed.at(1)]
}

/** The two numbers of a counter, or of each of a vector, as bits. */
function writeNumbers(k: LaneScope, kind: RandomKind, key: readonly [Words, Words], counter: Words): [Words, Words] {
  const [first, second] = writeThreefry(k, key, [counter, k.const('u32', 0)])
  if (kind === 'bits') return [first, second]
  const [a, b] = kind === 'uniform' ? [writeUniform(first), writeUniform(second)] : writeNormal(k, first, second)
  return [a.as('u32'), b.as('u32')]
}

const vectors = template<RandomTraits & { readonly width: Width }>({ family: 'random', form: 'vectors' }, ({ width, ...traits }, kernel) =>
  kernel(`random_${traits.kind}`, { params: { ...paramsOf(traits), groups: uniform('u32') } }, (p, k) => {
    const key = keyOf(p)
    const steps = k.vec(...Array.from({ length: width }, (_, i) => k.const('u32', i)))
    const first = k.let('first', k.workgroupId.x.mul(GROUPS_EACH))
    k.for({ name: 'group', from: first, to: first.add(GROUPS_EACH).min(p.groups) }, (group) => {
      const start = k.let('start', group.mul(GROUP))
      k.when(
        p.count.sub(start).ge(GROUP),
        () =>
          k.for({ name: 'i', to: COUNTERS, step: width }, (i) => {
            const [a, b] = writeNumbers(k, traits.kind, key, steps.add(group.mul(COUNTERS).add(i)))
            p.y.store(start.add(i), a as VectorOf<'u32'>)
            p.y.store(start.add(COUNTERS).add(i), b as VectorOf<'u32'>)
          }),
        () => k.for({ name: 'i', to: COUNTERS }, (i) => writePair(k, traits.kind, p, key, group, i)),
      )
    })
  }),
)

const lanes = template<RandomTraits & { readonly lanes: number }>({ family: 'random', form: 'lanes' }, ({ lanes, ...traits }, kernel) =>
  kernel(`random_${traits.kind}`, { params: { ...paramsOf(traits), groups: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
    const counter = k.let('counter', flatLane(k, lanes))
    k.when(counter.lt(p.groups.mul(COUNTERS)), () => writePair(k, traits.kind, p, keyOf(p), counter.div(COUNTERS), counter.rem(COUNTERS)))
  }),
)

/** Both numbers of counter `i` of a group, as far as they are wanted. */
function writePair(
  k: LaneScope,
  kind: RandomKind,
  { y, count }: { readonly y: Writable<'u32'>; readonly count: Value<'u32'> },
  key: readonly [Words, Words],
  group: Value<'u32'>,
  i: Value<'u32'>,
): void {
  const numbers = writeNumbers(k, kind, key, group.mul(COUNTERS).add(i))
  numbers.forEach((number, second) => {
    const at = k.let(
      'at',
      group
        .mul(GROUP)
        .add(second * COUNTERS)
        .add(i),
    )
    k.when(at.lt(count), () => y.set(at, number as Value<'u32'>))
  })
}

function work(caps: Caps, { kind, count, key }: RandomParams): Work {
  checkSizes('random', { count })
  const traits = { kind, seeded: key === undefined }
  const groups = Math.ceil(count / GROUP)
  const uniforms = { count, groups, ...(key && { key0: key[0] >>> 0, key1: key[1] >>> 0 }) }
  if (isCpu(caps))
    return { launches: [{ kernel: vectors({ ...traits, width: caps.width }), uniforms, grid: [Math.ceil(groups / GROUPS_EACH), 1, 1] }] }
  const team = teamFor(caps, groups * COUNTERS)
  const grid = flatGrid(caps, Math.ceil((groups * COUNTERS) / team.lanes))
  return { launches: [{ kernel: lanes({ ...traits, lanes: team.lanes }), uniforms, grid }] }
}

const KINDS = ['bits', 'uniform', 'normal'] as const

export const random = family<RandomParams>({
  name: 'random',
  about: 'random bits, uniform or normal numbers, each a function of a key and its place',
  tolerance: ({ kind }) => (kind === 'normal' ? 1e-13 : 0),
  cases: KINDS.flatMap((kind): RandomParams[] => [
    { kind, count: 1000, key: [1, 2] },
    { kind, count: 1, key: [0, 0] },
    { kind, count: 32, key: [0xffffffff, 0x80000000] },
    { kind, count: 5003, key: [42, 0] },
    { kind, count: 17 },
    { kind, count: 777 },
  ]),
  buffers: ({ kind, count, key }) => [
    ...(key === undefined ? [{ name: 'seed', role: 'in', type: 'u32', elements: 2 } as const] : []),
    { name: 'y', role: 'out', type: kind === 'bits' ? 'u32' : 'f32', elements: count },
  ],
  forms: [
    {
      name: 'vectors',
      fits: isCpu,
      work,
      kernels: ({ width }) => (['uniform', 'normal'] as const).map((kind) => vectors({ kind, seeded: true, width })),
    },
    { name: 'lanes', fits: isGpu, work },
  ],
  // additions, rotations and exclusive ors of twenty rounds
  cost: ({ kind, count }) => ({ operations: count * (kind === 'normal' ? 70 : 50), arithmetic: 'f32' }),
  define: ({ seed = NONE }, { kind, count, key = [seed[0] ?? NaN, seed[1] ?? NaN] }) => {
    const y = kind === 'bits' ? new Uint32Array(count) : new Float32Array(count)
    for (let at = 0; at < count; at++) {
      const [group, within] = [Math.floor(at / GROUP), at % GROUP]
      const words = threefry(key, [group * COUNTERS + (within % COUNTERS), 0])
      const second = within >= COUNTERS ? 1 : 0
      y[at] = kind === 'bits' ? words[second] : kind === 'uniform' ? uniformOf(words[second]) : normalOf(...words)[second]
    }
    return { y }
  },
})
