// The device of tensors that name none: opened when something is computed for the first time, and kept for the life of the process. The one
// place of this folder that opens devices.

import { checkArgument, hasMethods, isString } from '../base/argument.ts'
import type { Device } from '../device/device.ts'

/** A device, or the name of one that is opened when it is needed. */
export type DeviceChoice = Device | string

let chosen: DeviceChoice = 'auto'
/** devices opened here, by the name that was asked for */
const opened = new Map<string, Promise<Device>>()
/** those of them that are there */
const known = new Map<string, Device>()

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
  const before = opened.get(choice)
  if (before !== undefined) return before
  const opening = import('../device/open/open.ts').then(async ({ open }) => {
    const { device } = await open(choice)
    if (opened.get(choice) === opening) known.set(choice, device)
    return device
  })
  opened.set(choice, opening)
  opening.catch(() => opened.delete(choice)) // may be tried again
  return opening
}

/** The same without waiting, if the device is open. */
export function openDevice(choice: DeviceChoice = chosen): Device | undefined {
  return typeof choice === 'string' ? known.get(choice) : choice
}

/** The device of a name, as soon as it is open: who asked for it by name and who found it there mean the same. */
export function knownDevice(choice: DeviceChoice): DeviceChoice {
  return typeof choice === 'string' ? (known.get(choice) ?? choice) : choice
}

/** Closes the devices that were opened for tensors; what lies on them is gone. */
export async function closeDevices(): Promise<void> {
  const devices = [...opened.values()]
  opened.clear()
  known.clear()
  for (const device of devices) await (await device.catch(() => undefined))?.close()
}
