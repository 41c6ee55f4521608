// What a kind of device offers to be found, opened and examined. One per folder beside this one; open.ts lists them.

import type { Device } from '../device.ts'
import type { Finding, Reason } from './finding.ts'

export interface Probe {
  readonly available: boolean
  /** what would be opened: adapter, driver, threads */
  readonly detail: string
  /** why it is not available */
  readonly reason?: Reason
  /** names adapter and driver, so that a remembered verdict is not used for another one */
  readonly key: string
  /** why it is not as fast as it could be */
  readonly faster?: Reason
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
  /** What only this kind of device knows of its state, for `ingot doctor`; `device` is open, or undefined where none could be opened. */
  examine?(device: Device | undefined, probe: Probe): Promise<readonly Finding[]>
}
