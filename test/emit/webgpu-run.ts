// Runs emitted WGSL on Dawn, just enough for tests of emission: one dispatch, buffers in, buffers out.

import type { Caps, Source } from '../../src/emit/source.ts'
import type { KernelArguments } from '../../src/ir/interpret/interpret.ts'
import { type Kernel, buffersOf, packUniforms, uniformsOf } from '../../src/ir/kernel.ts'

/** A kernel with its pipeline. */
export interface Built {
  readonly kernel: Kernel
  readonly layout: GPUBindGroupLayout
  readonly pipeline: GPUComputePipeline
}

export interface Gpu {
  readonly caps: Caps
  /** Compiles; several at once take several threads. Throws what the compiler says, warnings too. */
  build(kernel: Kernel, source: Source): Promise<Built>
  runBuilt(built: Built, dispatch: KernelArguments): Promise<void>
  run(kernel: Kernel, source: Source, dispatch: KernelArguments): Promise<void>
  close(): void
}

/** Dawn on the driver of this project, or the reason why it cannot be used. */
export async function openGpu(): Promise<Gpu | string> {
  if (process.env.INGOT_WEBGPU_MISSING !== undefined) return process.env.INGOT_WEBGPU_MISSING
  const dawn = await import('webgpu').catch((error: unknown) => String(error))
  if (typeof dawn === 'string') return `the webgpu package does not load: ${dawn}`
  Object.assign(globalThis, dawn.globals)
  const gpu = dawn.create(['enable-dawn-features=disable_workgroup_init'])
  const adapter = await gpu.requestAdapter()
  if (adapter === null) return 'Dawn finds no adapter'
  const wanted = (['subgroups', 'shader-f16'] as GPUFeatureName[]).filter((name) => adapter.features.has(name))
  const device = await adapter.requestDevice({ requiredFeatures: wanted })
  const { subgroupMinSize: least = 0, subgroupMaxSize: most = 0 } = adapter.info as { subgroupMinSize?: number; subgroupMaxSize?: number }
  return {
    caps: { subgroup: wanted.includes('subgroups') && least === most ? least : 0, f16: wanted.includes('shader-f16'), tiles: false },
    build: (kernel, source) => build(device, kernel, source),
    runBuilt: (built, dispatch) => runBuilt(device, built, dispatch),
    run: async (kernel, source, dispatch) => runBuilt(device, await build(device, kernel, source), dispatch),
    close: () => {
      device.destroy()
      void gpu
    },
  }
}

async function build(device: GPUDevice, kernel: Kernel, { text, entry }: Source): Promise<Built> {
  device.pushErrorScope('validation')
  const module = device.createShaderModule({ code: text })
  const fault = device.popErrorScope()
  const problems = (await module.getCompilationInfo()).messages.filter(({ type }) => type === 'error' || type === 'warning')
  await fault
  if (problems.length > 0)
    throw new Error(problems.map(({ lineNum, message }) => `${lineNum}: ${message}\n  ${text.split('\n')[lineNum - 1]}`).join('\n'))
  const params = buffersOf(kernel)
  const layout = device.createBindGroupLayout({
    entries: [
      ...params.map(({ role }, binding) => ({
        binding,
        visibility: 4,
        buffer: { type: role === 'read' ? ('read-only-storage' as const) : ('storage' as const) },
      })),
      ...(uniformsOf(kernel).length > 0 ? [{ binding: params.length, visibility: 4, buffer: { type: 'uniform' as const } }] : []),
    ],
  })
  const pipeline = await device.createComputePipelineAsync({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module, entryPoint: entry },
  })
  return { kernel, layout, pipeline }
}

async function runBuilt(
  device: GPUDevice,
  { kernel, layout, pipeline }: Built,
  { buffers, uniforms = {}, grid }: KernelArguments,
): Promise<void> {
  device.pushErrorScope('validation')
  const params = buffersOf(kernel)
  const hasUniforms = uniformsOf(kernel).length > 0
  const upload = (bytes: Uint8Array, usage: number): GPUBuffer => {
    const size = Math.max(16, Math.ceil(bytes.length / 16) * 16)
    const buffer = device.createBuffer({ size, usage: usage | 8, mappedAtCreation: true })
    new Uint8Array(buffer.getMappedRange()).set(bytes)
    buffer.unmap()
    return buffer
  }
  const bound = params.map(({ name }) => upload(buffers[name] as Uint8Array, 128 | 4))
  const all = hasUniforms ? [...bound, upload(packUniforms(kernel, uniforms), 64)] : bound
  const encoder = device.createCommandEncoder()
  const pass = encoder.beginComputePass()
  pass.setPipeline(pipeline)
  pass.setBindGroup(0, device.createBindGroup({ layout, entries: all.map((buffer, binding) => ({ binding, resource: { buffer } })) }))
  pass.dispatchWorkgroups(...grid)
  pass.end()
  const copies = bound.map((buffer) => {
    const copy = device.createBuffer({ size: buffer.size, usage: 1 | 8 })
    encoder.copyBufferToBuffer(buffer, 0, copy, 0, buffer.size)
    return copy
  })
  device.queue.submit([encoder.finish()])
  const fault = device.popErrorScope()
  await Promise.all(copies.map((copy) => copy.mapAsync(1)))
  params.forEach(({ name }, index) => {
    const bytes = buffers[name] as Uint8Array
    bytes.set(new Uint8Array((copies[index] as GPUBuffer).getMappedRange()).subarray(0, bytes.length))
  })
  for (const buffer of [...all, ...copies]) buffer.destroy()
  const error = await fault
  if (error !== null) throw new Error(error.message)
}
