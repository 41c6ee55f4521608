// A device that notes which kernels are dispatched on it: where each comes from, by family and form. Everything else is the device's own.

import type { Device, OpenCommand, Recording } from '../../src/device/device.ts'
import type { Kernel } from '../../src/ir/kernel.ts'

/** `note` gets the kernel of every dispatch that is submitted or recorded. */
export function noting(device: Device, note: (kernel: Kernel) => void): Device {
  const look = (work: readonly OpenCommand[] | Recording): void => {
    for (const command of 'commands' in work ? work.commands : work) if (command.kind === 'dispatch') note(command.program.kernel)
  }
  const own: Partial<Device> = {
    record(commands) {
      look(commands)
      return device.record(commands)
    },
    submit(work, ranges) {
      look(work)
      return device.submit(work, ranges)
    },
  }
  return new Proxy(device, {
    get(target, name) {
      const value: unknown = Reflect.get(name in own ? own : target, name, name in own ? own : target)
      return typeof value === 'function' ? value.bind(name in own ? own : target) : value
    },
  })
}
