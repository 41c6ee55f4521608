// The device that never runs: memory is real, so what is written can be read back; a kernel is checked and emitted for every
// text target that has its types; a dispatch is checked and does nothing. For tests of everything above a device, anywhere.

import type { Caps } from '../../base/caps.ts'
import { emitC } from '../../emit/c.ts'
import { emitMsl } from '../../emit/msl.ts'
import { emitWgsl } from '../../emit/wgsl.ts'
import { usesDouble } from '../../ir/pass/index.ts'
import type { Device } from '../device.ts'
import type { DeviceFactory } from '../open/factory.ts'
import { openHost } from '../core/host.ts'
import { REFERENCE_CAPS } from '../reference/reference.ts'

export const nullDevice: DeviceFactory = {
  name: 'null',
  about: 'compiles, never runs: for tests',
  probe: () => Promise.resolve({ available: true, detail: 'never runs', key: 'null' }),
  open: () => Promise.resolve(openNull()),
}

export function openNull(caps: Partial<Caps> = {}): Device {
  const own = { ...REFERENCE_CAPS, ...caps }
  return openHost({
    name: 'null',
    detail: 'never runs',
    caps: own,
    compile: (kernel) => {
      for (const emit of own.f64 && usesDouble(kernel) ? [emitC] : [emitWgsl, emitMsl, emitC]) emit(kernel, own)
    },
    run: () => {},
  })
}
