// A program as a kernel: jumps become loops and branches (structure.ts), registers values (write.ts), addresses memory (memory.ts). The
// kernel is of the kernel language, so that every device runs it, and the verifier has the last word: a barrier that some lanes may not
// reach is refused there.

import { Builder } from '../../ir/build.ts'
import { hashText } from '../../ir/hash.ts'
import type { BufferParam, Kernel, Param, UniformParam } from '../../ir/kernel.ts'
import { verify } from '../../ir/verify/verify.ts'
import { storageBytes } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { faultError, FAULTS } from '../fault.ts'
import { type Launch, type LaunchOptions, resolveLaunch, totalLanes } from '../launch.ts'
import { type AtlasProgram, checkProgram } from '../program.ts'
import { printProgram } from '../text.ts'
import { analyseFlow } from './flow.ts'
import { buildGraph } from './graph.ts'
import { type Handles, type Region, findComputed, nameOf, planMemory, planPools } from './memory.ts'
import { type Structured, structure } from './structure.ts'
import { FAULT_BITS, FAULT_CODES, KernelWriter, STATUS_HEAD, STATUS_NOTE } from './write.ts'

/** How a program is compiled. */
export interface CompileOptions {
  /** false: no error is looked for while it runs, and what would be one is undefined; default true */
  readonly checks?: boolean
  /** true: f64 is computed as f32, which is what devices without f64 can do; in memory it keeps its 64 bits; default false */
  readonly f64AsF32?: boolean
  /** handles that there are, for programs that compute them while running */
  readonly handles?: Handles
}

/** A buffer by its handle, or what it is for: pools of the host, pools and rows of accumulators by lane, and what lanes report. */
export type Binding = Exclude<Region, 'shared'> | 'status'

/** A program for blocks of one size. */
export interface CompiledProgram {
  readonly program: AtlasProgram
  readonly kernel: Kernel
  /** what to bind, in order: buffers by handle, the boundary pool, and memory that only this launch needs */
  readonly bindings: readonly Binding[]
  /** bytes of all pools of a lane */
  readonly poolBytes: number
  /** In words: what became of its jumps and its memory. */
  explain(): string
}

/** Compiles a program for launches of this block and shared memory; the grid may be any. */
export function compileProgram(
  program: AtlasProgram,
  options: LaunchOptions = {},
  { checks = true, f64AsF32 = false, handles = {} }: CompileOptions = {},
): CompiledProgram {
  checkProgram(program, 'compileProgram')
  const launch = resolveLaunch(options)
  const blocks = buildGraph(program)
  const entries = analyseFlow(program, blocks)
  const context = { program, handles, pools: planPools(program) }
  const regions = planMemory(context, blocks, entries, !f64AsF32)
  const name = `atlas_${hashText(printProgram(program)).slice(0, 8)}`
  const builder = new Builder(name)
  const { sharedBytes } = launch
  const writer = new KernelWriter(builder, { ...context, launch, sharedBytes, entries, regions, blocks, checks, hasDoubles: !f64AsF32 })
  writer.declare()
  const structured = structure(builder, blocks, (block) => writer.writeBlock(block))
  const last = builder.block(() => writer.finish())
  const global = [...regions.values()].filter(({ region }) => region !== 'shared')
  const shared = [...regions.values()].filter(({ region }) => region === 'shared')
  if (shared.length > 0 && launch.sharedBytes === 0) {
    throw new IngotError('bad-argument', 'the program uses shared memory', { op: 'atlas', got: 'sharedBytes 0', wanted: 'its size' })
  }
  const kernel: Kernel = {
    name,
    params: [
      ...global.map((region): Param => ({ kind: 'buffer', atomic: false, role: region.isWritten ? 'readwrite' : 'read', ...pick(region) })),
      ...(checks ? [STATUS, ...global.flatMap(({ region }) => (isOfHost(region) ? [sizeOf(region)] : []))] : []),
    ],
    workgroup: launch.block,
    subgroup: 0,
    shared: shared.map((region) => ({
      ...pick(region),
      length: Math.ceil(launch.sharedBytes / storageBytes(region.storage)),
      atomic: false,
    })),
    body: builder.make('block', 'void', [...builder.body().src, ...structured.body, ...last.src]),
    interner: builder.interner,
  }
  verify(kernel)
  const notes = [
    ...(findComputed(program, blocks, entries) ? ['handles: computed while running, a branch for each that may be meant'] : []),
    ...(f64AsF32 ? ['f64: computed as f32'] : []),
    `checks: ${checks ? 'on' : 'off'}`,
  ]
  const bindings = [...global.flatMap(({ region }) => bindingOf(region)), ...(checks ? (['status'] as const) : [])]
  return {
    program,
    kernel,
    bindings,
    poolBytes: context.pools.laneBytes,
    explain: () => explain(structured, blocks.length, kernel, notes),
  }
}

