// The Metal device over the software Metal, for tests: opens it, counts, injects faults, and says why where it cannot be.

import type { Device } from '../../src/device/device.ts'
import { type Ffi, loadFfi } from '../../src/device/metal/ffi.ts'
import { metal, openMetalDevice } from '../../src/device/metal/metal.ts'
import { type MetalSettings, readSettings } from '../../src/device/metal/settings.ts'

interface Build {
  readonly path?: string
  readonly reason?: string
}

export interface Report {
  readonly live: Readonly<Record<string, number>>
  readonly overReleases: Readonly<Record<string, number>>
  readonly misuse: readonly { readonly kind: string; readonly text: string }[]
}
export type Counters = Readonly<
  Record<'messages' | 'commandBuffers' | 'dispatches' | 'encoders' | 'barriers' | 'libraries' | 'compiles', number>
>
export type Fault = 'oom' | 'command-error' | 'compile-error' | 'device-lost' | 'slow'

export interface Soft {
  readonly settings: MetalSettings
  open(changes?: Partial<MetalSettings>): Promise<Device>
  report(): Report
  counters(): Counters
  inject(fault: Fault, count: number): void
  /** forgets reports, counts, faults, and what is alive now */
  reset(): void
  /** the types of a selector in Objective-C's encoding; class methods have a class of `+Name` */
  types(name: string, selector: string): string | null
}

/** The software Metal, built if need be, or the reason why there is none. */
export async function findSoft(): Promise<
  { readonly soft: Soft; readonly missing: undefined } | { readonly soft: undefined; readonly missing: string }
> {
  try {
    const url = new URL('../../scripts/build-soft-metal.js', import.meta.url).href
    const { buildSoftMetal } = (await import(url)) as { buildSoftMetal(): Promise<Build> }
    const { path, reason = 'soft-metal is not built' } = await buildSoftMetal()
    if (path === undefined) return { soft: undefined, missing: reason }
    return { soft: over(await loadFfi(), path), missing: undefined }
  } catch (error) {
    return { soft: undefined, missing: error instanceof Error ? error.message : String(error) }
  }
}

function over(ffi: Ffi, path: string): Soft {
  const library = ffi.open(path)
  const settings = readSettings({ INGOT_SOFT_METAL: path })
  const report = library.declare('soft_metal_report', [], 'text')
  const counters = library.declare('soft_metal_counters', [], 'text')
  const inject = library.declare('soft_metal_inject', ['text', 'u64'], 'bool')
  const reset = library.declare('soft_metal_reset', [], 'void')
  const types = library.declare('soft_metal_selector_types', ['text', 'text'], 'text')
  return {
    settings,
    open: (changes = {}) => openMetalDevice({ ...settings, ...changes }),
    report: () => JSON.parse(report() ?? '') as Report,
    counters: () => JSON.parse(counters() ?? '') as Counters,
    inject: (fault, count) => {
      if (!inject(fault, count)) throw new Error(`no fault ${fault}`)
    },
    reset,
    types,
  }
}

/** Why Metal cannot be tested here. Where there is no Mac, the software Metal takes its place in this process. */
export async function missingMetal(): Promise<string | undefined> {
  if (process.platform !== 'darwin') {
    const { soft, missing } = await findSoft()
    if (soft === undefined) return missing
    process.env.INGOT_SOFT_METAL = soft.settings.software
  }
  return (await metal.probe()).reason?.evidence
}
