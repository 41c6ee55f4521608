// The WebNN cases on the devices that need no driver, and how many of them run at all.

import { expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { testWebnn, reasonToLeaveOut } from './webnn.ts'
import { webnnCases } from './webnn-case.ts'

testWebnn({ name: 'reference', open: async () => openReference({ check: false }) })
testWebnn({ name: 'cpu', open: () => openCpu() })

test.skipIf(webnnCases.size === 0)('nineteen of twenty cases run', () => {
  const all = [...webnnCases.values()].flat()
  const left = all.filter((each) => reasonToLeaveOut(each) !== undefined)
  expect(left.length / all.length).toBeLessThan(0.05)
})
