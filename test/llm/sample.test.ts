// Samplers: exact properties of every filter, statistics with fixed seeds, and the promises about seeds and needs.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keepMinP, keepTopP, keepTypical, selectTop, selectTopP, softmax, sortCandidates } from '../../src/llm/candidate.ts'
import { draw, ruleWords } from '../../src/kernel/select/draw.ts'
import { createRandom } from '../../src/llm/random.ts'
import { createSampler, type SampleOptions, type SamplerNeeds } from '../../src/llm/sample.ts'

const needsOf = (options: SampleOptions): SamplerNeeds => createSampler(options).needs(5)

const off = { temperature: 1, topK: 0, topP: 1, minP: 0, typicalP: 1 } as const
const logitsOf = (min: number, max: number): fc.Arbitrary<Float32Array> =>
  fc.array(fc.integer({ min: -40, max: 40 }), { minLength: min, maxLength: max }).map((list) => Float32Array.from(list, (x) => x / 8))
const sorted = (logits: Float32Array): ReturnType<typeof sortCandidates> =>
  sortCandidates({ ids: Int32Array.from(logits, (_, id) => id), logits })
const sum = (list: Iterable<number>): number => [...list].reduce((a, b) => a + b, 0)

/** Pearson's statistic of draws against probabilities. */
function chiSquare(options: SampleOptions, logits: Float32Array, expected: readonly number[], draws = 20_000): number {
  const sample = createSampler(options)
  const counts = expected.map(() => 0)
  for (let i = 0; i < draws; i++) counts[sample(logits)]!++
  const term = (p: number, count: number): number => (count - p * draws) ** 2 / (p * draws)
  return sum(expected.map((p, id) => (p > 0 ? term(p, counts[id]!) : counts[id] === 0 ? 0 : Infinity)))
}

describe('filters', () => {
  test('top-k is the beginning of the sorted list, by heap and by sorting', () => {
    const odd = fc.constantFrom(0, -0, -Infinity, 1e-40, -1e-40, 3e38, 1, -1)
    const logit = fc.oneof(odd, fc.float({ noNaN: true, noDefaultInfinity: true }))
    fc.assert(
      fc.property(fc.array(logit, { minLength: 1, maxLength: 50 }), fc.integer({ min: 1, max: 30 }), fc.nat(1500), (few, times, k) => {
        const logits = Float32Array.from({ length: few.length * times }, (_, i) => few[i % few.length]!)
        const order = [...logits.keys()].sort((a, b) => (logits[a] === logits[b] ? a - b : logits[b]! > logits[a]! ? 1 : -1))
        const top = selectTop(logits, k + 1)
        expect([...top.ids]).toEqual(order.slice(0, k + 1))
        expect(top.logits.every((value, i) => value === logits[top.ids[i]!])).toBe(true)
      }),
    )
  })

  test('top-p keeps the smallest set that reaches p', () => {
    fc.assert(
      fc.property(logitsOf(1, 60), fc.double({ min: 0.01, max: 0.99, noNaN: true }), (logits, p) => {
        const all = sorted(logits)
        const kept = keepTopP(all, p)
        const probabilities = softmax(all.logits)
        expect([...kept.ids]).toEqual([...all.ids.subarray(0, kept.ids.length)])
        expect(sum(probabilities.subarray(0, kept.ids.length))).toBeGreaterThanOrEqual(p - 1e-12)
        expect(kept.ids.length === 1 || sum(probabilities.subarray(0, kept.ids.length - 1)) < p).toBe(true)
      }),
    )
  })

  test('top-p of a vocabulary is top-p of its sorted list', () => {
    fc.assert(
      fc.property(logitsOf(1, 3000), fc.double({ min: 0.01, max: 0.99, noNaN: true }), (logits, p) => {
        const [one, other] = [selectTopP(logits, p).ids, keepTopP(sorted(logits), p).ids]
        // sums in different orders may disagree about the last one
        expect(Math.abs(one.length - other.length)).toBeLessThanOrEqual(1)
        const shared = Math.min(one.length, other.length)
        expect([...one.subarray(0, shared)]).toEqual([...other.subarray(0, shared)])
      }),
    )
  })

  test('min-p keeps exactly those within the bound', () => {
    fc.assert(
      fc.property(logitsOf(1, 60), fc.double({ min: 0.01, max: 1, noNaN: true }), (logits, p) => {
        const probabilities = softmax(logits)
        const best = Math.max(...probabilities)
        const kept = new Set(keepMinP({ ids: Int32Array.from(logits, (_, id) => id), logits }, p).ids)
        const clear = [...probabilities.keys()].filter((id) => Math.abs(probabilities[id]! / (best * p) - 1) > 1e-9)
        expect(clear.map((id) => kept.has(id))).toEqual(clear.map((id) => probabilities[id]! > best * p))
      }),
    )
  })

  test('typical keeps those of nearest surprise, and enough of them', () => {
    fc.assert(
      fc.property(logitsOf(1, 60), fc.double({ min: 0.01, max: 0.99, noNaN: true }), (logits, p) => {
        const probabilities = softmax(logits)
        const entropy = -sum(Array.from(probabilities, (each) => each * Math.log(each)))
        const strange = probabilities.map((each) => Math.abs(-Math.log(each) - entropy))
        const kept = new Set(keepTypical(sorted(logits), p).ids)
        expect(sum(Array.from(kept, (id) => probabilities[id]!))).toBeGreaterThanOrEqual(p - 1e-9)
        const worst = Math.max(...Array.from(kept, (id) => strange[id]!))
        strange.forEach((each, id) => kept.has(id) || expect(each).toBeGreaterThanOrEqual(worst - 1e-9))
      }),
    )
  })
})

