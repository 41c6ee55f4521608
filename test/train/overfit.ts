// Overfitting as a test, on a device: a line learnt by heart over a quantised base, and what the saved adapter gives of it on the same
// device. Knows no device; the files that import it name theirs.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { quantizeModel } from '../../src/llm/quantize.ts'
import { finetune } from '../../src/train/finetune.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { tinyModel } from '../llm/tiny-model.ts'

export interface OverfitDevice {
  readonly name: string
  readonly open: () => Promise<Device>
  /** why it cannot be tested here */
  readonly missing?: string | undefined
  /** how far the loss of the adapter may be from the one that training reported; CPUs multiply in int8 where nothing is learnt */
  readonly tolerance: number
}

/** Milliseconds: software GPUs take long to compile kernels. */
const TIMEOUT = 120_000
const TEXT = 'abcd ab dd ca'
const STEPS = 12

export function testOverfitting({ name, open, missing, tolerance }: OverfitDevice): void {
  describe.skipIf(missing !== undefined)(`overfitting on ${name}${missing === undefined ? '' : `: ${missing}`}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'ingot-overfit-'))
    const [base, out] = [join(folder, 'tiny.q8_0.gguf'), join(folder, 'adapter.gguf')]
    beforeAll(async () => {
      await using gguf = await openGguf(await tinyModel())
      await quantizeModel(gguf, base, { type: 'q8_0' })
    })
    afterAll(() => rmSync(folder, { recursive: true, force: true }))

    test(
      'a line is learnt by heart over Q8_0, and the saved adapter gives the loss that training reported',
      { timeout: TIMEOUT },
      async () => {
        await using device = await open()
        const losses: number[] = []
        const data = [{ text: TEXT }, { text: TEXT }]
        const lora = { rank: 4, targets: ['attn_v', 'ffn_down'] }
        const run = finetune({ model: base, data, validation: 1, out, device, context: 16, batch: 1, steps: STEPS, rate: 0.1, lora })
        for await (const event of run) if (event.kind === 'step') losses.push(event.loss)
        const { last } = (await run).validation!
        expect(last).toBeLessThan(0.1 * losses[0]!)
        await using model = await load(base, { device, cacheType: 'f32', contextLength: 32, adapters: [{ path: out }] })
        const got = await lossOf(model)
        expect(Math.abs(got - last)).toBeLessThan(tolerance)
      },
    )
  })
}

/** The mean of what each token of the line costs. */
async function lossOf(model: Model): Promise<number> {
  const ids = [...model.tokenize(TEXT, { addSpecial: true }), model.tokenizer.eos!]
  let loss = 0
  await model.evaluate(ids.slice(0, -1), (rows, from) => {
    for (let row = 0; row * model.vocabulary < rows.length; row++) {
      const logits = rows.subarray(row * model.vocabulary, (row + 1) * model.vocabulary)
      loss += Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0)) - logits[ids[from + row + 1]!]!
    }
  })
  return loss / (ids.length - 1)
}
