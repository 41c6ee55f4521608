// The one suite that every device passes: every kernel family, in the form that the device's caps choose, against its definition. A result
// may differ by the form's normalised mean square error, which is near what its arithmetic allows; NaN anywhere it should not be, an
// infinity of the wrong sign, or a changed byte in the guards behind each buffer is a failure. What decodes weights must be equal bit
// for bit.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import type { Device } from '../../src/device/device.ts'
import { checkFamily, runFamily } from '../../src/device/open/run-family.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import { inputsOf } from '../kernel/input.ts'
import { type Case, FORMAT_NAMES, classCases, familyCases, formatCases, nameOf } from './case.ts'
import type { DeviceLine } from './devices.ts'

const TIMEOUT = 300_000 // for a busy machine; alone, none takes a tenth of it

export function testConformance(name: string, { open, runs = true, missing, serves = () => true, beside }: DeviceLine): void {
  describe(`${name} conforms`, () => {
    let device: Device
    let other: Caps | undefined
    let reason: string | undefined
    beforeAll(async () => {
      reason = await missing?.()
      if (reason === undefined) device = await open()
      await using same = await beside?.()
      other = same?.caps
    }, TIMEOUT)
    afterAll(async () => {
      if (reason === undefined) await device.close()
    })

    const isServed = (each: Case): boolean => {
      const { family, params } = each
      return (
        family.form(device.caps, params) !== undefined &&
        family.work(device.caps, params).launches.every(({ kernel }) => serves(kernel)) &&
        (other === undefined || dispatchesOf(each, device.caps) !== dispatchesOf(each, other))
      )
    }
    const check = (title: string, cases: readonly Case[]): void => {
      it(title, { timeout: TIMEOUT }, async ({ skip }) => {
        if (reason !== undefined) return skip(reason)
        expect(
          await failuresOf(
            device,
            cases.filter((each) => isServed(each)),
            runs,
          ),
        ).toEqual([])
      })
    }
    for (const [family, cases] of familyCases()) check(`every case of ${family}`, cases)
    for (const format of FORMAT_NAMES) check(`weights of ${format}`, formatCases(format))
    check('infinities and NaN', classCases())
  })
}

/** What a device with these caps dispatches for a case, as text. */
function dispatchesOf({ family, params }: Case, caps: Caps): string {
  if (family.form(caps, params) === undefined) return 'nothing'
  return JSON.stringify(family.work(caps, params).launches.map(({ kernel, uniforms, grid }) => [hashKernel(kernel), uniforms, grid]))
}

/** One line for every case that went wrong. All pipelines are asked for at once, since compiling may take several threads. */
async function failuresOf(device: Device, cases: readonly Case[], runs: boolean): Promise<string[]> {
  const compiled = cases.flatMap(({ family, params }) =>
    family.work(device.caps, params).launches.map(({ kernel }) => device.compile(kernel)),
  )
  await Promise.allSettled(compiled) // what fails here fails again below, under its name
  const failures: string[] = []
  for (const each of cases) {
    try {
      failures.push(...(await differencesOf(device, each, runs)))
    } catch (error) {
      failures.push(`${nameOf(each)}: ${String(error)}`)
    }
  }
  return failures
}

async function differencesOf(device: Device, each: Case, runs: boolean): Promise<string[]> {
  const { family, params, given = {} } = each
  const inputs = inputsOf(family, params, { given })
  if (runs) return (await checkFamily(device, family, params, inputs)).map((difference) => `${nameOf(each)}: ${difference}`)
  await runFamily(device, family, params, inputs.device, { sentinels: true })
  return []
}
