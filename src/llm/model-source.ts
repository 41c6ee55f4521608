// A GGUF file as what models are built from (nn/source.ts). The one place where what a file says is held against what a model wants:
// numbers against their ranges, tensors against shapes and formats, each fault a `bad-file` (or `unsupported`) that names the key or
// the tensor. Makes no tensors itself: whoever builds a model says how.

import { IngotError } from '../base/error.ts'
import type { ModelSource, Range, WeightShape } from '../nn/source.ts'
import { FORMATS } from '../quant/index.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import type { GgufTensor } from '../weights/gguf/header.ts'
import { type HasMetadata, metaNumber, metaString } from '../weights/gguf/meta.ts'

/** A tensor of the file, or some of its rows, as one weight of the model. */
export interface WeightSlice {
  readonly tensor: GgufTensor
  /** the first row */
  readonly from: number
  /** as the model sees it: [length] or [rows, columns] */
  readonly shape: WeightShape
}

/** Makes the tensors that a model is built from. */
export interface TensorFactory {
  weight(slice: WeightSlice): Tensor
  constant(label: string, values: Float32Array): Tensor
}

export interface SourceOptions {
  readonly contextLength: number
  /** see `readRopeFactors` */
  readonly ropeFactors: ReadonlyMap<string, Float32Array>
}

const MOST_COUNT = 2 ** 31 - 1
/** Half the largest head (nn/size.ts). */
const MOST_FACTORS = 2 ** 13

export function createSource(gguf: Gguf, { contextLength, ropeFactors }: SourceOptions, factory: TensorFactory): ModelSource {
  const architecture = metaString(gguf, 'general.architecture')
  const key = (name: string): string => `${architecture}.${name}`
  const bad = (what: string, got: unknown, wanted?: unknown): IngotError => badFile(architecture, what, got, wanted)
  const need = (name: string): GgufTensor => {
    const tensor = gguf.tensors.get(name)
    if (tensor === undefined) throw bad('the file has no such tensor', name)
    return tensor
  }
  const checked = (name: string, shape: WeightShape): GgufTensor => checkTensor(architecture, need(name), shape)
  const weight = (name: string, shape: WeightShape): Tensor => factory.weight({ tensor: checked(name, shape), from: 0, shape })
  return {
    architecture,
    contextLength,
    bad,
    count: (name, range) => readCount(gguf, key(name), range),
    number: (name, range) => readNumber(gguf, key(name), range),
    text: (name, fallback) => metaString(gguf, key(name), fallback),
    has: (name) => gguf.tensors.has(name),
    height: (name) => need(name).dims[1] ?? 1,
    weight,
    find: (name, shape) => (gguf.tensors.has(name) ? weight(name, shape) : undefined),
    rows: (name, shape, from, count) => {
      const tensor = checked(name, shape)
      if (from + count > shape[0]) throw bad(`${name} has too few rows`, shape[0], from + count)
      return factory.weight({ tensor, from, shape: [count, shape[1]] })
    },
    adapter: () => undefined,
    values: (name, length) => {
      const tensor = gguf.tensors.get(name)
      if (tensor === undefined) return undefined
      checkTensor(architecture, tensor, [length])
      const values = ropeFactors.get(name)
      const odd = values?.find((value) => !Number.isFinite(value) || value === 0)
      if (odd !== undefined) throw bad(`${name} holds a number that cannot divide`, odd, 'finite numbers other than 0')
      return values
    },
    constant: (label, values) => factory.constant(label, values),
  }
}

/** A whole number of the metadata; see `Range` for the defaults. */
export function readCount(from: HasMetadata, key: string, { least = 1, most = MOST_COUNT, otherwise }: Range = {}): number {
  const value = metaNumber(from, key, otherwise)
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value
  throw badFile('gguf', `${key} is out of range`, value, `a whole number from ${least} to ${most}`)
}

/** A finite number of the metadata. */
export function readNumber(from: HasMetadata, key: string, { least = -Infinity, most = Infinity, otherwise }: Range = {}): number {
  const value = metaNumber(from, key, otherwise)
  if (Number.isFinite(value) && value >= least && value <= most) return value
  const range = `${least === -Infinity ? '' : ` from ${least}`}${most === Infinity ? '' : ` to ${most}`}`
  throw badFile('gguf', `${key} is out of range`, value, `a finite number${range}`)
}

/** The factors of rotary frequencies, which models compute with on the host. */
export async function readRopeFactors(gguf: Gguf): Promise<Map<string, Float32Array>> {
  const factors = new Map<string, Float32Array>()
  for (const tensor of gguf.tensors.values()) {
    if (!tensor.name.startsWith('rope_') || tensor.type !== 'f32' || tensor.elements > MOST_FACTORS) continue
    const bytes = await tensor.file.read(tensor.offset, tensor.bytes)
    factors.set(tensor.name, new Float32Array(bytes.slice().buffer))
  }
  return factors
}

/** Files leave out sizes of 1 at the end of `dims`, which run from the contiguous axis on; shapes end with it. */
function checkTensor(op: string, tensor: GgufTensor, shape: WeightShape): GgufTensor {
  const { name, type, dims } = tensor
  const wanted = shape.toReversed()
  const rank = Math.max(dims.length, wanted.length)
  const fits = Array.from({ length: rank }, (_, axis) => (dims[axis] ?? 1) === (wanted[axis] ?? 1)).every(Boolean)
  if (!fits) throw badFile(op, `the tensor ${name} has the wrong shape`, dims.toReversed(), shape)
  // Vectors are read as they are by kernels that know no formats.
  const known = shape.length === 1 ? type === 'f32' : FORMATS.some((format) => format.name === type)
  if (known) return tensor
  throw new IngotError('unsupported', `no kernel reads the tensor ${name} in this format`, {
    op,
    got: type,
    wanted: shape.length === 1 ? 'f32' : FORMATS.map((format) => format.name).join(', '),
  })
}

function badFile(op: string, what: string, got: unknown, wanted: unknown): IngotError {
  return new IngotError('bad-file', what, { op, got, wanted })
}
