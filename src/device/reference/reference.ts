// The oracle as a device: every dispatch is interpreted, with all of the interpreter's checks. Slow, exact, always there. Its
// caps are those of a GPU, so that kernels take the forms whose races and barriers are worth checking; a test may ask for others.

import type { Caps } from '../../base/caps.ts'
import { interpret } from '../../ir/interpret/interpret.ts'
import { type Kernel, buffersOf, uniformsOf } from '../../ir/kernel.ts'
import type { Device } from '../device.ts'
import type { DeviceFactory } from '../open/factory.ts'
import { openHost } from '../core/host.ts'

export const REFERENCE_CAPS: Caps = {
  lanes: 1024,
  subgroup: 32,
  tiles: true,
  f16: true,
  f64: true,
  width: 4,
  dot: false,
  parallel: 1,
  sharedBytes: 32 * 1024,
  bufferBytes: 2 ** 31,
  bindingBytes: 2 ** 31,
  bindings: 16,
  grid: 65535,
  alignment: 256,
  blanks: true,
}

export interface ReferenceOptions {
  readonly caps?: Partial<Caps>
  /** false: only ranges are checked, races and uninitialised reads are not */
  readonly check?: boolean
}

export const reference: DeviceFactory = {
  name: 'reference',
  about: 'the interpreter of the kernel language: slow, exact, checks everything',
  probe: () => Promise.resolve({ available: true, detail: 'interpreter', key: 'reference' }),
  open: () => Promise.resolve(openReference()),
}

export function openReference({ caps = {}, check = true }: ReferenceOptions = {}): Device {
  return openHost({
    name: 'reference',
    detail: check ? 'interpreter' : 'interpreter, unchecked',
    caps: { ...REFERENCE_CAPS, ...caps },
    compile: () => {},
    run: (kernel, memories, uniforms, grid) => {
      const names = buffersOf(kernel).map(({ name }) => name)
      const buffers = Object.fromEntries(memories.map((memory, index) => [names[index] ?? '', memory])) // as many names as memories
      interpret(kernel, { buffers, uniforms: unpackUniforms(kernel, uniforms), grid }, { check })
    },
  })
}

/** The inverse of packUniforms. */
function unpackUniforms(kernel: Kernel, bytes: Uint8Array): Record<string, number> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Object.fromEntries(
    uniformsOf(kernel).map(({ name, dtype }, field) => {
      const value =
        dtype === 'f32'
          ? view.getFloat32(4 * field, true)
          : dtype === 'i32'
            ? view.getInt32(4 * field, true)
            : view.getUint32(4 * field, true)
      return [name, value]
    }),
  )
}
