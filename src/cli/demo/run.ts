// Runs a kernel with one output buffer on a device, once to warm up and once to take the time.

import type { Command } from '../../device/device.ts'
import type { DeviceFactory } from '../../device/open/factory.ts'
import { type Kernel, packUniforms } from '../../ir/kernel.ts'

export interface OneRun {
  /** of the output */
  readonly bytes: number
  readonly uniforms: Readonly<Record<string, number>>
  readonly grid: readonly [number, number, number]
}

export async function runOnce(
  factory: DeviceFactory,
  kernel: Kernel,
  { bytes, uniforms, grid }: OneRun,
): Promise<{ bytes: Uint8Array; ms: number }> {
  await using device = await factory.open()
  const program = await device.compile(kernel)
  const buffer = device.alloc(bytes)
  const commands: Command[] = [
    { kind: 'dispatch', program, buffers: [{ buffer }], uniforms: packUniforms(kernel, uniforms), grid },
    { kind: 'read', from: { buffer }, bytes },
  ]
  await device.submit(commands)
  const begun = performance.now()
  const [result] = await device.submit(commands)
  const ms = performance.now() - begun
  device.free(buffer)
  return { bytes: (result ?? new Uint8Array(bytes)).slice(), ms }
}
