// One of the things being compared: something that holds a model and answers "measure this", one request at a time. A side usually
// is a child process that stays alive, so that a model is not loaded again for every sample; bench/peers has the other one.
// Times are taken by the side itself, around work that is finished: what goes over the channel is not part of them.

import { type ChildProcess, fork } from 'node:child_process'
import { IngotError } from '../base/error.ts'

export interface Settings {
  readonly device?: string
  readonly threads?: number
  /** prompt tokens of one submission */
  readonly chunk?: number
  /** the peer's name for the same */
  readonly batch?: number
  readonly flash?: boolean
  readonly gpu?: boolean
}

export interface SideInfo {
  readonly name: string
  readonly version: string
  readonly device: string
  readonly detail: string
  /** computes on a GPU: threads do not matter */
  readonly gpu: boolean
}

/** What can be asked, and what is answered. */
export interface Requests {
  /** Loads a model, after letting go of the one before. */
  readonly open: { readonly model: string; readonly context: number; readonly settings: Settings }
  /** All tokens in, the first greedy token out, from an empty cache. */
  readonly prefill: { readonly tokens: readonly number[] }
  /** `count` greedy tokens after `tokens`, which are in the cache when the time begins. */
  readonly decode: { readonly tokens: readonly number[]; readonly count: number }
  /** The most memory that the process ever held. */
  readonly peak: Readonly<Record<never, never>>
}

export interface Replies {
  readonly open: { readonly ms: number; readonly info: SideInfo }
  readonly prefill: { readonly ms: number }
  readonly decode: { readonly ms: number; readonly tokens: readonly number[] }
  readonly peak: { readonly bytes: number }
}

export type Op = keyof Requests
export type Answers = { readonly [O in Op]: (request: Requests[O]) => Promise<Replies[O]> }

/** CPU time that a side used while nobody asked it anything: it should be none, or it disturbs the other side. */
export interface Idle {
  readonly cpuMs: number
  readonly ms: number
}

export interface Side {
  readonly name: string
  readonly idle: Idle
  /** CPU time of its process since it started, as of the last answer */
  readonly cpuMs: number
  ask<O extends Op>(op: O, request: Requests[O]): Promise<Replies[O]>
  close(): Promise<void>
}

/** What a child sends back for one request. */
export type Message = ({ readonly error: string } | Replies[Op]) & { readonly id: number; readonly idle: Idle; readonly cpuMs: number }

const STDERR_KEPT = 2000 // characters of what a child last said

/** Starts a script as a side; it dies with its channel. */
export function startChild(name: string, script: string, signal?: AbortSignal): Side {
  const child = fork(script, [], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'], ...(signal === undefined ? {} : { signal }) })
  return new ChildSide(name, child)
}

class ChildSide implements Side {
  readonly name: string
  readonly #child: ChildProcess
  readonly #gone: Promise<unknown>
  readonly #waiting = new Map<number, { resolve: (message: Message) => void; reject: (error: Error) => void }>()
  #said = ''
  #asked = 0
  #closing = false
  #idle: Idle = { cpuMs: 0, ms: 0 }
  #cpuMs = 0

  constructor(name: string, child: ChildProcess) {
    this.name = name
    this.#child = child
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(-STDERR_KEPT)
    })
    child.on('message', (message) => this.#receive(message as Message))
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

  async ask<O extends Op>(op: O, request: Requests[O]): Promise<Replies[O]> {
    const id = ++this.#asked
    const message = await new Promise<Message>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#child.send({ ...request, id, op }, (error) => {
        if (error !== null) this.#fail(error.message)
      })
    })
    if ('error' in message) throw new IngotError('device-failed', message.error, { op: this.name })
    this.#cpuMs = message.cpuMs
    // Before the first request it was starting up, not idle.
    if (id > 1) this.#idle = { cpuMs: this.#idle.cpuMs + message.idle.cpuMs, ms: this.#idle.ms + message.idle.ms }
    return message as unknown as Replies[O]
  }

  async close(): Promise<void> {
    this.#closing = true
    if (this.#child.connected) this.#child.disconnect()
    await this.#gone
  }

  #receive(message: Message): void {
    this.#waiting.get(message.id)?.resolve(message)
    this.#waiting.delete(message.id)
  }

  #fail(why: string): void {
    if (this.#closing) return
    const lastLine = this.#said.trim().split('\n').at(-1) ?? ''
    const error = new IngotError('device-lost', why, { op: this.name, ...(lastLine === '' ? {} : { got: lastLine }) })
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
