// What a kernel means, run: the specification of the kernel language and the oracle for every target. A workgroup runs in
// lockstep, lane by lane within each step; workgroups run one after the other. Exact: f32 and f64 round at every step, f16
// to nearest even, integers wrap, shifts count modulo 32.
//
// Strict: an access out of range is always reported; with `check` (the default) also reads of workgroup memory that was not
// written, data races between barriers and between workgroups, and barriers or subgroup operations that not all lanes reach.
// A report names the kernel, the lane, the memory and the index. Which lane an atomic serves first is not specified; here it
// is the lowest. The parts are in interpret/.

import { IngotError } from '../../base/error.ts'
import { type Program, compile } from './compile.ts'
import { missing } from './memory.ts'
import { type Kernel, buffersOf, uniformsOf } from '../kernel.ts'

export interface KernelArguments {
  readonly buffers: Readonly<Record<string, Uint8Array>>
  readonly uniforms?: Readonly<Record<string, number>>
  /** workgroups along x, y and z */
  readonly grid: readonly [x: number, y: number, z: number]
}

export interface InterpretOptions {
  /** false: only range is checked; much quicker where buffers are written a lot */
  readonly check?: boolean
}

const checked = new WeakMap<Kernel, Program>()
const unchecked = new WeakMap<Kernel, Program>()
/** A clock this late starts again, with all shadows forgotten, before its 32 bits run out. */
const LATE = 2 ** 31

/** Runs a kernel over a grid and changes the buffers in place. */
export function interpret(kernel: Kernel, given: KernelArguments, options: InterpretOptions = {}): void {
  const check = options.check !== false
  const memo = check ? checked : unchecked
  let program = memo.get(kernel)
  if (program === undefined) {
    program = compile(kernel, check)
    memo.set(kernel, program)
  }
  if (check) refuseOverlap(kernel, given)
  bind(kernel, program, given)
  try {
    run(program, given.grid)
  } finally {
    for (const { name } of buffersOf(kernel)) program.memories.get(name)?.release()
  }
}

function bind(kernel: Kernel, { state, memories, clock }: Program, { buffers, uniforms = {}, grid }: KernelArguments): void {
  if (grid.some((size) => !Number.isInteger(size) || size < 0)) {
    throw new IngotError('bad-argument', 'bad grid', { op: kernel.name, got: grid, wanted: 'three whole numbers' })
  }
  for (const { name } of buffersOf(kernel)) {
    const bytes = buffers[name]
    if (bytes === undefined) throw missing(kernel.name, 'buffer', name)
    memories.get(name)?.bind(bytes)
  }
  for (const { name } of uniformsOf(kernel)) {
    const value = uniforms[name]
    if (value === undefined) throw missing(kernel.name, 'uniform', name)
    state.uniforms.set(name, value)
  }
  state.grid = grid
  if (clock.now < LATE) return
  for (const { shadow } of memories.values()) shadow?.forget()
  clock.now = 1
}

/** Two names for the same bytes would hide races from the shadows, and GPUs refuse them. */
function refuseOverlap(kernel: Kernel, { buffers }: KernelArguments): void {
  const params = buffersOf(kernel)
  for (const { name, role } of params) {
    const a = buffers[name]
    if (role === 'read' || a === undefined) continue
    for (const { name: other } of params) {
      const b = buffers[other]
      if (other === name || b === undefined || a.buffer !== b.buffer) continue
      if (a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength) {
        throw new IngotError('bad-argument', `${name} is written and shares bytes with ${other}`, {
          op: kernel.name,
          hint: "use one 'readwrite' buffer",
        })
      }
    }
  }
}

function run({ state, clock, prepare, run }: Program, [x, y, z]: KernelArguments['grid']): void {
  clock.startDispatch()
  prepare(state.all)
  for (let wz = 0; wz < z; wz++) {
    for (let wy = 0; wy < y; wy++) {
      for (let wx = 0; wx < x; wx++) {
        state.workgroup = [wx, wy, wz]
        clock.startWorkgroup()
        run(state.all)
      }
    }
  }
}