/** True if a handle of the program is computed while it runs: then compiling it takes the handles that there are. */
export function computesHandles(program: AtlasProgram): boolean {
  checkProgram(program, 'computesHandles')
  const blocks = buildGraph(program)
  return findComputed(program, blocks, analyseFlow(program, blocks))
}

const STATUS: BufferParam = { kind: 'buffer', name: 'status', storage: 'u32', role: 'readwrite', atomic: true }

function pick<T extends { readonly name: string; readonly storage: BufferParam['storage'] }>({
  name,
  storage,
}: T): Pick<T, 'name' | 'storage'> {
  return { name, storage }
}

/** The uniform that says how many bytes there are. */
export function sizeName(binding: Binding): string {
  return `${binding === 'status' ? binding : nameOf(binding)}_bytes`
}

function sizeOf(region: Binding): UniformParam {
  return { kind: 'uniform', name: sizeName(region), dtype: 'u32' }
}

/** True for buffers and pools that the host has, which may be of any size. */
export function isOfHost(binding: Region | Binding): binding is number | `pool${number}` {
  return typeof binding === 'number' || /^pool\d/.test(binding)
}

function bindingOf(region: Region): Binding[] {
  return region === 'shared' ? [] : [region]
}

/** Bytes of the memory of reports for a launch; all of its first word must be set before. */
export function statusBytes(launch: Launch): number {
  return 4 * (STATUS_HEAD + STATUS_NOTE * totalLanes(launch))
}

/** Where the note of a lane is, in bytes. */
export function noteOffset(lane: number): number {
  return 4 * (STATUS_HEAD + STATUS_NOTE * lane)
}

export const NOTE_BYTES = 4 * STATUS_NOTE

/** The error that a lane has noted. */
export function readNote(program: AtlasProgram, lane: number, note: Uint8Array): IngotError {
  const view = new DataView(note.buffer, note.byteOffset, note.byteLength)
  const word = view.getUint32(0, true) >>> 1
  const code = FAULT_CODES[word % 2 ** FAULT_BITS] ?? 'out-of-range'
  const instruction = word >>> FAULT_BITS
  const offset = view.getBigInt64(4, true)
  const isPlace = code === 'out-of-range' || code === 'bad-address'
  return faultError(code, FAULTS[code], { program, instruction, lane, ...(isPlace ? { got: `byte ${offset}` } : {}) })
}

/** What became of a program, in words. */
function explain({ isNested, flags }: Structured, blocks: number, kernel: Kernel, notes: readonly string[]): string {
  const jumps = isNested
    ? `${blocks} blocks as nested loops and branches${flags === 0 ? '' : `, ${flags} of them reached by a flag`}`
    : `${blocks} blocks through one dispatch loop: a loop is entered in the middle, which nested loops cannot say`
  const memory = [...kernel.params, ...kernel.shared].flatMap((each) => ('storage' in each ? [`${each.name}: ${each.storage}`] : []))
  return [`jumps: ${jumps}`, `memory: ${memory.join(', ')}`, ...notes].join('\n')
}
