// The machine that writes a kernel: what an instruction asks for becomes nodes. Registers are values; those that live on from block to
// block are variables, too. With checks, what would be an error of the interpreter is reported: the lane notes its first one, goes on with
// harmless values, and the host reads the note of the first lane that has one. So control flow is that of a program without errors.

import { storageBytes } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Builder } from '../../ir/build.ts'
import type { Node } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import { BOUNDARY_BYTES, CLASSES, CLASS_BYTES, PAGE_BYTES } from '../class.ts'
import { FAULTS } from '../fault.ts'
import { recordOf } from '../instruction/index.ts'
import type { Launch } from '../launch.ts'
import type { FaultCode, Machine, Meaning, Space } from '../machine.ts'
import { type Address, type Condition, PRESET } from '../operand.ts'
import { type AtlasProgram, operandsOf } from '../program.ts'
import { printInstruction } from '../text.ts'
import { type AtlasType, type AtlasValue, TYPES } from '../type.ts'
import { Algebra, type Lowered, dtypeOf, highOf } from './algebra.ts'
import { loadValue, storeValue } from './element.ts'
import { type Facts, accessesOf, step } from './flow.ts'
import type { Block } from './graph.ts'
import { type PoolPlan, type Region, type RegionPlan, regionOf } from './memory.ts'

/** Words before the notes of lanes: the first one is the first lane with an error. */
export const STATUS_HEAD = 4
/** Words of a note: instruction and number of the fault, and what was asked for (64 bits). */
export const STATUS_NOTE = 3
/** A note is never 0: its lowest bit is set, then come the fault and the instruction. */
export const FAULT_BITS = 4
export const FAULT_CODES = Object.keys(FAULTS) as readonly FaultCode[]

export interface Plan {
  readonly program: AtlasProgram
  readonly launch: Pick<Launch, 'block' | 'sharedBytes'>
  readonly entries: readonly Facts[]
  readonly regions: ReadonlyMap<Region, RegionPlan>
  readonly pools: PoolPlan
  readonly blocks: readonly Block[]
  readonly checks: boolean
}

export class KernelWriter implements Machine<Lowered, Node> {
  readonly #builder: Builder
  readonly #k: Algebra
  readonly #plan: Plan
  /** variables of what lives on: by register and type, and by predicate */
  readonly #variables = new Map<string, readonly number[]>()
  /** what any instruction writes */
  readonly #changing: ReadonlySet<string>
  /** whether a register was written, where that is not sure */
  readonly #written = new Map<string, number>()
  /** values that are at hand in this block */
  readonly #values = new Map<string, Lowered>()
  /** whether a pool is in use, by instruction */
  readonly #live = new Map<number, number>()
  #facts: Facts = new Map()
  #at = 0
  #phase = -1
  /** variables of this lane's note */
  #notes: readonly [note: number, low: number, high: number] | undefined

  constructor(builder: Builder, plan: Plan) {
    this.#builder = builder
    this.#k = new Algebra(builder)
    this.#plan = plan
    const { program } = plan
    this.#changing = new Set(program.instructions.flatMap((_, at) => accessesOf(program, at).writes.map(({ key }) => key)))
  }

  // ---- before and between blocks

