import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { writeGguf } from '../../src/weights/gguf/write.ts'
import { ingot, useTinyFile } from './command-line.ts'

const files = useTinyFile()

describe('inspect', () => {
  test('shows what is in a file', async () => {
    const { code, stdout, stderr } = await ingot('inspect', files.model)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const part of [
      'tiny: ',
      'general.architecture',
      'blk.1.ffn_down.weight',
      '96 x 64',
      'llama, supported',
      'SentencePiece',
      'fits here',
      ' in all]',
    ]) {
      expect(stdout).toContain(part)
    }
  })

  test('computes memory for a context length', async () => {
    const facts = JSON.parse((await ingot('inspect', files.model, '--json', '--ctx', '100')).stdout) as {
      memory: object
      parameters: number
      tensors: { elements: number }[]
      metadata: Record<string, { value: unknown[] }>
    }
    // two layers, two heads of 16, keys and values, two bytes
    expect(facts.memory).toMatchObject({ contextLength: 100, cacheBytes: 2 * 2 * 16 * 2 * 2 * 100 })
    expect(facts).toMatchObject({
      architecture: { name: 'llama', supported: true },
      chatTemplate: true,
      contextTrained: 128,
      here: { fits: 'yes' },
    })
    expect(facts.parameters).toBe(facts.tensors.reduce((sum, { elements }) => sum + elements, 0))
    expect(facts.metadata['tokenizer.ggml.tokens']?.value.length).toBeGreaterThan(256)
  })

  test('reads split files, and what Ingot cannot run', async () => {
    const part = (number: number): string => join(files.folder, `odd-0000${number + 1}-of-00002.gguf`)
    for (const number of [0, 1]) {
      await writeGguf(part(number), {
        metadata: [
          ['general.architecture', { type: 'string', value: 'mystery' }],
          ['big', { type: 'u64', value: 2n ** 60n }],
          ['split.no', { type: 'u16', value: number }],
          ['split.count', { type: 'u16', value: 2 }],
          ['split.tensors.count', { type: 'i32', value: 2 }],
        ],
        tensors: [{ name: `t${number}`, type: 'iq1_s', dims: [256], data: () => new Uint8Array(50) }],
      })
    }
    const { stdout } = await ingot('inspect', part(1))
    expect(stdout).toContain('mystery, not supported; known: llama')
    expect(stdout).toMatch(/iq1_s +2 tensors +512 +100 B +not supported/)
    const facts = JSON.parse((await ingot('inspect', part(0), '--json')).stdout) as object
    expect(facts).toMatchObject({ memory: null, here: null, files: [{}, {}], metadata: { big: { type: 'u64', value: String(2n ** 60n) } } })
  })

  test('refuses in one line', async () => {
    const text = join(files.folder, 'text')
    await writeFile(text, 'no model at all')
    for (const [code, ...args] of [
      [2, 'inspect'],
      [2, 'inspect', 'none'],
      [2, 'inspect', files.folder],
      [2, 'inspect', files.model, '--ctx', '0'],
      [1, 'inspect', text],
    ] as const) {
      const outcome = await ingot(...args)
      expect({ args, ...outcome }).toMatchObject({ args, code, stdout: '' })
      expect(outcome.stderr).toMatch(/^ingot: .+\n$/)
    }
  })
})
