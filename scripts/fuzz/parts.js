// A GGUF file taken apart, and put together again without a single check: what the fuzzer changes. The writers of src/ refuse what cannot
// be right, and that is just what is wanted here: keys that appear twice, offsets that overlap, numbers that do not fit their type.

import { openGguf } from '../../dist/weights/gguf/gguf.js'
import { META_TYPES } from '../../dist/weights/gguf/meta.js'
import { fromBytes } from '../../dist/weights/source.js'
import { GGML_TYPES } from '../../dist/quant/type.js'

/**
 * @typedef {{ type: string, of?: string, value: unknown }} Value as the reader gives it, tagged with its type
 * @typedef {object} TensorPart
 * @property {string} name
 * @property {(number | bigint)[]} dims
 * @property {number} type the id in the file
 * @property {Uint8Array} data what is written for it, one tensor after the other
 * @property {number | bigint} [offset] what the header says instead of where the data is
 * @typedef {object} Parts
 * @property {string} name of the file
 * @property {number} alignment of the data
 * @property {[string, Value][]} keys
 * @property {TensorPart[]} tensors
 */

const MAGIC = 0x46554747
const VERSION = 3

/** @returns {Promise<Parts>} of a file that is as it should be */
export async function takeApart(/** @type {string} */ name, /** @type {Uint8Array} */ bytes) {
  const { metadata, tensors, alignment } = await openGguf(fromBytes(bytes, name))
  return {
    name,
    alignment,
    keys: [...metadata],
    tensors: [...tensors.values()].map((tensor) => ({
      name: tensor.name,
      dims: [...tensor.dims],
      type: GGML_TYPES[tensor.type].id,
      data: bytes.subarray(tensor.offset, tensor.offset + tensor.bytes),
    })),
  }
}

/** A copy to change; values and data are shared, and must be replaced, not written to. @returns {Parts} */
export function copyParts(/** @type {Parts} */ { name, alignment, keys, tensors }) {
  return {
    name,
    alignment,
    keys: keys.map(([key, value]) => [key, value]),
    tensors: tensors.map((each) => ({ ...each, dims: [...each.dims] })),
  }
}

/** The bytes of the file, and how many of them are its header. */
export function putTogether(/** @type {Parts} */ { keys, tensors, alignment }) {
  const out = new Writer()
  const align = (/** @type {number} */ at) => Math.ceil(at / alignment) * alignment
  out.u32(MAGIC)
  out.u32(VERSION)
  out.integer(tensors.length, 8)
  out.integer(keys.length, 8)
  for (const [key, value] of keys) {
    out.text(key)
    out.u32(typeId(value.type))
    writeValue(out, value)
  }
  let at = 0
  for (const { name, dims, type, data, offset } of tensors) {
    out.text(name)
    out.u32(dims.length)
    for (const dim of dims) out.integer(dim, 8)
    out.u32(type)
    out.integer(offset ?? at, 8)
    at = align(at + data.length)
  }
  const header = align(out.length)
  const bytes = new Uint8Array(header + at)
  bytes.set(out.bytes())
  at = header
  for (const { data } of tensors) {
    bytes.set(data, at)
    at = align(at + data.length)
  }
  return { bytes, header }
}

export function findKey(/** @type {Parts} */ { keys }, /** @type {string} */ key) {
  return keys.find(([name]) => name === key)?.[1]
}

/** Replaces the value of a key, or adds one; gives what was done. */
export function setKey(/** @type {Parts} */ { keys }, /** @type {string} */ key, /** @type {Value} */ value) {
  const at = keys.findIndex(([name]) => name === key)
  keys.splice(at < 0 ? keys.length : at, at < 0 ? 0 : 1, [key, value])
  return `${key} = ${show(value)}`
}

function show(/** @type {Value} */ { type, of, value }) {
  if (type === 'array') return `${of}[${/** @type {ArrayLike<unknown>} */ (value).length}]`
  const text = String(value)
  return `${type} ${text.length > 60 ? `${JSON.stringify(text.slice(0, 60))}... (${text.length})` : text}`
}

/** Ids of types that the format does not have are written as they are: `#77`. */
function typeId(/** @type {string} */ type) {
  return type.startsWith('#') ? Number(type.slice(1)) : META_TYPES[/** @type {keyof typeof META_TYPES} */ (type)].id
}

function writeValue(/** @type {Writer} */ out, /** @type {Value} */ { type, of = 'u32', value }) {
  if (type === 'string') return out.text(String(value))
  if (type === 'f32' || type === 'f64') return out.float(Number(value), type === 'f32' ? 4 : 8)
  if (type !== 'array') return out.integer(typeof value === 'bigint' ? value : Number(value), type.startsWith('#') ? 4 : sizeOf(type))
  const items = /** @type {ArrayLike<unknown>} */ (value)
  out.u32(typeId(of))
  out.integer(items.length, 8)
  for (const item of Array.from(items)) writeValue(out, of === 'array' ? /** @type {Value} */ (item) : { type: of, value: item })
}

function sizeOf(/** @type {string} */ type) {
  return META_TYPES[/** @type {keyof typeof META_TYPES} */ (type)].bytes
}

/** Little-endian; what does not fit is cut, never refused. */
class Writer {
  #view = new DataView(new ArrayBuffer(1 << 16))
  length = 0

  bytes() {
    return new Uint8Array(this.#view.buffer, 0, this.length)
  }

  u32(/** @type {number} */ value) {
    this.#view.setUint32(this.#reserve(4), value, true)
  }

  integer(/** @type {number | bigint} */ value, /** @type {number} */ size) {
    const whole = typeof value === 'bigint' ? value : BigInt(Number.isFinite(value) ? Math.trunc(value) : 0)
    const at = this.#reserve(8) // all eight, of which only the first count
    this.#view.setBigUint64(at, BigInt.asUintN(64, whole), true)
    this.length = at + size
  }

  float(/** @type {number} */ value, /** @type {number} */ size) {
    const at = this.#reserve(size)
    if (size === 4) this.#view.setFloat32(at, value, true)
    else this.#view.setFloat64(at, value, true)
  }

  text(/** @type {string} */ text) {
    const bytes = new TextEncoder().encode(text)
    this.integer(bytes.length, 8)
    const at = this.#reserve(bytes.length)
    new Uint8Array(this.#view.buffer).set(bytes, at)
  }

  #reserve(/** @type {number} */ count) {
    const at = this.length
    this.length += count
    if (this.length > this.#view.byteLength) {
      const larger = new Uint8Array(2 * this.length)
      larger.set(new Uint8Array(this.#view.buffer))
      this.#view = new DataView(larger.buffer)
    }
    return at
  }
}
