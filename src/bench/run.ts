// A whole bench: opens the sides, finds their best settings, takes all samples in turns, then what needs fresh processes. Gives a
// report; prints nothing.

import { createHash } from 'node:crypto'
import { IngotError } from '../base/error.ts'
import { openGguf } from '../weights/gguf.ts'
import { metaNumber, metaString } from '../weights/gguf-meta.ts'
import type { Choice, Contestant } from './contestant.ts'
import { loadFresh, timeFirstToken } from './fresh.ts'
import { describeMachine, lookAround, watchOthers } from './machine.ts'
import { type Sample, type Source, findBest, sampleInTurns } from './measure.ts'
import type { Measure, Report, SideReport } from './report.ts'
import type { Settings, Side, SideInfo } from './side.ts'
import { type Effort, type Workload, lengthOf, nameOf, planWorkloads, randomTokens } from './workload.ts'

export interface BenchOptions {
  readonly effort: Effort
  readonly choice: Omit<Choice, 'gpu'>
  readonly seed: number
  /** positions, instead of what the model was trained for */
  readonly context?: number
  readonly onProgress?: (what: string, done: number, total: number) => void
  readonly signal?: AbortSignal
}

const KINDS = ['prefill', 'decode'] as const
const PROBE_PREFILL = 128 // tokens
const PROBE_CONTEXT = 512
const PROBE_COUNT = 16 // tokens to decode
const LOOK_MS = 200 // at what else the machine does
const START_PROMPT = 8 // tokens
const START_CONTEXT = 512

export async function runBench(path: string, contestants: readonly Contestant[], options: BenchOptions): Promise<Report> {
  const file = await readFacts(path)
  const plan = planWorkloads(options.effort, options.context ?? file.trained)
  if (plan.fits.length === 0)
    throw new IngotError('too-large', 'nothing fits the context', { op: 'bench', got: file.trained, hint: 'give --ctx' })
  const bench = new Bench({ path, context: Math.max(...plan.fits.map(lengthOf)) }, file.vocabulary, plan.fits, contestants, options)
  const before = await lookAround(LOOK_MS)
  const { sides, measures, tokens } = await bench.run()
  const busy = Math.max(before, bench.busy, await lookAround(LOOK_MS))
  return {
    date: new Date().toISOString(),
    machine: describeMachine(),
    busy,
    model: { path, name: file.name, bytes: file.bytes, trainedContext: file.trained },
    seed: options.seed,
    context: bench.context,
    sides,
    measures,
    output: { hash: createHash('sha256').update(tokens[0].join(',')).digest('hex').slice(0, 12), ...agreement(tokens) },
    left: plan.misses.map(nameOf),
  }
}

class Bench {
  readonly #model: { readonly path: string; readonly context: number }
  readonly #source: Source
  readonly #work: readonly Workload[]
  readonly #contestants: readonly Contestant[]
  readonly #options: BenchOptions
  readonly #measures: Measure[] = []
  /** the settings that a side has its model open with */
  readonly #open = new Map<Side, string>()
  #busy = 0
  /** decoded at the least context, by side */
  readonly #tokens: (readonly number[])[] = []

  constructor(
    model: { path: string; context: number },
    vocabulary: number,
    work: readonly Workload[],
    contestants: readonly Contestant[],
    options: BenchOptions,
  ) {
    this.#model = model
    this.#source = { vocabulary, seed: options.seed }
    this.#work = work
    this.#contestants = contestants
    this.#options = options
  }

  get context(): number {
    return this.#model.context
  }
  /** the largest share of the machine that others used while samples were taken */
  get busy(): number {
    return this.#busy
  }

