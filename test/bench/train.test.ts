// The bench of training, on a model that is small enough for a test.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operationsOf } from '../../src/bench/train/measure.ts'
import { showTrainReport } from '../../src/bench/train/report.ts'
import { runTrainBench } from '../../src/bench/train/run.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { synthesize } from '../../src/weights/synth/synth.ts'

const SHAPE = { width: 64, layers: 2, heads: 2, kvHeads: 1, hidden: 96, vocabulary: 300 }
let folder = ''
let model = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ingot-'))
  model = join(folder, 'tiny.gguf')
  await synthesize(model, { shape: SHAPE, type: 'q8_0' })
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('steps are timed with layers kept and computed again, and their memory is stated', async () => {
  const seen: string[] = []
  const onProgress = (what: string): number => seen.push(what)
  const report = await runTrainBench({ model, tokens: 8, rank: 2, steps: 3, device: 'cpu', onProgress: (what) => void onProgress(what) })
  expect(report.shape).toEqual(SHAPE)
  expect(report.measures.map(({ name, base, recompute }) => [name, base, recompute])).toEqual([
    ['Ingot', 'q8_0', false],
    ['Ingot', 'q8_0', true],
  ])
  const [kept, again] = report.measures.map(({ samples }) => samples)
  expect(kept!.seconds.length).toBe(3)
  expect(again!.loss).toBe(kept!.loss)
  expect(kept!.loss).toBeLessThan(2 * Math.log(SHAPE.vocabulary))
  expect(seen.length).toBe(4) // two rounds of each
  expect(report.measures.map(({ shares }) => shares?.length)).toEqual([3, 3])
  expect(report.measures.flatMap(({ shares }) => shares ?? []).every((share) => share > 0 && share < 1)).toBe(true)
  const lines = showTrainReport(report).split('\n')
  expect(lines[0]).toContain('LoRA of rank 2')
  expect(lines.filter((line) => line.startsWith('Ingot')).length).toBe(2)
})

test('a step does a product with every matrix, and one back', async () => {
  await using gguf = await openGguf(model)
  const { width, layers, kvHeads, heads, hidden, vocabulary } = SHAPE
  const matrices = layers * (2 * width * width + (2 * width * width * kvHeads) / heads + 3 * width * hidden) + width * vocabulary
  expect(operationsOf(gguf, 8)).toBe(4 * 8 * matrices)
})

test('a Python without PyTorch says what to do', async () => {
  const ask = { model, tokens: 8, rank: 2, steps: 1, device: 'cpu', python: join(folder, 'no-python') }
  await expect(runTrainBench(ask)).rejects.toThrow(/PyTorch does not run.*python3-torch/s)
})
