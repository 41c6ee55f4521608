// The weights of a model on a device. The model is built first, of tensors whose memory is not there yet; how its graph reads each of them
// says what to load, and in which layout. So nothing is loaded that the model does not use, and progress is known.

import type { BufferHandle, ByteRange, Command, Device } from '../device/device.ts'
import { packUniforms } from '../ir/kernel.ts'
import { boundBuffers } from '../kernel/family.ts'
import { PAGE } from '../kernel/attention/pages.ts'
import { packedBytes, packedOf, repack } from '../kernel/linear/repack.ts'
import type { Architecture, LanguageModel } from '../model/model.ts'
import type { Adapter, MatrixShape } from '../nn/source.ts'
import { GGML_TYPES } from '../quant/type.ts'
import { operandsFirst } from '../tensor/graph.ts'
import { operandsOf } from '../tensor/node.ts'
import { type Layout, Storage } from '../tensor/storage.ts'
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
  /** The same weights as a model whose linear layers have these adapters; who makes one is told whether rows of the weight lie packed. */
  withAdapters(adapter: (name: string, shape: MatrixShape, isPacked: boolean) => Adapter | undefined): LanguageModel
  /** Frees the weights. */
  free(): void
}

export interface LoadModelOptions {
  readonly contextLength: number
  /** devices may map the file instead of reading it (default true) */
  readonly mmap?: boolean
  /** whether weights may lie packed, for products with activations in int8, where the device is faster so (default true) */
  readonly packs?: boolean
  readonly onProgress?: (progress: LoadProgress) => void
  readonly signal?: AbortSignal
}

/** Weights that are packed while another is brought. */
const MOST_PACKING = 3

/** A weight that a model asked for, and where its bytes go. */
interface Weight {
  readonly slice: WeightSlice
  readonly storage: Storage
}
interface Constant {
  readonly label: string
  readonly values: Float32Array
  readonly storage: Storage
}

