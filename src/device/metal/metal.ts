// Finds and opens the Metal device: Apple's framework driven from TypeScript, without a native addon. What it is made of lies in the
// files beside this one; docs/metal.md shows the way through them.

import { BackedDevice } from '../core/backed-device.ts'
import type { Device } from '../device.ts'
import { examineGpu } from '../open/examine-gpu.ts'
import type { DeviceFactory } from '../open/factory.ts'
import { startCapture } from './capture.ts'
import { MetalBackend } from './metal-backend.ts'
import { Pipelines } from './pipeline.ts'
import type { ProfileRow } from './profile.ts'
import { type MetalSettings, readSettings } from './settings.ts'
import { canReplay, capsOf, describeGpu, findDevice, openMetal, probeMetal } from './system.ts'
import { compileTransfers } from './transfer.ts'

export const metal: DeviceFactory = {
  name: 'metal',
  about: 'Metal on Apple silicon, through koffi',
  probe: () => probeMetal(readSettings()),
  open: () => openMetalDevice(),
  examine: async (device, probe) => (device === undefined ? [] : examineGpu(device.caps, probe)),
}

export async function openMetalDevice(settings: MetalSettings = readSettings()): Promise<Device> {
  const system = await openMetal(settings)
  const id = findDevice(system)
  let endCapture: (() => void) | undefined
  let pipelines: Pipelines | undefined
  try {
    const gpu = describeGpu(system, id, settings)
    const caps = capsOf(gpu, settings)
    if (settings.capture !== undefined) endCapture = startCapture(system.objc, id, settings.capture)
    pipelines = new Pipelines(system.objc, id, caps, { indirect: canReplay(gpu, settings), system: gpu.system })
    const transfers = await compileTransfers(pipelines)
    return new BackedDevice(new MetalBackend({ system, id, gpu, caps, settings, pipelines, transfers, endCapture }))
  } catch (error) {
    await pipelines?.close()
    endCapture?.()
    system.objc.release(id)
    throw error
  }
}

/** What each kernel cost on a Metal device, with INGOT_PROFILE=1; otherwise empty. */
export function profileOf(device: Device): readonly ProfileRow[] {
  return device instanceof BackedDevice && device.backend instanceof MetalBackend ? device.backend.profile() : []
}
