// The one suite that every device passes: every kernel of the library, in the form that the device's caps choose, against its
// definition. A result may differ by the record's normalised mean square error; NaN anywhere it should not be, an infinity of
// the wrong sign, or a changed byte in the guards behind each buffer is a failure. What decodes weights must be equal bit for bit.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findDifference } from '../../src/device/compare.ts'
import type { Device } from '../../src/device/device.ts'
import { runRecord } from '../../src/device/run-record.ts'
import type { NumberArray } from '../../src/kernel/record.ts'
import { type Case, FORMAT_NAMES, classCases, formatCases, inputsOf, nameOf, recordCases } from './case.ts'
import type { DeviceLine } from './devices.ts'

/** Decoding is part of a format and has one right answer. */
const EXACT: readonly string[] = ['dequantize', 'gather']
/** Where mat-mat stages f16 for the matrix hardware, its inputs are rounded: NMSE. */
const TILES_TOLERANCE = 1e-6
const TIMEOUT = 300_000 // for a busy machine; alone, none takes a tenth of it

export function testConformance(name: string, { open, runs = true, missing }: DeviceLine): void {
  describe(`${name} conforms`, () => {
    let device: Device
    let reason: string | undefined
    beforeAll(async () => {
      reason = await missing?.()
      if (reason === undefined) device = await open()
    }, TIMEOUT)
    afterAll(async () => {
      if (reason === undefined) await device.close()
    })

    const check = (title: string, cases: readonly Case[]): void => {
      it(`${title}`, { timeout: TIMEOUT }, async ({ skip }) => {
        if (reason !== undefined) return skip(reason)
        expect(await failuresOf(device, cases, runs)).toEqual([])
      })
    }
    for (const [record, cases] of recordCases()) check(`every case of ${record}`, cases)
    for (const format of FORMAT_NAMES) check(`weights of ${format}`, formatCases(format))
    check('infinities and NaN', classCases())
  })
}

/** One line for every case that went wrong. All pipelines are asked for at once, since compiling may take several threads. */
async function failuresOf(device: Device, cases: readonly Case[], runs: boolean): Promise<string[]> {
  const compiled = cases.flatMap(({ record, params }) =>
    record.work(device.caps, params).launches.map(({ kernel }) => device.compile(kernel)),
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
  const { record, params } = each
  const inputs = inputsOf(each)
  const got = await runRecord(device, record, params, inputs.device, { sentinels: true })
  if (!runs) return []
  const tolerance = record.name === 'matmul' && device.caps.tiles ? TILES_TOLERANCE : record.tolerance
  return Object.entries(record.define(inputs.oracle, params)).flatMap(([name, want]) => {
    const difference =
      findDifference(got[name], want, tolerance) ?? (EXACT.includes(record.name) ? findOtherBits(got[name]!, want) : undefined)
    return difference === undefined ? [] : [`${nameOf(each)}: ${name}: ${difference}`]
  })
}

/** -0 and 0 are equal numbers and different bits. */
function findOtherBits(got: NumberArray, want: NumberArray): string | undefined {
  const [a, b] = [got, want].map(({ buffer, byteOffset, length }) => new Uint32Array(buffer, byteOffset, length)) as [
    Uint32Array,
    Uint32Array,
  ]
  const at = a.findIndex((bits, index) => bits !== b[index])
  return at < 0 ? undefined : `element ${at} has bits ${a[at]!.toString(16)} instead of ${b[at]!.toString(16)}`
}
