// What a program means, run: the specification, short enough to be read, slow, and strict. Blocks run one after the other, and the lanes of
// a block one after the other from barrier to barrier. What an instruction does is in its record (instruction/); here is what records ask
// for: registers with types, memory with ends, calls and barriers. Compiled programs (compile/) are compared with this.
//
// Memory of buffers is changed in place, also by a program that fails later. Races are not seen.

import { CLASSES, BOUNDARY_BYTES, CLASS_BYTES, PAGE_BYTES } from './class.ts'
import { FAULTS, faultError } from './fault.ts'
import { type Instruction, recordOf } from './instruction/index.ts'
import type { Jump } from './instruction/record.ts'
import { type Launch, type LaunchOptions, lanesOf, placeOf, resolveLaunch, totalBlocks } from './launch.ts'
import type { FaultCode, Machine, Meaning, Space } from './machine.ts'
import { type Address, type Condition, PRESET } from './operand.ts'
import { laneHandle } from './pool.ts'
import { type AtlasProgram, checkProgram, operandsOf, targetOf } from './program.ts'
import { type AtlasType, type AtlasValue, TYPES, convertValue, fit, isIntegerType, readValue, toBits, writeValue } from './type.ts'

/** Calls that may be open at a time. */
export const CALL_DEPTH = 64

/** What a program runs on. */
export interface Memory {
  /** by handle */
  readonly buffers: ReadonlyMap<number, Uint8Array>
  /** pools of the host, by handle below 2^32: memory apart from the buffers, which all lanes share */
  readonly pools?: ReadonlyMap<number, Uint8Array>
  /** the boundary pool; zeros if not given */
  readonly boundary?: Uint8Array
}

/** What a program leaves besides its memory. */
export interface RunResult {
  /** what resAccum added up, by class */
  readonly accumulators: Float64Array
}

/** Runs a program on all lanes of a launch. */
export function interpretProgram(program: AtlasProgram, memory: Memory, options: LaunchOptions = {}): RunResult {
  checkProgram(program, 'interpretProgram')
  const launch = resolveLaunch(options)
  const accumulators = new Float64Array(CLASSES)
  const { buffers, pools = new Map<number, Uint8Array>(), boundary = new Uint8Array(BOUNDARY_BYTES) } = memory
  const world = { program, launch, buffers, pools, boundary, accumulators }
  for (let block = 0; block < totalBlocks(launch); block++) runBlock(world, block)
  return { accumulators }
}

interface World extends Required<Memory> {
  readonly program: AtlasProgram
  readonly launch: Launch
  readonly accumulators: Float64Array
}

/** Lanes go on to their next barrier; all that have not ended must wait at the same one. */
function runBlock(world: World, block: number): void {
  const shared: SharedMemory = { bytes: new Uint8Array(world.launch.sharedBytes), written: new Uint8Array(world.launch.sharedBytes) }
  let lanes = Array.from({ length: lanesOf(world.launch) }, (_, lane) => new Lane(world, block, lane, shared))
  while (lanes.length > 0) {
    for (const lane of lanes) lane.run()
    lanes = lanes.filter((lane) => lane.barrier !== undefined)
    const [first] = lanes
    const other = lanes.find((lane) => lane.barrier !== first?.barrier)
    if (other !== undefined) throw other.error('bad-barrier', 'lanes wait at different barriers', other.barrier, first?.barrier)
  }
}

interface SharedMemory {
  readonly bytes: Uint8Array
  readonly written: Uint8Array
}

class Lane implements Machine<AtlasValue, boolean> {
  readonly #world: World
  readonly #blockX: number
  readonly #global: number
  readonly #shared: SharedMemory
  readonly #registers: ({ readonly type: AtlasType; readonly value: AtlasValue } | undefined)[] = []
  readonly #predicates: (boolean | undefined)[] = []
  readonly #calls: number[] = []
  readonly #pools = new Map<bigint, Uint8Array>()
  #phase = 0n
  /** number of the next instruction */
  #next = 0
  /** of the one that runs */
  #at = 0
  #barrier: number | undefined