export async function loadModel(
  device: Device,
  gguf: Gguf,
  architecture: Architecture,
  { contextLength, mmap = true, packs = true, onProgress, signal }: LoadModelOptions,
): Promise<LoadedModel> {
  const ropeFactors = await readRopeFactors(gguf)
  const asked = new Asked()
  const source = createSource(gguf, { contextLength, ropeFactors }, asked)
  const model = architecture.build(source)
  const layouts = chooseLayouts(model, asked.weights, packs && device.caps.lanes === 1 && device.caps.dot)
  const wanted = asked.weights.filter(({ storage }) => layouts.has(storage))
  const total = wanted.reduce((sum, { slice }) => sum + bytesOf(slice), 0)
  const owned: BufferHandle[] = []
  const free = (): void => {
    for (const handle of owned.splice(0)) device.free(handle)
  }
  let loaded = 0
  /** what packs weights while the next ones are brought, in order */
  const packing: { readonly done: Promise<unknown>; readonly bytes: number }[] = []
  const finish = async (most: number): Promise<void> => {
    while (packing.length > most) {
      const { done, bytes } = packing.shift() ?? { done: undefined, bytes: 0 }
      await done
      loaded += bytes
      onProgress?.({ loaded, total })
    }
  }
  try {
    for (const { slice, storage } of wanted) {
      signal?.throwIfAborted()
      const { buffers, done } = await loadWeight(device, slice, layouts.get(storage) ?? new Set(), mmap)
      for (const [layout, buffer] of buffers) {
        owned.push(buffer)
        storage.put(layout, { buffer, offset: 0 })
      }
      done.catch(() => {}) // whoever waits for it hears of it
      packing.push({ done, bytes: bytesOf(slice) })
      await finish(MOST_PACKING)
    }
    await finish(0)
    for (const { values, storage } of asked.constants) {
      const buffer = device.alloc(values.byteLength)
      owned.push(buffer)
      device.write(buffer, 0, new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
      storage.put('plain', { buffer, offset: 0 })
    }
    return {
      model,
      weightBytes: total,
      withAdapters: (adapter) => architecture.build({ ...source, adapter: (name, shape) => adapter(name, shape, asked.isPacked(name)) }),
      free,
    }
  } catch (error) {
    free()
    throw error
  }
}

/** Makes tensors without memory, and remembers what each is. The same one has the same memory, however often it is asked for. */
class Asked implements TensorFactory {
  readonly constants: Constant[] = []
  readonly #weights = new Map<string, Weight>()

  get weights(): readonly Weight[] {
    return [...this.#weights.values()]
  }

  /** Whether rows of a tensor lie packed. */
  isPacked(name: string): boolean {
    return this.weights.some(({ slice, storage }) => slice.tensor.name === name && storage.has('packed'))
  }

  weight(slice: WeightSlice): Tensor {
    const { tensor, from, shape } = slice
    const key = `${tensor.name} ${from} ${shape.join('x')}`
    const weight = this.#weights.get(key) ?? { slice, storage: new Storage() }
    this.#weights.set(key, weight)
    const isWhole = shape.reduce((product: number, size) => product * size, 1) === tensor.elements
    return Tensor.leaf(weight.storage, shape, tensor.type, isWhole ? tensor.name : `${tensor.name}[${from}..]`)
  }

  constant(label: string, values: Float32Array): Tensor {
    const isSame = (known: Constant): boolean => known.label === label && known.values.every((value, i) => value === values[i])
    const constant = this.constants.find((known) => known.values.length === values.length && isSame(known)) ?? {
      label,
      values,
      storage: new Storage(),
    }
    if (!this.constants.includes(constant)) this.constants.push(constant)
    return Tensor.leaf(constant.storage, [values.length], 'f32', label)
  }
}

/** The layouts that a model's graph reads each weight in; a weight that it does not read has none. */
function chooseLayouts(model: LanguageModel, weights: readonly Weight[], packs: boolean): ReadonlyMap<Storage, ReadonlySet<Layout>> {
  const packable = new Set(
    weights.filter(({ slice: { tensor, shape } }) => packs && isPackable(tensor.type, shape)).map(({ storage }) => storage),
  )
  const layouts = new Map<Storage, Set<Layout>>()
  for (const node of operandsFirst([traceStep(model).node])) {
    operandsOf(node).forEach((operand, i) => {
      if (operand.op !== 'leaf') return
      const { storage } = operand.attrs
      const isFactor = (node.op === 'linear' || node.op === 'lora') && i === 1
      layouts.set(storage, (layouts.get(storage) ?? new Set<Layout>()).add(isFactor && packable.has(storage) ? 'packed' : 'plain'))
    })
  }
  return layouts
}

function isPackable(type: WeightSlice['tensor']['type'], [, columns]: WeightSlice['shape']): boolean {
  return columns !== undefined && packedOf(type, columns) !== undefined
}

/** The graph of one token, of tensors without memory. */
function traceStep(model: LanguageModel): Tensor {
  const input = (): Tensor => Tensor.leaf(new Storage(), [1], 'u32')
  const layers = model.state.caches.map(({ heads, dim }) => {
    const cache = (): Tensor => Tensor.cache(new Storage(), [heads, PAGE, dim], 'f32')
    return { keys: cache(), values: cache() }
  })
  const table = Tensor.leaf(new Storage(), [1, 1], 'u32')
  const step = { tokens: input(), positions: input(), cache: { layers, slots: input(), table, apart: 1 } }
  return model.logits(model.forward(step))
}

/** A weight whose memory is there, by layout; all of it has its values when it is done. */
interface LoadedWeight {
  readonly buffers: ReadonlyMap<Layout, BufferHandle>
  readonly done: Promise<unknown>
}

/** What is packed is made on the device from what the file has. */
async function loadWeight(device: Device, slice: WeightSlice, layouts: ReadonlySet<Layout>, mmap: boolean): Promise<LoadedWeight> {
  const plain = await device.load(rangeOf(slice, mmap))
  if (!layouts.has('packed')) return { buffers: new Map([['plain', plain]]), done: Promise.resolve() }
  let isKept = false
  try {
    const { buffer, done } = await pack(device, slice, plain)
    isKept = layouts.has('plain')
    return { buffers: new Map([['packed', buffer], ...(isKept ? [['plain', plain] as const] : [])]), done }
  } finally {
    if (!isKept) device.free(plain)
  }
}

/** Begins to pack; the buffer has its values when it is done. */
async function pack(device: Device, slice: WeightSlice, source: BufferHandle): Promise<{ buffer: BufferHandle; done: Promise<unknown> }> {
  const params = { format: slice.tensor.type, m: rowsOf(slice), k: columnsOf(slice) }
  const target = device.alloc(packedBytes(params))
  try {
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
    return { buffer: target, done: device.submit(commands) }
  } catch (error) {
    device.free(target)
    throw error
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
