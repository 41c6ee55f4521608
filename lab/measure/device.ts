// The devices of an experiment. On the native cpu device, kernels that are not in a library run as WebAssembly; so an experiment gets a
// library of its own, made as set-up makes that of the models: the same emitter, compiler and flags, for the best instruction set here.

import type { Caps } from '../../src/base/caps.ts'
import type { Device } from '../../src/device/device.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { countThreads } from '../../src/device/cpu/thread-count.ts'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { peakLimit, readLimit } from '../../src/kernel/limit/limit.ts'
import { type Entry, limitEntry } from './entry.ts'

export interface Library {
  readonly folder: string
  /** Compiles what is listed for the caps of this machine; `reason` says why it cannot. */
  build(
    list: (caps: Caps) => { kernels: readonly Kernel[]; failed: readonly string[] },
  ): Promise<{ readonly path?: string; readonly reason?: string }>
}

type Open = (threads: number | undefined, entries: readonly Entry[], library: Library) => Promise<Device>

const OPENERS: Readonly<Record<string, Open>> = {
  cpu: openNative,
  wasm: (threads) => openCpu({ level: 'wasm', ...(threads === undefined ? {} : { threads }) }),
  webgpu: () => webgpu.open(),
}

export async function openDevice(name: string, threads: number | undefined, entries: readonly Entry[], library: Library): Promise<Device> {
  const open = OPENERS[name]
  if (open === undefined) throw new Error(`--device knows ${Object.keys(OPENERS).join(', ')}, got ${name}`)
  return open(threads, entries, library)
}

/** What is timed are Ingot's own kernels, so no BLAS library. */
async function openNative(asked: number | undefined, entries: readonly Entry[], { folder, build }: Library): Promise<Device> {
  const threads = asked ?? (await countThreads())
  const { path, reason } = await build((caps) => ({ kernels: kernelsOf(entries, { ...caps, parallel: threads }), failed: [] }))
  if (path === undefined) process.stderr.write(`lab: no native kernels, so cpu is WebAssembly: ${reason}\n`)
  return openCpu({ threads, blas: { library: 'off' }, ...(path === undefined ? {} : { libraries: folder }) })
}

/** Those of the entries and of the limits, each once. */
function kernelsOf(entries: readonly Entry[], caps: Caps): Kernel[] {
  const limits = [readLimit(0), peakLimit('i8', caps), peakLimit('f32', caps)].map(limitEntry)
  const all = [...limits, ...entries].flatMap((entry) => entry.work(caps)?.launches ?? [])
  return [...new Map(all.map(({ kernel }) => [hashKernel(kernel), kernel])).values()]
}
