// The weights of a model on a device. A model is built twice: once against a source that only notes which tensors it asks for, then,
// when those are loaded, against the real ones. So nothing is loaded that the model does not use, and progress is known.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, ByteRange, Command, Device } from '../device/device.ts'
import { packUniforms } from '../ir/kernel.ts'
import { boundBuffers } from '../kernel/family.ts'
import { packedBytes, repack } from '../kernel/linear/repack.ts'
import type { Architecture, LanguageModel } from '../model/model.ts'
import { GGML_TYPES, type GgmlType } from '../quant/type.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import { type TensorFactory, type WeightSlice, createSource, readRopeFactors } from './model-source.ts'

/** How far loading is, in bytes of weights. */
export interface LoadProgress {
  readonly loaded: number
  readonly total: number
}

export interface LoadedModel {
  readonly model: LanguageModel
  readonly weightBytes: number
  /** Frees the weights. */
  free(): void
}

/** Stands for memory in a model that is built to see what it asks for: no device gives out this handle. */
const NO_BUFFER = 0 as BufferHandle

export interface LoadModelOptions {
  readonly contextLength: number
  /** devices may map the file instead of reading it (default true) */
  readonly mmap?: boolean
  readonly onProgress?: (progress: LoadProgress) => void
  readonly signal?: AbortSignal
}

export async function loadModel(
  device: Device,
  gguf: Gguf,
  architecture: Architecture,
  { contextLength, mmap = true, onProgress, signal }: LoadModelOptions,
): Promise<LoadedModel> {
  const ropeFactors = await readRopeFactors(gguf)
  const packs = device.caps.lanes === 1 && device.caps.dot
  const build = (factory: TensorFactory): LanguageModel =>
    architecture.build(createSource(gguf, { contextLength, packs, ropeFactors }, factory))
  const slices = collectSlices(build)
  const total = [...slices.values()].reduce((sum, slice) => sum + bytesOf(slice), 0)
  const handles = new Map<string, BufferHandle>()
  const owned: BufferHandle[] = []
  let loaded = 0
  try {
    for (const [key, slice] of slices) {
      signal?.throwIfAborted()
      const handle = await loadWeight(device, slice, mmap)
      owned.push(handle)
      handles.set(key, handle)
      loaded += bytesOf(slice)
      onProgress?.({ loaded, total })
    }
    const model = build(loadedTensors(device, handles, owned))
    const free = (): void => {
      for (const handle of owned.splice(0)) device.free(handle)
    }
    return { model, weightBytes: total, free }
  } catch (error) {
    for (const handle of owned) device.free(handle)
    throw error
  }
}

/** The weights that a model asks for, each once. */
function collectSlices(build: (factory: TensorFactory) => LanguageModel): Map<string, WeightSlice> {
  const slices = new Map<string, WeightSlice>()
  build({
    weight: (slice) => {
      slices.set(keyOf(slice), slice)
      return leafFor(slice, NO_BUFFER)
    },
    constant: (label, values) => Tensor.leaf(NO_BUFFER, [values.length], 'f32', { label }),
  })
  return slices
}

/** Tensors over the loaded weights; constants are brought to the device, and added to `owned`. */
function loadedTensors(device: Device, handles: ReadonlyMap<string, BufferHandle>, owned: BufferHandle[]): TensorFactory {
  return {
    weight: (slice) => {
      const handle = handles.get(keyOf(slice))
      if (handle === undefined)
        throw new IngotError('bad-argument', 'a model must ask for the same weights each time it is built', {
          op: 'load',
          got: keyOf(slice),
        })
      return leafFor(slice, handle)
    },
    constant: (label, values) => {
      const handle = device.alloc(values.byteLength)
      owned.push(handle)
      device.write(handle, 0, new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
      return Tensor.leaf(handle, [values.length], 'f32', { label })
    },
  }
}

/** The weight as the model will read it; a packed one is made on the device from the file's, which is then freed. */
async function loadWeight(device: Device, slice: WeightSlice, mmap: boolean): Promise<BufferHandle> {
  const source = await device.load(rangeOf(slice, mmap))
  if (!slice.packed) return source
  const params = { format: slice.tensor.type, m: rowsOf(slice), k: columnsOf(slice) }
  let target: BufferHandle | undefined
  try {
    target = device.alloc(packedBytes(params))
    const buffers: Readonly<Record<string, BufferHandle>> = { w: source, y: target }
    const commands = await Promise.all(
      repack.work(device.caps, params).launches.map(async (launch): Promise<Command> => ({
        kind: 'dispatch',
        program: await device.compile(launch.kernel),
        buffers: boundBuffers(launch).map((name) => ({ buffer: buffers[name] ?? source })),
        uniforms: packUniforms(launch.kernel, launch.uniforms),
        grid: launch.grid,
      })),
    )
    await device.submit(commands)
    return target
  } catch (error) {
    if (target !== undefined) device.free(target)
    throw error
  } finally {
    device.free(source)
  }
}

function rowsOf({ shape }: WeightSlice): number {
  return shape.length === 1 ? 1 : shape[0]
}

function columnsOf({ shape }: WeightSlice): number {
  return shape[1] ?? shape[0]
}

function rowBytes(slice: WeightSlice): number {
  const { block, bytes } = GGML_TYPES[slice.tensor.type]
  return (columnsOf(slice) / block) * bytes
}

function bytesOf(slice: WeightSlice): number {
  return rowsOf(slice) * rowBytes(slice)
}

function keyOf({ tensor, from, shape, packed }: WeightSlice): string {
  return `${tensor.name} ${from} ${shape.join('x')} ${packed}`
}

function leafFor({ tensor, from, shape, packed }: WeightSlice, buffer: BufferHandle): Tensor {
  const whole = shape.reduce((product: number, size) => product * size, 1) === tensor.elements
  const label = whole ? tensor.name : `${tensor.name}[${from}..]`
  return Tensor.leaf(buffer, shape, tensor.type satisfies GgmlType, { label, layout: packed ? 'packed' : 'file' })
}

/** Without a path, a device cannot but read. */
function rangeOf(slice: WeightSlice, mmap: boolean): ByteRange {
  const { tensor, from } = slice
  const start = tensor.offset + from * rowBytes(slice)
  return {
    bytes: bytesOf(slice),
    ...(tensor.file.path === undefined || !mmap ? {} : { path: tensor.file.path }),
    offset: start,
    read: (at, length) => tensor.file.read(start + at, length),
  }
}
