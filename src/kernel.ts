// `ingot/kernel`: write a kernel once in TypeScript, run it on any device, read it as MSL, WGSL, C or WebAssembly text.

export type { Caps } from './base/caps.ts'
export type { DType, Scalar, Storage, Vector } from './base/dtype.ts'
export type { BufferHandle, Command, Device, Dispatch, Program, Recording } from './device/device.ts'
export { open } from './device/open/open.ts'
export {
  type Handles,
  type KernelSpec,
  type LaneScope,
  type ParamSpec,
  type Range,
  type Readable,
  type Scope,
  type Shared,
  type Var,
  type Writable,
  buffer,
  kernel,
  uniform,
} from './ir/author.ts'
export { interpret } from './ir/interpret/interpret.ts'
export { type Kernel, packUniforms } from './ir/kernel.ts'
export { printKernel } from './ir/print.ts'
export type { Value } from './ir/value.ts'
