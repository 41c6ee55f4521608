// What a generation has written so far: its tokens, their text, and whether more are wanted. Text is held back where a stop string
// might be beginning. Knows tokens one by one; not where they come from, nor who reads the text.

import { createStopMatcher } from './stop.ts'
import type { StreamDecoder } from './tokenizer/stream.ts'

/** Why a generation ended: the model or a stop string ended it, no more tokens were allowed, or it was cancelled. */
export type FinishReason = 'stop' | 'length' | 'cancelled'

export interface OutputRules {
  /** tokens to text; undefined for models without a tokenizer, which write none */
  readonly decoder: StreamDecoder | undefined
  readonly stops: readonly string[]
  readonly maxTokens: number
  /** true for tokens with which the model ends its text */
  readonly isEnd: (token: number) => boolean
  readonly cancel: AbortSignal
  /** Gets text as soon as it is certain; never an empty one. */
  readonly emit: (piece: string) => void
}

export class GenerationOutput {
  readonly tokens: number[] = []
  readonly #rules: OutputRules
  readonly #matcher
  #text = ''
  #stopString: string | undefined
  #finishReason: FinishReason | undefined

  constructor(rules: OutputRules) {
    this.#rules = rules
    this.#matcher = createStopMatcher(rules.stops)
  }

  get text(): string {
    return this.#text
  }
  /** the stop string that was found, if one was */
  get stopString(): string | undefined {
    return this.#stopString
  }
  get finishReason(): FinishReason {
    const { cancel, maxTokens } = this.#rules
    return this.#finishReason ?? (cancel.aborted && this.tokens.length < maxTokens ? 'cancelled' : 'length')
  }

  /** Takes the next token; true while more are wanted. */
  push(token: number): boolean {
    const { decoder, isEnd, cancel, maxTokens } = this.#rules
    if (isEnd(token)) return this.#finish('stop')
    this.tokens.push(token)
    this.#match(decoder?.push(token) ?? '')
    if (this.#stopString !== undefined) return this.#finish('stop')
    if (cancel.aborted) return this.#finish('cancelled')
    return this.tokens.length < maxTokens
  }

  /** Lets go of what was held back: no token comes after this. */
  flush(): void {
    if (this.#stopString !== undefined) return
    this.#match(this.#rules.decoder?.flush() ?? '')
    this.#add(this.#matcher.flush())
  }

  #finish(reason: FinishReason): false {
    this.#finishReason = reason
    return false
  }

  #match(text: string): void {
    const { emit, stopped } = this.#matcher.push(text)
    this.#add(emit)
    this.#stopString = stopped
  }

  #add(piece: string): void {
    if (piece === '') return
    this.#text += piece
    this.#rules.emit(piece)
  }
}
