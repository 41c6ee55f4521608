// Checked commands as WebGPU commands: first bind groups and uniforms (`prepare`, once per recording), then one command buffer
// (`encode`, per submission). Dispatches that follow each other share a compute pass; everything else must stand outside.

import { type BoundRange, type CheckedCommand, type CheckedTransfer, overlap } from '../core/checked-command.ts'
import { type Pipelines, type WebgpuProgram, maskOf } from './pipeline.ts'
import { type Staging, UNIFORM_SLOT } from './staging.ts'
import { COPY_DST, STORAGE } from './usage.ts'

/** Memory of a buffer. WebGPU says later whether it could be made: then `known` is true, and `failed` set if it could not. */
export interface GpuMemory {
  readonly buffer: GPUBuffer
  known: boolean
  failed?: Error
}

interface PreparedDispatch {
  readonly kind: 'dispatch'
  readonly pipeline: GPUComputePipeline
  readonly group: GPUBindGroup
  readonly grid: readonly [number, number, number]
}

export interface PreparedCommands {
  readonly commands: readonly (PreparedDispatch | CheckedTransfer<GpuMemory>)[]
  /** sizes of the read-backs, in order; they lie one after another in the reader */
  readonly reads: readonly number[]
  /** buffers that only these commands use */
  readonly detours: readonly GPUBuffer[]
}

/** Makes bind groups, and writes the uniforms into the buffer that `uniformBuffer` gives for their size. */
export function prepare(
  device: GPUDevice,
  pipelines: Pipelines,
  commands: readonly CheckedCommand<GpuMemory, WebgpuProgram>[],
  uniformBuffer: (bytes: number) => GPUBuffer,
): PreparedCommands {
  const values = new Uint8Array(commands.reduce((sum, command) => sum + slotOf(command), 0))
  const uniforms = values.length === 0 ? undefined : uniformBuffer(values.length)
  const detours: GPUBuffer[] = []
  let offset = 0
  const prepared = commands.flatMap((command): PreparedCommands['commands'] => {
    if (command.kind !== 'dispatch') return [command]
    const { buffers, copies } = detour(device, command.buffers)
    detours.push(...copies.map(({ to }) => to.buffer.memory.buffer))
    const { pipeline, layout, uniforms: binding } = pipelines.variant(command.program, maskOf(buffers))
    const entries: GPUBindGroupEntry[] = buffers.map((range, index) => ({ binding: index, resource: bindingOf(range) }))
    if (binding !== undefined && uniforms !== undefined) {
      const size = Math.ceil(command.uniforms.length / 16) * 16
      entries.push({ binding, resource: { buffer: uniforms, offset, size } })
    }
    values.set(command.uniforms, offset)
    offset += slotOf(command)
    return [...copies, { kind: 'dispatch', pipeline, group: device.createBindGroup({ layout, entries }), grid: command.grid }]
  })
  if (uniforms !== undefined) device.queue.writeBuffer(uniforms, 0, values)
  const reads = commands.flatMap((command) => (command.kind === 'read' ? [command.from.bytes] : []))
  return { commands: prepared, reads, detours }
}

/** One command buffer with all of them; read-backs end up in `reader`. */
export function encode(
  device: GPUDevice,
  { commands }: PreparedCommands,
  staging: Staging,
  reader: GPUBuffer | undefined,
): GPUCommandBuffer {
  const encoder = device.createCommandEncoder()
  let pass: GPUComputePassEncoder | undefined
  let bound: GPUComputePipeline | undefined
  let readAt = 0
  for (const command of commands) {
    if (command.kind === 'dispatch') {
      if (command.grid.includes(0)) continue // allowed, but Dawn warns
      pass ??= encoder.beginComputePass()
      if (bound !== command.pipeline) pass.setPipeline(command.pipeline)
      bound = command.pipeline
      pass.setBindGroup(0, command.group)
      pass.dispatchWorkgroups(...command.grid)
      continue
    }
    pass?.end()
    pass = bound = undefined
    if (command.kind === 'copy') copy(encoder, command.from, command.to, staging)
    else if (command.kind === 'fill') fill(encoder, command.to, command.value, staging)
    else if (reader !== undefined && command.from.bytes > 0) {
      encoder.copyBufferToBuffer(command.from.buffer.memory.buffer, command.from.offset, reader, readAt, command.from.bytes)
      readAt += command.from.bytes
    }
  }
  pass?.end()
  return encoder.finish()
}

