// Requests that come at the same time, computed together: in every step each sequence that goes on gives one row, and prompts give the
// rest, in chunks, so that nobody waits for a long prompt. Requests have their turn in the order in which they came. Where the caches are
// full, what has ended is forgotten first; then the request that came last waits, and goes on when there is room. Knows tokens and rows; no
// text.

import { IngotError } from '../../base/error.ts'
import type { LanguageModel } from '../../model/model.ts'
import { samplerInput } from './choice.ts'
import { type Composition, type Share, compose, flows } from './compose.ts'
import type { PagePool } from './page-pool.ts'
import type { PrefixStore } from './prefix-store.ts'
import type { Job, Request, Settle, Waiting } from './request.ts'
import { type Choice, type Runner, choicesOf, shapeOf } from './runner.ts'
import { type PageCopy, Sequence } from './sequence.ts'

interface SchedulerParts {
  readonly runner: Runner
  readonly pool: PagePool
  readonly prefixes: PrefixStore
  /** tokens that a sequence may have */
  readonly context: number
  /** rows of prompts in a step */
  readonly chunk: number
  /** sequences of a step */
  readonly parallel: number
  /** Lets go of what is kept beside requests and ended ones; false if there is nothing. */
  readonly spare: () => boolean
}

export class Scheduler {
  readonly #parts: SchedulerParts
  readonly #waiting: Waiting[] = []
  /** in the order in which they came */
  readonly #jobs = new Map<Job, Settle>()
  /** what wants the device alone */
  readonly #alone: { readonly work: () => Promise<void>; readonly reject: (reason: unknown) => void }[] = []
  #refusal: { readonly reason: unknown } | undefined
  #running: Promise<void> | undefined
  /** whose turn it is where jobs have different models */
  #turn = 0

  constructor(parts: SchedulerParts) {
    this.#parts = parts
  }

