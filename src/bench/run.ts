// A whole bench: opens the contenders, finds their best settings, takes all samples in turns, then what needs new processes. Gives a
// report; prints nothing.

import { createHash } from 'node:crypto'
import { IngotError } from '../base/error.ts'
import { openGguf } from '../weights/gguf/gguf.ts'
import { metaNumber, metaString } from '../weights/gguf/meta.ts'
import { sampleLoad, timeFirstToken } from './cold-start.ts'
import type { BenchedModel, Constraints, Contender, ContenderInfo, RunningContender, Settings } from './contender.ts'
import { describeMachine, measureOtherLoad, watchOtherLoad } from './machine.ts'
import { type PromptSource, type Sample, findBestSettings, sampleInTurns } from './measure.ts'
import type { ContenderReport, Measure, Report } from './report.ts'
import { type Effort, type Workload, nameOf, positionsOf, randomTokens, selectWorkloads } from './workload.ts'

export interface BenchOptions {
  readonly effort: Effort
  /** whether there is a GPU is found out */
  readonly constraints: Omit<Constraints, 'gpu'>
  readonly seed: number
  /** positions, instead of what the model was trained for */
  readonly context?: number
  readonly onProgress?: (what: string, done: number, total: number) => void
  readonly signal?: AbortSignal
}

const KINDS = ['prefill', 'decode', 'parallel'] as const
const PROBE_PREFILL = 128 // tokens
const PROBE_CONTEXT = 512
const PROBE_COUNT = 16 // tokens to decode
const OTHER_LOAD_MS = 200 // of watching what else the machine does
const START_PROMPT = 8 // tokens
const START_CONTEXT = 512

export async function runBench(path: string, contenders: readonly Contender[], options: BenchOptions): Promise<Report> {
  const { name, bytes, trainedContext, vocabulary } = await readFileFacts(path)
  const { fits, misses } = selectWorkloads(options.effort, options.context ?? trainedContext)
  if (fits.length === 0)
    throw new IngotError('too-large', 'nothing fits the context', { op: 'bench', got: trainedContext, hint: 'give --ctx' })
  const model = { path, context: Math.max(...fits.map(positionsOf)) }
  const bench = new Bench(model, vocabulary, fits, contenders, options)
  const before = await measureOtherLoad(OTHER_LOAD_MS)
  const { reports, measures, decoded } = await bench.run()
  const busy = Math.max(before, bench.otherLoad, await measureOtherLoad(OTHER_LOAD_MS))
  return {
    date: new Date().toISOString(),
    machine: describeMachine(),
    busy,
    model: { path, name, bytes, trainedContext },
    seed: options.seed,
    context: model.context,
    contenders: reports,
    measures,
    output: { hash: hashTokens(decoded[0] ?? []), ...agreement(decoded) },
    leftOut: misses.map(nameOf),
  }
}

/** The work on one model, with what has been found so far. Lists of contenders, settings and samples are in the same order. */
class Bench {
  readonly #model: BenchedModel
  readonly #source: PromptSource
  readonly #workloads: readonly Workload[]
  readonly #contenders: readonly Contender[]
  readonly #options: BenchOptions
  readonly #measures: Measure[] = []
  /** the settings that a contender has its model open with, as JSON */
  readonly #openWith = new Map<RunningContender, string>()
  /** tokens decoded at the least context */
  readonly #decoded: (readonly number[])[] = []
  #otherLoad = 0

  constructor(
    model: BenchedModel,
    vocabulary: number,
    workloads: readonly Workload[],
    contenders: readonly Contender[],
    options: BenchOptions,
  ) {
    this.#model = model
    this.#source = { vocabulary, seed: options.seed }
    this.#workloads = workloads
    this.#contenders = contenders
    this.#options = options
  }

  /** the largest share of the machine that other programs used while samples were taken */
  get otherLoad(): number {
    return this.#otherLoad
  }

