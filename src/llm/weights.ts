// The weights of a model on a device. A model is built twice: once against a source that only notes which tensors it wants, then,
// when those are loaded, against the real ones. So nothing is loaded that the model does not use, and progress is known.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, ByteRange, Command, Device } from '../device/device.ts'
import { packUniforms } from '../ir/kernel.ts'
import { packedBytes, packedOf, repack } from '../kernel/repack.ts'
import type { Architecture, LanguageModel } from '../model/model.ts'
import type { ModelSource } from '../nn/source.ts'
import { GGML_TYPES, type GgmlType } from '../quant/type.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { Gguf } from '../weights/gguf.ts'
import type { GgufTensor } from '../weights/gguf-header.ts'
import { metaNumber, metaString } from '../weights/gguf-meta.ts'

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

/** A part of a tensor's rows, as loaded: `from` and `rows` count along its slowest axis. */
interface Want {
  readonly tensor: GgufTensor
  readonly from: number
  readonly rows: number
  readonly packed: boolean
}

export async function loadModel(
  device: Device,
  gguf: Gguf,
  architecture: Architecture,
  { contextLength, onProgress, signal }: { contextLength: number; onProgress?: (progress: LoadProgress) => void; signal?: AbortSignal },
): Promise<LoadedModel> {
  const small = await readSmall(gguf)
  const wanted = new Map<string, Want>()
  const packs = device.caps.lanes === 1 && device.caps.dot
  architecture.build(
    makeSource(gguf, contextLength, small, packs, {
      weight: (want) => {
        wanted.set(keyOf(want), want)
        return leafFor(want, 0 as BufferHandle)
      },
      constant: (label, values) => Tensor.leaf(0 as BufferHandle, [values.length], 'f32', { label }),
    }),
  )

  const handles = new Map<string, BufferHandle>()
  const owned: BufferHandle[] = []
  const total = [...wanted.values()].reduce((sum, want) => sum + bytesOf(want), 0)
  let loaded = 0
  try {
    for (const [key, want] of wanted) {
      signal?.throwIfAborted()
      const handle = await loadWeight(device, want)
      owned.push(handle)
      handles.set(key, handle)
      loaded += bytesOf(want)
      onProgress?.({ loaded, total })
    }
    const model = architecture.build(
      makeSource(gguf, contextLength, small, packs, {
        weight: (want) => leafFor(want, handles.get(keyOf(want)) as BufferHandle),
        constant: (label, values) => {
          const handle = device.alloc(values.byteLength)
          owned.push(handle)
          device.write(handle, 0, new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
          return Tensor.leaf(handle, [values.length], 'f32', { label })
        },
      }),
    )
    return {
      model,
      weightBytes: total,
      free: () => {
        for (const handle of owned.splice(0)) device.free(handle)
      },
    }
  } catch (error) {
    for (const handle of owned) device.free(handle)
    throw error
  }
}

/** The weight as the model will read it; a packed one is made from the file's on the device, which then lets go of that. */
async function loadWeight(device: Device, want: Want): Promise<BufferHandle> {
  const source = await device.load(rangeOf(want))
  if (!want.packed) return source
  const params = { format: want.tensor.type, m: want.rows, k: want.tensor.dims[0] ?? 1 }
  let target: BufferHandle | undefined
  try {
    target = device.alloc(packedBytes(params))
    const [w, y] = [source, target]
    const commands = await Promise.all(
      repack(params).launches.map(async ({ kernel, uniforms, grid }): Promise<Command> => ({
        kind: 'dispatch',
        program: await device.compile(kernel),
        buffers: [{ buffer: w }, { buffer: y }],
        uniforms: packUniforms(kernel, uniforms),
        grid,
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

interface Maker {
  weight(want: Want): Tensor
  constant(label: string, values: Float32Array): Tensor
}

function makeSource(gguf: Gguf, contextLength: number, small: ReadonlyMap<string, Float32Array>, packs: boolean, make: Maker): ModelSource {
  const architecture = metaString(gguf, 'general.architecture')
  const key = (name: string): string => `${architecture}.${name}`
  const find = (name: string): GgufTensor | undefined => gguf.tensors.get(name)
  const need = (name: string): GgufTensor => {
    const tensor = find(name)
    if (tensor === undefined) throw new IngotError('bad-file', 'the file has no such tensor', { op: architecture, got: name })
    return tensor
  }
  const part = (tensor: GgufTensor, from: number, rows: number): Want => ({
    tensor,
    from,
    rows,
    packed: packs && tensor.dims.length > 1 && packedOf(tensor.type, tensor.dims[0] ?? 1) !== undefined,
  })
  const whole = (tensor: GgufTensor): Want => part(tensor, 0, rowsOf(tensor))
  return {
    architecture,
    contextLength,
    number: (name, fallback) => metaNumber(gguf, key(name), fallback),
    text: (name, fallback) => metaString(gguf, key(name), fallback),
    has: (name) => find(name) !== undefined,
    table: (name) => make.weight({ ...whole(need(name)), packed: false }),
    weight: (name) => make.weight(whole(need(name))),
    find: (name) => {
      const tensor = find(name)
      return tensor === undefined ? undefined : make.weight(whole(tensor))
    },
    rows: (name, from, rows) => {
      const tensor = need(name)
      if (from + rows > rowsOf(tensor)) {
        throw new IngotError('bad-file', 'tensor has too few rows', {
          op: architecture,
          got: `${name} with ${rowsOf(tensor)}`,
          wanted: from + rows,
        })
      }
      return make.weight(part(tensor, from, rows))
    },
    values: (name) => small.get(name),
    constant: make.constant,
  }
}

/** Tensors that models turn into tables on the host: rotary factors. */
async function readSmall(gguf: Gguf): Promise<Map<string, Float32Array>> {
  const small = new Map<string, Float32Array>()
  for (const tensor of gguf.tensors.values()) {
    if (!tensor.name.startsWith('rope_') || tensor.type !== 'f32' || tensor.elements > 4096) continue
    const bytes = await tensor.file.read(tensor.offset, tensor.bytes)
    small.set(tensor.name, new Float32Array(bytes.slice().buffer))
  }
  return small
}

function rowsOf(tensor: GgufTensor): number {
  return tensor.elements / (tensor.dims[0] ?? 1)
}

function rowBytes({ type, dims }: GgufTensor): number {
  const { block, bytes } = GGML_TYPES[type]
  return ((dims[0] ?? 1) / block) * bytes
}

function bytesOf({ tensor, rows }: Want): number {
  return rows * rowBytes(tensor)
}

function keyOf({ tensor, from, rows, packed }: Want): string {
  return `${tensor.name} ${from} ${rows} ${packed}`
}

function leafFor({ tensor, from, rows, packed }: Want, buffer: BufferHandle): Tensor {
  const cols = tensor.dims[0] ?? 1
  const shape = tensor.dims.length === 1 ? [cols] : [rows, cols]
  const label = from === 0 && rows === rowsOf(tensor) ? tensor.name : `${tensor.name}[${from}..]`
  return Tensor.leaf(buffer, shape, tensor.type satisfies GgmlType, { label, layout: packed ? 'packed' : 'file' })
}

function rangeOf(want: Want): ByteRange {
  const { tensor, from } = want
  const start = tensor.offset + from * rowBytes(tensor)
  return {
    bytes: bytesOf(want),
    ...(tensor.file.path === undefined ? {} : { path: tensor.file.path }),
    offset: start,
    read: (at, length) => tensor.file.read(start + at, length),
  }
}
