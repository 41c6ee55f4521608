// Capabilities to write kernels for in tests, without a device.

import type { Caps } from '../../src/base/caps.ts'
import type { Width } from '../../src/base/dtype.ts'

const limits = { sharedBytes: 32768, bufferBytes: 2 ** 30, bindingBytes: 2 ** 30, bindings: 8, grid: 65535, alignment: 256, parallel: 2 }

export function gpuCaps(subgroup: number, more: Partial<Caps> = {}): Caps {
  return { ...limits, lanes: 256, subgroup, tiles: false, f16: false, f64: false, width: 4, dot: false, ...more }
}

export function cpuCaps(width: Width, more: Partial<Caps> = {}): Caps {
  return { ...limits, lanes: 1, subgroup: 0, tiles: false, f16: false, f64: true, width, dot: true, ...more }
}
