// Gradients through weights that are frozen, in every format: against those through the same weight as numbers.

import { describe, expect, test } from 'vitest'
import { isElementType } from '../../src/base/element.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { FORMATS } from '../../src/quant/index.ts'
import type { GgmlType } from '../../src/quant/type.ts'
import { gradients } from '../../src/tensor/grad.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { randomBlocks } from '../kernel/block.ts'
import { randomFrom } from '../kernel/input.ts'
import { filled as leaf } from '../tensor/leaf.ts'

/** Rows, columns and rank of the layers that are tried: no multiples of what tiles have. */
const [ROWS, OUT, INNER, RANK] = [3, 5, 256, 2]

const filled = (device: Device, shape: readonly number[], seed: number): Tensor => new Tensor(leaf(device, shape, seed).node, device)

/** A weight [OUT, INNER] of random blocks. */
function weightOf(device: Device, format: GgmlType): Tensor {
  if (isElementType(format)) return Tensor.from(Float32Array.from({ length: OUT * INNER }, (_, i) => Math.sin(7 * i)), { device, dtype: format }).reshape(OUT, INNER) // prettier-ignore
  const bytes = randomBlocks(format, OUT * INNER, randomFrom(5))
  const buffer = device.alloc(Math.ceil(bytes.length / 4) * 4)
  const whole = new Uint8Array(Math.ceil(bytes.length / 4) * 4)
  whole.set(bytes)
  device.write(buffer, 0, whole)
  return new Tensor(Tensor.over(buffer, [OUT, INNER], format).node, device)
}

function expectClose(got: ArrayLike<number>, want: ArrayLike<number>): void {
  const size = Math.hypot(...Array.from(want))
  expect(got.length).toBe(want.length)
  expect(Math.hypot(...Array.from(want, (value, i) => value - got[i]!)) / (size + 1e-30)).toBeLessThan(1e-5)
  expect(size).toBeGreaterThan(0)
}

describe.each(FORMATS.map(({ name }) => name))('%s', (format) => {
  test('what comes back through linear is what comes back through its numbers', async () => {
    await using device = await openCpu()
    const [x, weight, dy] = [filled(device, [ROWS, INNER], 1), weightOf(device, format), filled(device, [ROWS, OUT], 2)]
    const [dx] = gradients(x.linear(weight), [x], dy)
    const [want] = gradients(x.matmul(weight.to('f32').transpose()), [x], dy)
    expectClose(await dx!.data(), await want!.data())
    expectClose(await dy.linearTransposed(weight).data(), await want!.data())
  })

  // vectors, and matrices
  test.each([ROWS, 4 * ROWS])('lora of %i rows has the values and gradients of what it stands for', async (rows) => {
    await using device = await openCpu()
    const weight = weightOf(device, format)
    const [x, a, b] = [filled(device, [rows, INNER], 1), filled(device, [RANK, INNER], 2), filled(device, [OUT, RANK], 3)]
    const dy = filled(device, [rows, OUT], 4)
    const plain = x.matmul(weight.to('f32').add(b.matmul(a).mul(1.5)).transpose())
    const y = x.lora(weight, a, b, 1.5)
    // What is computed has forgotten what it was computed from.
    const [got, want] = [y, plain].map((each) => gradients(each, [x, a, b], dy))
    expectClose(await y.data(), await plain.data())
    for (const [i, each] of got!.entries()) expectClose(await each.data(), await want![i]!.data())
  })
})
