// Products of matrices among the tasks of a native job: each is encoded as the kernel that it is, with room beside it for the
// arguments of native/cpu/blas.h, and can be changed to be done by a BLAS library before the job runs. Does not know when.

import { buffersOf, uniformsOf } from '../../../ir/kernel.ts'
import type { CheckedDispatch } from '../../core/checked-command.ts'
import type { Blas } from '../blas/library.ts'
import type { Opening } from '../opening.ts'
import { TASK, setWide } from './layout.ts'
import type { NativeProgram } from './library.ts'

/** y [m, n] = a [m, k] times b [k, n], plus u [m, rank] times v [rank, n]. */
export interface Size {
  readonly m: number
  readonly k: number
  readonly n: number
  readonly rank: number
  /** a lies as [k, m], and b as [n, k] */
  readonly transposeA: boolean
  readonly transposeB: boolean
}

export interface EncodedProduct {
  readonly size: Size
  /** the kernel that does it now */
  readonly dispatch: CheckedDispatch<number, NativeProgram>
  /** places in the heap: the task, the pointers to its buffers, and PRODUCT_BYTES for other arguments */
  readonly task: number
  readonly pointers: number
  readonly args: number
  /** of its job: what the other arguments say that stands for blanks is added to them */
  readonly openings: Opening[]
}

const POINTER = 8
const FLOAT = 4
/** Behind the pointers to these buffers lies the structure `product`. */
const BUFFERS = ['a', 'b', 'y', 'bias', 'u', 'v'] as const
const UNIFORMS = BUFFERS.length * POINTER
const PRODUCT = { call: 0, m: 8, k: 12, n: 16, transposeA: 20, transposeB: 24, byRows: 28, rank: 32 } as const
export const PRODUCT_BYTES = 128
/** BLAS counts with 32 bits. */
const MOST = 2 ** 31 - 1
/** Rows that one call takes are a multiple of this: libraries work in tiles. */
const TILE = 16

/** The size of the product that a dispatch is, if it is a whole one and its buffers hold it. */
export function findSize({ program: { kernel }, buffers, uniforms, grid }: CheckedDispatch<number>): Size | undefined {
  if (kernel.product === undefined || grid[2] !== 1) return undefined
  const view = new DataView(uniforms.buffer, uniforms.byteOffset, uniforms.byteLength)
  const fields = uniformsOf(kernel).map(({ name }) => name)
  const read = (name: string): number => view.getUint32(4 * fields.indexOf(name), true)
  const [m, k, n, rank] = [read('m'), read('k'), read('n'), read('rank')]
  if ([m, k, n].some((count) => count === 0 || count > MOST)) return undefined
  const needed: Readonly<Record<string, number>> = { a: m * k, b: k * n, y: m * n, bias: n, u: m * rank, v: rank * n }
  const holds = buffersOf(kernel).every(({ name }, index) => (buffers[index]?.bytes ?? 0) >= (needed[name] ?? Infinity) * FLOAT)
  return holds ? { m, k, n, rank, transposeA: read('transposeA') !== 0, transposeB: read('transposeB') !== 0 } : undefined
}

export interface Multiplier {
  readonly blas: Blas
  /** address of the kernel of native/cpu/blas.h */
  readonly multiply: number
  readonly threads: number
  /** where a place is in the process */
  addressOf(place: number): number
}

/** Lets the library do it from now on. The job must not be running. */
export function useBlas(words: Int32Array, product: EncodedProduct, multiplier: Multiplier): void {
  const { size, dispatch, task, pointers, args, openings } = product
  const { m, k, n, rank, transposeA, transposeB } = size
  const { blas, multiply, threads, addressOf } = multiplier
  const params = buffersOf(dispatch.program.kernel)
  for (const [index, name] of BUFFERS.entries()) {
    const at = args + index * POINTER
    const param = params.findIndex((each) => each.name === name)
    const from = pointers + param * POINTER
    // As they are now: blanks may be filled already.
    if (param < 0) setWide(words, at, 0)
    else words.copyWithin(at >>> 2, from >>> 2, (from + POINTER) >>> 2)
    openings.push(...openings.filter((opening) => param >= 0 && opening.at === from).map((opening) => ({ ...opening, at })))
  }
  // Every call reads all of the matrix that is not cut: cut the larger one.
  const byRows = m > n
  const at = args + UNIFORMS
  setWide(words, at + PRODUCT.call, blas.sgemm)
  words[(at + PRODUCT.m) >>> 2] = m
  words[(at + PRODUCT.k) >>> 2] = k
  words[(at + PRODUCT.n) >>> 2] = n
  words[(at + PRODUCT.transposeA) >>> 2] = Number(transposeA)
  words[(at + PRODUCT.transposeB) >>> 2] = Number(transposeB)
  words[(at + PRODUCT.byRows) >>> 2] = Number(byRows)
  words[(at + PRODUCT.rank) >>> 2] = rank
  const total = byRows ? m : n
  setWide(words, task + TASK.total, total)
  setWide(words, task + TASK.chunk, Math.ceil(total / Math.min(threads, blas.calls) / TILE) * TILE)
  setWide(words, task + TASK.what, multiply)
  setWide(words, task + TASK.where, addressOf(args))
  setWide(words, task + TASK.uniforms, addressOf(at))
}
