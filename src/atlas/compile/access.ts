// Loads and stores of a compiled program: which region an access means, where it begins there, and whether that is a good place. An access
// whose region is known is one load or store; one whose handle is computed while running is a branch for every region that there is. With
// checks, a bad access is reported and goes nowhere. Pools of lanes are here, too: parts of one region, a row for every lane.

import { storageBytes } from '../../base/dtype.ts'
import type { Builder } from '../../ir/build.ts'
import type { Node } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import { BOUNDARY_BYTES } from '../class.ts'
import type { FaultCode } from '../machine.ts'
import { laneHandle } from '../pool.ts'
import { type AtlasType, TYPES } from '../type.ts'
import { type Algebra, type Lowered, highOf } from './algebra.ts'
import { loadValue, storeValue } from './element.ts'
import { type PoolPlan, type Region, type RegionPlan, nameOf } from './memory.ts'

export interface AccessPlan {
  readonly regions: ReadonlyMap<Region, RegionPlan>
  readonly pools: PoolPlan
  readonly sharedBytes: number
  readonly checks: boolean
}

/** One of two faults, by a condition. */
export interface EitherFault {
  readonly condition: Node
  readonly yes: FaultCode
  readonly no: FaultCode
}

/** Notes an error of this lane, unless `holds`; `got` is what was asked for. */
export type Report = (holds: Node, fault: FaultCode | EitherFault, got?: readonly Node[]) => void

/** Regions that an access may mean, by a handle that is in no way wrong unless it is given, and how far into them. */
export interface Reach {
  readonly regions: readonly Region[]
  /** a u64; none where the region is sure */
  readonly handle?: Lowered
  /** Asked for when it is known that there is such memory: it may be an error of its own. */
  readonly offset: () => Lowered
}

interface Place {
  readonly plan: RegionPlan
  readonly index: Node
  /** none without checks */
  readonly isGood?: Node
}

export class AccessWriter {
  readonly #builder: Builder
  readonly #k: Algebra
  readonly #plan: AccessPlan
  readonly #report: Report
  readonly #globalLane: () => Node
  /** whether a pool of this lane is in use, by instruction */
  readonly #live = new Map<number, number>()

  constructor(k: Algebra, plan: AccessPlan, report: Report, globalLane: () => Node) {
    this.#builder = k.builder
    this.#k = k
    this.#plan = plan
    this.#report = report
    this.#globalLane = globalLane
  }

