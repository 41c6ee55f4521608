// Tokenizers on vocabularies made here: against naive definitions, there and back, streamed, special tokens, bad files.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BpeModel } from '../../src/llm/tokenizer/bpe.ts'
import { createPreTokenizer } from '../../src/llm/tokenizer/pretokenize.ts'
import { SpmModel } from '../../src/llm/tokenizer/spm.ts'
import { createTokenizer, type Tokenizer } from '../../src/llm/tokenizer/tokenizer.ts'
import { readVocabulary } from '../../src/llm/tokenizer/vocabulary.ts'
import { BPE_MERGES, bpeMetadata, BYTE_CHARACTERS, SPM_PIECES, spmMetadata, wordPieceMetadata } from './vocabulary-fixture.ts'

const spm = createTokenizer(spmMetadata())
const bpe = createTokenizer(bpeMetadata())
const wordPiece = createTokenizer(wordPieceMetadata('##'))

const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'd', ' ', 'é', '!', '1'), maxLength: 120 })
/** any UTF-16 units, half surrogates too */
const units = fc.array(fc.nat(0xffff)).map((list) => String.fromCharCode(...list))
const points = fc.array(fc.nat(0x10ffff)).map((list) => String.fromCodePoint(...list))
const anything = fc.oneof(letters, points, units)
const repair = (text: string): string => text.replace(/\p{Surrogate}/gu, '\ufffd')
const spell = (tokenizer: Tokenizer, ids: readonly number[]): string[] => ids.map((id) => tokenizer.tokenText(id))

/** The rule itself: join the best pair, leftmost among equals, until none joins. */
function joinAll(symbols: string[], rank: (left: string, right: string) => number): string[] {
  for (;;) {
    let best = -1
    symbols.forEach((symbol, i) => {
      const next = symbols[i + 1]
      if (next === undefined || rank(symbol, next) < 0) return
      if (best < 0 || rank(symbol, next) < rank(symbols[best]!, symbols[best + 1]!)) best = i
    })
    if (best < 0) return symbols
    symbols.splice(best, 2, symbols[best]! + symbols[best + 1]!)
  }
}

describe('against the naive definition', () => {
  test('SPM, in words short and long', () => {
    fc.assert(
      fc.property(letters, (text) => {
        const symbols = [...(text === '' ? '' : ` ${text}`).replaceAll(' ', '▁')]
        const joined = joinAll(symbols, (left, right) => SPM_PIECES.indexOf(left + right))
        const wanted = joined.map((piece) => (SPM_PIECES.includes(piece) ? piece : `<0x${piece.charCodeAt(0).toString(16)}>`))
        expect(spell(spm, spm.encode(text))).toEqual(wanted)
      }),
      { numRuns: 300 },
    )
  })

  test('SPM, cut or in one piece', () => {
    const vocabulary = readVocabulary(spmMetadata(), { unknown: 0 })
    const [whole, cut] = [new SpmModel(vocabulary, { short: Infinity }), new SpmModel(vocabulary, { short: 0 })]
    const encode = (model: SpmModel, text: string): number[] => {
      const ids: number[] = []
      model.encode(text, ids)
      return ids
    }
    fc.assert(
      fc.property(anything.map(repair), (text) => {
        expect(encode(cut, text)).toEqual(encode(whole, text))
      }),
    )
  })

  test('BPE, in words short and long', () => {
    const vocabulary = readVocabulary(bpeMetadata(), {})
    // one word per text, so that long ones reach the heap
    const whole = { name: 'whole', wholeWords: false, addBos: false, split: (text: string) => [text] }
    const model = new BpeModel(vocabulary, BPE_MERGES, whole)
    fc.assert(
      fc.property(fc.oneof(letters, fc.string({ unit: fc.constantFrom('q', 'z', 'a'), maxLength: 60 })), (text) => {
        const bytes = Array.from(new TextEncoder().encode(text), (byte) => BYTE_CHARACTERS[byte]!)
        const joined = joinAll(bytes, (left, right) => BPE_MERGES.indexOf(`${left} ${right}`))
        const ids: number[] = []
        model.encode(text, ids)
        expect(ids.map((id) => vocabulary.texts[id])).toEqual(joined.flatMap((piece) => (piece === 'qz' ? ['q', 'z'] : [piece])))
      }),
      { numRuns: 300 },
    )
  })
})

test('a text longer than the first buffers', () => {
  const text = 'aab ab'.repeat(250)
  const fresh = createTokenizer(spmMetadata())
  const wanted = joinAll([...` ${text}`.replaceAll(' ', '▁')], (left, right) => SPM_PIECES.indexOf(left + right))
  expect(spell(fresh, fresh.encode(text))).toEqual(wanted)
  for (const long of ['a'.repeat(20_000), 'é'.repeat(9_000), ' '.repeat(9_001)]) {
    for (const tokenizer of [createTokenizer(spmMetadata()), createTokenizer(bpeMetadata())]) {
      expect(tokenizer.encode(long).length).toBeLessThan(9_100)
      expect(tokenizer.decode(tokenizer.encode(long))).toBe(long)
    }
  }
})

