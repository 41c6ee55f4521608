// A token for each row, drawn from its sorted candidates, as topk gives them: of the first `count` the fewest that together have the
// probability topP, of these the ones at least minP times as probable as the best, then one by its probability at a temperature. `rule`
// says how, as bits: DRAW_RULE. Which random number it takes follows from the position of the token before: number 0 is drawn at `start`.

import { type LaneScope, buffer, uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { NONE, type NumberArray, family } from '../family.ts'
import { template } from '../template.ts'
import { randomWord, writeRandomWord } from './random.ts'

export interface DrawParams {
  readonly rows: number
  /** candidates of each */
  readonly k: number
}

/** Words of a rule. Probabilities are compared as logarithms where no sum is needed. */
export const DRAW_RULE = { inverseTemperature: 0, topP: 1, logMinP: 2, seedLow: 3, seedHigh: 4, start: 5, count: 6, words: 7 } as const

export interface DrawRule {
  readonly temperature: number
  readonly topP: number
  readonly minP: number
  readonly seed: number
  /** position of the token after which the first number is drawn */
  readonly start: number
  /** how many candidates to draw from, where there are more */
  readonly count: number
}

/** The words that a device reads. */
export function ruleWords({ temperature, topP, minP, seed, start, count }: DrawRule): Uint32Array {
  const words = new Uint32Array(DRAW_RULE.words)
  // No device need know infinity: no two logits are so far apart, and no difference of them is so small.
  const floats = Float32Array.of(Math.min(1 / temperature, 1e30), topP, minP > 0 ? Math.log(minP) : -3e38)
  words.set(new Uint32Array(floats.buffer))
  words.set([seed >>> 0, Math.floor(seed / 2 ** 32), start, count], DRAW_RULE.seedLow)
  return words
}

const candidates = template<object>({ family: 'draw', form: 'one lane' }, (_traits, kernel) => {
  const params = {
    x: buffer('u32', 'read'),
    rule: buffer('u32', 'read'),
    positions: buffer('u32', 'read'),
    y: buffer('u32', 'write'),
    most: uniform('u32'),
  }
  return kernel('draw', { params }, (p, k) => {
    const row = k.workgroupId.x
    const word = (name: keyof typeof DRAW_RULE): Value<'u32'> => p.rule.at(row.mul(DRAW_RULE.words).add(DRAW_RULE[name]))
    const setting = (name: 'inverseTemperature' | 'topP' | 'logMinP'): Value<'f32'> => k.let(name, word(name).as('f32'))
    const first = k.let('first', row.mul(2).mul(p.most))
    const count = k.let('count', word('count').min(p.most))
    const [inverse, topP, logMinP] = [setting('inverseTemperature'), setting('topP'), setting('logMinP')]
    const n = p.positions.at(row).sub(word('start'))
    const random = writeRandomWord(k, word('seedLow'), word('seedHigh'), n)
    const share = k.let(
      'share',
      random
        .shr(8)
        .to('f32')
        .mul(2 ** -24),
    )
    const logit = (i: Value<'u32'>): Value<'f32'> => p.x.at(first.add(p.most).add(i)).as('f32')
    const best = k.let('best', logit(k.const('u32', 0)))

    const all = sumOver(k, count, (i) => logit(i).sub(best).exp())
    const wanted = k.let('wanted', topP.mul(all))
    const [reached, kept] = [k.var('reached', k.const('f32', 0)), k.var('kept', k.const('u32', 0))]
    k.for({ name: 'i', to: count }, (i) => {
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
    p.y.set(row, p.x.at(first.add(chosen.get())))
  })
})

function sumOver(k: LaneScope, to: Value<'u32'>, f: (i: Value<'u32'>) => Value<'f32'>): Value<'f32'> {
  const sum = k.var('sum', k.const('f32', 0))
  k.for({ name: 'i', to }, (i) => sum.set(sum.get().add(f(i))))
  return k.let('sum', sum.get())
}

export const draw = family<DrawParams>({
  name: 'draw',
  about: 'a token for each row, drawn from sorted candidates by a rule and the random number of its position',
  tolerance: () => 0,
  cases: [
    { rows: 1, k: 40 },
    { rows: 1, k: 1 },
    { rows: 3, k: 256 },
    { rows: 5, k: 7 },
  ],
  buffers: ({ k, rows }) => [
    { name: 'x', role: 'in', type: 'u32', elements: rows * 2 * k },
    { name: 'rule', role: 'in', type: 'u32', elements: rows * DRAW_RULE.words },
    { name: 'positions', role: 'in', type: 'u32', elements: rows },
    { name: 'y', role: 'out', type: 'u32', elements: rows },
  ],
  inputs: ({ k, rows }, random) => {
    const each = <T>(make: (row: number) => T): T[] => Array.from({ length: rows }, (_, row) => make(row))
    const candidates = (row: number): number[] => {
      const logits = Float32Array.from({ length: k }, () => 20 * random() - 10).toSorted((a, b) => b - a)
      return [...Array.from({ length: k }, (_, i) => 1000 * row + i), ...new Uint32Array(logits.buffer)]
    }
    const seed = (): number => Math.floor(random() * 2 ** 40)
    const rule = (row: number): DrawRule => ({ temperature: 1.5, topP: 0.9, minP: 0.01, seed: seed(), start: 3, count: k - (row % 2) || 1 })
    return {
      x: Uint32Array.from(each(candidates).flat()),
      rule: Uint32Array.from(each((row) => [...ruleWords(rule(row))]).flat()),
      positions: Uint32Array.from({ length: rows }, (_, i) => 10 + i),
    }
  },
  forms: [
    {
      name: 'one lane',
      fits: () => true,
      work: (_caps, { k, rows }) => ({ launches: [{ kernel: candidates({}), uniforms: { most: k }, grid: [rows, 1, 1] }] }),
      kernels: () => [candidates({})],
    },
  ],
  cost: ({ k, rows }) => ({ operations: 12 * k * rows, arithmetic: 'f32' }),
  define: ({ x = NONE, rule = NONE, positions = NONE }, { k, rows }) => ({
    y: Uint32Array.from({ length: rows }, (_, row) => {
      const own = x.subarray(2 * k * row, 2 * k * (row + 1))
      return drawn(own, rule.subarray(DRAW_RULE.words * row, DRAW_RULE.words * (row + 1)), positions[row] ?? 0)
    }),
  }),
})

/** The token that a rule draws from candidates, ids before logits. */
function drawn(x: NumberArray, rule: NumberArray, position: number): number {
  const floats = (words: ArrayLike<number>): Float32Array => new Float32Array(Uint32Array.from(words).buffer)
  const k = Math.min(rule[DRAW_RULE.count] ?? 0, x.length / 2)
  const logits = floats(x.subarray(x.length / 2)).subarray(0, k)
  const settings = floats(rule)
  const setting = (name: keyof typeof DRAW_RULE): number => settings[DRAW_RULE[name]] ?? NaN
  const n = position - (rule[DRAW_RULE.start] ?? 0)
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
  return x[Math.max(0, chosen)] ?? 0
}
