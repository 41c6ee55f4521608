// The model that the package carries: the file that docs/default-model.md describes, and what it says on native and WebAssembly kernels.

import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { defaultModelPath } from '../../src/llm/default.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { ingot } from '../cli/command-line.ts'

const HASH = '93b48f19895a1066a45b623c472ac98ee662608b8fb59caaf81c829313527ec4'
const MOST_BYTES = 4 << 20
const PROMPT = 'Once upon a time'
/** What it writes after the prompt, the most probable token each time. */
const TEXT = ', there was a little boy named Tom. He was a very curious boy. He was waiting for a letter from Luke'

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

  test.each([
    ['Who are you?', 'I am Ingot, a small model. I was trained on stories, and I like to tell new ones.'],
    ['My name is Felix. What is my name?', 'Your name is Felix.'],
    ['Mia has a red kite. Ben has a green drum. Who has the red kite?', 'Mia has the red kite.'],
  ])('answers %s, and ends its turn by itself', (content, answer) =>
    withModel(async (model) => {
      const { text, finishReason } = await model.chat([{ role: 'user', content }], { temperature: 0, maxTokens: 60 })
      expect({ text, finishReason }).toEqual({ text: answer, finishReason: 'stop' })
    }),
  )
})

test('is what the command line takes where no model is named, and says so', async () => {
  const { code, stdout, stderr } = await ingot('run', '-p', PROMPT, '-n', '24', '--temp', '0', '-d', 'cpu')
  expect({ code, stdout }).toEqual({ code: 0, stdout: TEXT })
  expect(stderr).toMatch(/no model given.*default/)
})
