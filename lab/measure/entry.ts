// What an experiment times: an entry says how to run a kernel and the least it must do, in bytes moved and operations. Made from a family
// of the kernel library by its own description, or by hand. Knows no device.

import type { Caps } from '../../src/base/caps.ts'
import { ELEMENT_BYTES, isElementType } from '../../src/base/element.ts'
import type { Arrays, BufferShape, Cost, Family, Work } from '../../src/kernel/family.ts'
import { type LimitParams, limit } from '../../src/kernel/limit/limit.ts'
import { packedBytes } from '../../src/kernel/linear/repack.ts'
import { formatOf } from '../../src/quant/index.ts'
import { GGML_TYPES } from '../../src/quant/type.ts'

/** Which peak a kernel's operations are held against. */
export type Arithmetic = Cost['arithmetic']

export interface Entry {
  readonly kernel: string
  readonly shape: string
  /** of its kernels, by name */
  readonly buffers: readonly BufferShape[]
  /** Of the buffers that hold ids or positions; others hold the same number everywhere, since values cost no time. */
  inputs?(): Arrays
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

/** How an entry is shown. */
export interface Facts {
  readonly kernel?: string
  readonly shape: string
  readonly quick?: boolean
  /** false: what is usually found in memory was just written, and is in a cache */
  readonly cold?: false
}

/** A family with these parameters; `adapt` fits them to a device. */
export function entryOf<P extends object>(
  family: Family<P>,
  params: P,
  { cold, ...facts }: Facts,
  adapt: (caps: Caps, params: P) => P = (_, same) => same,
): Entry {
  const buffers = family
    .buffers(params)
    .map(({ cold: found, ...shape }) => (found === true && cold !== false ? { ...shape, cold: found } : shape))
  const { inputs } = family
  const filled = (): Arrays => {
    let seed = 1
    return inputs?.(params, () => (seed = (seed * 48271) % 2147483647) / 2147483647) ?? {}
  }
  const { operations, arithmetic, bytes } = family.cost(params)
  return {
    kernel: family.name,
    buffers,
    operations,
    arithmetic,
    quick: false,
    bytes: bytes ?? buffers.reduce((sum, shape) => sum + bytesOf(shape) * (shape.role === 'inout' ? 2 : 1), 0),
    ...(inputs === undefined ? {} : { inputs: filled }), // when it is measured: sixteen million numbers take seconds
    work: (caps) => {
      const own = adapt(caps, params)
      return family.form(caps, own) === undefined ? undefined : family.work(caps, own)
    },
    ...facts,
  }
}

/** A limit of the machine: what is timed is held against it. */
export function limitEntry(params: LimitParams): Entry {
  return entryOf(limit, params, { kernel: `limit ${params.kind}`, shape: '', quick: true })
}

export function bytesOf({ type, elements, packedRows }: BufferShape): number {
  if (isElementType(type)) return elements * ELEMENT_BYTES[type]
  const { name: format } = formatOf(type)
  if (packedRows !== undefined) return packedBytes({ format, m: packedRows, k: elements / packedRows })
  const { block, bytes } = GGML_TYPES[format]
  return (elements / block) * bytes
}
