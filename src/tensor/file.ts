// Tensors to and from files of other programs: safetensors, as PyTorch users exchange them, and NumPy's npy. Elements are moved as the
// bytes they are, one tensor at a time. The one place of this folder that knows files; Node's are imported only when one is written.

import { checkArgument, checkOption, checkOptions, isBoolean, isList, isObject, isString } from '../base/argument.ts'
import { type ElementType, isElementType } from '../base/element.ts'
import { IngotError } from '../base/error.ts'
import { quoted } from '../base/printable.ts'
import { openNpy, writeNpy } from '../weights/npy.ts'
import { elementTypeOf, safeDtypeOf } from '../weights/safetensors/dtype.ts'
import type { Safetensor } from '../weights/safetensors/header.ts'
import { checkSource, openSafetensors } from '../weights/safetensors/safetensors.ts'
import { writeSafetensors } from '../weights/safetensors/write.ts'
import type { ByteSink } from '../weights/sink.ts'
import { type ByteSource, openFile } from '../weights/source.ts'
import type { DeviceChoice } from './default-device.ts'
import { sizeOf } from './node.ts'
import { MOST_ELEMENTS } from './operand.ts'
import { Storage } from './storage.ts'
import { Tensor } from './tensor.ts'

/** How a file is written. */
export interface SaveTensorOptions {
  /** an existing file may be replaced (default false) */
  readonly force?: boolean
}
/** What is written, and how. */
export interface SaveSafetensorsOptions extends SaveTensorOptions {
  /** texts to keep beside the tensors */
  readonly metadata?: Readonly<Record<string, string>>
}
/** Where what is loaded shall lie. */
export interface LoadTensorOptions {
  /** default: wherever what it is computed with lies, or the default device */
  readonly device?: DeviceChoice
}
/** What is loaded, and where it shall lie. */
export interface LoadSafetensorsOptions extends LoadTensorOptions {
  /** which tensors to load (default: all) */
  readonly names?: readonly string[]
}

/**
 * Writes tensors to a safetensors file, by name. They are computed first, together; then each is read and written in turn. The file appears
 * when it is complete. Rejects with `bad-argument` where there is one and `force` is not given, `unsupported` for weights in blocks.
 */
export async function saveSafetensors(
  path: string,
  tensors: Readonly<Record<string, Tensor>>,
  options: SaveSafetensorsOptions = {},
): Promise<void> {
  const op = 'saveSafetensors'
  const sink = await openTarget(op, path, options)
  const isRecord = (value: unknown): boolean => isObject(value) && !(Symbol.iterator in value)
  checkArgument(op, 'the tensors', tensors, 'an object of tensors by name', isRecord)
  checkOption(op, 'metadata', options.metadata, 'an object of texts', isRecord)
  const entries = Object.entries(tensors).map(([name, tensor]) => {
    const dtype = safeDtypeOf(checkTensor(op, `the tensor ${quoted(name)}`, tensor))
    return { name, dtype, shape: tensor.shape, data: () => tensor.bytes() }
  })
  await Promise.all(Object.values(tensors).map((tensor) => tensor.realize()))
  await writeSafetensors(sink, entries, options.metadata === undefined ? undefined : Object.entries(options.metadata))
}

/**
 * The tensors of a safetensors file, by name, in the order of the file. A source stays open. Rejects with `bad-file` where it is malformed,
 * `unknown-name` for names that it does not have, `unsupported` for types that tensors do not have: name the others then.
 */
export async function loadSafetensors(from: string | ByteSource, options: LoadSafetensorsOptions = {}): Promise<Record<string, Tensor>> {
  const op = 'loadSafetensors'
  checkOptions(op, options)
  const { device, names } = options
  checkOption(op, 'names', names, 'a list of texts', (value) => isList(value) && Array.from(value).every(isString))
  return reading(op, from, async (file) => {
    const { tensors } = await openSafetensors(file)
    const chosen = names?.map((name) => tensors.get(name) ?? unknownName(op, name, tensors, file)) ?? [...tensors.values()]
    const plans = chosen.map((tensor) => ({ tensor, dtype: loadableType(op, tensor) }))
    const loaded = emptyRecord<Tensor>()
    for (const { tensor, dtype } of plans) {
      const bytes = await tensor.read(0, tensor.bytes)
      if (dtype === 'bool' && bytes.some((byte) => byte > 1)) {
        throw new IngotError('bad-file', `a bool of the tensor ${quoted(tensor.name)} is neither 0 nor 1 (in ${file.name})`, { op })
      }
      loaded[tensor.name] = Tensor.onto(Storage.onHost(bytes), tensor.shape, dtype, device)
    }
    return loaded
  })
}

