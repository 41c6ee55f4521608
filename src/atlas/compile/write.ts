// The machine that writes a kernel: what an instruction asks for becomes nodes. Registers are values; those that live on from block to
// block are variables, too. With checks, what would be an error of the interpreter is reported: the lane notes its first one, goes on with
// harmless values, and the host reads the note of the first lane that has one. So control flow is that of a program without errors.

import { storageBytes } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Builder } from '../../ir/build.ts'
import type { Node } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import { CLASSES, CLASS_BYTES, PAGE_BYTES } from '../class.ts'
import { FAULTS } from '../fault.ts'
import { recordOf } from '../instruction/index.ts'
import type { Launch } from '../launch.ts'
import type { FaultCode, Machine, Meaning, Space } from '../machine.ts'
import { type Address, type Condition, PRESET } from '../operand.ts'
import { operandsOf } from '../program.ts'
import { printInstruction } from '../text.ts'
import type { AtlasType, AtlasValue } from '../type.ts'
import { type AccessPlan, AccessWriter, type EitherFault, type Reach, type Report } from './access.ts'
import { Algebra, type Lowered, highOf } from './algebra.ts'
import { loadValue, storeValue } from './element.ts'
import { type Facts, accessesOf, step } from './flow.ts'
import type { Block } from './graph.ts'
import { type MemoryContext, type Region, accessAt } from './memory.ts'

/** Words before the notes of lanes: the first one is the first lane with an error. */
export const STATUS_HEAD = 4
/** Words of a note: instruction and number of the fault, and what was asked for (64 bits). */
export const STATUS_NOTE = 3
/** A note is never 0: its lowest bit is set, then come the fault and the instruction. */
export const FAULT_BITS = 4
export const FAULT_CODES = Object.keys(FAULTS) as readonly FaultCode[]

export interface Plan extends MemoryContext, AccessPlan {
  readonly launch: Pick<Launch, 'block'>
  readonly entries: readonly Facts[]
  readonly blocks: readonly Block[]
  /** false: f64 is computed as f32 */
  readonly hasDoubles: boolean
}

export class KernelWriter implements Machine<Lowered, Node> {
  readonly #builder: Builder
  readonly #k: Algebra
  readonly #access: AccessWriter
  readonly #plan: Plan
  /** variables of what lives on: by register and type, and by predicate */
  readonly #variables = new Map<string, readonly number[]>()
  /** what any instruction writes */
  readonly #changing: ReadonlySet<string>
  /** whether a register was written, where that is not sure */
  readonly #written = new Map<string, number>()
  /** values that are at hand in this block */
  readonly #values = new Map<string, Lowered>()
  #facts: Facts = new Map()
  #at = 0
  #phase = -1
  /** variables of this lane's note */
  #notes: readonly [note: number, low: number, high: number] | undefined

  constructor(builder: Builder, plan: Plan) {
    this.#builder = builder
    this.#k = new Algebra(builder, plan.hasDoubles)
    this.#plan = plan
    const report: Report = (holds, fault, got) => this.#report(holds, fault, got)
    this.#access = new AccessWriter(this.#k, plan, report, () => this.#globalLane())
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
    this.#access.declare()
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
      this.#report(this.#builder.get(`has_${key}`, flag, 'bool'), 'uninitialised')
    }
    const known = this.#values.get(name)
    if (known !== undefined) return known
    const ids = this.#variables.get(name)
    const value = ids === undefined ? (this.#preset(key) ?? this.#zero(key, type)) : this.#load(key, type, ids)
    this.#values.set(name, value)
    return value
  }

  #load(key: string, type: AtlasType, ids: readonly number[]): Lowered {
    const dtype = key.startsWith('p') ? 'bool' : this.#k.dtypeOf(type)
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
    this.#report(holds, fault)
  }

  /** Notes the first error of this lane, unless `holds`. */
  #report(holds: Node, fault: FaultCode | EitherFault, got: readonly Node[] = []): void {
    if (this.#notes === undefined) return
    const builder = this.#builder
    const number =
      typeof fault === 'string'
        ? this.#fault(fault)
        : builder.apply('select', [fault.condition, this.#fault(fault.yes), this.#fault(fault.no)])
    const [note, low, high] = this.#notes
    const isFirst = builder.apply('eq', [builder.get('note', note, 'u32'), this.#word(0)])
    builder.if(builder.apply('and', [isFirst, builder.apply('not', [holds])]), () => {
      const place = this.#word(2 ** (FAULT_BITS + 1) * this.#at + 1)
      builder.set(note, this.#apply('or', place, this.#apply('shl', number, this.#word(1))))
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
    return this.#access.load(this.#reach(space, address), type)
  }

  store(space: Space, address: Address, type: AtlasType, value: Lowered): void {
    this.#access.store(this.#reach(space, address), { ...value, type })
  }

  /** Reads the register of a handle also where its value is known, so that it is checked. */
  #reach(space: Space, address: Address): Reach {
    const regions = this.#regions()
    const register = address.kind === 'indirect' ? address.base : address.kind === 'computed' ? address.handle : undefined
    const handle = space === 'global' && register !== undefined ? this.read(register, 'u64') : undefined
    const isSure = handle === undefined || this.#isConstant(register)
    return { regions, offset: () => this.#offset(space, address), ...(isSure ? {} : { handle }) }
  }

  /** The regions that this instruction may mean. */
  #regions(): readonly Region[] {
    return accessAt(this.#plan, this.#at, this.#facts)?.regions ?? []
  }

  #isConstant(register: number | undefined): boolean {
    return this.#facts.get(`r${register}`)?.constant !== undefined
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
    const plan = this.#plan.regions.get('accumulators')
    if (plan === undefined) throw new TypeError('no plan of accumulators')
    const element = this.#apply('mul', at, this.#word(8 / storageBytes(plan.storage)))
    storeValue(this.#k, plan, element, this.#k.add(loadValue(this.#k, plan, element, 'f64'), value))
  }

  // ---- pools

  allocatePool(bytes: bigint): Lowered {
    return this.#access.allocate(this.#at, bytes)
  }

  freePool(handle: Lowered): void {
    this.#access.free(handle)
  }

  loadPool(type: AtlasType, handle: Lowered, offset: Lowered): Lowered {
    return this.#access.load(this.#reachPool(handle, offset), type)
  }

  storePool(type: AtlasType, handle: Lowered, offset: Lowered, value: Lowered): void {
    this.#access.store(this.#reachPool(handle, offset), { ...value, type })
  }

  /** Whether a pool of a lane is in use is never sure; a constant of the host is one pool. */
  #reachPool(handle: Lowered, offset: Lowered): Reach {
    const regions = this.#regions()
    const { program } = this.#plan
    const instruction = program.instructions[this.#at]
    const register = instruction !== undefined && 'pool' in instruction ? instruction.pool : undefined
    const isSure = this.#isConstant(register) && regions.length === 1 && regions[0] !== 'pools'
    return { regions, offset: () => offset, ...(isSure ? {} : { handle }) }
  }

  #word(value: number): Node {
    return this.#builder.constant(value, 'u32')
  }

  #apply(op: OpName, ...src: readonly Node[]): Node {
    return this.#builder.apply(op, src)
  }
}
