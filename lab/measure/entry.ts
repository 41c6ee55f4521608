// What an experiment times: an entry says how to run a kernel and the least it must do, in bytes moved and operations. Made from a record of
// the kernel library by its own description, or by hand. Knows no device.

import type { Caps } from '../../src/base/caps.ts'
import type { Arrays, BufferShape, KernelRecord, Work } from '../../src/kernel/record.ts'
import { GGML_TYPES, type GgmlType } from '../../src/quant/type.ts'

/** Which peak a kernel's operations are held against. */
export type Arithmetic = 'i8' | 'f32'

export interface Entry {
  readonly kernel: string
  readonly shape: string
  /** of its kernels, by name */
  readonly buffers: readonly BufferShape[]
  /** Of the buffers that hold ids or positions; others hold the same number everywhere, since values cost no time. */
  readonly inputs?: Arrays
  /** other names by which kernels see these buffers */
  readonly aliases?: Readonly<Record<string, string>>
  /** buffers that a model finds in memory, not in a cache of the processor: weights, keys and values. Only read. */
  readonly cold?: readonly string[]
  /** undefined: not on such a device */
  work(caps: Caps): Work | undefined
  /** moved at least: every input read once and every output written once */
  readonly bytes: number
  /** done at least; a multiplication with its addition is two */
  readonly operations: number
  readonly arithmetic: Arithmetic
  /** also measured with --quick */
  readonly quick: boolean
}

/** What a record does not say of itself. */
export interface Facts {
  readonly kernel?: string
  readonly shape: string
  readonly operations: number
  /** default: all of all its buffers */
  readonly bytes?: number
  readonly cold?: readonly string[]
  readonly quick?: boolean
}

export function entryOf<P extends object>(record: KernelRecord<P>, params: P, facts: Facts): Entry {
  const buffers = record.buffers(params)
  let seed = 1
  const inputs = record.inputs?.(params, () => (seed = (seed * 48271) % 2147483647) / 2147483647)
  return {
    kernel: record.name,
    buffers,
    arithmetic: 'f32',
    quick: false,
    bytes: buffers.reduce((sum, shape) => sum + bytesOf(shape) * (shape.role === 'inout' ? 2 : 1), 0),
    ...(inputs === undefined ? {} : { inputs }),
    work: (caps) => record.work(caps, params),
    ...facts,
  }
}

export function bytesOf({ type, elements }: BufferShape): number {
  const { block, bytes } = GGML_TYPES[(type === 'u32' ? 'i32' : type) as GgmlType]
  return (elements / block) * bytes
}
