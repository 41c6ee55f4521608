// Stop strings in pieces of text, compared with a search of the whole.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createStopMatcher } from '../../src/llm/stop.ts'

/** The first place where a stop string is complete, the longest there. */
function search(text: string, stops: readonly string[]): { emit: string; stopped?: string } {
  for (let end = 1; end <= text.length; end++) {
    const complete = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)
    if (complete[0] !== undefined) return { emit: text.slice(0, end - complete[0].length), stopped: complete[0] }
  }
  return { emit: text }
}

const few = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 40 })

describe('stop strings', () => {
  test('any cutting gives what a search of the whole text gives, and never emits part of the stop', () => {
    const stop = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(fc.array(few, { maxLength: 12 }), fc.array(stop, { maxLength: 4 }), (pieces, stops) => {
        const matcher = createStopMatcher(stops)
        const wanted = search(pieces.join(''), stops)
        let emit = ''
        let stopped: string | undefined
        for (const piece of pieces) {
          const result = matcher.push(piece)
          emit += result.emit
          stopped = result.stopped
          expect(wanted.emit.startsWith(emit)).toBe(true)
        }
        expect({ emit: emit + matcher.flush(), stopped }).toEqual({ stopped: undefined, ...wanted })
      }),
      { numRuns: 500 },
    )
  })

  test('holds back only what can still become a stop string', () => {
    const matcher = createStopMatcher(['\n\nUser:', '</s>'])
    expect(matcher.push('Hello <')).toEqual({ emit: 'Hello ' })
    expect(matcher.push('b>\n')).toEqual({ emit: '<b>' })
    expect(matcher.push('\nUs')).toEqual({ emit: '' })
    expect(matcher.push('ers\n\n\nUser: hi')).toEqual({ emit: '\n\nUsers\n', stopped: '\n\nUser:' })
    expect(matcher.push('more')).toEqual({ emit: '', stopped: '\n\nUser:' })
    expect(matcher.flush()).toBe('')
    expect(matcher.push('again')).toEqual({ emit: 'again' })
  })

  test('an empty stop string is refused', () => {
    expect(() => createStopMatcher(['x', ''])).toThrow(expect.objectContaining({ code: 'bad-argument' }))
  })
})