  /** Declares what lives from block to block. */
  declare(): void {
    const { program, blocks, checks } = this.#plan
    for (const block of blocks) {
      const local = new Set<string>()
      const facts: Facts = new Map(this.#plan.entries[block.id])
      for (const at of block.instructions) {
        const { reads, writes } = accessesOf(program, at)
        for (const { key, type } of reads) {
          if (!local.has(`${key} ${type}`)) this.#declareRegister(key, type)
          const fact = facts.get(key)
          if (checks && (fact === undefined || fact.maybe === true) && !this.#written.has(key)) {
            this.#written.set(key, this.#builder.variable(`has_${key}`, this.#builder.constant(false, 'bool')))
          }
        }
        for (const { key, type } of writes) local.add(`${key} ${type}`)
        step(program, at, facts)
      }
    }
    const ops = new Set(program.instructions.map(({ op }) => op))
    if (ops.has('phaseGet') || ops.has('phaseAdv')) this.#phase = this.#builder.variable('phase', this.#word(0))
    for (const at of checks ? this.#plan.pools.sites.keys() : []) {
      this.#live.set(at, this.#builder.variable(`pool${at}`, this.#builder.constant(false, 'bool')))
    }
    const note = (): number => this.#builder.variable('note', this.#word(0))
    if (checks) this.#notes = [note(), note(), note()]
  }

  #declareRegister(key: string, type: AtlasType): void {
    const name = `${key} ${type}`
    if (this.#variables.has(name) || (this.#preset(key)?.type === type && !this.#changing.has(key))) return
    const preset = this.#preset(key)
    const value = preset?.type === type ? preset : this.#zero(key, type)
    const words = value.high === undefined ? [value.low] : [value.low, value.high]
    this.#variables.set(
      name,
      words.map((word) => this.#builder.variable(key, word)),
    )
  }

  #zero(key: string, type: AtlasType): Lowered {
    return key.startsWith('p') ? { type, low: this.#builder.constant(false, 'bool') } : this.#k.constant(type, 0n)
  }

  /** What a register holds when a lane begins. */
  #preset(key: string): Lowered | undefined {
    switch (key) {
      case `r${PRESET.laneX.register}`:
        return { type: 'u32', low: this.#builder.index('lane.x') }
      case `r${PRESET.blockX.register}`:
        return { type: 'u32', low: this.#builder.index('workgroup.x') }
      case `r${PRESET.blockDimX.register}`:
        return { type: 'u32', low: this.#word(this.#plan.launch.block[0]) }
      case `r${PRESET.globalLane.register}`:
        return { type: 'u64', low: this.#globalLane(), high: this.#word(0) }
      default:
        return undefined
    }
  }

  #globalLane(): Node {
    const index = (name: Parameters<Builder['index']>[0]): Node => this.#builder.index(name)
    const rows = this.#apply('add', this.#apply('mul', index('workgroup.z'), index('grid.y')), index('workgroup.y'))
    const block = this.#apply('add', this.#apply('mul', rows, index('grid.x')), index('workgroup.x'))
    const [x, y, z] = this.#plan.launch.block
    return this.#apply('add', this.#apply('mul', block, this.#word(x * y * z)), index('lane'))
  }

  /** Writes a block; gives the condition of its branch. */
  writeBlock(block: Block): Node | undefined {
    const { program, entries } = this.#plan
    this.#values.clear()
    this.#facts = new Map(entries[block.id])
    let condition: Node | undefined
    for (const at of block.instructions) {
      const instruction = program.instructions[at]
      if (instruction === undefined) continue
      this.#at = at
      condition = recordOf(instruction.op).run<Lowered, Node>(this, operandsOf(instruction))
      step(program, at, this.#facts)
    }
    if (block.end.kind === 'end' && block.end.fault !== undefined) {
      this.#at = block.end.fault.instruction
      this.require(this.#builder.constant(false, 'bool'), block.end.fault.code)
    }
    // a branch is decided after everything else of its block has happened
    return condition === undefined ? undefined : this.#builder.bind('go', condition)
  }

  // ---- registers

  read(register: number, type: AtlasType): Lowered {
    return this.#get(`r${register}`, type)
  }

  predicate(index: number): Node {
    return this.#get(`p${index}`, 'u8').low
  }

  #get(key: string, type: AtlasType): Lowered {
    this.#checkType(key, type)
    const name = `${key} ${type}`
    const fact = this.#facts.get(key)
    const flag = this.#written.get(key)
    if (flag !== undefined && (fact === undefined || fact.maybe === true)) {
      this.#report(this.#builder.get(`has_${key}`, flag, 'bool'), this.#fault('uninitialised'))
    }
    const known = this.#values.get(name)
    if (known !== undefined) return known
    const ids = this.#variables.get(name)
    const value = ids === undefined ? (this.#preset(key) ?? this.#zero(key, type)) : this.#load(key, type, ids)
    this.#values.set(name, value)
    return value
  }

  #load(key: string, type: AtlasType, ids: readonly number[]): Lowered {
    const dtype = key.startsWith('p') ? 'bool' : dtypeOf(type)
    const [low = this.#word(0), high] = ids.map((id) => this.#builder.get(key, id, dtype))
    return high === undefined ? { type, low } : { type, low, high }
  }

  /** A register holds one type wherever it is read; what was written before does not matter. */
  #checkType(key: string, type: AtlasType): void {
    const fact = this.#facts.get(key)
    if (fact === undefined) return
    const other = fact.type === type ? fact.clash : fact
    if (other === undefined) return
    const { instructions } = this.#plan.program
    const line = (at: number): string => {
      const instruction = instructions[at]
      return instruction === undefined ? 'it is preset' : `instruction ${at} (${printInstruction(instruction)})`
    }
    throw new IngotError('type-mismatch', `${key} is read as ${type} by ${line(this.#at)}`, {
      op: 'atlas',
      got: `${other.type}, written by ${line(other.writer)}`,
      wanted: type,
    })
  }

  write(register: number, type: AtlasType, value: Lowered): void {
    this.#set(`r${register}`, type, value)
  }

  setPredicate(index: number, value: Node): void {
    this.#set(`p${index}`, 'u8', { type: 'u8', low: value })
  }

  #set(key: string, type: AtlasType, { low, high }: Lowered): void {
    const bound: Lowered = {
      type,
      low: this.#bind(key, low),
      ...(high === undefined ? {} : { high: this.#bind(`${key}_high`, high) }),
    }
    for (const name of this.#values.keys()) if (name.startsWith(`${key} `)) this.#values.delete(name)
    this.#values.set(`${key} ${type}`, bound)
    this.#variables.get(`${key} ${type}`)?.forEach((id, word) => this.#builder.set(id, word === 0 ? bound.low : highOf(bound)))
    const flag = this.#written.get(key)
    if (flag !== undefined) this.#builder.set(flag, this.#builder.constant(true, 'bool'))
  }

  #bind(name: string, value: Node): Node {
    return value.op === 'const' || value.op === 'local' ? value : this.#builder.bind(name, value)
  }

  // ---- values

  constant(type: AtlasType, value: AtlasValue): Lowered {
    return this.#k.constant(type, value)
  }

  compute({ lower }: Meaning, type: AtlasType, [a, b, c]: readonly Lowered[]): Lowered {
    const none = this.#k.constant(type, 0n)
    return lower(this.#k, a ?? none, b ?? none, c ?? none)
  }

  compare(condition: Condition, _type: AtlasType, a: Lowered, b: Lowered): Node {
    return this.#k.compare(condition, a, b)
  }

  choose(condition: Node, _type: AtlasType, yes: Lowered, no: Lowered): Lowered {
    return this.#k.choose(condition, yes, no)
  }

  convert(_from: AtlasType, to: AtlasType, value: Lowered): Lowered {
    return this.#k.convert(to, value)
  }

  lookUp(table: readonly number[], type: 'u8' | 'u32', index: Lowered): Lowered {
    const within = this.#apply('min', index.low, this.#word(table.length - 1))
    return { type, low: this.#builder.apply('table', [within], table, 'u32') }
  }

  require(holds: Node, fault: FaultCode): void {
    this.#report(holds, this.#fault(fault))
  }

  /** Notes the first error of this lane, unless `holds`. */
  #report(holds: Node, fault: Node, got: readonly Node[] = []): void {
    if (this.#notes === undefined) return
    const builder = this.#builder
    const [note, low, high] = this.#notes
    const isFirst = builder.apply('eq', [builder.get('note', note, 'u32'), this.#word(0)])
    builder.if(builder.apply('and', [isFirst, builder.apply('not', [holds])]), () => {
      const place = this.#word(2 ** (FAULT_BITS + 1) * this.#at + 1)
      builder.set(note, this.#apply('or', place, this.#apply('shl', fault, this.#word(1))))
      builder.set(low, got[0] ?? this.#word(0))
      builder.set(high, got[1] ?? this.#word(0))
    })
  }

  /** At the end: who has a note leaves it where the host looks. */
  finish(): void {
    if (this.#notes === undefined) return
    const builder = this.#builder
    const words = this.#notes.map((id) => builder.get('note', id, 'u32'))
    builder.if(builder.apply('ne', [words[0] ?? this.#word(0), this.#word(0)]), () => {
      const lane = builder.bind('lane', this.#globalLane())
      const first = builder.bind('first', this.#apply('add', this.#apply('mul', lane, this.#word(STATUS_NOTE)), this.#word(STATUS_HEAD)))
      words.forEach((word, i) => builder.store('status', this.#apply('add', first, this.#word(i)), word))
      builder.effect('least', 'atomic', [this.#word(0), lane], { mem: 'status', kind: 'min' }, 'u32')
    })
  }

  #fault(code: FaultCode): Node {
    return this.#word(FAULT_CODES.indexOf(code))
  }

  // ---- memory

  load(space: Space, address: Address, type: AtlasType): Lowered {
    const { plan, index } = this.#place(space, address, type)
    return loadValue(this.#k, plan, index, type)
  }

  store(space: Space, address: Address, type: AtlasType, value: Lowered): void {
    const { plan, index, isGood } = this.#place(space, address, type)
    if (isGood === undefined) storeValue(this.#k, plan, index, value)
    else this.#builder.if(isGood, () => storeValue(this.#k, plan, index, value))
  }

  /** The element where an access begins; with checks, one that is there, and whether it is the right one. */
  #place(space: Space, address: Address, type: AtlasType): { plan: RegionPlan; index: Node; isGood: Node | undefined } {
    const { program, regions, checks } = this.#plan
    const region = regionOf(program, this.#at, space, address, this.#facts)
    const plan = regions.get(region)
    if (plan === undefined) throw new TypeError(`no plan of ${region}`)
    // reads the register, so that it is checked
    if (space === 'global' && (address.kind === 'indirect' || address.kind === 'computed')) {
      this.read(address.kind === 'indirect' ? address.base : address.handle, 'u64')
    }
    const offset = this.#offset(space, address)
    const index = this.#apply('shr', offset.low, this.#word(Math.log2(storageBytes(plan.storage))))
    if (!checks) return { plan, index, isGood: undefined }
    const isGood = this.#checkPlace(offset, this.#bytesOf(region), TYPES[type].bytes)
    return { plan, index: this.#builder.bind('index', this.#apply('select', isGood, index, this.#word(0))), isGood }
  }

  /** Whether so many bytes from an offset on are there, and the offset is a multiple of their number; if not, that is reported. */
  #checkPlace(offset: Lowered, bytes: Node, size: number): Node {
    const isRoom = this.#apply('and', this.#apply('eq', highOf(offset), this.#word(0)), this.#apply('ge', bytes, this.#word(size)))
    const isInside = this.#apply('and', isRoom, this.#apply('le', offset.low, this.#apply('sub', bytes, this.#word(size))))
    const isAligned = this.#apply('eq', this.#apply('and', offset.low, this.#word(size - 1)), this.#word(0))
    const isGood = this.#builder.bind('good', size === 1 ? isInside : this.#apply('and', isInside, isAligned))
    const fault = this.#apply('select', isInside, this.#fault('bad-address'), this.#fault('out-of-range'))
    this.#report(isGood, fault, [offset.low, highOf(offset)])
    return isGood
  }

  #offset(space: Space, address: Address): Lowered {
    switch (address.kind) {
      case 'buffer':
        return this.#k.constant('u64', address.offset)
      case 'phi':
        return this.#k.constant('u64', BigInt(address.class * CLASS_BYTES + address.page * PAGE_BYTES + address.byte))
      case 'indirect': {
        // a negative offset wraps to one that no buffer has
        const added = this.#k.constant('u64', BigInt.asUintN(64, BigInt(address.offset)))
        return space === 'shared' ? this.#k.add(this.read(address.base, 'u64'), added) : added
      }
      case 'computed':
        return this.read(address.offset, 'u64')
    }
  }

  #bytesOf(region: Region): Node {
    if (region === 'shared') return this.#word(this.#plan.launch.sharedBytes)
    if (region === 'boundary') return this.#word(BOUNDARY_BYTES)
    return this.#builder.make('uniform', 'u32', [], `buf${region}_bytes`)
  }

  wait(_id: number): void {
    this.#builder.add('barrier', [], 'workgroup')
  }

  /** Accesses of a lane happen in their order; what other lanes see of them before a barrier is not said anywhere. */
  fence(): void {}

  // ---- classes

  currentClass(): Lowered {
    return { type: 'u8', low: this.#apply('rem', this.#builder.index('workgroup.x'), this.#word(CLASSES)) }
  }

  phase(): Lowered {
    return { type: 'u32', low: this.#builder.get('phase', this.#phase, 'u32') }
  }

  setPhase({ low }: Lowered): void {
    this.#builder.set(this.#phase, low)
  }

  /** Every lane has a row of its own; the host adds them up, first lane first. */
  accumulate(index: Lowered, value: Lowered): void {
    const within = this.#apply('min', index.low, this.#word(CLASSES - 1))
    const at = this.#builder.bind('at', this.#apply('add', this.#apply('mul', this.#globalLane(), this.#word(CLASSES)), within))
    const before = this.#builder.load('accumulators', at, 'f64')
    this.#builder.store('accumulators', at, this.#apply('add', before, value.low))
  }

  // ---- pools: the handle is the number of the instruction, from 1

  allocatePool(bytes: bigint): Lowered {
    const live = this.#live.get(this.#at)
    if (live !== undefined) {
      this.require(this.#apply('not', this.#builder.get('live', live, 'bool')), 'double-free')
      this.#builder.set(live, this.#builder.constant(true, 'bool'))
    }
    const handle = this.#k.constant('u64', BigInt(this.#at) + 1n)
    const plan = this.#plan.regions.get('pools')
    if (plan !== undefined && bytes > 0n) {
      const count = Math.ceil(Number(bytes) / storageBytes(plan.storage))
      const first = this.#builder.bind('first', this.#poolIndex(plan, handle, this.#word(0)))
      const zero = this.#builder.constant(0, dtypeOf(plan.storage))
      this.#builder.for('i', [this.#word(0), this.#word(count), this.#word(1)], (i) => {
        this.#builder.store(plan.name, this.#apply('add', first, i), zero)
      })
    }
    return handle
  }

  freePool(handle: Lowered): void {
    this.require(this.#isLive(handle), 'unknown-handle')
    for (const [at, live] of this.#live) {
      const stays = this.#apply('not', this.#isPool(handle, at))
      this.#builder.set(live, this.#apply('and', stays, this.#builder.get('live', live, 'bool')))
    }
  }

  loadPool(type: AtlasType, handle: Lowered, offset: Lowered): Lowered {
    const { plan, index } = this.#poolPlace(type, handle, offset)
    return loadValue(this.#k, plan, index, type)
  }

  storePool(type: AtlasType, handle: Lowered, offset: Lowered, value: Lowered): void {
    const { plan, index, isGood } = this.#poolPlace(type, handle, offset)
    if (isGood === undefined) storeValue(this.#k, plan, index, value)
    else this.#builder.if(isGood, () => storeValue(this.#k, plan, index, value))
  }

  #poolPlace(type: AtlasType, handle: Lowered, offset: Lowered): { plan: RegionPlan; index: Node; isGood: Node | undefined } {
    const plan = this.#plan.regions.get('pools')
    if (plan === undefined) throw new TypeError('no plan of pools')
    if (!this.#plan.checks) return { plan, index: this.#poolIndex(plan, handle, offset.low), isGood: undefined }
    this.require(this.#isLive(handle), 'unknown-handle')
    const bytes = this.#ofPool(handle, (site) => site.bytes)
    const isGood = this.#checkPlace(offset, bytes, TYPES[type].bytes)
    const index = this.#poolIndex(plan, handle, this.#apply('select', isGood, offset.low, this.#word(0)))
    return { plan, index: this.#builder.bind('index', index), isGood }
  }

  #poolIndex({ storage }: RegionPlan, handle: Lowered, offset: Node): Node {
    const lane = this.#apply('mul', this.#globalLane(), this.#word(this.#plan.pools.laneBytes))
    const start = this.#apply(
      'add',
      lane,
      this.#ofPool(handle, (site) => site.offset),
    )
    return this.#apply('shr', this.#apply('add', start, offset), this.#word(Math.log2(storageBytes(storage))))
  }

  /** A number of the pool that a handle means; 0 if it means none. */
  #ofPool(handle: Lowered, number: (site: { readonly offset: number; readonly bytes: number }) => number): Node {
    return [...this.#plan.pools.sites].reduce(
      (other, [at, site]) => this.#apply('select', this.#isPool(handle, at), this.#word(number(site)), other),
      this.#word(0),
    )
  }

  #isPool(handle: Lowered, at: number): Node {
    return this.#apply('eq', handle.low, this.#word(at + 1))
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
