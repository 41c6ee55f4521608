// The values of encoded weights, by the interpreter: the meaning of the bytes and not the speed.

import { interpret } from '../../src/ir/interpret/interpret.ts'
import { dequantize } from '../../src/kernel/linear/dequantize.ts'
import { cpuCaps } from '../kernel/caps.ts'

export function decodeValues(format: string, bytes: Uint8Array, elements: number): Float32Array {
  const y = new Uint8Array(4 * elements)
  for (const { kernel, uniforms, grid } of dequantize.work(cpuCaps(4), { format, elements }).launches) {
    interpret(kernel, { buffers: { w: bytes, y }, uniforms, grid: [...grid] })
  }
  return new Float32Array(y.buffer)
}

/** Root of the mean squared difference. */
export function rmse(got: Float32Array, want: Float32Array): number {
  return Math.sqrt(want.reduce((sum, value, i) => sum + (got[i]! - value) ** 2, 0) / want.length)
}
