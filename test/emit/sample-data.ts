// Inputs for the sample kernels, and running them on the interpreter, for tests that compare a target with it.

import { type KernelArguments, interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { axpy, convert, corners, divisors, dotRow, histogram, matvec, reduce, tileMatmul, vectors } from './sample.ts'

type Data = Float32Array | Int32Array | Uint32Array | Uint16Array | Uint8Array
export interface Case {
  readonly kernel: Kernel
  readonly data: Readonly<Record<string, Data>>
  readonly uniforms?: Record<string, number>
  readonly grid: KernelArguments['grid']
}

const floats = (length: number, seed = 1): Float32Array => Float32Array.from({ length }, (_, i) => (((i * 37 + seed * 11) % 64) - 32) / 8)
const words = (length: number, seed = 1): Uint32Array => Uint32Array.from({ length }, (_, i) => Math.imul(i + seed, 0x9e3779b1) >>> 0)
const halves = (length: number): Uint16Array =>
  Uint16Array.from({ length }, (_, i) => 0x3000 + ((i * 37) % 0x1400) + (i % 3 === 0 ? 0x8000 : 0))

export const cases = (subgroup: number): Case[] => [
  { kernel: axpy, data: { x: floats(150), y: floats(150, 2) }, uniforms: { a: 0.375, n: 147 }, grid: [3, 1, 1] },
  {
    kernel: matvec(subgroup),
    data: { w: floats(5 * 64), x: floats(64, 3), y: new Float32Array(32) },
    uniforms: { rows: 5, columns: 64 },
    grid: [3, 1, 1],
  },
  { kernel: reduce, data: { x: floats(130), y: new Float32Array(32) }, uniforms: { n: 129 }, grid: [3, 1, 1] },
  {
    kernel: tileMatmul(subgroup),
    data: { a: halves(16 * 24), b: halves(16 * 24), c: new Float32Array(256) },
    uniforms: { n: 16, depth: 24 },
    grid: [2, 2, 1],
  },
  {
    kernel: convert,
    data: { h: halves(64), q: Uint8Array.from({ length: 64 }, (_, i) => i * 5), out: new Uint16Array(64) },
    uniforms: { n: 64 },
    grid: [1, 1, 1],
  },
  { kernel: histogram, data: { x: words(40), counts: new Uint32Array(16) }, uniforms: { n: 37 }, grid: [3, 1, 1] },
  {
    kernel: dotRow,
    data: { a: words(3 * 32).map((word) => word & 0x7f7f7f7f), b: words(32, 9), scale: floats(3), out: new Float32Array(3) },
    uniforms: { words: 32 },
    grid: [3, 1, 1],
  },
  {
    kernel: corners,
    data: {
      x: Float32Array.of(1.5, -3e9, 3e9, NaN, -0.5, 2 ** 31, 7e9, -Infinity),
      i: Int32Array.of(7, 0, -1, -(2 ** 31), -1, 5, -3, 33, 1),
      u: words(8),
      out: new Int32Array(64),
    },
    grid: [8, 1, 1],
  },
  {
    kernel: divisors,
    data: { i: Int32Array.of(-(2 ** 31), 7, -1, -15, 0, -(2 ** 31), 22), u: words(4), out: new Int32Array(96) },
    grid: [4, 1, 1],
  },
  { kernel: vectors, data: { x: floats(64), u: words(64), out: new Float32Array(256), bits: new Uint32Array(256) }, grid: [2, 2, 1] },
]

/** A fresh copy of a case's buffers as bytes. */
export function dispatchOf({ data, uniforms = {}, grid }: Case): KernelArguments {
  const buffers = Object.fromEntries(
    Object.entries(data).map(([name, array]) => {
      const bytes = new Uint8Array(new ArrayBuffer(array.byteLength))
      bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength))
      return [name, bytes]
    }),
  )
  return { buffers, uniforms, grid }
}

export function oracle(one: Case): KernelArguments {
  const dispatch = dispatchOf(one)
  interpret(one.kernel, dispatch)
  return dispatch
}

/** The buffers in the types of the data, floats rounded a little so that targets may differ in the last bits. */
export function readable({ data }: Case, { buffers }: KernelArguments): Record<string, (number | string)[]> {
  return Object.fromEntries(
    Object.entries(data).map(([name, array]) => {
      const bytes = buffers[name] as Uint8Array
      const Kind = array.constructor as new (buffer: ArrayBufferLike, offset: number, length: number) => Data
      const values = [...new Kind(bytes.buffer, bytes.byteOffset, array.length)]
      return [name, array instanceof Float32Array ? values.map((value) => (value + 0).toPrecision(5)) : values]
    }),
  )
}
