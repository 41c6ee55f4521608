// Which memory a compiled program sees, and as elements of what. Memory that all instructions take for one type is of that type; any other
// is unsigned elements of the narrowest that occurs, from which wider values are put together. Integers of 64 bits are always two words.

import { IngotError } from '../../base/error.ts'
import type { Storage } from '../../base/dtype.ts'
import { type Instruction, recordOf } from '../instruction/index.ts'
import type { Address } from '../operand.ts'
import { type AtlasProgram, operandsOf } from '../program.ts'
import { printInstruction } from '../text.ts'
import { type AtlasType, TYPES } from '../type.ts'
import { type Facts, step } from './flow.ts'
import type { Block } from './graph.ts'

/** A buffer by its handle, the boundary pool, the shared memory of a block, or what lanes have for themselves. */
export type Region = number | 'boundary' | 'shared' | 'pools' | 'accumulators'

export interface RegionPlan {
  readonly region: Region
  /** its name in the kernel */
  readonly name: string
  readonly storage: Extract<Storage, 'f32' | 'f64' | 'i32' | 'u32' | 'i8' | 'u8' | 'i16' | 'u16'>
  readonly isWritten: boolean
}

/** The region that an address means; the handle must be known. */
export function regionOf(program: AtlasProgram, at: number, space: 'global' | 'shared', address: Address, facts: Facts): Region {
  if (space === 'shared') return 'shared'
  if (address.kind === 'phi') return 'boundary'
  if (address.kind === 'buffer') return Number(address.handle)
  const register = address.kind === 'indirect' ? address.base : address.handle
  const constant = facts.get(`r${register}`)?.constant
  if (constant !== undefined) return Number(constant)
  const instruction = program.instructions[at]
  throw new IngotError('unsupported', 'the handle of a buffer that is computed while running cannot be compiled', {
    op: 'atlas',
    got: `r${register} at instruction ${at}${instruction === undefined ? '' : `: ${printInstruction(instruction)}`}`,
    hint: 'set the register by movimm; interpretProgram can run it as it is',
  })
}

/** What an instruction does to memory, if it does. */
function accessOf(
  instruction: Instruction,
): { space: 'global' | 'shared'; address: Address; type: AtlasType; stores: boolean } | undefined {
  const known = operandsOf(instruction)
  const { operands } = recordOf(instruction.op)
  const place = operands.find((spec) => spec.kind === 'address')
  if (place === undefined) return undefined
  const stores = !operands.some((spec) => spec.kind === 'register' && spec.role === 'out')
  return { space: place.space, address: known[place.name] as Address, type: known['ty'] as AtlasType, stores }
}

/** Memory that a lane has for itself. */
function ownMemoryOf(instruction: Instruction): { region: Region; type: AtlasType } | undefined {
  if (instruction.op === 'poolLoad' || instruction.op === 'poolStore') return { region: 'pools', type: instruction.ty }
  return instruction.op === 'resAccum' ? { region: 'accumulators', type: 'f64' } : undefined
}

/** bytes of the widest type */
const WIDEST = 8

/** Where the pools of a lane are: one for every poolAlloc, by the number of the instruction. */
export interface PoolPlan {
  /** bytes of all pools of a lane */
  readonly laneBytes: number
  readonly sites: ReadonlyMap<number, { readonly offset: number; readonly bytes: number }>
}

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
export function planMemory(program: AtlasProgram, blocks: readonly Block[], entries: readonly Facts[]): ReadonlyMap<Region, RegionPlan> {
  const found = new Map<Region, { types: Set<AtlasType>; isWritten: boolean }>()
  for (const block of blocks) {
    const facts: Facts = new Map(entries[block.id])
    for (const at of block.instructions) {
      const instruction = program.instructions[at]
      const access = instruction === undefined ? undefined : accessOf(instruction)
      if (access !== undefined) {
        const region = regionOf(program, at, access.space, access.address, facts)
        const seen = found.get(region) ?? { types: new Set(), isWritten: false }
        found.set(region, { types: seen.types.add(access.type), isWritten: seen.isWritten || access.stores })
      }
      const own = instruction === undefined ? undefined : ownMemoryOf(instruction)
      if (own !== undefined) found.set(own.region, { types: (found.get(own.region)?.types ?? new Set()).add(own.type), isWritten: true })
      step(program, at, facts)
    }
  }
  return new Map(
    [...found].map(([region, { types, isWritten }]): [Region, RegionPlan] => [
      region,
      { region, name: typeof region === 'number' ? `buf${region}` : region, storage: storageOf(region, types), isWritten },
    ]),
  )
}

function storageOf(region: Region, types: ReadonlySet<AtlasType>): RegionPlan['storage'] {
  const [only, ...others] = types
  if (only !== undefined && others.length === 0) return elementOf(only)
  if (types.has('f64')) {
    throw new IngotError('unsupported', 'memory that is f64 and something else cannot be compiled', {
      op: 'atlas',
      got: `${region}: ${[...types].join(', ')}`,
      hint: 'use a buffer for each',
    })
  }
  return unsignedOf(Math.min(...[...types].map((type) => TYPES[type].bytes)))
}

/** What memory of one type is in a kernel. */
export function elementOf(type: AtlasType): RegionPlan['storage'] {
  if (type === 'f16' || type === 'bf16') return 'u16'
  return type === 'i64' || type === 'u64' ? 'u32' : type
}

export function unsignedOf(bytes: number): 'u8' | 'u16' | 'u32' {
  return bytes === 1 ? 'u8' : bytes === 2 ? 'u16' : 'u32'
}