  async run(): Promise<{ sides: SideReport[]; measures: Measure[]; tokens: [readonly number[], ...(readonly number[])[]] }> {
    const sides = this.#contestants.map((contestant) => contestant.start(this.#options.signal))
    const found: SideReport[] = []
    try {
      const infos = await this.#openAll(sides)
      const settings = this.#contestants.map((): Record<string, Settings> => ({}))
      for (const kind of KINDS) await this.#measureKind(kind, sides, infos[0]?.gpu === true, settings)
      for (const [i, info] of infos.entries()) {
        const { cpuMs = 0, ms = 0 } = sides[i]?.idle ?? {}
        found.push({ ...info, settings: settings[i] ?? {}, idle: { cpuMs, ms } })
      }
    } finally {
      await Promise.all(sides.map((side) => side.close()))
    }
    await this.#measureFresh(found)
    return { sides: found, measures: this.#measures, tokens: [this.#tokens[0] ?? [], ...this.#tokens.slice(1)] }
  }

  /** Ingot first: whether it uses a GPU decides what the peer may use. */
  async #openAll(sides: readonly Side[]): Promise<SideInfo[]> {
    const infos: SideInfo[] = []
    for (const [i, side] of sides.entries()) {
      this.#tell(`opening ${side.name}`, i, sides.length)
      const [settings = {}] = this.#contestants[i]?.candidates('decode', { ...this.#options.choice, gpu: infos[0]?.gpu ?? false }) ?? []
      infos.push((await side.ask('open', { model: this.#model.path, context: this.context, settings })).info)
      this.#open.set(side, JSON.stringify(settings))
    }
    return infos
  }

  /** Loads again only where the side has other settings now, or was tried with some. */
  async #reopen(side: Side, settings: Settings, wasTried: boolean): Promise<void> {
    const key = JSON.stringify(settings)
    if (!wasTried && this.#open.get(side) === key) return
    await side.ask('open', { model: this.#model.path, context: this.context, settings })
    this.#open.set(side, key)
  }

  async #measureKind(kind: Workload['kind'], sides: readonly Side[], gpu: boolean, settings: Record<string, Settings>[]): Promise<void> {
    const { effort, choice } = this.#options
    const works = this.#work.filter((work) => work.kind === kind)
    if (works.length === 0) return
    for (const [i, side] of sides.entries()) {
      const candidates = this.#contestants[i]?.candidates(kind, { ...choice, gpu }) ?? []
      let tried = 0
      const tick = (): void => this.#tell(`${side.name}: best settings for ${kind}`, ++tried, candidates.length)
      const best = await findBest(side, effort.tune ? candidates : candidates.slice(0, 1), probesOf(works), this.#model, this.#source, tick)
      const record = settings[i]
      if (record !== undefined) record[kind] = best
      await this.#reopen(side, best, effort.tune && candidates.length > 1)
    }
    for (const work of works) {
      let taken = 0
      const total = effort.samples * sides.length
      const others = watchOthers(() => sides.reduce((sum, side) => sum + side.cpuMs, 0))
      const samples = await sampleInTurns(sides, work, effort, this.#source, () => this.#tell(nameOf(work), ++taken, total))
      this.#busy = Math.max(this.#busy, others())
      this.#add(
        nameOf(work),
        'tok/s',
        samples.map((each) => each.map(({ tokensPerSecond }) => tokensPerSecond)),
      )
      if (kind === 'decode' && this.#tokens.length === 0) this.#tokens.push(...samples.map((each: Sample[]) => each[0]?.tokens ?? []))
    }
  }

  async #measureFresh(sides: readonly SideReport[]): Promise<void> {
    const {
      effort: { loads, starts },
      signal,
    } = this.#options
    const settingsOf = (i: number): Settings => sides[i]?.settings.decode ?? sides[i]?.settings.prefill ?? {}
    const prompt = randomTokens(Math.min(PROBE_PREFILL, this.context - 1), this.#source.vocabulary, this.#source.seed)
    const loaded = await this.#inTurns('load', loads, (contestant, i) => loadFresh(contestant, this.#model, settingsOf(i), prompt, signal))
    this.#add(
      'load',
      'ms',
      loaded.map((each) => each.map(({ ms }) => ms)),
    )
    this.#add(
      'peak memory',
      'bytes',
      loaded.map((each) => each.map(({ peakBytes }) => peakBytes)),
    )
    const tokens = prompt.slice(0, START_PROMPT)
    const context = Math.min(START_CONTEXT, this.context)
    const once = (contestant: Contestant, i: number): Promise<number | undefined> =>
      timeFirstToken(contestant, { model: this.#model.path, tokens, context, settings: settingsOf(i) }, signal)
    if (starts > 0) await this.#inTurns('start', 1, once) // caches fill, a self-test may run: once, unmeasured
    const started = await this.#inTurns('start', starts, once)
    const times = started.map((each) => each.filter((ms) => ms !== undefined))
    this.#add('start to first token', 'ms', times)
  }

  async #inTurns<T>(what: string, rounds: number, take: (contestant: Contestant, i: number) => Promise<T>): Promise<T[][]> {
    const results: T[][] = this.#contestants.map(() => [])
    for (let round = 0; round < rounds; round++) {
      for (const [i, contestant] of this.#contestants.entries()) {
        this.#tell(what, round * this.#contestants.length + i, rounds * this.#contestants.length)
        results[i]?.push(await take(contestant, i))
      }
    }
    return results
  }

  #add(name: string, unit: Measure['unit'], [ours = [], peer]: readonly (readonly number[])[]): void {
    if (ours.length === 0) return
    this.#measures.push({ name, unit, ours, ...(peer === undefined || peer.length === 0 ? {} : { peer }) })
  }

  #tell(what: string, done: number, total: number): void {
    this.#options.signal?.throwIfAborted()
    this.#options.onProgress?.(what, done, total)
  }
}

/** Settings are judged by one prompt, or by an empty and a filled context. */
function probesOf(works: readonly Workload[]): Workload[] {
  const prefill = works.filter((work) => work.kind === 'prefill' && work.tokens <= PROBE_PREFILL).slice(-1)
  const decode = works.flatMap((work) =>
    work.kind === 'decode' && work.context <= PROBE_CONTEXT ? { ...work, count: Math.min(work.count, PROBE_COUNT) } : [],
  )
  return [...prefill, ...decode].length === 0 ? works.slice(0, 1) : [...prefill, ...decode]
}

/** How many of the first tokens are the same on both sides. */
function agreement([ours = [], peer]: readonly (readonly number[])[]): { agree?: number; of?: number } {
  if (peer === undefined) return {}
  const differs = ours.findIndex((token, i) => token !== peer[i])
  return { agree: differs === -1 ? ours.length : differs, of: ours.length }
}

async function readFacts(path: string): Promise<{ name: string; trained: number; vocabulary: number; bytes: number }> {
  const gguf = await openGguf(path)
  try {
    const architecture = metaString(gguf, 'general.architecture')
    const vocabulary = gguf.tensors.get('token_embd.weight')?.dims[1]
    if (vocabulary === undefined) throw new IngotError('unsupported', 'not a language model', { op: 'bench', got: architecture })
    const trained = metaNumber(gguf, `${architecture}.context_length`, 2048)
    const bytes = gguf.files.reduce((sum, file) => sum + file.size, 0)
    return { name: metaString(gguf, 'general.name', architecture), trained, vocabulary, bytes }
  } finally {
    await gguf.close()
  }
}
