// Finds and opens the WebGPU device: Dawn in Node, the browser's own in pages.

import { BackedDevice } from '../core/backed-device.ts'
import type { Device } from '../device.ts'
import { examineGpu } from '../open/examine-gpu.ts'
import type { DeviceFactory } from '../open/factory.ts'
import { findAdapter, probeAdapter, requestDevice } from './adapter.ts'
import { WebgpuBackend } from './webgpu-backend.ts'

export const webgpu: DeviceFactory = {
  name: 'webgpu',
  about: 'WebGPU: Dawn in Node (package webgpu), navigator.gpu in browsers',
  probe: probeAdapter,
  async open() {
    const adapter = await findAdapter()
    return openOn(adapter, await requestDevice(adapter))
  },
  examine: async (device, probe) => (device === undefined ? [] : examineGpu(device.caps, probe)),
}

/** A device over a GPU that was found; it takes it over. */
export function openOn(adapter: GPUAdapter, device: GPUDevice): Device {
  return new BackedDevice(new WebgpuBackend(adapter, device))
}