type CopyCommand = Extract<CheckedTransfer<GpuMemory>, { kind: 'copy' }>

/**
 * Parameters that are bound as writable only because their buffer is written elsewhere may not overlap each other either.
 * Where they do (a kernel that reads the same range twice), the later one reads a copy.
 */
function detour(
  device: GPUDevice,
  ranges: readonly BoundRange<GpuMemory>[],
): { buffers: readonly BoundRange<GpuMemory>[]; copies: CopyCommand[] } {
  const mask = maskOf(ranges)
  const copies: CopyCommand[] = []
  if (mask === 0) return { buffers: ranges, copies }
  const isMasked = (index: number): boolean => (mask & (1 << index)) !== 0
  const buffers = ranges.map((range, index) => {
    if (!isMasked(index) || !ranges.some((other, at) => at < index && isMasked(at) && overlap(range, other))) return range
    const bytes = Math.ceil(range.bytes / 4) * 4
    const gpuBuffer = device.createBuffer({ label: 'detour', size: bytes, usage: STORAGE | COPY_DST })
    const buffer = { ...range.buffer, memory: { buffer: gpuBuffer, known: true }, bytes, capacity: bytes }
    copies.push({ kind: 'copy', from: { ...range, bytes }, to: { buffer, offset: 0, bytes, written: true }, bytes })
    return { buffer, offset: 0, bytes: range.bytes, written: false }
  })
  return { buffers, copies }
}

/** Bytes that the uniforms of a command take, so that those of the next lie at an offset that WebGPU accepts. */
function slotOf(command: CheckedCommand<GpuMemory>): number {
  return command.kind === 'dispatch' ? Math.ceil(command.uniforms.length / UNIFORM_SLOT) * UNIFORM_SLOT : 0
}

/** Sizes of bindings are multiples of 4; memory always reaches that far. */
function bindingOf({ buffer, offset, bytes }: BoundRange<GpuMemory>): GPUBufferBinding {
  return { buffer: buffer.memory.buffer, offset, size: Math.ceil(bytes / 4) * 4 }
}

function copy(encoder: GPUCommandEncoder, from: BoundRange<GpuMemory>, to: BoundRange<GpuMemory>, staging: Staging): void {
  const [source, target] = [from.buffer.memory.buffer, to.buffer.memory.buffer]
  if (from.bytes === 0) return
  if (source !== target) return encoder.copyBufferToBuffer(source, from.offset, target, to.offset, from.bytes)
  const scratch = staging.scratch()
  for (let at = 0; at < from.bytes; at += scratch.size) {
    const bytes = Math.min(scratch.size, from.bytes - at)
    encoder.copyBufferToBuffer(source, from.offset + at, scratch, 0, bytes)
    encoder.copyBufferToBuffer(scratch, 0, target, to.offset + at, bytes)
  }
}

function fill(encoder: GPUCommandEncoder, to: BoundRange<GpuMemory>, value: number, staging: Staging): void {
  const { buffer } = to.buffer.memory
  if (to.bytes === 0) return
  if (value === 0) return encoder.clearBuffer(buffer, to.offset, to.bytes)
  const pattern = staging.pattern(value)
  for (let at = 0; at < to.bytes; at += pattern.size) {
    encoder.copyBufferToBuffer(pattern, 0, buffer, to.offset + at, Math.min(pattern.size, to.bytes - at))
  }
}
