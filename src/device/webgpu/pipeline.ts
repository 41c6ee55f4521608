// Kernels as WebGPU pipelines: WGSL text, an explicit layout, one pipeline per text. Explicit, because an 'auto' layout drops
// bindings that a kernel does not use, and then two kernels with the same parameters need different bind groups.
//
// WebGPU forbids one buffer to be bound read-only and writable in the same dispatch, even in ranges that do not overlap. A
// program therefore has variants, in which some `read` parameters are declared `readwrite`; `mask` names them, bit by bit.

import type { Caps } from '../../base/caps.ts'
import { IngotError, messageOf } from '../../base/error.ts'
import { emitWgsl } from '../../emit/wgsl.ts'
import { hashText } from '../../ir/hash.ts'
import { type BufferParam, type Kernel, buffersOf, uniformsOf } from '../../ir/kernel.ts'
import { checkKernel } from '../core/check.ts'
import type { BoundRange } from '../core/checked-command.ts'
import type { Compilation } from '../core/backend.ts'
import type { Program } from '../device.ts'
import { guard } from './fault.ts'

export interface Pipeline {
  readonly pipeline: GPUComputePipeline
  readonly layout: GPUBindGroupLayout
  /** binding of the uniforms; they come after the buffers */
  readonly uniforms: number | undefined
}

/** The program and its pipelines by mask; 0 is always there. */
export interface WebgpuProgram extends Program {
  readonly variants: Map<number, Pipeline>
}

export class Pipelines {
  readonly #device: GPUDevice
  readonly #caps: Caps
  readonly #emit: typeof emitWgsl
  /** by bindings and text */
  readonly #programs = new Map<string, Promise<WebgpuProgram>>()
  readonly #layouts = new Map<string, GPUBindGroupLayout>()

  constructor(device: GPUDevice, caps: Caps, emit = emitWgsl) {
    this.#device = device
    this.#caps = caps
    this.#emit = emit
  }

  /** The program of a kernel; throws `too-large` past a limit. */
  compile(kernel: Kernel): Compilation<WebgpuProgram> {
    checkKernel(kernel, this.#caps)
    const { text, entry } = this.#emit(kernel, this.#caps)
    const key = hashText(`${signature(kernel)}\n${text}`)
    const known = this.#programs.get(key)
    if (known !== undefined) return { program: known, fresh: false }
    const program = this.#build(kernel, text, entry).then((built) => ({ kernel, key, variants: new Map([[0, built]]) }))
    this.#programs.set(key, program)
    program.catch(() => this.#programs.delete(key))
    return { program, fresh: true }
  }

  /** The pipeline of a program in which the parameters of `mask` may be written to. Made at once: submissions keep their order. */
  variant(program: WebgpuProgram, mask: number): Pipeline {
    const known = program.variants.get(mask)
    if (known !== undefined) return known
    const kernel = withRoles(program.kernel, mask)
    const { text, entry } = this.#emit(kernel, this.#caps)
    const layout = this.#layout(kernel)
    const module = this.#device.createShaderModule({ label: kernel.name, code: text })
    const made = { ...layout, pipeline: this.#device.createComputePipeline(describe(this.#device, kernel, layout.layout, module, entry)) }
    program.variants.set(mask, made)
    return made
  }

  async #build(kernel: Kernel, text: string, entry: string): Promise<Pipeline> {
    const device = this.#device
    const layout = this.#layout(kernel)
    // The module's own error is the same as the pipeline's: the scope only keeps it from being reported as uncaught.
    const [module, fault] = guard(device, () => device.createShaderModule({ label: kernel.name, code: text }))
    try {
      const pipeline = await device.createComputePipelineAsync(describe(device, kernel, layout.layout, module, entry))
      return { ...layout, pipeline }
    } catch (cause) {
      throw await explain(kernel, module, text, cause)
    } finally {
      await fault
    }
  }

  #layout(kernel: Kernel): Omit<Pipeline, 'pipeline'> {
    const buffers = buffersOf(kernel)
    const uniforms = uniformsOf(kernel).length === 0 ? undefined : buffers.length
    const key = signature(kernel)
    let layout = this.#layouts.get(key)
    if (layout === undefined) {
      const kinds: GPUBufferBindingType[] = buffers.map(({ role }) => (role === 'read' ? 'read-only-storage' : 'storage'))
      if (uniforms !== undefined) kinds.push('uniform')
      layout = this.#device.createBindGroupLayout({
        label: key,
        entries: kinds.map((type, binding) => ({ binding, visibility: 4 /* compute */, buffer: { type } })),
      })
      this.#layouts.set(key, layout)
    }
    return { layout, uniforms }
  }
}

/** Which `read` parameters must be bound as writable, because their buffer is also written to. */
export function maskOf(ranges: readonly BoundRange<unknown>[]): number {
  const writtenTo = new Set(ranges.flatMap(({ buffer, written }) => (written ? [buffer] : [])))
  return ranges.reduce((mask, { buffer, written }, index) => (!written && writtenTo.has(buffer) ? mask | (1 << index) : mask), 0)
}

function withRoles(kernel: Kernel, mask: number): Kernel {
  let index = 0
  const params = kernel.params.map((param) => {
    if (param.kind !== 'buffer') return param
    return mask & (1 << index++) ? ({ ...param, role: 'readwrite' } satisfies BufferParam) : param
  })
  return { ...kernel, params, origin: undefined } // another kernel than the one the key stands for
}

/** `rrw+u`: what bindings a kernel has. */
function signature(kernel: Kernel): string {
  const roles = buffersOf(kernel)
    .map(({ role }) => (role === 'read' ? 'r' : 'w'))
    .join('')
  return uniformsOf(kernel).length === 0 ? roles : `${roles}+u`
}

function describe(
  device: GPUDevice,
  kernel: Kernel,
  layout: GPUBindGroupLayout,
  module: GPUShaderModule,
  entryPoint: string,
): GPUComputePipelineDescriptor {
  return { label: kernel.name, layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }), compute: { module, entryPoint } }
}

/** What the compiler said, with the line it said it of. */
async function explain(kernel: Kernel, module: GPUShaderModule, text: string, cause: unknown): Promise<IngotError> {
  const info = await module.getCompilationInfo().catch(() => undefined)
  const first = info?.messages.find(({ type }) => type === 'error')
  if (first === undefined) return new IngotError('compile-failed', messageOf(cause), { op: kernel.name, cause })
  const line = text.split('\n')[first.lineNum - 1]?.trim() ?? ''
  return new IngotError('compile-failed', `WGSL line ${first.lineNum}: ${first.message}\n  ${line}`, { op: kernel.name, cause })
}
