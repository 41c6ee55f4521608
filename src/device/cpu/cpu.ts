// Finds and opens the cpu device: native kernels where the library was built, else WebAssembly with SIMD on worker threads, which needs
// no driver and no compiler. Only the code of the runtime that is chosen is loaded: native kernels need neither an emitter nor to know
// what the engine can do.

import { IngotError } from '../../base/error.ts'
import type { WasmFeatures } from '../../emit/wasm/features.ts'
import { BackedDevice } from '../core/backed-device.ts'
import { isNode, readEnvironment } from '../core/platform.ts'
import type { Device, Program } from '../device.ts'
import type { DeviceFactory, OpenOptions, Probe } from '../open/factory.ts'
import { makeReason, describeReason, reasonOf } from '../open/finding.ts'
import type { BlasOptions } from './blas/choice.ts'
import type { ProductReport } from './blas/report.ts'
import { CpuBackend } from './cpu-backend.ts'
import type { FoundNative } from './native/library.ts'
import type { Job, Runtime } from './runtime.ts'
import { countThreads } from './thread-count.ts'

export interface CpuOptions extends OpenOptions {
  /** `wasm`, or an instruction set of the native library (level.ts); default: INGOT_CPU, else the best there is */
  readonly level?: string
  /** where the native libraries are, if not where set-up puts them */
  readonly libraries?: string
  /** less than the engine has, for tests: `threads: false` means no shared memory; no native library then */
  readonly features?: WasmFeatures
  /** which BLAS library may multiply f32 matrices, and when */
  readonly blas?: BlasOptions
}

const WASM = 'wasm'

export const cpu: DeviceFactory = {
  name: 'cpu',
  about: 'native kernels where they are built, WebAssembly SIMD on worker threads everywhere else',
  probe: async (): Promise<Probe> => {
    const found = await findLibrary({}).catch((error: unknown): FoundNative => ({ reason: reasonOf(error) }))
    if (found.native !== undefined) {
      const { native, passedOver } = found
      const { describeNative } = await import('./native/runtime.ts')
      const detail = describeNative(native, await countThreads())
      return { available: true, detail, key: `${detail} ${native.key}`, ...(passedOver === undefined ? {} : { faster: passedOver }) }
    }
    const { reason } = found
    const level = levelAsked()
    if (level !== undefined && level !== WASM) return { available: false, detail: `native, ${level}`, key: level, reason }
    const [{ describeWasm }, { detectWasm }] = await Promise.all([import('./wasm/runtime.ts'), import('../../emit/wasm/features.ts')])
    const features = await detectWasm()
    const detail = describeWasm(features, features.threads ? await countThreads() : 0)
    const key = `wasm ${isNode() ? process.versions.v8 : navigator.userAgent} ${detail}`
    if (!features.simd || !features.bulk) return { available: false, detail, key, reason: makeReason('the engine has no WebAssembly SIMD') }
    return { available: true, detail, key, ...(isNode() && level !== WASM ? { faster: reason } : {}) }
  },
  open: openCpu,
  examine: async (device, probe) => {
    const { examineCpu } = await import('./examine.ts')
    return examineCpu(device, device === undefined ? undefined : runtimeOf(device), probe)
  },
}

export async function openCpu(options: CpuOptions = {}): Promise<Device> {
  const { threads } = options
  if (threads !== undefined && (!Number.isInteger(threads) || threads < 1)) {
    throw new IngotError('bad-argument', 'bad number of threads', { op: 'cpu', got: threads, wanted: 'a whole number from 1' })
  }
  const count = threads ?? (await countThreads())
  const { native } = await findLibrary(options)
  if (native === undefined) {
    const { openWasm } = await import('./wasm/runtime.ts')
    return new BackedDevice(new CpuBackend(await openWasm(count, options)))
  }
  const { NativeRuntime } = await import('./native/runtime.ts')
  return new BackedDevice(new CpuBackend(new NativeRuntime(native, count, options.blas)))
}

/** Who multiplies f32 matrices on a device, as far as that was asked of it; undefined where only our own kernels do. */
export function productsOf(device: Device): ProductReport | undefined {
  return runtimeOf(device)?.products
}

/** What runs the kernels of a cpu device. */
function runtimeOf(device: Device): Pick<Runtime<Job, Program>, 'kind' | 'products'> | undefined {
  return device instanceof BackedDevice && device.backend instanceof CpuBackend ? device.backend.runtime : undefined
}

/** The native library, or why there is none; one that was asked for must be there. */
async function findLibrary({ level, libraries, features }: CpuOptions): Promise<FoundNative> {
  const asked = level ?? (features === undefined ? levelAsked() : WASM)
  if (!isNode() || asked === WASM) return { reason: makeReason('WebAssembly was asked for') }
  const { findNative } = await import('./native/library.ts')
  const found = await findNative({ level: asked, folder: libraries })
  if (found.native !== undefined || asked === undefined) return found
  throw new IngotError('device-unavailable', describeReason(found.reason), {
    op: 'cpu',
    got: asked,
    hint: 'unset INGOT_CPU to take what works',
  })
}

function levelAsked(): string | undefined {
  const asked = readEnvironment()['INGOT_CPU']?.trim().toLowerCase()
  return asked === '' || asked === 'auto' ? undefined : asked
}
