// Small kernels for the tests of devices, and what it takes to bind them. Real kernels are tested in test/conformance.

import { isIngotError } from '../../src/base/error.ts'
import type { BufferHandle, Device, Dispatch, Range } from '../../src/device/device.ts'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { packUniforms } from '../../src/ir/kernel.ts'

export const LANES = 32

/** y[i] = x[i] * factor for i < n */
export const scale = kernel(
  'scale',
  {
    params: { x: buffer('f32', 'read'), y: buffer('f32', 'write'), n: uniform('u32'), factor: uniform('f32') },
    workgroup: [LANES],
  },
  (p, k) => {
    const i = k.let('i', k.globalId.x)
    k.when(i.lt(p.n), () => p.y.set(i, p.x.at(i).mul(p.factor)))
  },
)

/** x[i] = x[i] * 2 + 1 for i < n */
export const step = kernel(
  'step',
  {
    params: { x: buffer('f32', 'readwrite'), n: uniform('u32') },
    workgroup: [LANES],
  },
  (p, k) => {
    const i = k.let('i', k.globalId.x)
    k.when(i.lt(p.n), () => p.x.set(i, p.x.at(i).mul(2).add(1)))
  },
)

/** c[i] = a[i] - b[i], without uniforms; needs whole workgroups */
export const subtract = kernel(
  'subtract',
  {
    params: { a: buffer('f32', 'read'), b: buffer('f32', 'read'), c: buffer('f32', 'write') },
    workgroup: [LANES],
  },
  (p, k) => {
    const i = k.let('i', k.globalId.x)
    p.c.set(i, p.a.at(i).sub(p.b.at(i)))
  },
)

/** x[i] = exp(x[i]) / 3 in 64 bits, two at a time; needs whole workgroups */
export const grow = kernel('grow', { params: { x: buffer('f64', 'readwrite') }, workgroup: [LANES] }, ({ x }, k) => {
  const i = k.let('i', k.globalId.x.mul(2))
  x.store(i, x.load(i, 2).exp().div(3))
})

export function floats(...values: readonly number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer)
}

export function toFloats(bytes: Uint8Array): number[] {
  return [...new Float32Array(bytes.slice().buffer)]
}

/** A buffer that holds these numbers. */
export function put(device: Device, values: readonly number[]): BufferHandle {
  const handle = device.alloc(4 * values.length)
  device.write(handle, 0, floats(...values))
  return handle
}

export async function scaling(device: Device, x: Range, y: Range, n: number, factor: number): Promise<Dispatch> {
  const program = await device.compile(scale)
  return { kind: 'dispatch', program, buffers: [x, y], uniforms: packUniforms(scale, { n, factor }), grid: [Math.ceil(n / LANES), 1, 1] }
}

export async function stepping(device: Device, x: Range, n: number): Promise<Dispatch> {
  const program = await device.compile(step)
  return { kind: 'dispatch', program, buffers: [x], uniforms: packUniforms(step, { n }), grid: [Math.ceil(n / LANES), 1, 1] }
}

export async function subtraction(device: Device, a: Range, b: Range, c: Range, n: number): Promise<Dispatch> {
  const program = await device.compile(subtract)
  return { kind: 'dispatch', program, buffers: [a, b, c], uniforms: new Uint8Array(0), grid: [n / LANES, 1, 1] }
}

/** `code: message` of what an act throws or rejects with. */
export async function failure(act: () => unknown): Promise<string> {
  try {
    await act()
    return 'nothing was thrown'
  } catch (error) {
    return isIngotError(error) ? `${error.code}: ${error.message}` : `not an error of Ingot: ${String(error)}`
  }
}

/** Shows that a device is still usable. */
export async function roundTrip(device: Device): Promise<number[]> {
  const x = put(device, [1, 2, 3, 4])
  const got = await device.read(x, 0, 16)
  device.free(x)
  return toFloats(got)
}
