// Takes samples, side by side: A, B, A, B, so that what disturbs the machine disturbs both. Knows workloads and sides; what the
// numbers mean is for statistics.ts to say.

import type { Settings, Side } from './side.ts'
import { median } from './statistics.ts'
import { type Effort, type Workload, promptFor } from './workload.ts'

export interface Source {
  readonly vocabulary: number
  readonly seed: number
}

export interface Sample {
  readonly tokensPerSecond: number
  /** what was decoded; empty for prefill */
  readonly tokens: readonly number[]
}

const ENOUGH = 3 // samples, where time runs out

/** One warm-up for each side, then samples in turns. */
export async function sampleInTurns(
  sides: readonly Side[],
  work: Workload,
  effort: Pick<Effort, 'samples' | 'sampleMs' | 'workloadMs'>,
  source: Source,
  tick: () => void = () => {},
): Promise<Sample[][]> {
  const prompt = promptFor(work, source.vocabulary, source.seed)
  const begun = performance.now()
  const repeats: number[] = []
  for (const side of sides) {
    // The first run builds plans and touches memory; the second tells how long a run takes.
    await run(side, work, prompt)
    const { ms } = await run(side, work, prompt)
    repeats.push(Math.max(1, Math.ceil(effort.sampleMs / ms)))
  }
  const samples: Sample[][] = sides.map(() => [])
  for (let round = 0; round < effort.samples; round++) {
    for (const [i, side] of sides.entries()) {
      samples[i]?.push(await takeSample(side, work, prompt, repeats[i] ?? 1))
      tick()
    }
    if (round + 1 >= ENOUGH && performance.now() - begun > effort.workloadMs) break
  }
  return samples
}

async function takeSample(side: Side, work: Workload, prompt: readonly number[], repeats: number): Promise<Sample> {
  let [ms, tokens]: [number, readonly number[]] = [0, []]
  for (let i = 0; i < repeats; i++) {
    const one = await run(side, work, prompt)
    ms += one.ms
    tokens = one.tokens
  }
  return { tokensPerSecond: (repeats * tokenCount(work) * 1000) / ms, tokens }
}

async function run(side: Side, work: Workload, prompt: readonly number[]): Promise<{ ms: number; tokens: readonly number[] }> {
  if (work.kind === 'decode') return side.ask('decode', { tokens: prompt, count: work.count })
  return { ...(await side.ask('prefill', { tokens: prompt })), tokens: [] }
}

function tokenCount(work: Workload): number {
  return work.kind === 'prefill' ? work.tokens : work.count
}

const PROBE = { samples: 3, sampleMs: 20, workloadMs: 5000 } as const
const GLANCE = { ...PROBE, samples: 1 }
/** Settings that are this many times slower at first sight are looked at no further. */
const HOPELESS = 2

/** The settings that a side is fastest with, over all probes together (geometric mean). Leaves the side open with some of them. */
export async function findBest(
  side: Side,
  candidates: readonly Settings[],
  probes: readonly Workload[],
  model: { readonly path: string; readonly context: number },
  source: Source,
  tick: () => void = () => {},
): Promise<Settings> {
  const [first = {}, ...others] = candidates
  if (others.length === 0 || probes.length === 0) return first
  let best = { settings: first, score: -Infinity, glance: -Infinity }
  for (const settings of candidates) {
    await side.ask('open', { model: model.path, context: model.context, settings })
    const glance = await score(side, probes.slice(0, 1), GLANCE, source)
    if (glance > best.glance - Math.log(HOPELESS)) {
      const found = await score(side, probes, PROBE, source)
      if (found > best.score) best = { settings, score: found, glance }
    }
    tick()
  }
  return best.settings
}

/** The sum of the logarithms of the speeds. */
async function score(side: Side, probes: readonly Workload[], effort: typeof GLANCE, source: Source): Promise<number> {
  let sum = 0
  for (const work of probes) {
    const [samples = []] = await sampleInTurns([side], work, effort, source)
    sum += Math.log(median(samples.map(({ tokensPerSecond }) => tokensPerSecond)))
  }
  return sum
}
