// Which memory a compiled program sees, and as elements of what. Memory that all instructions take for one type is of that type; any other
// is unsigned elements of the narrowest that occurs, from which wider values are put together. Integers of 64 bits are always two words.
// A handle that is a constant means one region; one that is computed while running may mean any that the launch has.

import { IngotError } from '../../base/error.ts'
import type { Storage } from '../../base/dtype.ts'
import { recordOf } from '../instruction/index.ts'
import type { Address } from '../operand.ts'
import { isLaneHandle } from '../pool.ts'
import { type AtlasProgram, operandsOf } from '../program.ts'
import { printInstruction } from '../text.ts'
import { type AtlasType, TYPES } from '../type.ts'
import { type Facts, step } from './flow.ts'
import type { Block } from './graph.ts'

/** A buffer by its handle, a pool of the host, the boundary pool, the shared memory of a block, or what lanes have for themselves. */
export type Region = number | `pool${number}` | 'boundary' | 'shared' | 'pools' | 'accumulators'

export interface RegionPlan {
  readonly region: Region
  /** its name in the kernel */
  readonly name: string
  readonly storage: Extract<Storage, 'f32' | 'f64' | 'i32' | 'u32' | 'i8' | 'u8' | 'i16' | 'u16'>
  readonly isWritten: boolean
}

/** Handles that a launch has, of its buffers and of pools of the host: what a register may mean whose value is not a constant. */
export interface Handles {
  readonly buffers?: readonly number[]
  readonly pools?: readonly number[]
}

/** Where the pools of a lane are: one for every poolAlloc, by the number of the instruction. */
export interface PoolPlan {
  /** bytes of all pools of a lane */
  readonly laneBytes: number
  readonly sites: ReadonlyMap<number, { readonly offset: number; readonly bytes: number }>
}

/** What decides about memory, apart from what is known at an instruction. */
export interface MemoryContext {
  readonly program: AtlasProgram
  readonly handles: Handles
  readonly pools: PoolPlan
}

/** What an instruction does to memory. */
export interface MemoryAccess {
  /** those that may be meant; one if that is sure */
  readonly regions: readonly Region[]
  readonly type: AtlasType
  readonly stores: boolean
}

/** The memory that an instruction touches, if it does. */
export function accessAt(context: MemoryContext, at: number, facts: Facts): MemoryAccess | undefined {
  const instruction = context.program.instructions[at]
  if (instruction === undefined) return undefined
  if (instruction.op === 'resAccum') return { regions: ['accumulators'], type: 'f64', stores: true }
  if (instruction.op === 'poolLoad' || instruction.op === 'poolStore') {
    const regions = poolsOf(context, at, instruction.pool, facts)
    return { regions, type: instruction.ty, stores: instruction.op === 'poolStore' }
  }
  const { operands } = recordOf(instruction.op)
  const place = operands.find((spec) => spec.kind === 'address')
  if (place === undefined) return undefined
  const known = operandsOf(instruction)
  const stores = !operands.some((spec) => spec.kind === 'register' && spec.role === 'out')
  return { regions: regionsOf(context, at, place.space, known[place.name] as Address, facts), type: known['ty'] as AtlasType, stores }
}

function regionsOf(context: MemoryContext, at: number, space: 'global' | 'shared', address: Address, facts: Facts): readonly Region[] {
  if (space === 'shared') return ['shared']
  if (address.kind === 'phi') return ['boundary']
  if (address.kind === 'buffer') return [Number(address.handle)]
  const register = address.kind === 'indirect' ? address.base : address.handle
  const constant = constantIn(register, facts)
  if (constant !== undefined) return [Number(constant)]
  return context.handles.buffers ?? refuse(context, at, register, 'buffer')
}

function poolsOf(context: MemoryContext, at: number, register: number, facts: Facts): readonly Region[] {
  const { handles, pools } = context
  const own: readonly Region[] = pools.sites.size === 0 ? [] : ['pools']
  const constant = constantIn(register, facts)
  if (constant !== undefined) return isLaneHandle(constant) ? own : [`pool${Number(constant)}`]
  const others = handles.pools ?? (own.length > 0 ? [] : refuse(context, at, register, 'pool'))
  return [...own, ...others.map((handle): Region => `pool${handle}`)]
}

/** The value of a register where it is one constant on every way there. */
function constantIn(register: number, facts: Facts): bigint | undefined {
  return facts.get(`r${register}`)?.constant
}

