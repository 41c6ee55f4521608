// Runs a kernel record through the interpreter and compares it with its meaning. Buffers stand between sentinels, which must
// come out untouched. Used by the tests beside it.

import { expect } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { interpret } from '../../src/ir/interpret.ts'
import { buffersOf } from '../../src/ir/kernel.ts'
import type { Arrays, BufferShape, KernelRecord, Launch, NumberArray } from '../../src/kernel/record.ts'

const GPU: Caps = {
  lanes: 256,
  subgroup: 32,
  tiles: false,
  f16: false,
  width: 4,
  dot: false,
  parallel: 8,
  sharedBytes: 32768,
  bufferBytes: 2 ** 30,
  bindingBytes: 2 ** 27,
  bindings: 8,
  grid: 65535,
  alignment: 256,
}
const CPU: Caps = { ...GPU, lanes: 1, subgroup: 0, parallel: 4, grid: 2 ** 31 }

/** Every kind of hardware that forms are written for. */
export const ALL_CAPS: Readonly<Record<string, Caps>> = {
  'subgroups of 32': GPU,
  'subgroups of 8': { ...GPU, subgroup: 8 },
  'subgroups of 4, a small grid': { ...GPU, subgroup: 4, grid: 40 },
  'no subgroups': { ...GPU, subgroup: 0 },
  'vectors of 4': CPU,
  'vectors of 8': { ...CPU, width: 8 },
  'vectors of 16': { ...CPU, width: 16 },
}

/** The same numbers on every run. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

const exponentBits = new Float32Array(1)
const exponentView = new Uint32Array(exponentBits.buffer)

/** Bits of the nearest half, ties to even. */
export function halfBits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const size = Math.abs(value)
  if (size >= 65520) return sign | 0x7c00
  exponentBits[0] = size
  const exponent = Math.max(-14, (exponentView[0]! >>> 23) - 127)
  const step = 2 ** (exponent - 10)
  const scaled = size / step
  const down = Math.floor(scaled)
  const rest = scaled - down
  const mantissa = rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down
  return sign | (mantissa + Math.max(0, exponent + 14) * 1024)
}

export function halfValue(bits: number): number {
  const sign = (bits & 0x8000) === 0 ? 1 : -1
  const exponent = (bits >> 10) & 31
  const mantissa = bits & 1023
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : Number.NaN
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25))
}

const floats = new Set(['f32', 'f16'])

function encode(type: string, values: NumberArray): Uint8Array {
  if (type === 'f16') return new Uint8Array(Uint16Array.from(values, halfBits).buffer)
  if (type === 'bf16')
    return new Uint8Array(Uint16Array.from(new Uint32Array(Float32Array.from(values).buffer), (bits) => bits >>> 16).buffer)
  const array = type === 'f32' ? Float32Array.from(values) : type === 'i32' ? Int32Array.from(values) : Uint32Array.from(values)
  return new Uint8Array(array.buffer)
}

function decode(type: string, bytes: Uint8Array): NumberArray {
  const { buffer } = bytes.slice()
  if (type === 'f16') return Float32Array.from(new Uint16Array(buffer), halfValue)
  return type === 'f32' ? new Float32Array(buffer) : type === 'i32' ? new Int32Array(buffer) : new Uint32Array(buffer)
}

/** Bytes and meaning of an input in a quantised format. */
export type Encoder = (shape: BufferShape, random: () => number) => { bytes: Uint8Array; values: Float32Array } | undefined

const SENTINEL = 64

/** What runs one dispatch; buffers by name, changed in place. */
export type Runner = (launch: Launch, buffers: Readonly<Record<string, Uint8Array>>) => void
const interpreted: Runner = ({ kernel, uniforms, grid }, buffers) =>
  interpret(kernel, { buffers, uniforms, grid: [...grid] }, { check: true })

