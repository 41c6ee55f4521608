// New models: their shape, their first values, and that they load, learn, and are written back.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import type { Device } from '../../src/device/device.ts'
import { open } from '../../src/device/open/open.ts'
import { load } from '../../src/llm/model.ts'
import { trainTokenizer } from '../../src/llm/tokenizer/train.ts'
import { adamw } from '../../src/nn/optim.ts'
import { makeBatch } from '../../src/train/batch.ts'
import { createModel, readShape } from '../../src/train/create.ts'
import { writeTrained } from '../../src/train/output.ts'
import { createTrainer } from '../../src/train/step.ts'
import { loadTrainable } from '../../src/train/trainable.ts'
import { openGguf, readTensor } from '../../src/weights/gguf/gguf.ts'

const TEXT = 'one two three four five six seven eight nine ten one two three four five six seven eight nine ten'
const tokenizer = trainTokenizer([TEXT, TEXT], { vocabulary: 300 })
const shape = readShape('dim=32,layers=2,heads=2,hidden=64,context=64')
let folder: string
let device: Device

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ingot-create-'))
  device = (await open('cpu', { threads: 1 })).device
})
afterAll(async () => {
  await device.close()
  await rm(folder, { recursive: true })
})

describe('a shape', () => {
  test('is a name, or sizes', () => {
    expect(readShape('tiny')).toMatchObject({ width: 256, layers: 4 })
    expect(readShape('dim=64,heads=4,untied')).toMatchObject({ width: 64, heads: 4, kvHeads: 4, tied: false, layers: 4 })
    expect(readShape('dim=64,heads=4,kv=2')).toMatchObject({ kvHeads: 2, tied: true })
  })

  test.each(['huge', 'dim=x', 'width=3', 'dim=64,,'])('that makes no sense is refused: %s', (text) => {
    expect(() => readShape(text)).toThrow(/no such shape/)
  })

  test.each([
    { ...shape, heads: 3 },
    { ...shape, context: 0 },
    { ...shape, layers: 0 },
  ])('that makes no model is refused: %j', async (bad) => {
    const error: unknown = await createModel(join(folder, 'bad.gguf'), { shape: bad, tokenizer }).catch((thrown: unknown) => thrown)
    expect(isIngotError(error, 'bad-argument')).toBe(true)
  })
})

describe('a new model', () => {
  test('is the same for the same seed, and another for another', async () => {
    const bytes = async (seed: number): Promise<Uint8Array> => {
      const path = join(folder, `seed-${seed}.gguf`)
      await createModel(path, { shape, tokenizer, seed })
      await using file = await openGguf(path)
      const tensor = file.tensors.get('blk.1.ffn_down.weight')
      return tensor === undefined ? new Uint8Array() : readTensor(tensor)
    }
    const [one, again, other] = [await bytes(1), await bytes(1), await bytes(2)]
    expect(one).toEqual(again)
    expect(one).not.toEqual(other)
  })

  test('predicts evenly at first, learns, and says what it learnt when it is written and loaded', { timeout: 30_000 }, async () => {
    const [fresh, learnt] = [join(folder, 'new.gguf'), join(folder, 'learnt.gguf')]
    const { parameters } = await createModel(fresh, { shape, tokenizer })
    expect(parameters).toBeGreaterThan(20_000)
    await using file = await openGguf(fresh)
    const trainable = await loadTrainable(device, file, { contextLength: 64 })
    using trainer = createTrainer(trainable, { optimizer: adamw(trainable.parameters), clipNorm: 1 })
    await using before = await load(fresh, { device })
    const ids = [0, ...before.tokenizer.encode(TEXT), 1]
    const batch = makeBatch(device, [{ ids }])
    const first = await trainer.evaluate(batch)
    expect(first / Math.log(tokenizer.tokens.length)).toBeCloseTo(1, 1)
    let loss = first
    for (let i = 0; i < 60 && loss > 0.02; i++) loss = (await trainer.step([batch], 1e-2)).loss
    expect(loss).toBeLessThan(0.1 * first)
    await writeTrained(learnt, file, trainable, 'f32')
    await using after = await load(learnt, { device })
    expect((await after.generate('one two', { temperature: 0 })).text).toBe(TEXT.slice('one two'.length))
    trainable.free()
  })
})
