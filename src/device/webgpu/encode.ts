// Checked commands as WebGPU commands: first bind groups and uniforms (`prepare`, once per recording), then one command buffer
// (`encode`, per submission). Dispatches that follow each other share a compute pass; everything else must stand outside.

import { type Bound, type Checked, overlap } from '../check.ts'
import { type Pipelines, type WebgpuProgram, maskOf } from './pipeline.ts'
import { type Staging, UNIFORM_SLOT } from './staging.ts'
import { COPY_DST, STORAGE } from './usage.ts'

/** Memory of a buffer. WebGPU says later whether it could be made: then `known` is true, and `failed` set if it could not. */
export interface GpuMemory {
  readonly buffer: GPUBuffer
  known: boolean
  failed?: Error
}

type Dispatches = Extract<Checked<GpuMemory>, { kind: 'dispatch' }>
export type Step =
  | {
      readonly kind: 'dispatch'
      readonly pipeline: GPUComputePipeline
      readonly group: GPUBindGroup
      readonly grid: readonly [number, number, number]
    }
  | Exclude<Checked<GpuMemory>, { kind: 'dispatch' }>

export interface Prepared {
  readonly steps: readonly Step[]
  readonly dispatches: number
  /** sizes of the read-backs, in order; they lie one after another in the reader */
  readonly reads: readonly number[]
  /** buffers that only these steps use */
  readonly detours: readonly GPUBuffer[]
}

/** Makes bind groups, and writes the uniforms into the buffer that `uniformBuffer` gives for their size. */
export function prepare(
  device: GPUDevice,
  pipelines: Pipelines,
  commands: readonly Checked<GpuMemory>[],
  uniformBuffer: (bytes: number) => GPUBuffer,
): Prepared {
  const dispatches = commands.filter((command): command is Dispatches => command.kind === 'dispatch')
  const slots = slotsOf(dispatches)
  const uniforms = slots.bytes.length === 0 ? undefined : uniformBuffer(slots.bytes.length)
  if (uniforms !== undefined) device.queue.writeBuffer(uniforms, 0, slots.bytes)
  const detours: GPUBuffer[] = []
  let next = 0
  const steps = commands.flatMap((command): Step[] => {
    if (command.kind !== 'dispatch') return [command]
    const program = command.program as WebgpuProgram
    const { buffers, copies } = detour(device, program, command.buffers)
    detours.push(...copies.map(({ to }) => to.entry.memory.buffer))
    const { pipeline, layout, uniforms: binding } = pipelines.variant(program, maskOf(program.kernel, buffers))
    const entries: GPUBindGroupEntry[] = buffers.map((bound, index) => ({ binding: index, resource: bindingOf(bound) }))
    const { offset, size } = slots.at[next++] as Slot
    if (binding !== undefined && uniforms !== undefined) entries.push({ binding, resource: { buffer: uniforms, offset, size } })
    return [...copies, { kind: 'dispatch', pipeline, group: device.createBindGroup({ layout, entries }), grid: command.grid }]
  })
  const reads = commands.flatMap((command) => (command.kind === 'read' ? [command.from.bytes] : []))
  return { steps, dispatches: dispatches.length, reads, detours }
}

/** One command buffer with all steps; read-backs end up in `reader`. */
export function encode(device: GPUDevice, { steps }: Prepared, staging: Staging, reader: GPUBuffer | undefined): GPUCommandBuffer {
  const encoder = device.createCommandEncoder()
  let pass: GPUComputePassEncoder | undefined
  let bound: GPUComputePipeline | undefined
  let readAt = 0
  for (const step of steps) {
    if (step.kind === 'dispatch') {
      if (step.grid.includes(0)) continue // allowed, but Dawn warns
      pass ??= encoder.beginComputePass()
      if (bound !== step.pipeline) pass.setPipeline(step.pipeline)
      bound = step.pipeline
      pass.setBindGroup(0, step.group)
      pass.dispatchWorkgroups(...step.grid)
      continue
    }
    pass?.end()
    pass = bound = undefined
    if (step.kind === 'copy') copy(encoder, step.from, step.to, staging)
    else if (step.kind === 'fill') fill(encoder, step.to, step.value, staging)
    else if (reader !== undefined && step.from.bytes > 0) {
      encoder.copyBufferToBuffer(step.from.entry.memory.buffer, step.from.offset, reader, readAt, step.from.bytes)
      readAt += step.from.bytes
    }
  }
  pass?.end()
  return encoder.finish()
}

