// What a kind of device offers to be found and opened. One per folder beside this file; open.ts lists them.

import type { Device } from './device.ts'

export interface Probe {
  readonly available: boolean
  /** what would be opened: adapter, driver, threads */
  readonly detail: string
  /** why it is not available */
  readonly reason?: string
  /** names adapter and driver, so that a remembered verdict is not used for another one */
  readonly key: string
  /** what would make it faster, and how to get that */
  readonly faster?: string
  /** true for a GPU that is emulated on the CPU: right, and slow */
  readonly software?: boolean
}

export interface OpenOptions {
  /** threads of a device that has some; default: what the machine has */
  readonly threads?: number
}

export interface DeviceFactory {
  readonly name: string
  /** one line for listings */
  readonly about: string
  /** Cheap, never throws. */
  probe(): Promise<Probe>
  /** Throws `device-unavailable` with the reason. */
  open(options?: OpenOptions): Promise<Device>
}
