// A recording as an indirect command buffer: encoded once, then executed with one message however many dispatches it has.
// Uniforms lie in a buffer of their own, because indirect commands cannot carry bytes; read-backs stay outside, because where
// they go differs from run to run.
//
// Commands run at the same time unless `setBarrier` says that one waits, which it does only where ranges meet.

import { type Id, type Objc, type Owned, required } from './objc.ts'
import type { Encoding } from './encode.ts'
import type { Launch, Lowered } from './launch.ts'
import type { Region, Regions } from './region.ts'

/** Consecutive commands of the buffer, or one launch that is encoded anew. */
type ReplayItem =
  | { readonly kind: 'execute'; readonly from: number; count: number; readonly waits: boolean }
  | { readonly kind: 'launch'; readonly launch: Launch }

export interface Replay {
  readonly commands: Owned
  readonly constants: Region | undefined
  readonly items: readonly ReplayItem[]
  /** buffers that are only read, and the others */
  readonly reads: BigUint64Array
  readonly writes: BigUint64Array
  /** pipelines that must be touched before; empty where the GPU needs none of that */
  readonly touched: readonly Id[]
}

export interface ReplayOptions {
  /** false: every command waits for the one before it */
  readonly concurrent: boolean
  /** GPUs before the M3 crash unless every pipeline of indirect commands was set in the same encoder */
  readonly touches: boolean
}

const CONCURRENT_DISPATCH = 0x20
const MOST_COMMANDS = 16384
const MOST_OFFSET = 2 ** 32
/** Constants must lie on multiples of 32 bytes on any Mac; these do not share a cache line. */
const CONSTANT_SLOT = 64
const USAGE = { read: 1, write: 3 } as const

/** Prepares a replay, or gives nothing where that cannot be: too much, too far apart, no memory. */
export function prepareReplay(objc: Objc, device: Id, regions: Regions, { launches }: Lowered, options: ReplayOptions): Replay | undefined {
  const fixed = launches.filter(isFixed)
  const far = fixed.some(({ buffers }) => buffers.some(({ offset }) => offset >= MOST_OFFSET))
  if (fixed.length === 0 || fixed.length > MOST_COMMANDS || far) return undefined
  const commands = createCommands(objc, device, fixed)
  if (commands === null) return undefined
  let constants: Region | undefined
  try {
    constants = createConstants(regions, fixed)
    objc.pooled(() => writeCommands(objc, commands, fixed, constants, options))
  } catch {
    objc.release(commands) // without memory for constants it is encoded each time
    return undefined
  }
  const written = new Set(
    fixed.flatMap(({ buffers }) => buffers.flatMap(({ region, written }) => (written && region !== undefined ? [region.id] : []))),
  )
  const all = new Set([
    ...fixed.flatMap(({ buffers }) => buffers.flatMap(({ region }) => (region === undefined ? [] : [region.id]))),
    ...(constants === undefined ? [] : [constants.id]),
  ])
  return {
    commands,
    constants,
    items: itemsOf(launches),
    reads: BigUint64Array.from([...all].filter((id) => !written.has(id))),
    writes: BigUint64Array.from(written),
    touched: options.touches ? [...new Set(fixed.map(({ program }) => program.pipeline))] : [],
  }
}

export function encodeReplay(encoding: Encoding, { commands, items, reads, writes, touched }: Replay): void {
  encoding.use(reads, USAGE.read)
  encoding.use(writes, USAGE.write)
  for (const pipeline of touched) encoding.touch(pipeline)
  for (const item of items) {
    if (item.kind === 'launch') encoding.launch(item.launch)
    else {
      if (item.waits) encoding.barrier()
      encoding.execute(commands, item.from, item.count)
    }
  }
}

/** True unless it writes to the buffer that brings bytes back. */
function isFixed({ buffers }: Launch): boolean {
  return buffers.every(({ region }) => region !== undefined)
}

function itemsOf(launches: readonly Launch[]): ReplayItem[] {
  const items: ReplayItem[] = []
  let next = 0
  for (const launch of launches) {
    const last = items.at(-1)
    if (!isFixed(launch)) items.push({ kind: 'launch', launch })
    else if (last?.kind === 'execute') last.count++
    else items.push({ kind: 'execute', from: next, count: 1, waits: launch.waits })
    if (isFixed(launch)) next++
  }
  return items
}

function createCommands(objc: Objc, device: Id, launches: readonly Launch[]): Owned | null {
  const { MTLDevice, MTLIndirectCommandBufferDescriptor: messages } = objc.messages
  const most = Math.max(...launches.map(({ buffers, program }) => buffers.length + (program.uniforms === undefined ? 0 : 1)))
  return objc.using(messages.new(), 'an indirect command buffer descriptor', (descriptor) => {
    messages['setCommandTypes:'](descriptor, CONCURRENT_DISPATCH)
    messages['setInheritBuffers:'](descriptor, false)
    messages['setInheritPipelineState:'](descriptor, false)
    messages['setMaxKernelBufferBindCount:'](descriptor, most)
    return MTLDevice['newIndirectCommandBufferWithDescriptor:maxCommandCount:options:'](device, descriptor, launches.length, 0)
  })
}

function createConstants(regions: Regions, launches: readonly Launch[]): Region | undefined {
  const bytes = launches.reduce((sum, { uniforms }) => sum + slotOf(uniforms), 0)
  if (bytes === 0) return undefined
  const region = regions.create(bytes, 'record')
  let at = 0
  for (const { uniforms } of launches) {
    regions.bytesOf(region, at, uniforms.length).set(uniforms)
    at += slotOf(uniforms)
  }
  return region
}

function writeCommands(
  objc: Objc,
  commands: Id,
  launches: readonly Launch[],
  constants: Region | undefined,
  { concurrent }: ReplayOptions,
): void {
  const { MTLIndirectCommandBuffer, MTLIndirectComputeCommand: messages } = objc.messages
  let at = 0
  launches.forEach(({ program, buffers, uniforms, grid, waits }, index) => {
    const command = required(MTLIndirectCommandBuffer['indirectComputeCommandAtIndex:'](commands, index), 'an indirect command')
    messages['setComputePipelineState:'](command, program.pipeline)
    buffers.forEach(({ region, offset }, slot) => messages['setKernelBuffer:offset:atIndex:'](command, region?.id ?? null, offset, slot))
    if (program.uniforms !== undefined && constants !== undefined)
      messages['setKernelBuffer:offset:atIndex:'](command, constants.id, at, program.uniforms)
    at += slotOf(uniforms)
    messages['concurrentDispatchThreadgroups:threadsPerThreadgroup:'](command, grid, program.workgroup)
    if (waits || !concurrent) messages.setBarrier(command)
  })
}

function slotOf(uniforms: Uint8Array): number {
  return Math.ceil(uniforms.length / CONSTANT_SLOT) * CONSTANT_SLOT
}
