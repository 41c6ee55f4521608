// Nothing escapes the conformance suite on the GPU of this project either.

import { expect, test } from 'vitest'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { missingGpu } from '../device/missing.ts'
import { Coverage, runModels } from './coverage.ts'

test('every kernel that models dispatch has a case', { timeout: 120_000 }, async ({ skip }) => {
  const reason = await missingGpu()
  if (reason !== undefined) return skip(reason)
  const device = await webgpu.open()
  const { caps } = device
  await device.close()
  const coverage = new Coverage(caps)
  const missing = new Set<string>()
  await runModels(caps, (kernel) => {
    for (const name of coverage.missing(kernel)) missing.add(name)
  })
  expect([...missing]).toEqual([])
})