  /** Declares what lives from block to block. */
  declare(): void {
    if (!this.#plan.checks) return
    for (const at of this.#plan.pools.sites.keys()) {
      this.#live.set(at, this.#builder.variable(`pool${at}`, this.#builder.constant(false, 'bool')))
    }
  }

  load(reach: Reach, type: AtlasType): Lowered {
    const places = this.#choices(reach)
    const offset = reach.offset()
    const only = places.length === 1 ? places[0] : undefined
    if (only !== undefined && only.isMeant === undefined) {
      const { plan, index } = this.#place(only.region, reach, offset, type)
      return loadValue(this.#k, plan, index, type)
    }
    const { low, high } = this.#k.constant(type, 0)
    const words = high === undefined ? [low] : [low, high]
    const ids = words.map((word) => this.#builder.variable('value', word))
    for (const { region, isMeant } of places) {
      this.#when(isMeant, () => {
        const { plan, index } = this.#place(region, reach, offset, type)
        const value = loadValue(this.#k, plan, index, type)
        ids.forEach((id, word) => this.#builder.set(id, word === 0 ? value.low : highOf(value)))
      })
    }
    const [first = low, second] = ids.map((id) => this.#builder.get('value', id, low.dtype))
    return second === undefined ? { type, low: first } : { type, low: first, high: second }
  }

  store(reach: Reach, value: Lowered): void {
    const places = this.#choices(reach)
    const offset = reach.offset()
    for (const { region, isMeant } of places) {
      this.#when(isMeant, () => {
        const { plan, index, isGood } = this.#place(region, reach, offset, value.type)
        this.#when(isGood, () => storeValue(this.#k, plan, index, value))
      })
    }
  }

  #when(condition: Node | undefined, then: () => void): void {
    if (condition === undefined) then()
    else this.#builder.if(condition, then)
  }

  /** Each region with the condition under which it is meant; none where that is sure. That none is meant is reported. */
  #choices({ regions, handle }: Reach): readonly { readonly region: Region; readonly isMeant?: Node }[] {
    const [only, ...others] = regions
    const isSure = others.length === 0 && only !== undefined && (handle === undefined || (only === 'pools' && !this.#plan.checks))
    if (handle === undefined || isSure) return regions.map((region) => ({ region }))
    const choices = regions.map((region) => ({ region, isMeant: this.#builder.bind('is', this.#means(handle, region)) }))
    const none = this.#builder.constant(false, 'bool')
    this.#report(
      choices.reduce((any, { isMeant }) => this.#apply('or', any, isMeant), none),
      'unknown-handle',
    )
    return choices
  }

  #means(handle: Lowered, region: Region): Node {
    if (region === 'pools') return this.#plan.checks ? this.#isLive(handle) : this.#apply('ne', highOf(handle), this.#word(0))
    const number = typeof region === 'number' ? region : Number(region.replace('pool', ''))
    return this.#k.compare('eq', handle, this.#k.constant('u64', BigInt(number)))
  }

  /** The element where an access begins; with checks, one that is there, and whether it is the right one. */
  #place(region: Region, { handle }: Reach, offset: Lowered, type: AtlasType): Place {
    const plan = this.#plan.regions.get(region)
    if (plan === undefined) throw new TypeError(`no plan of ${region}`)
    const start = region === 'pools' && handle !== undefined ? this.#poolStart(handle) : this.#word(0)
    const element = (bytes: Node): Node => this.#element(plan, region === 'pools' ? this.#apply('add', start, bytes) : bytes)
    if (!this.#plan.checks) return { plan, index: element(offset.low) }
    const isGood = this.#checkPlace(offset, this.#bytesOf(region, handle), TYPES[type].bytes)
    const index =
      region === 'pools'
        ? element(this.#apply('select', isGood, offset.low, this.#word(0)))
        : this.#apply('select', isGood, element(offset.low), this.#word(0))
    return { plan, index: this.#builder.bind('index', index), isGood }
  }

  #element({ storage }: RegionPlan, bytes: Node): Node {
    return this.#apply('shr', bytes, this.#word(Math.log2(storageBytes(storage))))
  }

  /** Whether so many bytes from an offset on are there, and the offset is a multiple of their number; if not, that is reported. */
  #checkPlace(offset: Lowered, bytes: Node, size: number): Node {
    const isBelow = this.#apply('and', this.#apply('eq', highOf(offset), this.#word(0)), this.#apply('lt', offset.low, bytes))
    const isInside = this.#apply('and', isBelow, this.#apply('ge', this.#apply('sub', bytes, offset.low), this.#word(size)))
    const isAligned = this.#apply('eq', this.#apply('and', offset.low, this.#word(size - 1)), this.#word(0))
    const isGood = this.#builder.bind('good', size === 1 ? isInside : this.#apply('and', isInside, isAligned))
    this.#report(isGood, { condition: isInside, yes: 'bad-address', no: 'out-of-range' }, [offset.low, highOf(offset)])
    return isGood
  }

  #bytesOf(region: Region, handle: Lowered | undefined): Node {
    if (region === 'shared') return this.#word(this.#plan.sharedBytes)
    if (region === 'boundary') return this.#word(BOUNDARY_BYTES)
    if (region === 'pools' && handle !== undefined) return this.#ofPool(handle, (site) => site.bytes)
    return this.#builder.make('uniform', 'u32', [], `${nameOf(region)}_bytes`)
  }

  // ---- pools of this lane

  /** A pool of zeros, unless it is in use. */
  allocate(at: number, bytes: bigint): Lowered {
    const live = this.#live.get(at)
    if (live !== undefined) {
      this.#report(this.#apply('not', this.#builder.get('live', live, 'bool')), 'double-free')
      this.#builder.set(live, this.#builder.constant(true, 'bool'))
    }
    const handle = this.#k.constant('u64', laneHandle(at))
    const plan = this.#plan.regions.get('pools')
    if (plan !== undefined && bytes > 0n) {
      const count = Math.ceil(Number(bytes) / storageBytes(plan.storage))
      const first = this.#builder.bind('first', this.#element(plan, this.#poolStart(handle)))
      const zero = this.#builder.constant(0, this.#k.dtypeOf(plan.storage))
      this.#builder.for('i', [this.#word(0), this.#word(count), this.#word(1)], (i) => {
        this.#builder.store(plan.name, this.#apply('add', first, i), zero)
      })
    }
    return handle
  }

  free(handle: Lowered): void {
    this.#report(this.#isLive(handle), 'unknown-handle')
    for (const [at, live] of this.#live) {
      const stays = this.#apply('not', this.#isPool(handle, at))
      this.#builder.set(live, this.#apply('and', stays, this.#builder.get('live', live, 'bool')))
    }
  }

  /** The first byte of a pool of this lane. */
  #poolStart(handle: Lowered): Node {
    const row = this.#apply('mul', this.#globalLane(), this.#word(this.#plan.pools.laneBytes))
    return this.#apply(
      'add',
      row,
      this.#ofPool(handle, (site) => site.offset),
    )
  }

  /** A number of the pool that a handle means; 0 if it means none. */
  #ofPool(handle: Lowered, number: (site: { readonly offset: number; readonly bytes: number }) => number): Node {
    return [...this.#plan.pools.sites].reduce(
      (other, [at, site]) => this.#apply('select', this.#isPool(handle, at), this.#word(number(site)), other),
      this.#word(0),
    )
  }

  #isPool(handle: Lowered, at: number): Node {
    return this.#k.compare('eq', handle, this.#k.constant('u64', laneHandle(at)))
  }

  #isLive(handle: Lowered): Node {
    const uses = [...this.#live].map(([at, live]) => this.#apply('and', this.#isPool(handle, at), this.#builder.get('live', live, 'bool')))
    return uses.reduce((a, b) => this.#apply('or', a, b), this.#builder.constant(false, 'bool'))
  }

  #word(value: number): Node {
    return this.#builder.constant(value, 'u32')
  }

  #apply(op: OpName, ...src: readonly Node[]): Node {
    return this.#builder.apply(op, src)
  }
}