/**
 * Writes a tensor to a .npy file, which appears when it is complete. Rejects with `bad-argument` where there is one and `force` is not
 * given, `unsupported` for types that NumPy does not have: bf16, and weights in blocks.
 */
export async function saveNpy(path: string, tensor: Tensor, options: SaveTensorOptions = {}): Promise<void> {
  const sink = await openTarget('saveNpy', path, options)
  const dtype = checkTensor('saveNpy', 'the tensor', tensor)
  await tensor.realize()
  await writeNpy(sink, { dtype, shape: tensor.shape, data: () => tensor.bytes() })
}

/**
 * The array of a .npy file. 16-bit integers become 32-bit ones, unsigned 64-bit ones i64 where they fit; doubles stay f64. A source stays
 * open. Rejects with `bad-file` where it is malformed, `unsupported` for types that tensors do not have.
 */
export async function loadNpy(from: string | ByteSource, options: LoadTensorOptions = {}): Promise<Tensor> {
  checkOptions('loadNpy', options)
  return reading('loadNpy', from, async (file) => {
    const { dtype, shape, read } = await openNpy(file)
    checkElements('loadNpy', `the array of ${file.name}`, shape)
    return Tensor.onto(Storage.onHost(await read()), shape, dtype, options.device)
  })
}

/** Where a file shall be written, refused before anything is computed for it. */
async function openTarget(op: string, path: string, options: SaveTensorOptions): Promise<ByteSink> {
  checkArgument(op, 'the path', path, 'a text', isString)
  checkOptions(op, options)
  checkOption(op, 'force', options.force, 'true or false', isBoolean)
  const { checkOutput, openOutput } = await import('../weights/output.ts')
  return openOutput(await checkOutput(path, { op, force: options.force === true }))
}

/** Runs what reads a file, and closes it if it was opened here. */
async function reading<R>(op: string, from: string | ByteSource, read: (file: ByteSource) => Promise<R>): Promise<R> {
  checkSource(op, from)
  if (typeof from !== 'string') return read(from)
  const file = await openFile(from)
  try {
    return await read(file)
  } finally {
    await file.close()
  }
}

function checkTensor(op: string, what: string, tensor: unknown): ElementType {
  checkArgument(op, what, tensor, 'a tensor', (value) => value instanceof Tensor)
  const { dtype } = tensor as Tensor
  if (isElementType(dtype)) return dtype
  throw new IngotError('unsupported', `${what} is a weight in blocks`, { op, got: dtype, hint: `.to('f32') gives its values` })
}

function loadableType(op: string, { name, dtype, shape }: Safetensor): ElementType {
  const what = `the tensor ${quoted(name)}`
  const type = elementTypeOf(dtype)
  if (type === undefined) throw new IngotError('unsupported', `${what} has a type that tensors do not have`, { op, got: dtype })
  checkElements(op, what, shape)
  return type
}

function checkElements(op: string, what: string, shape: readonly number[]): void {
  const count = sizeOf(shape)
  if (count > 0 && count <= MOST_ELEMENTS) return
  const problem = count === 0 ? 'has no elements' : 'has too many elements'
  throw new IngotError('unsupported', `${what} ${problem}`, { op, got: shape, wanted: `1 to ${MOST_ELEMENTS} elements` })
}

function unknownName(op: string, name: string, tensors: ReadonlyMap<string, Safetensor>, file: ByteSource): never {
  const some = [...tensors.keys()].slice(0, 10).map(quoted).join(', ')
  const wanted = tensors.size > 10 ? `one of ${tensors.size}: ${some}, ...` : `one of ${some}`
  throw new IngotError('unknown-name', `no such tensor in ${file.name}`, { op, got: quoted(name), wanted })
}

/** An object without a prototype: a tensor may be named `__proto__` or `constructor`. */
function emptyRecord<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}
