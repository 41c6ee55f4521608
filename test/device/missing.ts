// Why WebGPU cannot be tested here.

import { webgpu } from '../../src/device/webgpu/webgpu.ts'

/** The reason, or nothing if there is an adapter. */
export async function missingGpu(): Promise<string | undefined> {
  return process.env.INGOT_WEBGPU_MISSING ?? (await webgpu.probe()).reason?.evidence
}