describe('there and back', () => {
  test('BPE returns any text, with half surrogates repaired', () => {
    fc.assert(
      fc.property(anything, (text) => {
        expect(bpe.decode(bpe.encode(text))).toBe(repair(text))
      }),
    )
  })

  test('SPM returns any text but U+2581', () => {
    fc.assert(
      fc.property(anything, (text) => {
        expect(spm.decode(spm.encode(text))).toBe(repair(text).replaceAll('▁', ' '))
      }),
    )
    const bare = createTokenizer(spmMetadata({ 'tokenizer.ggml.add_space_prefix': false }))
    expect(spell(bare, bare.encode('ab'))).toEqual(['ab'])
    expect(bare.decode(bare.encode(' ab'))).toBe(' ab')
  })

  test('a stream says what the whole says, and never half a character', () => {
    for (const tokenizer of [spm, bpe, wordPiece]) {
      const id = fc.nat(tokenizer.vocabSize - 1)
      fc.assert(
        fc.property(fc.array(id), fc.boolean(), fc.boolean(), (ids, special, continuation) => {
          const stream = tokenizer.stream({ special, continuation })
          const text = ids.map((each) => stream.push(each)).join('') + stream.flush()
          expect(text).toBe(tokenizer.decode(ids, { special, continuation }))
        }),
      )
    }
    const stream = bpe.stream()
    const pieces = Array.from(new TextEncoder().encode('😀\ufeff'), (byte) => stream.push(byte))
    expect(pieces).toEqual(['', '', '', '😀', '', '', '\ufeff'])
    expect([stream.push(0xf0), stream.push(0x9f), stream.flush()]).toEqual(['', '', '\ufffd'])
  })

  test('a continuation keeps its leading space', () => {
    const [id] = spm.encode('ab')
    expect(spm.decode([id!])).toBe('ab')
    expect(spm.decode([id!], { continuation: true })).toBe(' ab')
    expect(spm.decode([spm.bos!, id!])).toBe('ab')
  })
})

describe('special tokens', () => {
  test('are text unless asked for; added tokens always count, longest first', () => {
    const id = (text: string): number => bpe.encode(text, { parseSpecial: true })[0]!
    expect(bpe.encode('<|im_end|>').length).toBeGreaterThan(1)
    expect(bpe.encode('a<|im_end|>b', { parseSpecial: true })).toEqual([97, id('<|im_end|>'), 98])
    expect(spell(bpe, bpe.encode('<tool><tool>x'))).toEqual(['<tool>', '<tool>x'])
    expect(spell(spm, spm.encode('ab<|end|>ab', { parseSpecial: true }))).toEqual(['▁ab', '<|end|>', '▁ab'])
    expect(bpe.decode([97, id('<|im_end|>')])).toBe('a')
    expect(bpe.decode([97, id('<|im_end|>')], { special: true })).toBe('a<|im_end|>')
    expect(bpe.isSpecial(id('<|im_end|>'))).toBe(true)
    expect(bpe.isSpecial(id('<tool>'))).toBe(false)
  })

  test('BOS and EOS as the file says', () => {
    expect(spm.encode('', { addSpecial: true })).toEqual([1])
    expect(spm.addsBos).toBe(true)
    const both = createTokenizer(spmMetadata({ 'tokenizer.ggml.add_eos_token': true, 'tokenizer.ggml.add_bos_token': false }))
    expect(both.encode('', { addSpecial: true })).toEqual([2])
    expect(bpe.encode('', { addSpecial: true })).toEqual([])
    expect(wordPiece.encode('the', { addSpecial: true })).toEqual([2, 6, 3])
  })

  test('ends of generation', () => {
    const end = bpe.encode('<|im_end|>', { parseSpecial: true })[0]!
    expect(bpe.eot).toBe(end)
    expect([end, end - 1, end + 1].map((id) => bpe.isEndOfGeneration(id))).toEqual([true, true, false])
    expect(spm.isEndOfGeneration(2)).toBe(true)
    const far = createTokenizer(bpeMetadata({ 'tokenizer.ggml.bos_token_id': 2 ** 32 - 1, 'tokenizer.ggml.eos_token_id': 5 }))
    expect([far.bos, far.eos, far.isEndOfGeneration(5)]).toEqual([undefined, 5, true])
  })

  test('phi-3 takes the white space after its special tokens', () => {
    const phi = createTokenizer(spmMetadata({ 'general.name': 'Phi-3 mini' }))
    expect(spell(phi, phi.encode('<|end|> \n ab', { parseSpecial: true }))).toEqual(['<|end|>', '▁ab'])
  })
})

