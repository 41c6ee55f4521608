// Takes samples in turns: A, B, A, B, so that what disturbs the machine disturbs both. Knows workloads and contenders; what the
// numbers mean is for statistics.ts to say.

import type { BenchedModel, RunningContender, Settings } from './contender.ts'
import { median } from './statistics.ts'
import { type Effort, type Workload, promptFor } from './workload.ts'

/** What random prompts are drawn from. */
export interface PromptSource {
  /** tokens */
  readonly vocabulary: number
  readonly seed: number
}

export interface Sample {
  readonly tokensPerSecond: number
  /** what was decoded; empty for prefill */
  readonly tokens: readonly number[]
  /** of sequences at once, from when all have their first token: tokens of all per second */
  readonly together?: number
  /** when the last of them had its first token, in ms */
  readonly lastBegun?: number
}

const LEAST_SAMPLES = 3 // where time runs out

/** Two unmeasured runs of each contender, then samples in turns. */
export async function sampleInTurns(
  contenders: readonly RunningContender[],
  work: Workload,
  effort: Pick<Effort, 'samples' | 'sampleMs' | 'workloadMs'>,
  source: PromptSource,
  tick: () => void = () => {},
): Promise<Sample[][]> {
  const prompt = promptFor(work, source.vocabulary, source.seed)
  const begun = performance.now()
  const repeats: number[] = []
  for (const contender of contenders) {
    // The first run builds plans and touches memory; the second tells how long a run takes.
    await run(contender, work, prompt)
    const { ms } = await run(contender, work, prompt)
    repeats.push(Math.max(1, Math.ceil(effort.sampleMs / ms)))
  }
  const samples: Sample[][] = contenders.map(() => [])
  for (let round = 0; round < effort.samples; round++) {
    for (const [i, contender] of contenders.entries()) {
      samples[i]?.push(await takeSample(contender, work, prompt, repeats[i] ?? 1))
      tick()
    }
    if (round + 1 >= LEAST_SAMPLES && performance.now() - begun > effort.workloadMs) break
  }
  return samples
}

async function takeSample(contender: RunningContender, work: Workload, prompt: readonly number[], repeats: number): Promise<Sample> {
  let ms = 0
  let last: Run | undefined
  for (let i = 0; i < repeats; i++) {
    last = await run(contender, work, prompt)
    ms += last.ms
  }
  const { tokens = [], times } = last ?? {}
  return { tokensPerSecond: (repeats * tokenCount(work) * 1000) / ms, tokens, ...(times === undefined ? {} : pace(times)) }
}

interface Run {
  readonly ms: number
  readonly tokens?: readonly number[]
  readonly times?: readonly (readonly number[])[]
}

/** How fast sequences go on together: from when the last one has its first token to the end. */
function pace(times: readonly (readonly number[])[]): Pick<Sample, 'together' | 'lastBegun'> {
  const lastBegun = Math.max(...times.map(([first = 0]) => first))
  const end = Math.max(...times.map((each) => each.at(-1) ?? 0))
  const after = times.flat().filter((at) => at > lastBegun).length
  return { together: end > lastBegun ? (after * 1000) / (end - lastBegun) : 0, lastBegun }
}

async function run(contender: RunningContender, work: Workload, prompt: readonly number[]): Promise<Run> {
  if (work.kind === 'parallel') {
    const prompts = Array.from({ length: work.sequences }, (_, i) => prompt.slice(i * work.tokens, (i + 1) * work.tokens))
    return contender.ask('parallel', { prompts, count: work.count })
  }
  if (work.kind === 'decode') return contender.ask('decode', { tokens: prompt, count: work.count })
  return contender.ask('prefill', { tokens: prompt })
}

function tokenCount(work: Workload): number {
  if (work.kind === 'parallel') return work.sequences * work.count
  return work.kind === 'prefill' ? work.tokens : work.count
}

const PROBE = { samples: 3, sampleMs: 20, workloadMs: 5000 } as const
const FIRST_PROBE = { ...PROBE, samples: 1 }
/** Settings that are this many times slower than the best in their first probe are not probed further. */
const HOPELESS = 2

/** The settings that a contender is fastest with, over all probes together (geometric mean). Leaves the model open with some of them. */
export async function findBestSettings(
  contender: RunningContender,
  candidates: readonly Settings[],
  probes: readonly Workload[],
  model: BenchedModel,
  source: PromptSource,
  tick: () => void = () => {},
): Promise<Settings> {
  const [first = {}, ...others] = candidates
  if (others.length === 0 || probes.length === 0) return first
  let best = { settings: first, score: -Infinity, firstScore: -Infinity }
  for (const settings of candidates) {
    await contender.ask('open', { model: model.path, context: model.context, settings })
    const firstScore = await scoreOf(contender, probes.slice(0, 1), FIRST_PROBE, source)
    if (firstScore > best.firstScore - Math.log(HOPELESS)) {
      const score = await scoreOf(contender, probes, PROBE, source)
      if (score > best.score) best = { settings, score, firstScore }
    }
    tick()
  }
  return best.settings
}

/** The sum of the logarithms of the speeds. */
async function scoreOf(
  contender: RunningContender,
  probes: readonly Workload[],
  effort: typeof FIRST_PROBE,
  source: PromptSource,
): Promise<number> {
  let sum = 0
  for (const work of probes) {
    const [samples = []] = await sampleInTurns([contender], work, effort, source)
    sum += Math.log(median(samples.map(({ tokensPerSecond }) => tokensPerSecond)))
  }
  return sum
}
