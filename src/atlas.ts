// `ingot/atlas`: programs of the Atlas instruction set, as text, bytes or TypeScript; interpreted, compiled, and run on any device.

import { Executor as DeviceExecutor } from './atlas/executor.ts'
import { open } from './device/open/open.ts'

export { type ProgramWriter, type Predicate, type Register, boundaryAt, bufferAt, computedAt, indirectAt, program } from './atlas/build.ts'
export {
  BOUNDARY_BYTES,
  CLASSES,
  type ByteLabel,
  type ClassLabel,
  boundaryOffset,
  byteLabel,
  byteOfClass,
  classOfByte,
  classOfLabel,
  isUnity,
  labelOfByte,
  labelOfClass,
  mirrorOf,
  neighboursOf,
  turnClass,
} from './atlas/class.ts'
export { type CompileOptions, type CompiledProgram, compileProgram } from './atlas/compile/compile.ts'
export type { Handles } from './atlas/compile/memory.ts'
export type { Execution, SlotInfo } from './atlas/executor.ts'
export { decodeProgram, encodeProgram } from './atlas/file.ts'
export { INSTRUCTIONS, type Instruction, type InstructionName } from './atlas/instruction/index.ts'
export { type Memory, type RunResult, interpretProgram } from './atlas/interpret.ts'
export { type Extent, type Launch, type LaunchOptions, linearLaunch, resolveLaunch, totalLanes } from './atlas/launch.ts'
export type { Handle } from './atlas/memory-table.ts'
export type { Address, Condition, Scope } from './atlas/operand.ts'
export { type AtlasProgram, type Problem, validate } from './atlas/program.ts'
export { bufferNames, parseProgram, printInstruction, printProgram } from './atlas/text.ts'
export type { AtlasType, AtlasValue } from './atlas/type.ts'

export type Executor = DeviceExecutor

export interface ExecutorOptions {
  /** `auto` (the default), `metal`, `webgpu`, `cpu` or `reference` */
  readonly backend?: string
}

/** Runs programs on a device, which it opens and closes. */
export const Executor = {
  async open({ backend = 'auto' }: ExecutorOptions = {}): Promise<Executor> {
    const { device } = await open(backend)
    return new DeviceExecutor(device)
  },
}
