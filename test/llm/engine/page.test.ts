// Who has which pages: random starts, forks, ends and evictions against a memory that is kept beside them. No page is lost, none is written
// to by two, and every sequence finds what it wrote.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PAGE } from '../../../src/kernel/attention/pages.ts'
import { PagePool } from '../../../src/llm/engine/page-pool.ts'
import { PrefixStore } from '../../../src/llm/engine/prefix-store.ts'
import { Sequence } from '../../../src/llm/engine/sequence.ts'

const MODEL = {}
const OTHER = {}

/** What devices do with pages: tokens stand for their keys and values. */
class Memory {
  readonly #pages = new Map<number, number[]>()

  /** Feeds tokens to a sequence that has reserved room for them, after the copies that it asked for. */
  feed(sequence: Sequence, tokens: readonly number[], copies: readonly { from: number; to: number }[]): void {
    for (const { from, to } of copies) this.#pages.set(to, [...(this.#pages.get(from) ?? [])])
    tokens.forEach((token, i) => {
      const at = sequence.length + i
      const page = sequence.pages[Math.floor(at / PAGE)] ?? -1
      const held = this.#pages.get(page) ?? []
      held[at % PAGE] = token
      this.#pages.set(page, held)
    })
    sequence.push(...tokens)
  }

  /** What lies where a sequence looks. */
  seen({ length, pages }: Sequence): (number | undefined)[] {
    return Array.from({ length }, (_, at) => this.#pages.get(pages[Math.floor(at / PAGE)] ?? -1)?.[at % PAGE])
  }
}

/** Tokens that begin alike as often as not, so that there is something to share. */
const prompt = fc
  .tuple(fc.constantFrom(0, 1), fc.integer({ min: 1, max: 3 * PAGE }), fc.integer({ min: 0, max: 9 }))
  .map(([kind, length, last]) => Array.from({ length }, (_, i) => (i === length - 1 ? last : kind === 0 ? i : i % 7)))

const action = fc.oneof(
  fc.record({ kind: fc.constant('start' as const), tokens: prompt, identity: fc.constantFrom(MODEL, OTHER) }),
  fc.record({ kind: fc.constant('fork' as const), which: fc.nat(), length: fc.nat() }),
  fc.record({ kind: fc.constant('feed' as const), which: fc.nat(), count: fc.integer({ min: 1, max: 2 * PAGE }) }),
  fc.record({ kind: fc.constant('rewind' as const), which: fc.nat(), length: fc.nat() }),
  fc.record({ kind: fc.constant('end' as const), which: fc.nat() }),
  fc.record({ kind: fc.constant('fail' as const), which: fc.nat() }),
  fc.record({ kind: fc.constant('evict' as const) }),
)

test('no page is lost, whoever starts, forks, ends or is evicted', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 24 }), fc.array(action, { maxLength: 60 }), (size, actions) => {
      const [pool, prefixes, memory] = [new PagePool(size), new PrefixStore(), new Memory()]
      const live: { sequence: Sequence; identity: object }[] = []
      const pick = (which: number) => live[which % Math.max(1, live.length)]
      const drop = (which: number) => live.splice(which % Math.max(1, live.length), 1)[0]
      const feed = (sequence: Sequence, tokens: readonly number[]): boolean => {
        let copies
        while ((copies = sequence.reserve(sequence.length + tokens.length)) === undefined) if (!prefixes.evict()) return false
        memory.feed(sequence, tokens, copies)
        return true
      }
      for (const each of actions) {
        if (each.kind === 'start') {
          const beside = live.filter(({ identity }) => identity === each.identity).map(({ sequence }) => sequence)
          const sequence = prefixes.find(each.tokens, each.identity, beside) ?? new Sequence(pool)
          expect(sequence.length).toBeLessThan(each.tokens.length)
          expect(memory.seen(sequence)).toEqual(each.tokens.slice(0, sequence.length))
          if (feed(sequence, each.tokens.slice(sequence.length))) live.push({ sequence, identity: each.identity })
          else sequence.release()
        } else if (each.kind === 'fork') {
          const from = pick(each.which)
          if (from !== undefined) live.push({ ...from, sequence: from.sequence.fork(each.length % (from.sequence.length + 1)) })
        } else if (each.kind === 'feed') {
          const to = pick(each.which)
          if (to !== undefined)
            feed(
              to.sequence,
              Array.from({ length: each.count }, (_, i) => 100 + i),
            )
        } else if (each.kind === 'rewind') {
          const one = pick(each.which)
          one?.sequence.rewind(each.length % (one.sequence.length + 1))
        } else if (each.kind === 'end') {
          const one = drop(each.which)
          if (one !== undefined) prefixes.keep(one.sequence, one.identity)
        } else if (each.kind === 'fail') drop(each.which)?.sequence.release()
        else prefixes.evict()

        for (const { sequence } of live) expect(memory.seen(sequence)).toEqual([...sequence.tokens])
        const used = new Set(live.flatMap(({ sequence }) => sequence.pages))
        expect(used.has(0)).toBe(false)
        expect(pool.free + used.size).toBeLessThanOrEqual(size - 1)
      }
      for (const { sequence } of live) sequence.release()
      prefixes.clear()
      expect(pool.free).toBe(size - 1)
    }),
    { numRuns: 400 },
  )
})

