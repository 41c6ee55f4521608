// Kernels as the source of a target, for people to read: which targets there are, and what the devices of each usually can do.

import type { Caps } from '../base/caps.ts'
import { emitC } from '../emit/c.ts'
import { emitMsl } from '../emit/msl.ts'
import { printWat } from '../emit/wasm/emit.ts'
import { emitWgsl } from '../emit/wgsl.ts'
import type { Kernel } from '../ir/kernel.ts'
import { printKernel } from '../ir/print.ts'

export const TARGETS = ['msl', 'wgsl', 'c', 'wat', 'ir'] as const
export type TargetName = (typeof TARGETS)[number]

const GPU: Caps = {
  lanes: 256,
  subgroup: 32,
  tiles: false,
  f16: false,
  f64: false,
  width: 4,
  dot: false,
  parallel: 64,
  sharedBytes: 32768,
  bufferBytes: 2 ** 30,
  bindingBytes: 2 ** 30,
  bindings: 8,
  grid: 65535,
  alignment: 256,
}
const METAL: Caps = { ...GPU, lanes: 1024, tiles: true, f16: true, bindings: 31 }
const CPU: Caps = {
  ...GPU,
  lanes: 1,
  subgroup: 0,
  f64: true,
  dot: true,
  parallel: 8,
  sharedBytes: 2 ** 20,
  bindings: 64,
  grid: 2 ** 31 - 1,
  alignment: 64,
}

const USUAL: Readonly<Record<TargetName, Caps>> = { msl: METAL, wgsl: GPU, c: { ...CPU, width: 16 }, wat: CPU, ir: METAL }

export function capsFor(target: TargetName): Caps {
  return USUAL[target]
}

/** All kernels in one text. */
export function emitSource(target: TargetName, kernels: readonly Kernel[], caps: Caps = USUAL[target]): string {
  const each = (emit: (kernel: Kernel) => string): string => kernels.map((kernel) => `${emit(kernel).trimEnd()}\n`).join('\n')
  switch (target) {
    case 'msl':
      return each((kernel) => emitMsl(kernel, caps).text)
    case 'wgsl':
      return each((kernel) => emitWgsl(kernel, caps).text)
    case 'wat':
      return each((kernel) => printWat(kernel, { simd: true, relaxed: true, relaxedDot: true, pairs: false, threads: true, bulk: true }))
    case 'c':
      return `${emitC(kernels).text.trimEnd()}\n`
    case 'ir':
      return each(printKernel)
  }
}
