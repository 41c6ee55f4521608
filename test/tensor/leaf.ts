// Leaves for tests of graphs: tensors of random numbers on a device.

import type { Device } from '../../src/device/device.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { randomFrom } from '../kernel/input.ts'

/** Numbers in [-1, 1), the same for the same seed. */
export function filled(device: Device, shape: readonly number[], seed: number): Tensor {
  const random = randomFrom(seed)
  const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 2 * random() - 1)
  const buffer = device.alloc(values.byteLength)
  device.write(buffer, 0, new Uint8Array(values.buffer))
  return Tensor.over(buffer, shape)
}