  async run(): Promise<{ reports: ContenderReport[]; measures: Measure[]; decoded: (readonly number[])[] }> {
    const running = this.#contenders.map((contender) => contender.start(this.#options.signal))
    const reports: ContenderReport[] = []
    try {
      const infos = await this.#openAll(running)
      const settings = this.#contenders.map((): Record<string, Settings> => ({}))
      for (const kind of KINDS) await this.#measureKind(kind, running, infos[0]?.gpu === true, settings)
      for (const [i, info] of infos.entries()) {
        const { cpuMs = 0, ms = 0 } = running[i]?.idle ?? {}
        reports.push({ ...info, settings: settings[i] ?? {}, idle: { cpuMs, ms } })
      }
    } finally {
      await Promise.all(running.map((contender) => contender.close()))
    }
    await this.#measureColdStarts(reports)
    return { reports, measures: this.#measures, decoded: this.#decoded }
  }

  /** Ingot first: whether it uses a GPU decides what the peer may use. */
  async #openAll(running: readonly RunningContender[]): Promise<ContenderInfo[]> {
    const infos: ContenderInfo[] = []
    for (const [i, contender] of running.entries()) {
      this.#progress(`opening ${contender.name}`, i, running.length)
      const constraints = { ...this.#options.constraints, gpu: infos[0]?.gpu ?? false }
      const [settings = {}] = this.#contenders[i]?.candidates('decode', constraints) ?? []
      infos.push(await this.#open(contender, settings))
    }
    return infos
  }

  async #open(contender: RunningContender, settings: Settings): Promise<ContenderInfo> {
    const sequences = Math.max(1, ...this.#options.effort.parallel)
    const { info } = await contender.ask('open', {
      model: this.#model.path,
      context: this.#model.context,
      settings: sequences > 1 ? { ...settings, sequences } : settings,
    })
    this.#openWith.set(contender, JSON.stringify(settings))
    return info
  }

  async #measureKind(
    kind: Workload['kind'],
    running: readonly RunningContender[],
    gpu: boolean,
    settings: Record<string, Settings>[],
  ): Promise<void> {
    const workloads = this.#workloads.filter((work) => work.kind === kind)
    if (workloads.length === 0) return
    for (const [i, contender] of running.entries()) {
      const candidates = this.#contenders[i]?.candidates(kind, { ...this.#options.constraints, gpu }) ?? []
      const best = await this.#tune(kind, contender, candidates, probesOf(workloads))
      const own = settings[i]
      if (own !== undefined) own[kind] = best
    }
    for (const work of workloads) await this.#measureWorkload(work, running)
  }

  /** Finds the best settings, and leaves the model open with them. */
  async #tune(
    kind: Workload['kind'],
    contender: RunningContender,
    candidates: readonly Settings[],
    probes: readonly Workload[],
  ): Promise<Settings> {
    const tried = this.#options.effort.tune ? candidates : candidates.slice(0, 1)
    let done = 0
    const tick = (): void => this.#progress(`${contender.name}: best settings for ${kind}`, ++done, tried.length)
    const best = await findBestSettings(contender, tried, probes, this.#model, this.#source, tick)
    if (tried.length > 1 || this.#openWith.get(contender) !== JSON.stringify(best)) await this.#open(contender, best)
    return best
  }

  async #measureWorkload(work: Workload, running: readonly RunningContender[]): Promise<void> {
    const { effort } = this.#options
    let done = 0
    const tick = (): void => this.#progress(nameOf(work), ++done, effort.samples * running.length)
    const otherLoad = watchOtherLoad(() => running.reduce((sum, contender) => sum + contender.cpuMs, 0))
    const samples = await sampleInTurns(running, work, effort, this.#source, tick)
    this.#otherLoad = Math.max(this.#otherLoad, otherLoad())
    const speeds = samples.map((each) => each.map(({ tokensPerSecond }) => tokensPerSecond))
    this.#add(nameOf(work), 'tok/s', speeds)
    if (work.kind === 'parallel') {
      const each = (value: (sample: Sample) => number | undefined): number[][] =>
        samples.map((list) => list.map((sample) => value(sample) ?? 0))
      this.#add(`${nameOf(work)}, after all began`, 'tok/s', each((sample) => sample.together)) // prettier-ignore
      this.#add(`${nameOf(work)}, last to begin`, 'ms', each((sample) => sample.lastBegun)) // prettier-ignore
    }
    if (work.kind === 'decode' && this.#decoded.length === 0) this.#decoded.push(...samples.map((each) => each[0]?.tokens ?? []))
  }

  async #measureColdStarts(reports: readonly ContenderReport[]): Promise<void> {
    const { effort, signal } = this.#options
    const settingsOf = (i: number): Settings => reports[i]?.settings.decode ?? reports[i]?.settings.prefill ?? {}
    const { path, context } = this.#model
    const prompt = randomTokens(Math.min(PROBE_PREFILL, context - 1), this.#source.vocabulary, this.#source.seed)
    const loads = await this.#inTurns('load', effort.loads, (contender, i) =>
      sampleLoad(contender, this.#model, settingsOf(i), prompt, signal),
    )
    const loadMs = loads.map((each) => each.map(({ ms }) => ms))
    const peakBytes = loads.map((each) => each.map((sample) => sample.peakBytes))
    this.#add('load', 'ms', loadMs)
    this.#add('peak memory', 'bytes', peakBytes)
    const run = { model: path, tokens: prompt.slice(0, START_PROMPT), context: Math.min(START_CONTEXT, context) }
    const start = (contender: Contender, i: number): Promise<number | undefined> =>
      timeFirstToken(contender, { ...run, settings: settingsOf(i) }, signal)
    if (effort.starts > 0) await this.#inTurns('start', 1, start) // caches fill, a self-test may run: once, unmeasured
    const starts = await this.#inTurns('start', effort.starts, start)
    const startMs = starts.map((each) => each.filter((ms) => ms !== undefined))
    this.#add('start to first token', 'ms', startMs)
  }

  async #inTurns<T>(what: string, rounds: number, take: (contender: Contender, i: number) => Promise<T>): Promise<T[][]> {
    const results: T[][] = this.#contenders.map(() => [])
    for (let round = 0; round < rounds; round++) {
      for (const [i, contender] of this.#contenders.entries()) {
        this.#progress(what, round * this.#contenders.length + i, rounds * this.#contenders.length)
        results[i]?.push(await take(contender, i))
      }
    }
    return results
  }

  #add(name: string, unit: Measure['unit'], [ours = [], peer]: readonly (readonly number[])[]): void {
    if (ours.length === 0) return
    this.#measures.push({ name, unit, ours, ...(peer === undefined || peer.length === 0 ? {} : { peer }) })
  }

  /** Reports how far the work is; ends it here where the user asked for that. */
  #progress(what: string, done: number, total: number): void {
    this.#options.signal?.throwIfAborted()
    this.#options.onProgress?.(what, done, total)
  }
}

