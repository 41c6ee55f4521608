// The devices that the conformance suite runs on, one line each. A device whose driver must be chosen before the process starts
// has a *.gpu.test.ts beside this file; slow ones have a file of their own, and the others share device.test.ts.

import { openCpu } from '../../src/device/cpu/cpu.ts'
import { type Level, cpuCaps } from '../../src/device/cpu/level.ts'
import { findNative } from '../../src/device/cpu/native/library.ts'
import type { Device } from '../../src/device/device.ts'
import { metal } from '../../src/device/metal/metal.ts'
import { openNull } from '../../src/device/null/null.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { detectWasm } from '../../src/emit/wasm/features.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { collectAllKernels } from '../../src/train/kernel-list.ts'
import { missingMetal } from '../device/metal-soft.ts'
import { missingGpu } from '../device/missing.ts'

export interface DeviceLine {
  readonly open: () => Promise<Device>
  /** false: kernels are compiled and commands checked, but nothing is computed */
  readonly runs?: boolean
  /** why it cannot be tested here */
  readonly missing?: () => Promise<string | undefined>
  /** whether the device itself runs a kernel; cases with others are left out */
  readonly serves?: (kernel: Kernel) => boolean
  /** a device that runs the suite, too: what would be dispatched just so there is left out */
  readonly beside?: () => Promise<Device>
}

const THREADS = 2

export const DEVICES = {
  reference: { open: async () => openReference() },
  null: { open: async () => openNull(), runs: false },
  'null with 8x8 tiles': {
    open: async () => openNull({ subgroup: 32, tiles: true, f16: true }),
    runs: false,
    beside: async () => openNull(),
  },
  cpu: { open: () => openCpu({ level: 'wasm' }) },
  'cpu on one thread': { open: () => openCpu({ threads: 1, level: 'wasm' }), beside: () => openCpu({ level: 'wasm' }) },
  'cpu without relaxed SIMD': {
    open: async () => openCpu({ features: { ...(await detectWasm()), relaxed: false, relaxedDot: false, pairs: false } }),
  },
  metal: { open: () => metal.open(), missing: missingMetal },
  webgpu: { open: () => webgpu.open(), missing: missingGpu },
} as const satisfies Record<string, DeviceLine>

/** The cpu device as set-up has built it for one instruction set, with the cases whose kernels are all in its library: others are WASM. */
export async function nativeLine(level: Level): Promise<DeviceLine> {
  const { kernels } = await collectAllKernels(cpuCaps({ ...level, threads: THREADS, bufferBytes: 2 ** 30 }))
  const listed = new Set(kernels.map(hashKernel))
  return {
    open: () => openCpu({ level: level.name, threads: THREADS }),
    missing: async () => (await findNative({ level: level.name })).reason?.evidence,
    serves: (kernel) => listed.has(hashKernel(kernel)),
  }
}