  /** requests that are computed now, and those that wait */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#jobs.size, waiting: this.#waiting.length }
  }

  /** Gives a request its tokens; resolves when it wants no more, or is aborted, or its context is full. */
  run(request: Request): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#refusal !== undefined) return reject(this.#refusal.reason)
      this.#waiting.push({ request, tokens: Array.from(request.prompt), given: 0, done: { resolve, reject } })
      request.signal.addEventListener('abort', () => this.#leave(request))
      return this.#wake()
    })
  }

  /** Does something while no step is under way; requests wait meanwhile. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#refusal !== undefined) return reject(this.#refusal.reason)
      this.#alone.push({ work: () => work().then(resolve, reject), reject })
      return this.#wake()
    })
  }

  /** Makes room for a sequence, for which ended ones are forgotten; undefined where that is not enough. */
  reserve(sequence: Sequence, length: number): PageCopy[] | undefined {
    for (;;) {
      const copies = sequence.reserve(length)
      if (copies !== undefined || !this.#parts.prefixes.evict()) return copies
    }
  }

  /** Who waits, and who comes from now on, is told this; those that have begun go on. */
  refuse(reason: unknown): void {
    this.#refusal = { reason }
    for (const { done } of this.#waiting.splice(0)) done.reject(reason)
    for (const { reject } of this.#alone.splice(0)) reject(reason)
  }

  /** Forgets what ended: the next prompts are computed whole. */
  forget(): Promise<void> {
    return this.exclusively(async () => this.#parts.prefixes.clear())
  }

  /** Resolves when nothing is under way and nobody waits. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  /** One that waits and is not wanted any more need not wait. */
  #leave(request: Request): void {
    const at = this.#waiting.findIndex((each) => each.request === request)
    if (at >= 0) this.#waiting.splice(at, 1)[0]?.done.resolve()
  }

  #wake(): void {
    this.#running ??= this.#work().finally(() => {
      this.#running = undefined
      if (this.#hasWork()) this.#wake()
    })
  }

  #hasWork(): boolean {
    return this.#alone.length > 0 || this.#jobs.size > 0 || this.#waiting.length > 0
  }

  async #work(): Promise<void> {
    await Promise.resolve() // requests of the same moment begin together
    while (this.#hasWork()) {
      await this.#alone.shift()?.work()
      for (const job of this.#jobs.keys()) if (job.request.signal.aborted) this.#end(job)
      this.#admit()
      const jobs = this.#nextJobs()
      const [first] = jobs
      if (first === undefined) continue
      try {
        await this.#advance(first.request.model, jobs)
      } catch (error) {
        // What a failed step has left in the caches is not known.
        for (const job of jobs) if (this.#jobs.has(job)) this.#fail(job, error)
      }
    }
  }

  /** Gives slots to those who wait, as long as there are some. */
  #admit(): void {
    const { parallel, pool, prefixes } = this.#parts
    for (;;) {
      const next = this.#jobs.size < parallel ? this.#waiting.shift() : undefined
      if (next === undefined) return
      const { request, tokens, given, done } = next
      const slots = new Set([...this.#jobs.keys()].map(({ slot }) => slot))
      const slot = Array.from({ length: parallel }, (_, i) => i + 1).find((each) => !slots.has(each)) ?? 1
      const running = [...this.#jobs.keys()].filter((job) => job.request.model === request.model).map(({ sequence }) => sequence)
      const known = request.deterministic ? undefined : prefixes.find(tokens, request.model, running)
      const sequence = known ?? new Sequence(pool)
      this.#jobs.set({ request, sequence, slot, given, todo: tokens.slice(sequence.length), isPrepared: given > 0 }, done)
      if (given === 0) request.begun(sequence.length)
    }
  }

  /** Jobs that may share a step: those of one model, which take turns with others. */
  #nextJobs(): Job[] {
    for (const job of this.#jobs.keys()) {
      // The context is full: it has all that it can have.
      if (job.sequence.length + job.todo.length > this.#parts.context) this.#end(job)
    }
    const keyOf = (job: Job): object => (job.request.deterministic ? job : job.request.model)
    const keys = [...new Set([...this.#jobs.keys()].map(keyOf))]
    const key = keys[this.#turn++ % Math.max(1, keys.length)]
    return [...this.#jobs.keys()].filter((job) => keyOf(job) === key)
  }

  /** One step, or as many as go on by themselves. */
  async #advance(model: LanguageModel, jobs: readonly Job[]): Promise<void> {
    const { runner, chunk } = this.#parts
    const ready = await this.#makeRoom(jobs, chunk)
    if (ready.length === 0) return
    const composition = compose(ready, chunk)
    const { step, shares } = composition
    await this.#prepare(model, composition)
    if (flows(ready)) {
      await this.#flow(model, composition)
      return
    }
    const results = await runner.run(model, step)
    for (const { job, count } of shares) {
      job.sequence.push(...job.todo.slice(0, count))
      job.todo = job.todo.slice(count)
    }
    const choices = choicesOf(results, step)
    for (const share of shares) {
      if (share.choice === undefined) continue
      const taken = this.#take(share, choices)
      if (taken !== undefined) share.job.todo = [taken.token]
      if (taken?.more === false) this.#end(share.job)
    }
  }

  /** Steps that prepare each other, until somebody ends or comes; each is submitted before the one before it is read. */
  async #flow(model: LanguageModel, { step, shares }: Composition): Promise<void> {
    const { runner, context } = this.#parts
    const submit = await runner.begin(model, step)
    for (const { job } of shares) {
      job.sequence.push(...job.todo)
      job.todo = []
    }
    let submitted = 1
    let running = submit()
    const ended = new Set<Job>()
    try {
      for (let read = 0; ; read++) {
        // Those that are wanted after what is under way, and have room.
        // Whoever has no token yet reads its first one alone: what its prompt took ends there.
        const begun = ended.size === 0 && shares.every(({ job }) => job.given > 0)
        const wanted = begun && shares.some(({ job }) => job.given + (submitted - read) < job.request.maxTokens)
        const goesOn = wanted && !this.#isCalled(shares) && shares.every(({ job }) => job.sequence.length < context && this.#extend(job))
        const next = goesOn ? submit() : undefined
        next?.catch(() => {}) // awaited below
        if (goesOn) submitted++
        const choices = choicesOf(await running, step)
        for (const share of shares) {
          const { job } = share
          if (ended.has(job)) continue
          const taken = this.#take(share, choices)
          if (taken === undefined || !taken.more) ended.add(job)
          if (taken === undefined) continue
          if (next === undefined) job.todo = [taken.token]
          else job.sequence.push(taken.token)
        }
        if (next === undefined) break
        running = next
      }
    } finally {
      await running.catch(() => {})
    }
    for (const job of ended) if (this.#jobs.has(job)) this.#end(job)
  }

  /** Whether something else has to be looked at before the next step. */
  #isCalled(shares: readonly Share[]): boolean {
    const { parallel } = this.#parts
    if (this.#alone.length > 0 || (this.#waiting.length > 0 && this.#jobs.size < parallel)) return true
    return this.#jobs.size > shares.length || shares.some(({ job }) => job.request.signal.aborted)
  }

  /** One more page for a job where it needs one; false if there is none, or one would have to be copied first. */
  #extend(job: Job): boolean {
    const copies = this.#reserveFor(job, 1)
    if (copies === undefined || copies.length > 0) return false
    this.#parts.runner.state.setPages(job.slot, job.sequence.pages)
    return true
  }

  #reserveFor({ sequence }: Job, count: number): PageCopy[] | undefined {
    const wanted = sequence.length + count
    return this.reserve(sequence, wanted) ?? (this.#parts.spare() ? this.reserve(sequence, wanted) : undefined)
  }

  /** The jobs that have room for their next rows, the first ones before those that came later, which may have to wait for it. */
  async #makeRoom(jobs: readonly Job[], chunk: number): Promise<Job[]> {
    const { state } = this.#parts.runner
    const ready: Job[] = []
    const copies: PageCopy[] = []
    for (const job of jobs) {
      if (!this.#jobs.has(job)) continue // it waits again
      let own: PageCopy[] | undefined
      while ((own = this.#reserveFor(job, Math.min(job.todo.length, chunk))) === undefined) {
        const last = [...this.#jobs.keys()].at(-1)
        if (last === undefined || last === job) break
        this.#pause(last)
      }
      if (own === undefined) {
        if (this.#jobs.size > 1) this.#pause(job)
        else
          this.#fail(
            job,
            new IngotError('too-large', 'the cache has no room for this sequence', { op: 'generate', got: job.sequence.length }),
          )
        continue
      }
      copies.push(...own)
      state.setPages(job.slot, job.sequence.pages)
      ready.push(job)
    }
    await state.copy(copies)
    return ready
  }

  /** Takes away what a job has in the caches: it waits, and all its tokens are computed again when it goes on. */
  #pause(job: Job): void {
    const done = this.#jobs.get(job)
    if (done === undefined) return
    this.#jobs.delete(job)
    this.#waiting.unshift({ request: job.request, tokens: [...job.sequence.tokens, ...job.todo], given: job.given, done })
    job.sequence.release()
  }

  /** Makes the plans of a step, and those that its jobs will need next. */
  async #prepare(model: LanguageModel, { step, shares }: Composition): Promise<void> {
    const fresh = shares.filter(({ job }) => !job.isPrepared).map(({ job }) => job)
    if (fresh.length === 0) return
    const { runner, chunk } = this.#parts
    await runner.prepare(model, shapeOf(step))
    for (const job of fresh) {
      job.isPrepared = true
      if (shares.length === 1) {
        const rest = Math.max(0, job.todo.length - chunk)
        const later = [rest % chunk, job.request.maxTokens > 1 ? 1 : 0].filter((count) => count > 0)
        for (const count of later) {
          const { step: ahead } = compose([{ ...job, todo: Array.from({ length: count }, () => 0) }], chunk)
          await runner.prepare(model, shapeOf(ahead))
        }
      }
      job.request.prepared()
    }
  }

  /** Gives a job what it needs to choose a token; undefined where that failed, and the job is over. */
  #take({ job, choice }: Share, choices: readonly Choice[]): { token: number; more: boolean } | undefined {
    const { request } = job
    const found = choice === undefined ? undefined : choices[choice]
    try {
      const taken = request.take(samplerInput(request.needs, found, request.model.vocabulary))
      job.given++
      return taken
    } catch (error) {
      this.#fail(job, error)
      return undefined
    }
  }

  /** A job has what it wanted; what it has in the caches is kept for others. */
  #end(job: Job): void {
    const done = this.#jobs.get(job)
    this.#jobs.delete(job)
    this.#parts.prefixes.keep(job.sequence, job.request.model)
    done?.resolve()
  }

  /** A job has failed: nothing that it has in the caches is used again. */
  #fail(job: Job, reason: unknown): void {
    const done = this.#jobs.get(job)
    this.#jobs.delete(job)
    // In the order of submissions, so that whoever gets the pages next finds them clear.
    void this.#parts.runner.state.clear(job.sequence.pages).catch(() => {})
    job.sequence.release()
    done?.reject(reason)
  }
}
