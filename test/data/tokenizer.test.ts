// Tokenizers against the ids that the original implementations give, for every vocabulary of the data folder.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createTokenizer } from '../../src/llm/tokenizer/tokenizer.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'

const folder = join(process.env['INGOT_DATA'] ?? '../shared/data', 'tokenizers')
const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.gguf')) : []
const SEPARATOR = '\n__ggml_vocab_test__\n'

function readCases(path: string): readonly { text: string; ids: number[] }[] {
  const texts = readFileSync(`${path}.inp`, 'utf8').split(SEPARATOR)
  if (texts.at(-1) === '') texts.pop()
  const lines = readFileSync(`${path}.out`, 'utf8').replace(/\n$/, '').split('\n')
  expect(lines).toHaveLength(texts.length)
  return texts.map((text, i) => ({ text, ids: lines[i]!.trim().split(' ').filter(Boolean).map(Number) }))
}

describe.skipIf(files.length === 0)('vocabularies of the data folder', () => {
  test.each(files)(
    '%s',
    async (file) => {
      const path = join(folder, file)
      await using gguf = await openGguf(path)
      const tokenizer = createTokenizer(gguf.metadata)
      for (const { text, ids } of readCases(path)) {
        expect({ text, ids: tokenizer.encode(text) }).toEqual({ text, ids })
        if (tokenizer.kind !== 'wordpiece') expect(tokenizer.decode(ids)).toBe(text)
        const stream = tokenizer.stream()
        expect(ids.map((id) => stream.push(id)).join('') + stream.flush()).toBe(tokenizer.decode(ids))
      }
    },
    30_000,
  )
})
