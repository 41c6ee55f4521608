// The model that the package carries: the file that docs/default-model.md describes, and what it says on native and WebAssembly kernels.

import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { defaultModelPath } from '../../src/llm/default.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { ingot } from '../cli/command-line.ts'

const HASH = 'ba0047b90141230d3d3e6b349f8546c0383a396082205bb4a2411a2fe6f63fae'
const MOST_BYTES = 4 << 20
const PROMPT = 'Once upon a time'
/** What it writes after the prompt, the most probable token each time. */
const TEXT = ', there was a little girl named Felix. She lived in a small house near the forest. She had a loose tooth'

const path = await defaultModelPath()

test('is the file that was trained, and small', async () => {
  expect((await stat(path)).size).toBeLessThan(MOST_BYTES)
  expect(
    createHash('sha256')
      .update(await readFile(path))
      .digest('hex'),
  ).toBe(HASH)
})

describe.each(['best', 'wasm'] as const)('on the cpu, %s', (level) => {
  const withModel = async (use: (model: Model) => Promise<void>): Promise<void> => {
    await using device = await openCpu({ threads: 2, ...(level === 'wasm' ? { level } : {}) })
    const said: string[] = []
    await using model = await load(undefined, { device, log: (line) => said.push(line) })
    expect(said.join('\n')).toMatch(/default/)
    await use(model)
  }

  test('writes its story', () =>
    withModel(async (model) => {
      const { text } = await model.generate(PROMPT, { temperature: 0, maxTokens: 24 })
      expect(text).toBe(TEXT)
    }))

  test('answers in its chat format, and ends its turn by itself', () =>
    withModel(async (model) => {
      const { text, finishReason } = await model.chat([{ role: 'user', content: 'Who are you?' }], { temperature: 0, maxTokens: 60 })
      expect(finishReason).toBe('stop')
      expect(text).toMatch(/^[A-Z][^<|>]+[.!?]$/)
    }))
})

test('is what the command line takes where no model is named, and says so', async () => {
  const { code, stdout, stderr } = await ingot('run', '-p', PROMPT, '-n', '24', '--temp', '0', '-d', 'cpu')
  expect({ code, stdout }).toEqual({ code: 0, stdout: TEXT })
  expect(stderr).toMatch(/no model given.*default/)
})
