// Vocabularies that Ingot trains: there and back, deterministic, and equal to a trainer that counts everything anew for every merge.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import { BYTE_CHARACTERS } from '../../src/llm/tokenizer/bpe.ts'
import { createPreTokenizer } from '../../src/llm/tokenizer/pretokenize.ts'
import { createTokenizer } from '../../src/llm/tokenizer/tokenizer.ts'
import { DEFAULT_SPECIAL, type TrainedTokenizer, tokenizerMetadata, trainTokenizer } from '../../src/llm/tokenizer/train.ts'

const SPECIAL = 4
const TEXT = 'The cat sat on the mat. The cat saw the other cat, and the other cat saw the mat. That is that, said the cat.'

/** The definition: count all pairs, join the most frequent one, begin again. */
function trainNaively(texts: readonly string[], vocabulary: number): readonly string[] {
  const cutter = createPreTokenizer('gpt-2', () => {})
  let words = texts.flatMap((text) =>
    cutter.split(text).map((word) => Array.from(new TextEncoder().encode(word), (byte) => BYTE_CHARACTERS[byte] ?? '')),
  )
  const tokens = ['', '', '', '', ...BYTE_CHARACTERS]
  const merges: string[] = []
  while (tokens.length < vocabulary) {
    const counts = new Map<string, number>()
    for (const word of words)
      for (let i = 0; i + 1 < word.length; i++) counts.set(`${word[i]} ${word[i + 1]}`, (counts.get(`${word[i]} ${word[i + 1]}`) ?? 0) + 1)
    const place = (pair: string): [number, number] => {
      const [left = '', right = ''] = pair.split(' ')
      return [tokens.indexOf(left), tokens.indexOf(right)]
    }
    const order = ([a, n]: [string, number], [b, m]: [string, number]): number => {
      const [[aLeft, aRight], [bLeft, bRight]] = [place(a), place(b)]
      return m - n || aLeft - bLeft || aRight - bRight
    }
    const [best] = [...counts].sort(order)
    if (best === undefined || best[1] < 2) break
    const [left = '', right = ''] = best[0].split(' ')
    merges.push(best[0])
    if (!tokens.includes(left + right)) tokens.push(left + right)
    words = words.map((word) => {
      const next: string[] = []
      for (let i = 0; i < word.length; i++) {
        const joins = word[i] === left && word[i + 1] === right
        next.push(joins ? left + right : (word[i] ?? ''))
        if (joins) i++
      }
      return next
    })
  }
  return merges
}

const open = (trained: TrainedTokenizer): ReturnType<typeof createTokenizer> => createTokenizer(new Map(tokenizerMetadata(trained)))

describe('a trained tokenizer', () => {
  test('gives back any text', () => {
    const tokenizer = open(trainTokenizer([TEXT], { vocabulary: 300 }))
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text)
      }),
    )
  })

  test('is what counting anew for every merge gives', () => {
    const small = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' ', 'é') }), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(small, fc.integer({ min: 0, max: 24 }), (texts, more) => {
        const vocabulary = SPECIAL + 256 + more
        expect(trainTokenizer(texts, { vocabulary }).merges).toEqual(trainNaively(texts, vocabulary))
      }),
      { numRuns: 200 },
    )
    expect(trainTokenizer([TEXT], { vocabulary: 290 }).merges).toEqual(trainNaively([TEXT], 290))
  })

  test('does not depend on the order of the texts', () => {
    const texts = TEXT.split('. ')
    expect(trainTokenizer(texts, { vocabulary: 300 }).tokens).toEqual(trainTokenizer(texts.toReversed(), { vocabulary: 300 }).tokens)
  })

  test('encodes its own text in fewer tokens than bytes, and frequent words as one', () => {
    const tokenizer = open(trainTokenizer([TEXT], { vocabulary: 300 }))
    expect(tokenizer.encode(' cat')).toHaveLength(1)
    expect(tokenizer.encode(TEXT).length).toBeLessThan(TEXT.length / 2)
  })

  test('keeps its marks apart from text', () => {
    const tokenizer = open(trainTokenizer([TEXT], { vocabulary: 300 }))
    expect(tokenizer.encode('<|user|>cat<|end|>', { parseSpecial: true })).toEqual([2, ...tokenizer.encode('cat'), 1])
    expect(tokenizer.encode('<|user|>').length).toBeGreaterThan(1)
    expect(tokenizer.encode('cat', { addSpecial: true })[0]).toBe(0)
    expect([tokenizer.bos, tokenizer.eos, tokenizer.isEndOfGeneration(1)]).toEqual([0, 1, true])
  })

  test('refuses what cannot be', () => {
    const code = (run: () => unknown): string | undefined => {
      try {
        run()
      } catch (error) {
        return isIngotError(error) ? error.code : String(error)
      }
      return undefined
    }
    expect(code(() => trainTokenizer([TEXT], { vocabulary: 100 }))).toBe('bad-argument')
    expect(code(() => trainTokenizer([TEXT], { vocabulary: 300, pre: 'nonsense' }))).toBe('unknown-name')
    expect(trainTokenizer(['a'], { vocabulary: 300 }).tokens).toHaveLength(SPECIAL + 256)
    expect(DEFAULT_SPECIAL.eos).toBe('<|end|>')
  })
})
