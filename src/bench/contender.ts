// One of the programs being compared: how to start it, and how to ask a running one to measure something, one request at a time.
// A contender usually is a child process that stays alive, so that a model is not loaded again for every sample; bench/peers has
// the scripts of the others. A contender takes its times itself, around work that is finished: what goes over the channel is not
// part of them. Does not know who takes part (contenders.ts).

import { type ChildProcess, fork } from 'node:child_process'
import { IngotError } from '../base/error.ts'
import type { Workload } from './workload.ts'

export interface Contender {
  readonly name: string
  start(signal?: AbortSignal): RunningContender
  /** Settings worth trying, the usual ones first. */
  candidates(kind: Workload['kind'], constraints: Constraints): readonly Settings[]
  /** Arguments to node for a program that prints something when it has its first token; undefined where there is none. */
  firstTokenArgs(run: FirstTokenRun): readonly string[] | undefined
}

/** What the settings of all contenders have to keep to. */
export interface Constraints {
  /** as the user wants it; undefined: try some */
  readonly threads?: number
  /** of Ingot, as the user wants it; undefined: the best that works */
  readonly device?: string
  /** Ingot computes on a GPU, so the peer may too */
  readonly gpu: boolean
}

export interface BenchedModel {
  readonly path: string
  /** positions of its cache */
  readonly context: number
}

export interface FirstTokenRun {
  readonly model: string
  readonly tokens: readonly number[]
  readonly context: number
  readonly settings: Settings
}

export interface Settings {
  readonly device?: string
  readonly threads?: number
  /** prompt tokens of one submission */
  readonly chunk?: number
  /** the peer's name for the same */
  readonly batch?: number
  readonly flash?: boolean
  /** sequences that may be computed at once */
  readonly sequences?: number
  readonly gpu?: boolean
}

export interface ContenderInfo {
  readonly name: string
  readonly version: string
  readonly device: string
  readonly detail: string
  /** computes on a GPU: threads do not matter */
  readonly gpu: boolean
}

/** What can be asked of a running contender, and what it replies. */
export interface Requests {
  /** Loads a model, after letting go of the one before. */
  readonly open: { readonly model: string; readonly context: number; readonly settings: Settings }
  /** All tokens in, the first greedy token out, from an empty cache. */
  readonly prefill: { readonly tokens: readonly number[] }
  /** `count` greedy tokens after `tokens`, which are in the cache when the time begins. */
  readonly decode: { readonly tokens: readonly number[]; readonly count: number }
  /** `count` greedy tokens after each of the prompts, all of which begin at the same time, from an empty cache. */
  readonly parallel: { readonly prompts: readonly (readonly number[])[]; readonly count: number }
  /** The most memory that the process ever held. */
  readonly peak: object
}

export interface Replies {
  readonly open: { readonly ms: number; readonly info: ContenderInfo }
  readonly prefill: { readonly ms: number }
  readonly decode: { readonly ms: number; readonly tokens: readonly number[] }
  /** `ms`: until all have all; `times`: when each token came, by sequences, from the same moment on */
  readonly parallel: { readonly ms: number; readonly times: readonly (readonly number[])[] }
  readonly peak: { readonly bytes: number }
}

export type ModelProtocol = { readonly [K in keyof Requests]: { readonly request: Requests[K]; readonly reply: Replies[K] } }
/** What can be asked of some kind of contender: requests by name, and the reply to each. */
export type Protocol<P> = { readonly [K in keyof P]: { readonly request: object; readonly reply: object } }
export type HandlersOf<P extends Protocol<P>> = { readonly [K in keyof P]: (request: P[K]['request']) => Promise<P[K]['reply']> }
export type Handlers = HandlersOf<ModelProtocol>

/** CPU time that a contender used while nobody asked it anything: it should be none, or it disturbs the others. */
export interface Idle {
  readonly cpuMs: number
  readonly ms: number
}

export interface RunningContender<P extends Protocol<P> = ModelProtocol> {
  readonly name: string
  readonly idle: Idle
  /** CPU time of its process since it started, as of the last reply */
  readonly cpuMs: number
  ask<K extends keyof P & string>(kind: K, request: P[K]['request']): Promise<P[K]['reply']>
  close(): Promise<void>
}

/** What a child sends back for one request. */
export type ReplyMessage<R = object> = ({ readonly error: string } | { readonly reply: R }) & {
  readonly id: number
  readonly idle: Idle
  readonly cpuMs: number
}

const STDERR_KEPT = 2000 // characters, of the end

/** Starts a script as a contender; it dies with its channel. */
export function startChild<P extends Protocol<P> = ModelProtocol>(
  name: string,
  script: string,
  signal?: AbortSignal,
  args: readonly string[] = [],
): RunningContender<P> {
  const child = fork(script, args, {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    ...(signal === undefined ? {} : { signal }),
  })
  return new ChildContender<P>(name, child)
}

class ChildContender<P extends Protocol<P>> implements RunningContender<P> {
  readonly name: string
  readonly #child: ChildProcess
  readonly #gone: Promise<unknown>
  readonly #waiting = new Map<number, { resolve: (message: ReplyMessage) => void; reject: (error: Error) => void }>()
  #stderr = ''
  #lastId = 0
  #closing = false
  #idle: Idle = { cpuMs: 0, ms: 0 }
  #cpuMs = 0

  constructor(name: string, child: ChildProcess) {
    this.name = name
    this.#child = child
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_KEPT)
    })
    child.on('message', (message) => this.#receive(message as ReplyMessage))
    this.#gone = new Promise<void>((resolve) => {
      child.once('error', (error) => {
        this.#fail(error.message)
        resolve()
      })
      child.once('exit', () => resolve())
    })
    // After the last of stderr; Node emits it only where the child ends by itself, not after our disconnect().
    child.once('close', (code, by) => this.#fail(`the process ended (${by ?? code})`))
  }

  get idle(): Idle {
    return this.#idle
  }
  get cpuMs(): number {
    return this.#cpuMs
  }

  async ask<K extends keyof P & string>(kind: K, request: P[K]['request']): Promise<P[K]['reply']> {
    const id = ++this.#lastId
    const message = await new Promise<ReplyMessage<P[K]['reply']>>((resolve, reject) => {
      // The child replies to a request of kind K with a reply of kind K: only the protocol says so.
      this.#waiting.set(id, { resolve, reject })
      this.#child.send({ ...request, id, kind }, (error) => {
        if (error !== null) this.#fail(error.message)
      })
    })
    if ('error' in message) throw new IngotError('device-failed', message.error, { op: this.name })
    this.#cpuMs = message.cpuMs
    // Before the first request it was starting up, not idle.
    if (id > 1) this.#idle = { cpuMs: this.#idle.cpuMs + message.idle.cpuMs, ms: this.#idle.ms + message.idle.ms }
    return message.reply
  }

  async close(): Promise<void> {
    this.#closing = true
    if (this.#child.connected) this.#child.disconnect()
    await this.#gone
  }

  #receive(message: ReplyMessage): void {
    this.#waiting.get(message.id)?.resolve(message)
    this.#waiting.delete(message.id)
  }

  #fail(why: string): void {
    if (this.#closing) return
    const lastLine = this.#stderr.trim().split('\n').at(-1) ?? ''
    const error = new IngotError('device-lost', why, { op: this.name, ...(lastLine === '' ? {} : { got: lastLine }) })
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
