// The corpus of the default model: the same for the same seed, without traces of its templates, and with answers that the story holds.

import { describe, expect, test } from 'vitest'

interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: string
}
interface Corpus {
  documents(seed: number): Iterator<string | Message[], never>
  render(document: string | Message[]): string
}
interface Novelty {
  runsOf(text: string): string[]
  knownShares(texts: readonly string[], corpus: { seed: number; count: number }): number[]
}
interface Book {
  readParagraphs(text: string): string[]
  bookPiece(choice: object, books: readonly (readonly string[])[]): string
}
interface Random {
  createChoice(seed: number): object
}

const load = async <T>(path: string): Promise<T> => (await import(new URL(`../../scripts/${path}`, import.meta.url).href)) as T
const book = await load<Book>('corpus/book.js')
const random = await load<Random>('corpus/random.js')
const corpus = await load<Corpus>('corpus/index.js')
const novelty = await load<Novelty>('default-model/novelty.js')
const COUNT = 1500

function take(seed: number, count: number): (string | Message[])[] {
  const stream = corpus.documents(seed)
  return Array.from({ length: count }, () => stream.next().value)
}

describe('the corpus', () => {
  const documents = take(1, COUNT)
  const texts = documents.map((document) => corpus.render(document))

  test('is the same for the same seed, and another for another', () => {
    expect(take(1, 50)).toEqual(documents.slice(0, 50))
    expect(take(2, 50)).not.toEqual(documents.slice(0, 50))
  })

  test('shows nothing of its templates', () => {
    const strange = texts
      .map((text) => text.replace(/<\|(user|assistant|end)\|>/g, ''))
      .filter((text) => /[[\]{}<>|]|undefined| {2}/.test(text))
    expect(strange).toEqual([])
  })

  test('has sentences that begin with capitals and articles that fit', () => {
    const wrong = texts.flatMap((text) => [
      ...(text.match(/[a-z][.!?] [a-z]|\b[Aa] [aeiou]\w+|\b[Aa]n (?!hour)[b-df-hj-np-tv-z]\w+/g) ?? []),
    ])
    expect(wrong).toEqual([])
  })

  test('tells few stories twice', () => {
    const stories = documents.filter((document) => typeof document === 'string')
    expect(new Set(stories).size).toBe(stories.length)
    const shares = novelty.knownShares(take(3, 60).map(corpus.render), { seed: 1, count: COUNT })
    expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeLessThan(0.3)
  })

  test('answers with names that the story has', () => {
    const chats = documents.filter((document) => typeof document !== 'string').filter(([first]) => (first?.content.length ?? 0) > 200)
    expect(chats.length).toBeGreaterThan(100)
    const lost = chats.flatMap(([story, answer]) => {
      const [, name] = /^(?!It|There)([A-Z][a-z]+) (?:helped|won|fell|taught|was|had)\b/.exec(answer?.content ?? '') ?? []
      return name === undefined || story?.content.includes(name) === true ? [] : [answer?.content]
    })
    expect(lost).toEqual([])
  })
})

test('runs of twelve words are counted without case and marks', () => {
  expect(novelty.runsOf('One two, three four five six seven eight nine ten eleven twelve. Thirteen!')).toEqual([
    'one two three four five six seven eight nine ten eleven twelve',
    'two three four five six seven eight nine ten eleven twelve thirteen',
  ])
})

describe('books', () => {
  const text = [
    'Chapter 1',
    ...Array.from({ length: 30 }, (_, i) => `1:${i} And it came to pass, in the days\r\nof year ${i}, that _all_ was well.`),
  ].join('\r\n\r\n')
  const paragraphs = book.readParagraphs(text)

  test('are read by paragraphs, without titles, numbers of verses and breaks of lines', () => {
    expect(paragraphs).toHaveLength(30)
    expect(paragraphs[3]).toBe('And it came to pass, in the days of year 3, that all was well.')
  })

  test('give pieces as they stand, the same for the same seed', () => {
    const pieces = (seed: number): string[] => {
      const choice = random.createChoice(seed)
      return Array.from({ length: 20 }, () => book.bookPiece(choice, [paragraphs]))
    }
    expect(pieces(1)).toEqual(pieces(1))
    expect(pieces(2)).not.toEqual(pieces(1))
    for (const piece of pieces(1)) {
      expect(paragraphs.join('\n')).toContain(piece)
      expect(piece.length).toBeLessThan(800)
    }
  })
})