function refuse({ program }: MemoryContext, at: number, register: number, what: string): never {
  const instruction = program.instructions[at]
  throw new IngotError('unsupported', `the handle of a ${what} is computed while running, and which ${what}s there are is not known`, {
    op: 'atlas',
    got: `r${register} at instruction ${at}${instruction === undefined ? '' : `: ${printInstruction(instruction)}`}`,
    hint: `set the register by movimm, or give handles: { ${what}s: [1, 2] }; an executor knows its own`,
  })
}

/** bytes of the widest type */
const WIDEST = 8

export function planPools({ instructions }: AtlasProgram): PoolPlan {
  const sites = new Map<number, { offset: number; bytes: number }>()
  let laneBytes = 0
  instructions.forEach((instruction, at) => {
    if (instruction.op !== 'poolAlloc') return
    const bytes = Number(instruction.size)
    sites.set(at, { offset: laneBytes, bytes })
    laneBytes += Math.ceil(bytes / WIDEST) * WIDEST
  })
  return { laneBytes, sites }
}

/** All memory of a program, by region. */
export function planMemory(
  context: MemoryContext,
  blocks: readonly Block[],
  entries: readonly Facts[],
  hasDoubles: boolean,
): ReadonlyMap<Region, RegionPlan> {
  const found = new Map<Region, { types: Set<AtlasType>; isWritten: boolean }>()
  for (const block of blocks) {
    const facts: Facts = new Map(entries[block.id])
    for (const at of block.instructions) {
      const { regions = [], type = 'u8', stores = false } = accessAt(context, at, facts) ?? {}
      for (const region of regions) {
        const seen = found.get(region) ?? { types: new Set(), isWritten: region === 'pools' }
        found.set(region, { types: seen.types.add(type), isWritten: seen.isWritten || stores })
      }
      step(context.program, at, facts)
    }
  }
  return new Map(
    [...found].map(([region, { types, isWritten }]): [Region, RegionPlan] => [
      region,
      { region, name: nameOf(region), storage: storageOf(region, types, hasDoubles), isWritten },
    ]),
  )
}

/** True if some instruction has a handle whose value is no constant. */
export function findComputed(program: AtlasProgram, blocks: readonly Block[], entries: readonly Facts[]): boolean {
  return blocks.some((block) => {
    const facts: Facts = new Map(entries[block.id])
    return block.instructions.some((at) => {
      const register = handleOf(program, at)
      const isComputed = register !== undefined && constantIn(register, facts) === undefined
      step(program, at, facts)
      return isComputed
    })
  })
}

/** The register that an instruction has a handle in. */
function handleOf({ instructions }: AtlasProgram, at: number): number | undefined {
  const instruction = instructions[at]
  if (instruction?.op === 'poolLoad' || instruction?.op === 'poolStore') return instruction.pool
  if (instruction?.op !== 'ldg' && instruction?.op !== 'stg') return undefined
  const { addr } = instruction
  return addr.kind === 'indirect' ? addr.base : addr.kind === 'computed' ? addr.handle : undefined
}

/** What memory is called in a kernel. */
export function nameOf(region: Region): string {
  return typeof region === 'number' ? `buf${region}` : region
}

function storageOf(region: Region, types: ReadonlySet<AtlasType>, hasDoubles: boolean): RegionPlan['storage'] {
  const [only, ...others] = types
  if (only !== undefined && others.length === 0) return elementOf(only, hasDoubles)
  if (types.has('f64') && hasDoubles) {
    throw new IngotError('unsupported', 'memory that is f64 and something else cannot be compiled', {
      op: 'atlas',
      got: `${nameOf(region)}: ${[...types].join(', ')}`,
      hint: 'use a buffer for each',
    })
  }
  return unsignedOf(Math.min(...[...types].map((type) => TYPES[type].bytes)))
}

/** What memory of one type is in a kernel. */
function elementOf(type: AtlasType, hasDoubles: boolean): RegionPlan['storage'] {
  if (type === 'f64' && !hasDoubles) return 'u32'
  if (type === 'f16' || type === 'bf16') return 'u16'
  return type === 'i64' || type === 'u64' ? 'u32' : type
}

function unsignedOf(bytes: number): 'u8' | 'u16' | 'u32' {
  return bytes === 1 ? 'u8' : bytes === 2 ? 'u16' : 'u32'
}
