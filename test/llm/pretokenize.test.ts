// Pre-tokenizers: known splits, nothing lost, no pattern slower than linear.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createPreTokenizer, PRE_TOKENIZER_FAMILIES, PRE_TOKENIZERS } from '../../src/llm/tokenizer/pretokenize.ts'

const all = PRE_TOKENIZER_FAMILIES.map(([name]) => createPreTokenizer(name, () => {}))
const split = (name: string, text: string): readonly string[] => createPreTokenizer(name, () => {}).split(text)

describe('pre-tokenizers', () => {
  test.each([
    ['gpt-2', "I'll  go\n\n12345 x!", ['I', "'ll", ' ', ' go', '\n', '\n', '12345', ' x', '!']],
    ['gpt-2', "I'LL", ['I', "'", 'LL']],
    ['llama-bpe', "I'LL  go!\n\n12345 x", ['I', "'LL", ' ', ' go', '!\n\n', '123', '45', ' x']],
    ['llama-bpe', 'a\u0085\u0085b \ufeffc', ['a', '\u0085', '\u0085b', ' \ufeff', 'c']],
    ['qwen2', 'x12 \n y', ['x', '1', '2', ' \n', ' y']],
    ['gpt-4o', "HelloWorld's ABCd 1234/\n", ['Hello', "World's", ' ABCd', ' ', '123', '4', '/\n']],
    ['tekken', 'fooBar 12', ['foo', 'Bar', ' ', '1', '2']],
    ['starcoder', 'a 12', ['a', ' ', '1', '2']],
    ['falcon', 'a, 12345', ['a', ',', ' ', '123', '45']],
    ['deepseek-llm', 'Hi there, 你好12\n ', ['Hi', ' there', ',', ' ', '你好', '12', '\n', ' ']],
    ['deepseek-coder', 'if x:\n\t1', ['if', ' x', ':', '\n', '\t', '1']],
    ['deepseek-v3', 'a1234.foo 日本\n\n', ['a', '123', '4', '.foo', ' ', '日本', '\n\n']],
    ['bloom', 'a b.c', ['a', ' b', '.', 'c']],
  ])('%s: %j', (name, text, words) => {
    expect(split(name, text)).toEqual(words)
  })

  test('words joined are the text', () => {
    const parts = ['a', 'B', 'é', '中', '가', '1', '٣', ' ', '\t', '\n', '\r', "'s", '.', '$', '😀', '\u0301']
    const points = fc.array(fc.nat(0x10ffff)).map((list) => String.fromCodePoint(...list))
    const mixed = fc.array(fc.constantFrom(...parts))
    const text = fc.oneof(
      points,
      mixed.map((list) => list.join('')),
    )
    fc.assert(
      fc.property(text, (each) => {
        expect(all.map((pre) => pre.split(each).join(''))).toEqual(all.map(() => each))
      }),
    )
  }, 30_000)

  test('no name belongs to two families', () => {
    expect(new Set(PRE_TOKENIZERS).size).toBe(PRE_TOKENIZERS.length)
  })

  test('an unknown name warns with the known ones and is the default', () => {
    const warnings: string[] = []
    const pre = createPreTokenizer('nonesuch', (text) => warnings.push(text))
    expect(pre.name).toBe('default')
    expect(warnings).toEqual([expect.stringMatching(/nonesuch.*llama-bpe.*qwen2/)])
  })

  test('long runs of one kind take no quadratic time', () => {
    // 100,000 characters: linear takes milliseconds, quadratic half a minute
    const runs = ['a', 'A', ' ', '\n', ' \n', '中', '1', '!', "'", '\u0301'].map((unit) => unit.repeat(100_000 / unit.length))
    runs.push(`${' '.repeat(99_999)}x`, `x${'\u3000'.repeat(99_998)}!`)
    const slow = all.filter((pre) => {
      const start = performance.now()
      for (const run of runs) pre.split(run)
      return performance.now() - start > 3000
    })
    expect(slow.map((pre) => pre.name)).toEqual([])
  }, 60_000)
})