describe('what begins alike', () => {
  const feed = (sequence: Sequence, tokens: readonly number[]): void => {
    expect(sequence.reserve(sequence.length + tokens.length)).toEqual([])
    sequence.push(...tokens)
  }
  const count = (length: number): number[] => Array.from({ length }, (_, i) => i)

  test('is shared without a copy until somebody writes into it', () => {
    const pool = new PagePool(8)
    const one = new Sequence(pool)
    feed(one, count(100))
    const two = one.fork(70)
    expect([two.pages, pool.free]).toEqual([one.pages, 5])
    const copies = two.reserve(71)
    expect(copies).toEqual([{ from: one.pages[1], to: two.pages[1] }])
    expect(two.pages[0]).toBe(one.pages[0])
    expect(two.pages[1]).not.toBe(one.pages[1])
    expect(one.reserve(101)).toEqual([]) // it is alone in its last page again
  })

  test('is found among those that run by whole pages, and among those that ended to the token', () => {
    const [pool, prefixes] = [new PagePool(12), new PrefixStore()]
    const running = new Sequence(pool)
    feed(running, count(100))
    const beside = prefixes.find(count(90), MODEL, [running])
    expect([beside?.length, beside?.pages]).toEqual([64, running.pages.slice(0, 1)])
    beside?.release()
    prefixes.keep(running, MODEL)
    expect(prefixes.find(count(90), OTHER, [])).toBe(undefined)
    expect(prefixes.find(count(90), MODEL, [])?.length).toBe(89)
  })

  test('goes by least recent use', () => {
    const [pool, prefixes] = [new PagePool(12), new PrefixStore()]
    const kept = [1, 2, 3].map((first) => {
      const sequence = new Sequence(pool)
      feed(sequence, [first, ...count(70)])
      prefixes.keep(sequence, MODEL)
      return sequence
    })
    prefixes.find([1, ...count(3), 99], MODEL, [])?.release() // used: it is the latest now
    expect(prefixes.evict()).toBe(true)
    expect(kept.map(({ length }) => length)).toEqual([71, 0, 71])
  })
})

test('a page that nobody has cannot be shared or given back', () => {
  const pool = new PagePool(3)
  expect(() => pool.release(1)).toThrow(expect.objectContaining({ code: 'bad-argument' }))
  expect(() => pool.share(0)).toThrow(expect.objectContaining({ code: 'bad-argument' }))
  const page = pool.take() ?? -1
  pool.release(page)
  expect(() => pool.release(page)).toThrow(expect.objectContaining({ code: 'bad-argument' }))
})