describe('WordPiece', () => {
  test('both forms of file give the same ids', () => {
    const other = createTokenizer(wordPieceMetadata('▁'))
    fc.assert(
      fc.property(fc.array(fc.constantFrom('un', 'want', 'ed', 'run', 'ning', ' ', ',', '中', 'É', 'x')), (parts) => {
        expect(wordPiece.encode(parts.join(''))).toEqual(other.encode(parts.join('')))
      }),
    )
  })

  test('cleans, lowers, strips accents, splits marks and CJK, gives up on whole words', () => {
    expect(spell(wordPiece, wordPiece.encode('UNwanted, the\u0000runs\u200d é中a xun'))).toEqual([
      '▁un',
      'want',
      'ed',
      '▁,',
      '[UNK]',
      '▁e',
      '▁中',
      '▁a',
      '[UNK]',
    ])
    expect(wordPiece.decode(wordPiece.encode('unwanted the'))).toBe('unwanted the')
  })
})

describe('bad files', () => {
  test('kinds without a tokenizer are unsupported, and the known ones listed', () => {
    for (const kind of ['none', 'test', 't5', 'toString', undefined]) {
      expect(() => createTokenizer(new Map([['tokenizer.ggml.model', kind]]))).toThrow(
        expect.objectContaining({ code: 'unsupported', message: expect.stringContaining('llama, gpt2, bert') }),
      )
    }
  })

  test('lists that are missing or do not fit', () => {
    const bad = expect.objectContaining({ code: 'bad-file' })
    expect(() => createTokenizer(spmMetadata({ 'tokenizer.ggml.tokens': 'x' }))).toThrow(bad)
    expect(() => createTokenizer(spmMetadata({ 'tokenizer.ggml.tokens': [1, 2] }))).toThrow(bad)
    expect(() => createTokenizer(spmMetadata({ 'tokenizer.ggml.scores': new Float32Array(3) }))).toThrow(bad)
    expect(() => createTokenizer(bpeMetadata({ 'tokenizer.ggml.merges': undefined }))).toThrow(bad)
    expect(() => spm.decode([99_999])).toThrow(expect.objectContaining({ code: 'out-of-range' }))
    expect(() => spm.tokenBytes(-1)).toThrow(expect.objectContaining({ code: 'out-of-range' }))
  })

  test('values tagged with their type are read as well', () => {
    const tagged = new Map([...spmMetadata()].map(([key, value]) => [key, { type: 'any', value }]))
    expect(createTokenizer(tagged).encode('abcd')).toEqual(spm.encode('abcd'))
  })
})

describe('work', () => {
  test('tables for encoding wait for a text', () => {
    let reads = 0
    const counted = (list: readonly string[]): readonly string[] =>
      new Proxy(list, {
        get(target, key): unknown {
          if (typeof key === 'string' && /^\d+$/.test(key)) reads++
          return Reflect.get(target, key)
        },
      })
    const tokenizer = createTokenizer(bpeMetadata({ 'tokenizer.ggml.merges': counted(BPE_MERGES) }))
    const read = reads // each was looked at, once
    expect(read).toBe(BPE_MERGES.length)
    const text = tokenizer.decode([...Array(10).keys()])
    expect(reads).toBe(read)
    tokenizer.encode(text)
    expect(reads).toBeGreaterThan(read)
  })

  test('ids by text are made once, when first asked for; the later of two tokens that are written alike counts', () => {
    const vocabulary = readVocabulary(new Map<string, unknown>([['tokenizer.ggml.tokens', ['a', '</s>', 'b', '</s>', 'a']]]), {})
    expect([...vocabulary.ends]).toEqual([3])
    expect(vocabulary.ids).toBe(vocabulary.ids)
    expect([...vocabulary.ids]).toEqual([
      ['a', 4],
      ['</s>', 3],
      ['b', 2],
    ])
  })

  test('a list of merges that no rank could number is refused at once, not when a text comes', () => {
    const endless = new Proxy(['a b'], {
      get: (target, key): unknown => (key === 'length' ? 2 ** 21 : key === 'every' ? () => true : Reflect.get(target, key)),
    })
    expect(() => createTokenizer(bpeMetadata({ 'tokenizer.ggml.merges': endless }))).toThrow(expect.objectContaining({ code: 'bad-file' }))
  })

  test('merging is linear but for a logarithm', () => {
    const whole = { ...createPreTokenizer('gpt-2', () => {}), split: (text: string) => [text] }
    for (const unit of ['a', ' ', 'abcd', 'ab ca']) {
      const steps = (length: number): number => {
        const [spmWords, bpeWords] = [spmMetadata(), bpeMetadata()].map((metadata) => readVocabulary(metadata, {}))
        const models = [new SpmModel(spmWords!), new BpeModel(bpeWords!, BPE_MERGES, whole)]
        for (const model of models) model.encode(unit.repeat(length), [])
        return models.reduce((sum, model) => sum + model.merger.operations, 0)
      }
      expect(steps(32_000) / steps(2_000)).toBeLessThan(16 * 2)
    }
  })
})
