// Arguments that make no sense are refused with an error of Ingot, at once, and change nothing. INGOT_JUNK is how many calls are made.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ElementType } from '../../src/base/element.ts'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { Tensor, setDefaultDevice } from '../../src/index.ts'
import { type Setting, complaint, functions, junk, makeSetting, methodNames, replaced, resolve } from './junk.ts'
import { CALLS, callMethod } from './method-call.ts'

const RUNS = Number(process.env['INGOT_JUNK'] ?? 2000)
/** Little memory: what is too large is refused before anybody has to find it. */
const open = (): Device => openReference({ check: false, caps: { bufferBytes: 2 ** 20, bindingBytes: 2 ** 20 } })

async function withSetting(run: (setting: Setting) => Promise<void>): Promise<void> {
  await using device = open()
  await using other = open()
  setDefaultDevice(device)
  const setting = await makeSetting(device, other, open())
  const witness = Tensor.from([1, 2, 3], { device })
  const before = witness.mul(2)
  await run(setting)
  expect([await witness.toArray(), await before.toArray()]).toEqual([[1, 2, 3], [2, 4, 6]]) // prettier-ignore
}

test('there are methods and functions to call', () => {
  expect(methodNames().length).toBeGreaterThan(140)
  expect(functions().size).toBeGreaterThan(20)
})

test('every method', { timeout: 3_600_000 }, () =>
  withSetting(async ({ tensors }) => {
    const names = Object.keys(tensors)
    const any = fc.record({
      method: fc.constantFrom(...methodNames()),
      receiver: fc.constantFrom(...names),
      args: fc.array(junk(names), { maxLength: 5 }),
    })
    await fc.assert(
      fc.asyncProperty(any, async ({ method, receiver, args }) => {
        const given = args.map((each) => resolve(each, tensors))
        expect(await complaint(() => callMethod(tensors[receiver]!, method, given))).toBeUndefined()
      }),
      { numRuns: RUNS },
    )
  }),
)

test('every method, with one thing wrong in a call that makes sense', { timeout: 3_600_000 }, () =>
  withSetting(async ({ device, tensors }) => {
    const names = Object.keys(tensors)
    const any = fc.record({
      method: fc.constantFrom(...Object.keys(CALLS)),
      type: fc.constantFrom<ElementType>('f32', 'f32', 'f32', 'i32', 'bf16', 'u8', 'f64'),
      path: fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }),
      wrong: junk(names),
    })
    const make = (type: ElementType) => (shape: readonly number[], own?: ElementType) => Tensor.ones(shape, { dtype: own ?? type, device })
    await fc.assert(
      fc.asyncProperty(any, async ({ method, type, path, wrong }) => {
        const { on, args } = CALLS[method]!
        const x = on(make(type))
        const given = replaced(args(make(type)), path, resolve(wrong, tensors))
        expect(await complaint(() => callMethod(x, method, given))).toBeUndefined()
      }),
      { numRuns: RUNS },
    )
  }),
)

test('every function', { timeout: 3_600_000 }, () =>
  withSetting(async ({ tensors }) => {
    const names = Object.keys(tensors)
    const all = functions()
    const list = fc.array(junk(names), { maxLength: 4 })
    const any = fc.record({ name: fc.constantFrom(...all.keys()), args: list, more: list })
    await fc.assert(
      fc.asyncProperty(any, async ({ name, args, more }) => {
        const [given, then] = [args, more].map((each) => each.map((one) => resolve(one, tensors))) as [unknown[], unknown[]]
        expect(await complaint(() => all.get(name)!(...given), then)).toBeUndefined()
      }),
      { numRuns: RUNS },
    )
  }),
)
