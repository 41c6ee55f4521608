// The device of tensors that name none: opened when something is computed for the first time, and kept for the life of the process. The one
// place of this folder that opens devices.

import { checkArgument, hasMethods, isString } from '../base/argument.ts'
import type { Device } from '../device/device.ts'

/** A device, or the name of one that is opened when it is needed. */
export type DeviceChoice = Device | string

let chosen: DeviceChoice = 'auto'
/** devices opened here, by the name that was asked for */
const opened = new Map<string, Promise<Device>>()

/** What tensors compute on that name no device: a device, which stays yours to close, or a name such as `cpu`. */
export function setDefaultDevice(device: DeviceChoice): void {
  checkDevice('setDefaultDevice', device)
  chosen = device
}

/** Refuses what is neither a device nor a name. */
export function checkDevice(op: string, device: DeviceChoice): void {
  checkArgument(op, 'the device', device, 'a device or its name', (value) => isString(value) || hasMethods(value, ['submit', 'compile']))
}

export function resolveDevice(choice: DeviceChoice = chosen): Promise<Device> {
  if (typeof choice !== 'string') return Promise.resolve(choice)
  const known = opened.get(choice)
  if (known !== undefined) return known
  const opening = import('../device/open/open.ts').then(async ({ open }) => (await open(choice)).device)
  opened.set(choice, opening)
  opening.catch(() => opened.delete(choice)) // may be tried again
  return opening
}

/** Closes the devices that were opened for tensors; what lies on them is gone. */
export async function closeDevices(): Promise<void> {
  const devices = [...opened.values()]
  opened.clear()
  for (const device of devices) await (await device.catch(() => undefined))?.close()
}
