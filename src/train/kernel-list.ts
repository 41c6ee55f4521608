// Which kernels training runs on a CPU with given caps, beside those of models that answer (llm/kernel-list.ts): what set-up compiles ahead
// of time. They are found as those are, by steps of dummy models on a device that only notes what it is asked for.

import type { Caps } from '../base/caps.ts'
import { messageOf } from '../base/error.ts'
import { openHost } from '../device/core/host.ts'
import type { Device } from '../device/device.ts'
import { hashKernel } from '../ir/hash.ts'
import type { Kernel } from '../ir/kernel.ts'
import { type DummySizes, SMALL, createDummyFile } from '../llm/dummy-file.ts'
import { type KernelList, collectKernels } from '../llm/kernel-list.ts'
import { ARCHITECTURES } from '../model/index.ts'
import { type Named, type Optimizer, adamw } from '../nn/optim.ts'
import { makeBatch } from './batch.ts'
import { createTrainer } from './step.ts'
import { loadTrainable } from './trainable.ts'

/** Something to train: elementwise chains depend on all of these, and on no sizes but those that are 1. */
interface Setting {
  readonly sizes: DummySizes
  readonly sequences: number
  readonly length: number
  readonly full: boolean
  readonly recompute: boolean
  readonly batches: number
  readonly optimizer: (parameters: Named) => Optimizer
}

/** Key heads that several share, or one for each. */
const EACH_ITS_OWN: DummySizes = { ...SMALL, kvHeads: SMALL.heads }
const USUAL: Setting = {
  sizes: SMALL,
  sequences: 1,
  length: 16,
  full: false,
  recompute: false,
  batches: 1,
  optimizer: (parameters) => adamw(parameters, { weightDecay: 0.01 }),
}
const SETTINGS: readonly Partial<Setting>[] = [
  {},
  { sizes: EACH_ITS_OWN },
  { sequences: 2 },
  { sizes: EACH_ITS_OWN, sequences: 2, batches: 2 },
  { recompute: true },
  { sizes: EACH_ITS_OWN, recompute: true },
  { optimizer: (parameters) => adamw(parameters) },
  { full: true },
  { sizes: EACH_ITS_OWN, full: true, sequences: 2 },
]

/** Every kernel that models and their training run on a device with these caps. */
export async function collectAllKernels(caps: Caps): Promise<KernelList> {
  const { kernels, failed } = await collectKernels(caps)
  const found = new Map(kernels.map((kernel) => [hashKernel(kernel), kernel]))
  const more = await collectFromTraining(caps, (kernel) => void found.set(hashKernel(kernel), kernel))
  return { kernels: [...found.values()], failed: [...failed, ...more] }
}

/** Trains dummy models on a device that notes what it is asked to compile; gives what could not be done. */
export async function collectFromTraining(caps: Caps, add: (kernel: Kernel) => void): Promise<string[]> {
  const device = openHost({ name: 'list', detail: 'notes kernels', caps, compile: add, run: () => {} })
  const failed: string[] = []
  for (const [i, { names }] of ARCHITECTURES.entries()) {
    // Layers differ in what they are made of, not in how these are trained.
    for (const setting of i === 0 ? SETTINGS : SETTINGS.slice(0, 1)) {
      try {
        await exercise(device, names[0] ?? '', { ...USUAL, ...setting })
      } catch (error) {
        failed.push(`training of ${names[0]}: ${messageOf(error)}`)
      }
    }
  }
  await device.close()
  return failed
}

async function exercise(device: Device, architecture: string, setting: Setting): Promise<void> {
  const { sizes, sequences, length, full, recompute, batches, optimizer } = setting
  const file = createDummyFile(architecture, { sizes, format: 'q8_0', bias: architecture === 'qwen2', fused: architecture === 'phi3' })
  const trainable = await loadTrainable(device, file, { contextLength: length, ...(full ? {} : { lora: { rank: 4 } }) })
  try {
    using trainer = createTrainer(trainable, { optimizer: optimizer(trainable.parameters), clipNorm: 1, recompute })
    const ids = Array.from({ length: length + 1 }, (_, i) => i)
    const batch = makeBatch(
      device,
      Array.from({ length: sequences }, () => ({ ids })),
    )
    await trainer.step(
      Array.from({ length: batches }, () => batch),
      0,
    )
  } finally {
    trainable.free()
  }
}