/** Settings are judged by one prompt, or by an empty and a filled context. */
function probesOf(workloads: readonly Workload[]): readonly Workload[] {
  const prefill = workloads.filter((work) => work.kind === 'prefill' && work.tokens <= PROBE_PREFILL).slice(-1)
  const decode = workloads.flatMap((work) =>
    work.kind === 'decode' && work.context <= PROBE_CONTEXT ? { ...work, count: Math.min(work.count, PROBE_COUNT) } : [],
  )
  const probes = [...prefill, ...decode]
  return probes.length === 0 ? workloads.slice(0, 1) : probes
}

function hashTokens(tokens: readonly number[]): string {
  return createHash('sha256').update(tokens.join(',')).digest('hex').slice(0, 12)
}

/** How many of the first tokens are the same for Ingot and the peer. */
function agreement([ours = [], peer]: readonly (readonly number[])[]): { agree?: number; of?: number } {
  if (peer === undefined) return {}
  const differs = ours.findIndex((token, i) => token !== peer[i])
  return { agree: differs === -1 ? ours.length : differs, of: ours.length }
}

interface FileFacts {
  readonly name: string
  readonly bytes: number
  readonly trainedContext: number
  readonly vocabulary: number
}

async function readFileFacts(path: string): Promise<FileFacts> {
  await using gguf = await openGguf(path)
  const architecture = metaString(gguf, 'general.architecture')
  const vocabulary = gguf.tensors.get('token_embd.weight')?.dims[1]
  if (vocabulary === undefined) throw new IngotError('unsupported', 'not a language model', { op: 'bench', got: architecture })
  return {
    name: metaString(gguf, 'general.name', architecture),
    bytes: gguf.files.reduce((sum, file) => sum + file.size, 0),
    trainedContext: metaNumber(gguf, `${architecture}.context_length`, 2048),
    vocabulary,
  }
}
