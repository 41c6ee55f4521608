// Runs one kernel family on a device: brings the inputs there, submits all its dispatches as one submission, brings the outputs back,
// and holds them against the family's meaning. Knows families only by their shape, so that it stays below the kernel library.
//
// Outputs and scratch start as NaN, so that an element nobody wrote shows. With `sentinels`, every buffer is followed by
// 1 KiB of guard bytes in the same allocation, which must be unchanged afterwards.

import type { Caps } from '../../base/caps.ts'
import { ELEMENT_BYTES, type NumberArray, decodeElements, encodeElements, isElementType } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, buffersOf, packUniforms } from '../../ir/kernel.ts'
import { findDifference } from './compare.ts'
import type { BufferHandle, Command, Device, Range } from '../device.ts'

export type Arrays = Readonly<Record<string, NumberArray>>

/** The part of a Family that running needs. */
export interface Runnable<P extends object> {
  readonly name: string
  buffers(params: P): readonly {
    readonly name: string
    readonly role: 'in' | 'out' | 'inout'
    readonly type: string
    readonly elements: number
  }[]
  work(
    caps: Caps,
    params: P,
  ): {
    readonly launches: readonly {
      readonly kernel: Kernel
      readonly binds?: Readonly<Record<string, string>>
      readonly uniforms: Readonly<Record<string, number>>
      readonly grid: readonly [number, number, number]
    }[]
    readonly scratch?: Readonly<Record<string, number>>
  }
}
/** What judging the results takes besides. */
export interface Meaningful<P extends object> extends Runnable<P> {
  define(inputs: Arrays, params: P): Arrays
  meaning?(outputs: Arrays, params: P): Arrays
  allowed(caps: Caps, params: P): number
}
type Shape = ReturnType<Runnable<object>['buffers']>[number]

export interface RunOptions {
  readonly sentinels?: boolean
}

const GUARD_BYTES = 1024
const GUARD = 0xa5
const POISON = 0xff

interface Placed {
  readonly buffer: BufferHandle
  /** of the range that kernels see */
  readonly bytes: number
}

/**
 * The values of the `out` and `inout` buffers. `inputs` holds the numbers of buffers whose type base/element.ts has, and for every other
 * one, quantised weights, the raw bytes. A Uint8Array for elements of more than a byte is raw bytes, too.
 */
export async function runFamily<P extends object>(
  device: Device,
  family: Runnable<P>,
  params: P,
  inputs: Arrays,
  { sentinels = false }: RunOptions = {},
): Promise<Record<string, NumberArray>> {
  const { launches, scratch = {} } = family.work(device.caps, params)
  const prepared = await Promise.all(launches.map(async (launch) => ({ ...launch, program: await device.compile(launch.kernel) })))
  const shapes = family.buffers(params)
  const placed = new Map<string, Placed>()
  const guard = sentinels ? GUARD_BYTES : 0
  try {
    for (const shape of shapes) placed.set(shape.name, place(device, startOf(family.name, shape, inputs[shape.name]), guard))
    for (const [name, bytes] of Object.entries(scratch)) placed.set(name, place(device, new Uint8Array(bytes).fill(POISON), guard))
    const commands = prepared.map(({ kernel, program, binds = {}, uniforms, grid }): Command => ({
      kind: 'dispatch',
      program,
      buffers: rangesOf(family.name, kernel, binds, placed),
      uniforms: packUniforms(kernel, uniforms),
      grid,
    }))
    const seen = [...placed].filter(([name]) => sentinels || shapes.some((shape) => shape.name === name && shape.role !== 'in'))
    const got = await device.submit([...commands, ...seen.map(([, where]) => readWhole(where, guard))])
    const bytesOfName = new Map(seen.map(([name, where], index) => [name, { where, bytes: got[index] ?? new Uint8Array(0) }]))
    if (sentinels) for (const [name, { where, bytes }] of bytesOfName) checkGuard(family.name, name, bytes, where)
    return Object.fromEntries(
      shapes.flatMap((shape) => {
        const found = shape.role === 'in' ? undefined : bytesOfName.get(shape.name)
        return found === undefined ? [] : [[shape.name, valuesOf(shape, found.bytes)]]
      }),
    )
  } finally {
    for (const { buffer } of placed.values()) device.free(buffer)
  }
}

/** Runs a family and holds what it gives against what it means: one line for every result that is not as near as it should be. */
export async function checkFamily<P extends object>(
  device: Device,
  family: Meaningful<P>,
  params: P,
  inputs: { readonly device: Arrays; readonly oracle: Arrays },
): Promise<string[]> {
  const got = await runFamily(device, family, params, inputs.device, { sentinels: true })
  const want = family.define(inputs.oracle, params)
  const [ours, theirs] = [got, want].map((outputs: Arrays) => family.meaning?.(outputs, params) ?? outputs)
  return Object.entries(theirs ?? {}).flatMap(([name, array]) => {
    const difference = findDifference(ours?.[name], array, family.allowed(device.caps, params))
    return difference === undefined ? [] : [`${name}: ${difference}`]
  })
}

function place(device: Device, bytes: Uint8Array, guard: number): Placed {
  const end = words(bytes.length)
  const all = new Uint8Array(end + guard).fill(GUARD)
  all.set(bytes)
  const buffer = device.alloc(all.length)
  device.write(buffer, 0, all)
  return { buffer, bytes: bytes.length }
}

function readWhole({ buffer, bytes }: Placed, guard: number): Command {
  return { kind: 'read', from: { buffer }, bytes: words(bytes) + guard }
}

function checkGuard(op: string, name: string, got: Uint8Array, { bytes }: Placed): void {
  const at = got.subarray(words(bytes)).findIndex((byte) => byte !== GUARD)
  if (at >= 0)
    throw new IngotError('wrong-result', `a kernel wrote past the end of ${name}`, {
      op,
      got: `byte ${words(bytes) + at}`,
      wanted: `less than ${bytes}`,
    })
}

function rangesOf(op: string, kernel: Kernel, binds: Readonly<Record<string, string>>, placed: ReadonlyMap<string, Placed>): Range[] {
  return buffersOf(kernel).map(({ name }) => {
    const found = placed.get(binds[name] ?? name)
    if (found === undefined)
      throw new IngotError('unknown-name', `${kernel.name} names a buffer that the record does not have`, {
        op,
        got: name,
        wanted: [...placed.keys()],
      })
    return { buffer: found.buffer, bytes: found.bytes }
  })
}

/** The bytes a buffer starts with. */
function startOf(op: string, shape: Shape, values: NumberArray | undefined): Uint8Array {
  if (shape.role === 'out') return new Uint8Array(outputBytes(op, shape)).fill(POISON)
  if (values === undefined) throw new IngotError('bad-argument', `no values for ${shape.name}`, { op })
  const { type } = shape
  const raw = !isElementType(type) || (values instanceof Uint8Array && ELEMENT_BYTES[type] > 1)
  return raw ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength) : encodeElements(type, values)
}

function outputBytes(op: string, { name, type, elements }: Shape): number {
  if (!isElementType(type)) throw new IngotError('unsupported', `no output can be of type ${type}`, { op, got: name })
  return ELEMENT_BYTES[type] * elements
}

function valuesOf({ type, elements }: Shape, bytes: Uint8Array): NumberArray {
  return isElementType(type) ? decodeElements(type, bytes, elements) : bytes
}

function words(bytes: number): number {
  return Math.ceil(bytes / 4) * 4
}
