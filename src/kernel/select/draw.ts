// A token drawn from sorted candidates, as topk gives them: the fewest that together have the probability topP, of these the ones at
// least minP times as probable as the best, then one by its probability at a temperature. `rule` says how, as bits: DRAW_RULE. Which
// random number it takes follows from the position of the token before: number 0 is drawn at `start`.

import { type LaneScope, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { NONE, family } from '../family.ts'
import { template } from '../template.ts'
import { randomWord, writeRandomWord } from './random.ts'

export interface DrawParams {
  /** candidates */
  readonly k: number
  /** tokens of the pass; the last one's position counts */
  readonly rows: number
}

/** Words of a rule. Probabilities are compared as logarithms where no sum is needed. */
export const DRAW_RULE = { inverseTemperature: 0, topP: 1, logMinP: 2, seedLow: 3, seedHigh: 4, start: 5, words: 6 } as const

export interface DrawRule {
  readonly temperature: number
  readonly topP: number
  readonly minP: number
  readonly seed: number
  /** position of the token after which the first number is drawn */
  readonly start: number
}

/** The words that a device reads. */
export function ruleWords({ temperature, topP, minP, seed, start }: DrawRule): Uint32Array {
  const words = new Uint32Array(DRAW_RULE.words)
  // No device need know infinity: no two logits are so far apart, and no difference of them is so small.
  const floats = Float32Array.of(Math.min(1 / temperature, 1e30), topP, minP > 0 ? Math.log(minP) : -3e38)
  words.set(new Uint32Array(floats.buffer))
  words.set([seed >>> 0, Math.floor(seed / 2 ** 32), start], DRAW_RULE.seedLow)
  return words
}

const candidates = template<object>({ family: 'draw', form: 'one lane' }, (_traits, kernel) => {
  const params = {
    x: buffer('u32', 'read'),
    rule: buffer('u32', 'read'),
    positions: buffer('u32', 'read'),
    y: buffer('u32', 'write'),
    count: uniform('u32'),
    rows: uniform('u32'),
  }
  return kernel('draw', { params }, (p, k) => {
    const setting = (name: 'inverseTemperature' | 'topP' | 'logMinP'): Value<'f32'> => k.let(name, p.rule.at(DRAW_RULE[name]).as('f32'))
    const [inverse, topP, logMinP] = [setting('inverseTemperature'), setting('topP'), setting('logMinP')]
    const n = p.positions.at(p.rows.sub(1)).sub(p.rule.at(DRAW_RULE.start))
    const word = writeRandomWord(k, p.rule.at(DRAW_RULE.seedLow), p.rule.at(DRAW_RULE.seedHigh), n)
    const share = k.let(
      'share',
      word
        .shr(8)
        .to('f32')
        .mul(2 ** -24),
    )
    const logit = (i: Value<'u32'>): Value<'f32'> => p.x.at(p.count.add(i)).as('f32')
    const best = k.let('best', logit(k.const('u32', 0)))

    const all = sumOver(k, p.count, (i) => logit(i).sub(best).exp())
    const wanted = k.let('wanted', topP.mul(all))
    const [reached, kept] = [k.var('reached', k.const('f32', 0)), k.var('kept', k.const('u32', 0))]
    k.for({ name: 'i', to: p.count }, (i) => {
      const above = k.let('above', logit(i).sub(best))
      const keeps = i.eq(0).or(topP.ge(1).or(reached.get().lt(wanted)).and(above.ge(logMinP)))
      kept.set(keeps.select(i.add(1), kept.get()))
      reached.set(reached.get().add(above.exp()))
    })

    const weight = (i: Value<'u32'>): Value<'f32'> => logit(i).sub(best).mul(inverse).exp()
    const total = sumOver(k, kept.get(), weight)
    const [left, chosen] = [k.var('left', share.mul(total)), k.var('chosen', k.const('u32', 0))]
    // The first at which the running sum passes the share; the last that has any weight, should rounding leave a rest.
    const open = k.var('open', k.const('u32', 1))
    k.for({ name: 'i', to: kept.get() }, (i) => {
      const own = k.let('own', weight(i))
      chosen.set(open.get().eq(1).and(own.gt(0)).select(i, chosen.get()))
      left.set(left.get().sub(own))
      open.set(left.get().lt(0).select(k.const('u32', 0), open.get()))
    })
    p.y.set(0, p.x.at(chosen.get()))
  })
})

function sumOver(k: LaneScope, to: Value<'u32'>, f: (i: Value<'u32'>) => Value<'f32'>): Value<'f32'> {
  const sum = k.var('sum', k.const('f32', 0))
  k.for({ name: 'i', to }, (i) => sum.set(sum.get().add(f(i))))
  return k.let('sum', sum.get())
}

export const draw = family<DrawParams>({
  name: 'draw',
  about: 'a token drawn from sorted candidates by a rule and the random number of its position',
  tolerance: () => 0,
  cases: [
    { k: 40, rows: 1 },
    { k: 1, rows: 1 },
    { k: 256, rows: 3 },
    { k: 7, rows: 5 },
  ],
  buffers: ({ k, rows }) => [
    { name: 'x', role: 'in', type: 'u32', elements: 2 * k },
    { name: 'rule', role: 'in', type: 'u32', elements: DRAW_RULE.words },
    { name: 'positions', role: 'in', type: 'u32', elements: rows },
    { name: 'y', role: 'out', type: 'u32', elements: 1 },
  ],
  inputs: ({ k, rows }, random) => {
    const logits = Float32Array.from({ length: k }, () => 20 * random() - 10).toSorted((a, b) => b - a)
    return {
      x: Uint32Array.from([...Array.from({ length: k }, (_, i) => 1000 + i), ...new Uint32Array(logits.buffer)]),
      rule: ruleWords({ temperature: 1.5, topP: 0.9, minP: 0.01, seed: Math.floor(random() * 2 ** 40), start: 3 }),
      positions: Uint32Array.from({ length: rows }, (_, i) => 10 + i),
    }
  },
  forms: [
    {
      name: 'one lane',
      fits: () => true,
      work: (_caps, { k, rows }) => ({ launches: [{ kernel: candidates({}), uniforms: { count: k, rows }, grid: [1, 1, 1] }] }),
      kernels: () => [candidates({})],
    },
  ],
  cost: ({ k }) => ({ operations: 12 * k, arithmetic: 'f32' }),
  define: ({ x = NONE, rule = NONE, positions = NONE }, { k, rows }) => {
    const floats = (words: ArrayLike<number>): Float32Array => new Float32Array(Uint32Array.from(words).buffer)
    const logits = floats(x.subarray(k))
    const settings = floats(rule)
    const setting = (name: keyof typeof DRAW_RULE): number => settings[DRAW_RULE[name]] ?? NaN
    const n = (positions[rows - 1] ?? 0) - (rule[DRAW_RULE.start] ?? 0)
    const share = (randomWord(rule[DRAW_RULE.seedLow] ?? 0, rule[DRAW_RULE.seedHigh] ?? 0, n) >>> 8) / 2 ** 24
    const [best = NaN] = logits
    const weights = (of: ArrayLike<number>, inverse: number): number[] => Array.from(of, (logit) => Math.exp((logit - best) * inverse))
    const sum = (list: readonly number[]): number => list.reduce((a, b) => a + b, 0)
    const plain = weights(logits, 1)
    const enough = plain.findIndex((_, i) => sum(plain.slice(0, i + 1)) >= setting('topP') * sum(plain))
    const probable = logits.findIndex((logit) => logit - best < setting('logMinP'))
    const kept = Math.max(1, Math.min(enough < 0 || setting('topP') >= 1 ? k : enough + 1, probable < 0 ? k : probable))
    const own = weights(logits.subarray(0, kept), setting('inverseTemperature'))
    const passed = own.findIndex((_, i) => sum(own.slice(0, i + 1)) > share * sum(own))
    const chosen = passed < 0 ? own.findLastIndex((weight) => weight > 0) : passed
    return { y: Uint32Array.of(x[Math.max(0, chosen)] ?? 0) }
  },
})
