// Values and gradients against PyTorch's, on a device: every case of the data folder. Knows no device; the files that import it name theirs.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ElementType } from '../../src/base/element.ts'
import type { Device } from '../../src/device/device.ts'
import { gradients } from '../../src/tensor/grad.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { dataFolder } from './folder.ts'
import { OPERATIONS } from './gradient-op.ts'

interface Values {
  readonly shape: readonly number[]
  readonly dtype: ElementType
  readonly data: readonly number[]
}
interface GradientCase {
  readonly id: string
  readonly op: string
  readonly attrs: Readonly<Record<string, unknown>>
  readonly inputs: readonly Values[]
  readonly output: Values
  readonly cotangent: Values | null
  readonly grads: readonly (Values | null)[]
}
export interface GradientDevice {
  readonly name: string
  readonly open: () => Promise<Device>
  /** why it cannot be tested here */
  readonly missing?: string | undefined
  /** largest error, relative to the largest value or 1 */
  readonly tolerance: number
}

/** Milliseconds: software GPUs take long to compile kernels. */
const TIMEOUT = 300_000
const path = join(dataFolder, 'training', 'gradients.json')
const cases = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { cases: GradientCase[] }).cases : []
const groups = [...new Set(cases.map(({ op }) => op))].map((op) => [op, cases.filter((each) => each.op === op)] as const)

export function testGradients({ name, open, missing, tolerance }: GradientDevice): void {
  const reason = missing ?? (cases.length === 0 ? 'no gradients in the data folder' : undefined)
  describe.skipIf(reason !== undefined)(`gradients of PyTorch on ${name}${reason === undefined ? '' : `: ${reason}`}`, () => {
    let device: Device
    beforeAll(async () => {
      device = await open()
    }, TIMEOUT)
    afterAll(() => device?.close())
    test.for(groups)('%s', { timeout: TIMEOUT }, async ([, group]) => {
      const lines = await Promise.all(
        group.map((each) => check(device, each, tolerance).catch((error: unknown) => [`${each.id}: ${String(error)}`])),
      )
      expect(lines.flat()).toEqual([])
    })
  })
}

async function check(
  device: Device,
  { id, op, attrs, inputs, output, cotangent, grads }: GradientCase,
  tolerance: number,
): Promise<string[]> {
  const make = ({ shape, dtype, data }: Values): Tensor => Tensor.from([...data], { shape: [...shape], dtype, device })
  const tensors = inputs.map(make)
  const y = OPERATIONS[op]!(tensors, attrs)
  const wanted: [string, Tensor, Values][] = [['output', y, output]]
  if (cotangent !== null) {
    const sources = tensors.filter((_, i) => grads[i] !== null)
    const found = gradients(y, sources, make(cotangent))
    grads.filter((grad) => grad !== null).forEach((grad, i) => wanted.push([`gradient ${i}`, found[i]!, grad]))
  }
  const lines = wanted.map(async ([what, tensor, want]): Promise<string[]> => {
    if (tensor.shape.join() !== want.shape.join()) return [`${what} is [${tensor.shape.join()}] instead of [${want.shape.join()}]`]
    if (tensor.dtype !== want.dtype) return [`${what} is ${tensor.dtype} instead of ${want.dtype}`]
    const got = await tensor.data()
    const size = Math.max(1, ...want.data.map(Math.abs))
    const worst = want.data.reduce((most, value, i) => Math.max(most, Object.is(got[i], value) ? 0 : Math.abs(got[i]! - value) / size), 0)
    return worst <= tolerance ? [] : [`${what} is off by ${worst.toExponential(1)}`]
  })
  return (await Promise.all(lines)).flat().map((line) => `${id}: ${line}`)
}