  constructor(world: World, block: number, lane: number, shared: SharedMemory) {
    this.#world = world
    this.#shared = shared
    ;[this.#blockX] = placeOf(block, world.launch.grid)
    this.#global = block * lanesOf(world.launch) + lane
    const [laneX] = placeOf(lane, world.launch.block)
    const preset = { laneX, blockX: this.#blockX, blockDimX: world.launch.block[0], globalLane: this.#global }
    for (const name of Object.keys(PRESET) as (keyof typeof PRESET)[]) {
      const { register, type } = PRESET[name]
      this.#registers[register] = { type, value: BigInt(preset[name]) }
    }
  }

  /** where it waits; none once it has ended */
  get barrier(): number | undefined {
    return this.#barrier
  }

  /** Goes on to the next barrier, or to the end. */
  run(): void {
    const { instructions } = this.#world.program
    this.#barrier = undefined
    while (this.#barrier === undefined) {
      const instruction = instructions[this.#next]
      if (instruction === undefined) return
      this.#at = this.#next++
      const { run, jump } = recordOf(instruction.op)
      const condition = run(this, operandsOf(instruction))
      if (jump !== undefined && condition !== false) this.#next = this.#jump(jump, instruction)
    }
  }

  /** Where a jump leads. */
  #jump(jump: Jump, instruction: Instruction): number {
    const { program } = this.#world
    switch (jump) {
      case 'exit':
        return program.instructions.length
      case 'branch':
        return targetOf(program, instruction)
      case 'call':
        if (this.#calls.push(this.#next) > CALL_DEPTH) throw this.error('stack-overflow', FAULTS['stack-overflow'])
        return targetOf(program, instruction)
      case 'return': {
        const back = this.#calls.pop()
        if (back === undefined) throw this.error('stack-underflow', FAULTS['stack-underflow'])
        return back
      }
    }
  }

  error(code: FaultCode | 'type-mismatch' | 'bad-barrier', what: string, got?: unknown, wanted?: unknown): Error {
    return faultError(code, what, { program: this.#world.program, instruction: this.#at, lane: this.#global, got, wanted })
  }

  // ---- registers

  read(register: number, type: AtlasType): AtlasValue {
    const held = this.#registers[register]
    if (held === undefined) throw this.error('uninitialised', `r${register} is read before it is written`)
    if (held.type !== type) throw this.error('type-mismatch', `r${register} holds another type`, held.type, type)
    return held.value
  }

  write(register: number, type: AtlasType, value: AtlasValue): void {
    this.#registers[register] = { type, value }
  }

  predicate(index: number): boolean {
    const held = this.#predicates[index]
    if (held === undefined) throw this.error('uninitialised', `p${index} is read before it is written`)
    return held
  }

  setPredicate(index: number, value: boolean): void {
    this.#predicates[index] = value
  }

  // ---- values

  constant(_type: AtlasType, value: AtlasValue): AtlasValue {
    return value
  }

  compute({ integer, float }: Meaning, type: AtlasType, [a = 0, b = 0, c = 0]: readonly AtlasValue[]): AtlasValue {
    if (isIntegerType(type)) return fit(type, integer?.(type, BigInt(a), BigInt(b), BigInt(c)) ?? 0n)
    return fit(type, float?.(type, Number(a), Number(b), Number(c)) ?? NaN)
  }

  compare(condition: Condition, type: AtlasType, a: AtlasValue, b: AtlasValue): boolean {
    const [x, y] = condition.endsWith('u') ? [toBits(type, a), toBits(type, b)] : [a, b]
    switch (condition) {
      case 'eq':
        return x === y
      case 'ne':
        return x !== y
      case 'lt':
      case 'ltu':
        return x < y
      case 'le':
      case 'leu':
        return x <= y
      case 'gt':
      case 'gtu':
        return x > y
      case 'ge':
      case 'geu':
        return x >= y
    }
  }

  choose(condition: boolean, _type: AtlasType, yes: AtlasValue, no: AtlasValue): AtlasValue {
    return condition ? yes : no
  }

  convert(from: AtlasType, to: AtlasType, value: AtlasValue): AtlasValue {
    return convertValue(from, to, value)
  }

  lookUp(table: readonly number[], _type: AtlasType, index: AtlasValue): AtlasValue {
    return BigInt(table[Number(index)] ?? 0)
  }

  require(holds: boolean, fault: FaultCode): void {
    if (!holds) throw this.error(fault, FAULTS[fault])
  }

  // ---- memory

  load(space: Space, address: Address, type: AtlasType): AtlasValue {
    const { bytes, at } = this.#place(space, address, type)
    const { written } = this.#shared
    if (space === 'shared' && written.subarray(at, at + TYPES[type].bytes).includes(0)) {
      throw this.error('uninitialised', 'shared memory is read before it is written', at)
    }
    return readValue(type, bytes, at)
  }

  store(space: Space, address: Address, type: AtlasType, value: AtlasValue): void {
    const { bytes, at } = this.#place(space, address, type)
    writeValue(type, bytes, at, value)
    if (space === 'shared') this.#shared.written.fill(1, at, at + TYPES[type].bytes)
  }

  #place(space: Space, address: Address, type: AtlasType): { bytes: Uint8Array; at: number } {
    switch (address.kind) {
      case 'phi':
        return this.#within(this.#world.boundary, BigInt(address.class * CLASS_BYTES + address.page * PAGE_BYTES + address.byte), type)
      case 'buffer':
        return this.#within(this.#memory(space, address.handle), address.offset, type)
      case 'indirect': {
        const base = BigInt(this.read(address.base, 'u64'))
        if (space === 'shared') return this.#within(this.#shared.bytes, base + BigInt(address.offset), type)
        return this.#within(this.#memory(space, base), BigInt(address.offset), type)
      }
      case 'computed':
        return this.#within(this.#memory(space, BigInt(this.read(address.handle, 'u64'))), BigInt(this.read(address.offset, 'u64')), type)
    }
  }

  #memory(space: Space, handle: bigint): Uint8Array {
    if (space === 'shared') return this.#shared.bytes
    const found = this.#world.buffers.get(Number(handle))
    if (found === undefined) throw this.error('unknown-handle', FAULTS['unknown-handle'], handle)
    return found
  }

  #within(bytes: Uint8Array, offset: bigint, type: AtlasType): { bytes: Uint8Array; at: number } {
    const size = TYPES[type].bytes
    if (offset < 0n || offset + BigInt(size) > BigInt(bytes.length)) {
      throw this.error('out-of-range', FAULTS['out-of-range'], `byte ${offset}`, `at most ${bytes.length - size}`)
    }
    if (offset % BigInt(size) !== 0n) throw this.error('bad-address', FAULTS['bad-address'], `byte ${offset}`, `a multiple of ${size}`)
    return { bytes, at: Number(offset) }
  }

  wait(id: number): void {
    this.#barrier = id
  }

  /** Lanes take turns, and each sees what those before it did. */
  fence(): void {}

  // ---- classes

  currentClass(): AtlasValue {
    return BigInt(this.#blockX % CLASSES)
  }

  phase(): AtlasValue {
    return this.#phase
  }

  setPhase(phase: AtlasValue): void {
    this.#phase = BigInt(phase)
  }

  accumulate(index: AtlasValue, value: AtlasValue): void {
    const { accumulators } = this.#world
    accumulators[Number(index)] = (accumulators[Number(index)] ?? 0) + Number(value)
  }

  // ---- pools: of this lane, or of the host

  allocatePool(bytes: bigint): AtlasValue {
    const handle = laneHandle(this.#at)
    if (this.#pools.has(handle)) throw this.error('double-free', 'the pool of this instruction is in use')
    this.#pools.set(handle, new Uint8Array(Number(bytes)))
    return handle
  }

  freePool(handle: AtlasValue): void {
    if (!this.#pools.delete(BigInt(handle))) throw this.error('unknown-handle', FAULTS['unknown-handle'], handle)
  }

  loadPool(type: AtlasType, handle: AtlasValue, offset: AtlasValue): AtlasValue {
    const { bytes, at } = this.#within(this.#pool(handle), BigInt(offset), type)
    return readValue(type, bytes, at)
  }

  storePool(type: AtlasType, handle: AtlasValue, offset: AtlasValue, value: AtlasValue): void {
    const { bytes, at } = this.#within(this.#pool(handle), BigInt(offset), type)
    writeValue(type, bytes, at, value)
  }

  #pool(handle: AtlasValue): Uint8Array {
    const pool = this.#pools.get(BigInt(handle)) ?? this.#world.pools.get(Number(handle))
    if (pool === undefined) throw this.error('unknown-handle', FAULTS['unknown-handle'], handle)
    return pool
  }
}