/** Runs a case with the interpreter, or another runner; gives the results beside what they should be. */
export function runCase<P extends object>(
  record: KernelRecord<P>,
  params: P,
  caps: Caps,
  { given = {}, encoder, seed = 7, run = interpreted }: { given?: Arrays; encoder?: Encoder; seed?: number; run?: Runner } = {},
): { got: Arrays; wanted: Arrays } {
  const random = randomFrom(seed)
  const shapes = record.buffers(params)
  const chosen = { ...record.inputs?.(params, random), ...given }
  const values: Record<string, NumberArray> = {}
  const bytes: Record<string, Uint8Array> = {}
  for (const shape of shapes) {
    const { name, type, elements, role } = shape
    const encoded = role === 'out' ? undefined : encoder?.(shape, random)
    const plain =
      chosen[name] ??
      (floats.has(type) || type === 'bf16'
        ? Float32Array.from({ length: elements }, () => 2 * random() - 1)
        : Uint32Array.from({ length: elements }, () => Math.floor(random() * 2 ** 32)))
    expect(plain.length, `elements of ${name}`).toBe(elements)
    const start =
      encoded?.bytes ?? (role === 'out' ? new Uint8Array(encode(type, new Float32Array(elements)).length).fill(0xa5) : encode(type, plain))
    const padded = Math.ceil(start.length / 4) * 4
    const whole = new Uint8Array(SENTINEL + padded + SENTINEL).fill(0xc3)
    whole.set(start, SENTINEL)
    bytes[name] = whole.subarray(SENTINEL, SENTINEL + padded)
    values[name] = encoded?.values ?? (type === 'bf16' ? bf16(plain) : role === 'out' ? plain : decode(type, start))
  }
  const wanted = record.define(values, params)
  const { launches, scratch = {} } = record.work(caps, params)
  for (const [name, size] of Object.entries(scratch)) bytes[name] = new Uint8Array(size).fill(0xa5)
  for (const launch of launches) {
    const { kernel, grid } = launch
    expect(
      grid.every((size) => size <= caps.grid),
      `grid ${grid.join('x')}`,
    ).toBe(true)
    for (const { name } of buffersOf(kernel)) expect(bytes[name], `buffer ${name}`).toBeDefined()
    run(launch, bytes)
  }
  const got: Record<string, NumberArray> = {}
  for (const { name, role, type, elements } of shapes) {
    const { buffer, byteOffset } = bytes[name]!
    const whole = new Uint8Array(buffer)
    expect(
      whole.subarray(0, byteOffset).every((byte) => byte === 0xc3),
      `sentinel before ${name}`,
    ).toBe(true)
    expect(
      whole.subarray(byteOffset + bytes[name]!.length).every((byte) => byte === 0xc3),
      `sentinel after ${name}`,
    ).toBe(true)
    if (role !== 'in') got[name] = decode(type, bytes[name]!).subarray(0, elements)
  }
  return { got, wanted }
}

function bf16(values: NumberArray): Float32Array {
  return new Float32Array(Uint32Array.from(new Uint32Array(Float32Array.from(values).buffer), (bits) => bits & 0xffff0000).buffer)
}

/** Normalised mean square error; NaN and infinities must be in the same places. */
export function errorOf(got: NumberArray, wanted: NumberArray): number {
  expect(got.length).toBe(wanted.length)
  let difference = 0
  let size = 0
  for (let i = 0; i < wanted.length; i++) {
    const [a, b] = [got[i]!, wanted[i]!]
    if (Object.is(a, b) || a === b) {
      if (Number.isFinite(b)) size += b * b
      continue
    }
    if (!Number.isFinite(a) || !Number.isFinite(b)) return Infinity
    difference += (a - b) ** 2
    size += b * b
  }
  return difference === 0 ? 0 : difference / (size === 0 ? 1 : size)
}

/** Runs a case; one line for every result that is not as near as the record promises. */
export function failuresOf<P extends object>(
  record: KernelRecord<P>,
  params: P,
  caps: Caps,
  options?: Parameters<typeof runCase>[3],
): string[] {
  const { got, wanted } = runCase(record, params, caps, options)
  return Object.entries(wanted).flatMap(([name, values]) => {
    const error = errorOf(got[name]!, values)
    return error <= record.tolerance
      ? []
      : [`${record.name} ${JSON.stringify(params)}: ${name} is off by ${error}, got ${show(got[name]!)} wanted ${show(values)}`]
  })
}

/** Runs a case and expects it to be as near as the record promises. */
export function expectCase<P extends object>(
  record: KernelRecord<P>,
  params: P,
  caps: Caps,
  options?: Parameters<typeof runCase>[3],
): void {
  expect(failuresOf(record, params, caps, options)).toEqual([])
}

function show(values: NumberArray): string {
  return `[${Array.from(values.subarray(0, 8)).join(', ')}...]`
}
