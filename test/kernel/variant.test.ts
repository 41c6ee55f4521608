// Kernels of the library that are known by a key instead of their content: one key, one body.

import { expect, test } from 'vitest'
import { printKernel } from '../../src/ir/print.ts'
import { kernelRecords } from '../../src/kernel/index.ts'
import { packedLinear } from '../../src/kernel/packed-linear.ts'
import type { Launch } from '../../src/kernel/record.ts'
import { repack } from '../../src/kernel/repack.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { ALL_CAPS } from './interpret-case.ts'

test('one key, one body', () => {
  const bodies = new Map<string, string>()
  const add = ({ kernel }: Launch): void => {
    if (kernel.key === undefined) return
    const text = printKernel(kernel)
    const known = bodies.get(kernel.key)
    if (known !== undefined) expect(`${kernel.key} ${text}`).toBe(`${kernel.key} ${known}`)
    bodies.set(kernel.key, text)
  }
  for (const caps of Object.values(ALL_CAPS)) {
    for (const record of kernelRecords()) for (const params of record.cases) record.work(caps, params).launches.forEach(add)
    if (caps.lanes > 1) continue
    for (const { name: format, packed } of FORMATS) {
      if (packed === undefined) continue
      repack({ format, m: 64, k: 512 }).launches.forEach(add)
      for (const n of [1, 2, 3, 8, 20])
        for (const bias of [false, true]) packedLinear(caps, { format, m: 64, k: 512, n, bias }).launches.forEach(add)
    }
  }
  expect(bodies.size).toBeGreaterThan(100)
}, 120_000)

test('a body is written only when somebody looks', () => {
  const [launch] = repack({ format: 'q4_k', m: 16, k: 256 }).launches
  expect(launch!.kernel.params.map(({ name }) => name)).toEqual(['w', 'y', 'm', 'blocks', 'fileBlocks', 'groupWords'])
  expect(launch!.kernel.body.op).toBe('block')
})
