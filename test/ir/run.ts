// Small ways to run a kernel in a test: typed arrays in, interpreted in place.
import { IngotError } from '../../src/base/error.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'

type Array = Float32Array | Float64Array | Int32Array | Uint32Array | Uint16Array | Int16Array | Uint8Array | Int8Array

export function run(
  kernel: Kernel,
  arrays: Readonly<Record<string, Array>>,
  grid: readonly [number, number, number] = [1, 1, 1],
  uniforms: Readonly<Record<string, number>> = {},
): void {
  const buffers = Object.fromEntries(
    Object.entries(arrays).map(([name, { buffer, byteOffset, byteLength }]) => [name, new Uint8Array(buffer, byteOffset, byteLength)]),
  )
  interpret(kernel, { buffers, uniforms, grid })
}

/** The Ingot error that `act` throws. */
export function errorOf(act: () => unknown): IngotError {
  try {
    act()
  } catch (error) {
    if (error instanceof IngotError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}
