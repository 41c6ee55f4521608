// `ingot tokenizer train`: what it writes is a tokenizer, and what it refuses.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createTokenizer } from '../../src/llm/tokenizer/tokenizer.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { ingot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
const TEXT = 'the cat and the dog and the cat and the hen '.repeat(20)

describe('tokenizer train', () => {
  test('writes a vocabulary that reads its own text in few tokens', async () => {
    const [data, out] = [join(files.folder, 'data.txt'), join(files.folder, 'tokenizer.gguf')]
    await writeFile(data, TEXT)
    const { code, stdout } = await ingot('tokenizer', 'train', data, '--vocab', '280', '--out', out, '--json')
    expect(code).toBe(0)
    const summary = JSON.parse(stdout) as { vocabulary: number; bytesPerToken: number }
    await using file = await openGguf(out)
    const tokenizer = createTokenizer(file.metadata)
    expect(tokenizer.vocabSize).toBe(summary.vocabulary)
    expect(summary.bytesPerToken).toBeCloseTo(TEXT.length / tokenizer.encode(TEXT).length)
    expect(summary.bytesPerToken).toBeGreaterThan(3)
    const first = await readFile(out)
    expect((await ingot('tokenizer', 'train', data, '--vocab', '280', '--out', out)).stderr).toMatch(/--force/)
    expect((await ingot('tokenizer', 'train', data, '--vocab', '280', '--out', out, '--force')).code).toBe(0)
    expect(await readFile(out)).toEqual(first)
  })

  test.each([
    [['no-such.txt', '--out', 'x.gguf'], /no such file/],
    [['DATA', '--out', 'OUT', '--vocab', '100'], /too small/],
    [['DATA', '--out', 'OUT', '--pre', 'nonsense'], /no such pre-tokenizer/],
    [['DATA'], /--out/],
  ])('refuses %j', async (args, message) => {
    const places: Readonly<Record<string, string>> = { DATA: files.model, OUT: join(files.folder, 'never.gguf') }
    const { code, stderr } = await ingot('tokenizer', 'train', ...args.map((arg) => places[arg] ?? arg))
    expect(code).toBe(2)
    expect(stderr).toMatch(message)
  })
})