type CopyStep = Extract<Step, { kind: 'copy' }>

/**
 * Parameters that are bound as writable only because their buffer is written elsewhere may not overlap each other either.
 * Where they do (a kernel that reads the same range twice), the later one reads a copy.
 */
function detour(
  device: GPUDevice,
  { kernel }: WebgpuProgram,
  bounds: readonly Bound<GpuMemory>[],
): { buffers: readonly Bound<GpuMemory>[]; copies: CopyStep[] } {
  const mask = maskOf(kernel, bounds)
  const copies: CopyStep[] = []
  if (mask === 0) return { buffers: bounds, copies }
  const masked = (index: number): boolean => (mask & (1 << index)) !== 0
  const buffers = bounds.map((bound, index) => {
    if (!masked(index) || !bounds.some((other, at) => at < index && masked(at) && overlap(bound, other))) return bound
    const bytes = Math.ceil(bound.bytes / 4) * 4
    const buffer = device.createBuffer({ label: 'detour', size: bytes, usage: STORAGE | COPY_DST })
    const entry = { ...bound.entry, memory: { buffer, known: true }, bytes, capacity: bytes }
    copies.push({ kind: 'copy', from: { ...bound, bytes }, to: { entry, offset: 0, bytes } })
    return { entry, offset: 0, bytes: bound.bytes }
  })
  return { buffers, copies }
}

interface Slot {
  readonly offset: number
  readonly size: number
}

/** The uniforms of all dispatches, each at an offset that WebGPU accepts. */
function slotsOf(dispatches: readonly Dispatches[]): { readonly bytes: Uint8Array<ArrayBuffer>; readonly at: readonly Slot[] } {
  let end = 0
  const at = dispatches.map(({ uniforms }): Slot => {
    const slot = { offset: end, size: Math.ceil(uniforms.length / 16) * 16 }
    end += Math.ceil(uniforms.length / UNIFORM_SLOT) * UNIFORM_SLOT
    return slot
  })
  const bytes = new Uint8Array(end)
  dispatches.forEach(({ uniforms }, index) => bytes.set(uniforms, (at[index] as Slot).offset))
  return { bytes, at }
}

/** Sizes of bindings are multiples of 4; memory always reaches that far. */
function bindingOf({ entry, offset, bytes }: Bound<GpuMemory>): GPUBufferBinding {
  return { buffer: entry.memory.buffer, offset, size: Math.ceil(bytes / 4) * 4 }
}

function copy(encoder: GPUCommandEncoder, from: Bound<GpuMemory>, to: Bound<GpuMemory>, staging: Staging): void {
  const [source, target] = [from.entry.memory.buffer, to.entry.memory.buffer]
  if (from.bytes === 0) return
  if (source !== target) return encoder.copyBufferToBuffer(source, from.offset, target, to.offset, from.bytes)
  const scratch = staging.scratch()
  for (let at = 0; at < from.bytes; at += scratch.size) {
    const bytes = Math.min(scratch.size, from.bytes - at)
    encoder.copyBufferToBuffer(source, from.offset + at, scratch, 0, bytes)
    encoder.copyBufferToBuffer(scratch, 0, target, to.offset + at, bytes)
  }
}

function fill(encoder: GPUCommandEncoder, to: Bound<GpuMemory>, value: number, staging: Staging): void {
  const { buffer } = to.entry.memory
  if (to.bytes === 0) return
  if (value === 0) return encoder.clearBuffer(buffer, to.offset, to.bytes)
  const pattern = staging.pattern(value)
  for (let at = 0; at < to.bytes; at += pattern.size) {
    encoder.copyBufferToBuffer(pattern, 0, buffer, to.offset + at, Math.min(pattern.size, to.bytes - at))
  }
}
