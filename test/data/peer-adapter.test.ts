// A peer reads an adapter that training wrote: node-llama-cpp on the same base goes on with the same tokens, as likely as here. Skipped
// where it is not installed (npm --prefix bench/peers ci --ignore-scripts).

import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { load } from '../../src/llm/model.ts'
import { finetune } from '../../src/train/finetune.ts'
import { dataFolder } from './folder.ts'

const MODEL = join(dataFolder, 'models', 'stories260K.f32.gguf')
const PEERS = join(import.meta.dirname, '../../bench/peers')
const missing = !existsSync(MODEL) || !existsSync(join(PEERS, 'node_modules', 'node-llama-cpp'))
const folder = mkdtempSync(join(tmpdir(), 'ingot-peer-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('node-llama-cpp goes on with the same tokens', { timeout: 120_000 }, async ({ skip }) => {
  if (missing) skip('the peer is not installed: npm --prefix bench/peers ci --ignore-scripts')
  await using device = await openCpu()
  const adapter = join(folder, 'adapter.gguf')
  const data = [{ text: 'Once upon a time there was a robot named Rust who loved to sing to the moon.' }]
  await finetune({ model: MODEL, data, out: adapter, device, context: 64, batch: 1, steps: 4, rate: 0.003 })
  await using model = await load(MODEL, { device, cacheType: 'f32' })
  const prompt = model.tokenize('Once upon a time', { addSpecial: true })
  const count = 24
  const greedy = async (): Promise<readonly number[]> =>
    (await model.generate(prompt, { maxTokens: count, temperature: 0, ignoreEos: true })).tokens
  const base = await greedy()
  await model.setAdapters([{ path: adapter }])
  const tokens = await greedy()
  expect(tokens).not.toEqual(base)
  const likely: number[] = []
  await model.evaluate([...prompt, ...tokens], (rows, from) => {
    for (let row = 0; row * model.vocabulary < rows.length; row++) {
      const logits = rows.subarray(row * model.vocabulary, (row + 1) * model.vocabulary)
      const next = tokens[from + row + 1 - prompt.length]
      if (next !== undefined) likely.push(Math.exp(logits[next]!) / logits.reduce((sum, logit) => sum + Math.exp(logit), 0))
    }
  })
  const script = [join(PEERS, 'adapter.js'), MODEL, adapter, ...[...prompt, ...tokens].map(String)]
  const { stdout } = await promisify(execFile)(process.execPath, script, { cwd: PEERS })
  const peer = (JSON.parse(stdout) as [token: number, probability: number][]).slice(prompt.length - 1, -1)
  expect(peer.map(([token]) => token)).toEqual(tokens)
  peer.forEach(([, probability], i) => expect(Math.abs(probability - likely[i]!)).toBeLessThan(5e-3))
})
