// Overfitting as a test: a small set, learnt by heart over a base in Q8_0, and what the saved adapter gives of it.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { load } from '../../src/llm/model.ts'
import { measurePerplexity } from '../../src/cli/perplexity.ts'
import type { StepEvent } from '../../src/train/event.ts'
import { finetune } from '../../src/train/finetune.ts'
import { dataFolder } from './folder.ts'

const MODEL = join(dataFolder, 'models', 'stories260K.Q8_0.gguf')
const folder = mkdtempSync(join(tmpdir(), 'ingot-overfit-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const LINES = ['The robot Rust sang to the moon, and the moon sang back.', 'A small dragon baked bread for all the birds in town.']

test.skipIf(!existsSync(MODEL))('stories260K in Q8_0 learns two lines by heart', { timeout: 60_000 }, async () => {
  await using device = await openCpu()
  const out = join(folder, 'adapter.gguf')
  const steps: StepEvent[] = []
  const data = LINES.map((text) => ({ text }))
  const run = finetune({ model: MODEL, data, out, device, context: 64, batch: 1, steps: 20, rate: 0.01, lora: { rank: 8 } })
  for await (const event of run) if (event.kind === 'step') steps.push(event)
  expect(steps.at(-1)!.loss).toBeLessThan(0.1 * steps[0]!.loss)
  // On the cpu the base is multiplied in int8 here, and exactly in training.
  await using model = await load(MODEL, { device, adapters: [{ path: out }] })
  const losses = await Promise.all(LINES.map(async (line) => (await measurePerplexity(model, line)).loss))
  expect(Math.max(...losses)).toBeLessThan(0.15 * steps[0]!.loss)
  const { text } = await model.generate('The robot Rust', { maxTokens: 24, temperature: 0 })
  expect(text.trim()).toMatch(/^sang to the moon, and the moon sang back\./) // this model has no end that could be learnt
})
