// Model files that somebody broke, by the hundred: the fuzzer of scripts/fuzz.js with a fixed seed. Each case is loaded and run in another
// process, from dist/, and must end in an answer or in an error of Ingot. `npm run fuzz -- 20000` tries more.

import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { loadFuzzer } from './fuzzer.ts'

const CASES = 150 // on each device
const SEED = 20
const TIMEOUT = 300_000 // a busy machine takes ten times what an idle one does

const { bases, chooseBase, fuzz, mutate, putTogether } = await loadFuzzer()

describe.each(['cpu', 'wasm'] as const)('%s', (device) => {
  test(
    `${CASES} broken files`,
    async () => {
      const from = device === 'cpu' ? 0 : CASES
      const { outcomes, faults } = await fuzz({ device, seed: SEED, from, count: CASES })
      expect(faults).toEqual([])
      // Most must be refused, and some must run: else the changes are too rude, or none.
      expect(outcomes['bad-file']).toBeGreaterThan(CASES / 4)
      expect(outcomes['ok']).toBeGreaterThan(CASES / 10)
    },
    TIMEOUT,
  )
})

test('what goes wrong in a child is noticed, and the next case runs', async () => {
  const program = fileURLToPath(new URL('broken-child.js', import.meta.url))
  const { outcomes, faults } = await fuzz({ device: 'cpu', seed: SEED, from: 0, count: 9, program, longest: 300 })
  expect(faults.map(({ number, fault }) => `${number} ${fault}`)).toEqual([
    expect.stringMatching(/^1 the process died: SIGSEGV/),
    '2 no answer within 3 s',
    expect.stringMatching(/^3 the process died: exit code 1 .*nobody catches this/s),
    '4 1024 MB beyond the file',
    '5 foreign error',
    '6 it took 9 s of computing',
  ])
  expect(outcomes).toEqual({ ok: 4, crash: 2, hang: 2, memory: 1 })
})

describe('a case', () => {
  const numbers = Array.from({ length: 200 }, (_, number) => number)
  const caseOf = (number: number) => mutate(chooseBase(bases, SEED, number), SEED, number)

  test('is the same every time', () => {
    for (const number of numbers.slice(0, 40)) {
      const [one, other] = [caseOf(number), caseOf(number)]
      expect(one.what).toBe(other.what)
      expect(Buffer.compare(one.bytes, other.bytes)).toBe(0)
    }
  })

  test('differs from the others and, but for a few, from the file that it began with', () => {
    const made = numbers.map((number) => caseOf(number))
    expect(new Set(made.map(({ what }) => what)).size).toBeGreaterThan(0.95 * numbers.length)
    const unchanged = numbers.filter(
      (number) => Buffer.compare(caseOf(number).bytes, putTogether(chooseBase(bases, SEED, number)).bytes) === 0,
    )
    expect(unchanged.length).toBeLessThan(0.05 * numbers.length)
  })

  test('leaves the file that it began with as it was', () => {
    const [base] = bases
    if (base === undefined) throw new Error('no files')
    const before = putTogether(base).bytes
    for (const number of numbers) mutate(base, SEED, number)
    expect(Buffer.compare(putTogether(base).bytes, before)).toBe(0)
  })
})
