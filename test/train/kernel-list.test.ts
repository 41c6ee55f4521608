// Training on a native CPU leaves nothing to WebAssembly: what other models and batches than those of the list ask for is in it.

import { expect, test } from 'vitest'
import { openHost } from '../../src/device/core/host.ts'
import { LEVELS, cpuCaps } from '../../src/device/cpu/level.ts'
import { describeOrigin, hashKernel } from '../../src/ir/hash.ts'
import { createDummyFile } from '../../src/llm/dummy-file.ts'
import { adamw } from '../../src/nn/optim.ts'
import { makeBatch } from '../../src/train/batch.ts'
import { collectAllKernels } from '../../src/train/kernel-list.ts'
import { createTrainer } from '../../src/train/step.ts'
import { loadTrainable } from '../../src/train/trainable.ts'

const { width, registers } = LEVELS[0]!
const CAPS = cpuCaps({ width, registers, threads: 2, bufferBytes: 2 ** 40 })

test('the list of kernels that set-up compiles has those of a step', async () => {
  const { kernels, failed } = await collectAllKernels(CAPS)
  expect(failed).toEqual([])
  const listed = new Set(kernels.map(hashKernel))
  const left = new Set<string>()
  let seen = 0
  const compile = (kernel: (typeof kernels)[number]): void => {
    seen++
    if (!listed.has(hashKernel(kernel))) left.add(kernel.origin === undefined ? kernel.name : describeOrigin(kernel.origin))
  }
  await using device = openHost({ name: 'list', detail: 'notes kernels', caps: CAPS, compile, run: () => {} })
  for (const [heads, kvHeads] of [[6, 6], [6, 2]] as const) {
    const sizes = { width: 768, heads, kvHeads, dim: 128, hidden: 1024, vocabulary: 1000 }
    for (const format of ['q4_k', 'f16'] as const) {
      const file = createDummyFile('llama', { sizes, format, bias: false, fused: false })
      const trainable = await loadTrainable(device, file, { contextLength: 64, lora: { rank: 8, alpha: 16 } })
      for (const recompute of [false, true]) {
        using trainer = createTrainer(trainable, { optimizer: adamw(trainable.parameters, { weightDecay: 0.1 }), clipNorm: 1, recompute })
        const ids = Array.from({ length: 41 }, (_, i) => i)
        await trainer.step([makeBatch(device, [{ ids }])], 0)
        await trainer.step([makeBatch(device, [{ ids }, { ids }, { ids }])], 0)
      }
      trainable.free()
    }
  } // prettier-ignore
  expect(seen).toBeGreaterThan(20)
  expect([...left]).toEqual([])
})
