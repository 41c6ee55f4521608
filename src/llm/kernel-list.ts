// Which kernels models run on a CPU with given caps: what set-up compiles ahead of time. Every form of the kernel library lists
// those it can ask for; what depends on the model, the expressions of its elementwise operations, is found by loading dummy files of
// every architecture on a device that only notes what it is asked for, and letting an engine do all it can do.

import type { Caps } from '../base/caps.ts'
import { messageOf } from '../base/error.ts'
import { openHost } from '../device/core/host.ts'
import type { Device } from '../device/device.ts'
import { selfTestCases } from '../device/open/self-test.ts'
import { hashKernel } from '../ir/hash.ts'
import type { Kernel } from '../ir/kernel.ts'
import { FAMILIES } from '../kernel/index.ts'
import { ARCHITECTURES } from '../model/index.ts'
import type { Architecture } from '../model/model.ts'
import type { DrawRule } from '../kernel/select/draw.ts'
import { FORMATS as ALL_FORMATS } from '../quant/index.ts'
import type { GgmlType } from '../quant/type.ts'
import { type DummyOptions, SMALL, createDummyFile } from './dummy-file.ts'
import { Engine } from './engine/engine.ts'
import type { SamplerNeeds } from './sample.ts'
import { loadModel } from './weights.ts'

/** Rows of a step: one, few and many. */
const ROW_COUNTS: readonly number[] = [1, 2, 9]
const RULE: DrawRule = { temperature: 1, topP: 1, minP: 0, seed: 0, start: 0, count: 40 }
const SHARED_NEEDS: readonly SamplerNeeds[] = ['argmax', { topK: 40, rule: RULE }]
const NEEDS: readonly SamplerNeeds[] = [...SHARED_NEEDS, 'logits']
/** The formats that elementwise operations tell apart: one for each kind of int8 activations that they are fused into, and one for none. */
const FORMATS: readonly GgmlType[] = [...new Map(ALL_FORMATS.map(({ name, packed }) => [packed?.scaled, name])).values()]
const CAPACITY = 64

export interface KernelList {
  /** in a stable order */
  readonly kernels: readonly Kernel[]
  /** architectures that could not be run, and why */
  readonly failed: readonly string[]
}

/** Every kernel that models run on a device with these caps. */
export async function collectKernels(caps: Caps): Promise<KernelList> {
  const found = new Map<string, Kernel>()
  const add = (kernel: Kernel): void => void found.set(hashKernel(kernel), kernel)
  for (const { forms } of FAMILIES) for (const form of forms) form.kernels?.(caps).forEach(add)
  for (const { family, params } of selfTestCases(caps)) for (const { kernel } of family.work(caps, params).launches) add(kernel)
  const failed = await collectFromModels(caps, add)
  const kernels = [...found].toSorted(([a, one], [b, other]) => compare(one.name, other.name) || compare(a, b)).map(([, kernel]) => kernel)
  return { kernels, failed }
}

/** Runs every architecture on a device that notes what it is asked to compile; gives those that could not be run. */
export async function collectFromModels(caps: Caps, add: (kernel: Kernel) => void): Promise<string[]> {
  const device = openHost({ name: 'list', detail: 'notes kernels', caps, compile: add, run: () => {} })
  const failed: string[] = []
  for (const architecture of ARCHITECTURES) {
    const reasons: string[] = []
    // Some architectures are written with several matrices in one file tensor, others never: one of the two must work.
    for (const fused of [false, true]) {
      try {
        for (const format of FORMATS)
          for (const bias of [false, true]) await exercise(device, architecture, { sizes: SMALL, format, bias, fused })
      } catch (error) {
        reasons.push(messageOf(error))
      }
    }
    if (reasons.length > 1) failed.push(`${architecture.names[0]}: ${reasons.join('; ')}`)
  }
  await device.close()
  return failed
}

/** Loads a dummy file and lets an engine do what it can. */
async function exercise(device: Device, architecture: Architecture, options: DummyOptions): Promise<void> {
  const file = createDummyFile(architecture.names[0] ?? '', options)
  const { model, free } = await loadModel(device, file, architecture, { contextLength: CAPACITY })
  try {
    const engine = new Engine(device, model, { capacity: CAPACITY, cacheType: 'f16', chunk: CAPACITY })
    for (const count of ROW_COUNTS) {
      const tokens = Array.from({ length: count }, (_, i) => i)
      // Prepared, not run: a device that only listens would give tokens that are none.
      for (const needs of NEEDS) await engine.prepare([count], needs)
      for (const needs of SHARED_NEEDS) await engine.prepare([0, count], needs, 2)
      engine.rewind([])
      await engine.evaluate(tokens, () => {})
    }
    await engine.close()
  } finally {
    free()
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