describe('sampler', () => {
  test('temperature 0 is argmax, the lowest id on ties', () => {
    const sample = createSampler({ temperature: 0 })
    expect(sample(Float32Array.of(1, 3, 3, 2))).toBe(1)
    expect(sample(Float32Array.of(-Infinity, -5))).toBe(1)
  })

  test('draws follow the softmax, with every filter and temperature (99.9 % bounds)', () => {
    const logits = Float32Array.of(0, 1, 2, 0.5, -1, 1.5)
    const plain = softmax(logits)
    expect(chiSquare({ ...off, seed: 1 }, logits, [...plain])).toBeLessThan(20.5)
    expect(chiSquare({ ...off, temperature: 0.5, seed: 2 }, logits, [...softmax(logits, 0.5)])).toBeLessThan(20.5)
    const top = [1, 2, 5]
    const total = sum(top.map((id) => plain[id]!))
    const only = Array.from(plain, (p, id) => (top.includes(id) ? p / total : 0))
    expect(chiSquare({ ...off, topK: 3, seed: 3 }, logits, only)).toBeLessThan(13.8)
    expect(chiSquare({ ...off, topP: total - 0.01, seed: 4 }, logits, only)).toBeLessThan(13.8)
    expect(chiSquare({ ...off, minP: 0.3, seed: 5 }, logits, only)).toBeLessThan(13.8)
  })

  test('the same seed gives the same tokens; another seed, others', () => {
    const logits = Float32Array.from({ length: 100 }, (_, i) => Math.sin(i) * 2)
    const run = (seed: number): number[] => {
      const sample = createSampler({ seed })
      return Array.from({ length: 50 }, () => sample(logits))
    }
    expect(run(7)).toEqual(run(7))
    expect(run(7)).not.toEqual(run(8))
    expect(run(7)).not.toEqual(run(7 + 2 ** 32))
  })

  test('candidates of a device give what all logits give, where they suffice', () => {
    fc.assert(
      fc.property(logitsOf(20, 80), fc.integer({ min: 2, max: 30 }), fc.nat(), fc.boolean(), (logits, topK, seed, typical) => {
        const options = { topK, seed, typicalP: typical ? 0.7 : 1 }
        expect(needsOf(options)).toEqual(
          typical ? { topK } : { topK, rule: { temperature: 0.8, topP: 0.95, minP: 0.05, seed, start: 5, count: topK } },
        )
        const [whole, part] = [createSampler(options), createSampler(options)]
        const { ids, logits: values } = selectTop(logits, topK)
        const shuffled = { ids: ids.toReversed(), logits: values.toReversed() }
        for (let i = 0; i < 5; i++) expect(part.fromCandidates(shuffled)).toBe(whole(logits))
      }),
    )
  })

  test('a device draws what the host draws', () => {
    const settings = {
      topP: fc.constantFrom(0.1, 0.5, 0.95, 1),
      minP: fc.constantFrom(0, 0.05, 0.9, 1),
      temperature: fc.constantFrom(1e-42, 0.1, 0.8, 3),
    }
    fc.assert(
      fc.property(logitsOf(40, 80), fc.record(settings), fc.integer({ min: 2, max: 30 }), fc.maxSafeNat(), (logits, given, topK, seed) => {
        const sample = createSampler({ ...given, topK, seed })
        const best = selectTop(logits, topK)
        const x = Uint32Array.from([...best.ids, ...new Uint32Array(best.logits.slice().buffer)])
        for (let n = 0; n < 5; n++) {
          const drawn = draw.define(
            { x, rule: ruleWords({ ...given, seed, start: 7, count: topK }), positions: Uint32Array.of(7 + n) },
            { k: topK, rows: 1 },
          )
          expect(drawn['y']).toEqual(Uint32Array.of(sample(logits)))
        }
      }),
    )
  })

  test('what a sampler needs to see', () => {
    expect(needsOf({ temperature: 0 })).toBe('argmax')
    expect(needsOf({ topK: 1 })).toBe('argmax')
    expect(needsOf({ temperature: 0, presencePenalty: 1 })).toBe('logits')
    expect(needsOf({ temperature: 0, presencePenalty: 1, repetitionWindow: 0 })).toBe('argmax')
    expect(needsOf({ topK: 0 })).toBe('logits')
    expect(needsOf({ logitBias: { 3: 1 } })).toBe('logits')
  })

  test('penalties and bias', () => {
    const logits = Float32Array.of(2, 1.5, -1, 1.9)
    const greedy = (options: SampleOptions, history: number[] = []): number =>
      createSampler({ temperature: 0, ...options })(logits, history)
    expect(greedy({ repetitionPenalty: 1.5 }, [0, 3])).toBe(1)
    expect(greedy({ repetitionPenalty: 1.5, repetitionWindow: 1 }, [0, 3])).toBe(0)
    expect(greedy({ presencePenalty: 0.2 }, [0, 0])).toBe(3)
    expect(greedy({ frequencyPenalty: 0.04 }, [0])).toBe(0)
    expect(greedy({ frequencyPenalty: 0.06 }, [0, 0])).toBe(3)
    expect(greedy({ repetitionPenalty: 1.5, repetitionWindow: -1 }, [0, ...Array.from({ length: 99 }, () => 2)])).toBe(3)
    expect(
      greedy({
        logitBias: new Map([
          [0, -Infinity],
          [3, -1],
        ]),
      }),
    ).toBe(1)
    expect(greedy({ logitBias: { 2: 10 } })).toBe(2)
    expect([...logits]).toEqual([2, 1.5, -1, Math.fround(1.9)])
  })

  test('garbage is refused with its name', () => {
    const bad = expect.objectContaining({ code: 'bad-argument' })
    const sample = createSampler({ temperature: 0 })
    expect(() => sample(Float32Array.of(1, NaN))).toThrow(bad)
    expect(() => sample(Float32Array.of(1, Infinity))).toThrow(bad)
    expect(() => sample(Float32Array.of(-Infinity))).toThrow(bad)
    expect(() => sample(new Float32Array(0))).toThrow(bad)
    expect(() => createSampler().fromCandidates({ ids: Int32Array.of(1), logits: Float32Array.of(1, 2) })).toThrow(bad)
    expect(() => createSampler().fromCandidates({ ids: Int32Array.of(-1), logits: Float32Array.of(1) })).toThrow(bad)
    const wrong: SampleOptions[] = [
      { temperature: -1 },
      { temperature: NaN },
      { topK: 1.5 },
      { topK: -1 },
      { topP: 0 },
      { topP: 2 },
      { minP: -0.1 },
      { typicalP: 0 },
      { repetitionPenalty: 0 },
      { repetitionWindow: -2 },
      { presencePenalty: Infinity },
      { frequencyPenalty: NaN },
      { seed: -1 },
      { seed: 0.5 },
      { logitBias: { 1: NaN } },
      { logitBias: { x: 1 } as Record<number, number> },
    ]
    for (const options of wrong) expect(() => createSampler(options)).toThrow(bad)
  })

  test('the generator is even and its neighbours unrelated', () => {
    const random = createRandom(42)
    const list = Array.from({ length: 100_000 }, random)
    expect(Math.abs(sum(list) / list.length - 0.5)).toBeLessThan(0.005)
    expect(Math.min(...list.slice(0, 1000))).toBeGreaterThanOrEqual(0)
    expect(Math.max(...list.slice(0, 1000))).toBeLessThan(1)
    const together = sum(list.slice(1).map((x, i) => (x - 0.5) * (list[i]! - 0.5))) / list.length
    expect(Math.abs(together)).toBeLessThan(0.002)
  })
})
