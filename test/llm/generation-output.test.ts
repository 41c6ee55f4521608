// When a generation is over, why, and which text its reader has seen by then. Tokens are single letters: 1 is a, 2 is b.

import { expect, test } from 'vitest'
import { GenerationOutput, type OutputRules } from '../../src/llm/generation-output.ts'

const END = 0

/** Feeds letters until no more are wanted; gives what came of it, and the pieces in order. */
function write(letters: string, rules: Partial<OutputRules> & { cancelAfter?: number } = {}) {
  const { cancelAfter = Infinity, ...given } = rules
  const controller = new AbortController()
  const pieces: string[] = []
  const output = new GenerationOutput({
    decoder: { push: (token) => String.fromCharCode(96 + token), flush: () => '' },
    stops: [],
    maxTokens: Infinity,
    isEnd: (token) => token === END,
    cancel: controller.signal,
    emit: (piece) => pieces.push(piece),
    ...given,
  })
  let taken = 0
  for (const letter of letters) {
    if (taken++ >= cancelAfter) controller.abort()
    if (!output.push(letter === '.' ? END : letter.charCodeAt(0) - 96)) break
  }
  if (taken >= cancelAfter) controller.abort()
  output.flush()
  const { text, tokens, finishReason, stopString } = output
  expect(pieces.join('')).toBe(text)
  expect(pieces).not.toContain('')
  return { text, count: tokens.length, finishReason, stopString, pieces, taken }
}

test('text comes letter by letter, until no more tokens are allowed', () => {
  expect(write('abcdef', { maxTokens: 3 })).toMatchObject({ pieces: ['a', 'b', 'c'], count: 3, taken: 3, finishReason: 'length' })
  expect(write('ab')).toMatchObject({ text: 'ab', finishReason: 'length' })
})

test('the end token ends it and is no part of it', () => {
  expect(write('ab.cd')).toMatchObject({ text: 'ab', count: 2, taken: 3, finishReason: 'stop' })
})

test('a stop string ends it, and what might have become one is held back', () => {
  const stopped = write('abcdefg', { stops: ['cde'] })
  expect(stopped).toMatchObject({ text: 'ab', pieces: ['a', 'b'], count: 5, finishReason: 'stop', stopString: 'cde' })
  expect(write('abcdg', { stops: ['cde'] })).toMatchObject({ pieces: ['a', 'b', 'cdg'], finishReason: 'length', stopString: undefined })
  expect(write('abcd', { stops: ['cde'] })).toMatchObject({ pieces: ['a', 'b', 'cd'] })
})

test('cancelled, it ends with the token after, also if that is the last one allowed', () => {
  expect(write('abcdef', { cancelAfter: 2 })).toMatchObject({ text: 'abc', finishReason: 'cancelled' })
  expect(write('abcdef', { cancelAfter: 2, maxTokens: 3 })).toMatchObject({ text: 'abc', finishReason: 'cancelled' })
  expect(write('abc', { cancelAfter: 3, maxTokens: 3 })).toMatchObject({ text: 'abc', finishReason: 'length' })
  expect(write('ab.', { cancelAfter: 2 })).toMatchObject({ text: 'ab', finishReason: 'stop' })
  expect(write('', { cancelAfter: 0 })).toMatchObject({ text: '', finishReason: 'cancelled' })
  expect(write('', { cancelAfter: 0, maxTokens: 0 })).toMatchObject({ text: '', finishReason: 'length' })
})

test('without a tokenizer there are tokens and no text', () => {
  expect(write('abc', { decoder: undefined })).toMatchObject({ text: '', pieces: [], count: 3 })
})
