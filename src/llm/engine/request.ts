// What a scheduler is asked for, and how far it has come with it.

import type { LanguageModel } from '../../model/model.ts'
import type { SamplerInput, SamplerNeeds } from '../sample.ts'
import type { Sequence } from './sequence.ts'

/** Tokens wanted after a prompt. */
export interface Request {
  readonly model: LanguageModel
  /** at least one token */
  readonly prompt: readonly number[]
  /** what it must see to choose a token */
  readonly needs: SamplerNeeds
  /** the most tokens that it takes */
  readonly maxTokens: number
  /** its steps are its own, from the first token on: whoever else is there changes no bit of its results */
  readonly deterministic: boolean
  /** aborting it ends the request at the next step; what was given stays given */
  readonly signal: AbortSignal
  /** It has its turn: so many tokens of the prompt need not be computed. */
  begun(cachedTokens: number): void
  /** The plans for its steps are there. */
  prepared(): void
  /** Chooses a token; `more`: whether another is wanted after it. An error ends this request only. */
  take(input: SamplerInput): { readonly token: number; readonly more: boolean }
}

/** A request that has its turn. */
export interface Job {
  readonly request: Request
  readonly sequence: Sequence
  /** of the table of pages, from 1 on */
  readonly slot: number
  /** tokens that are known and not computed yet: the rest of the prompt, or the token that was chosen last */
  todo: readonly number[]
  /** tokens that were given */
  given: number
  isPrepared: boolean
}

/** A request that waits. One that had its turn before goes on with what it was given. */
export interface Waiting {
  readonly request: Request
  /** all tokens so far */
  readonly tokens: readonly number[]
  readonly given: number
  readonly done: Settle
}

export interface Settle {
  resolve(): void
  reject(reason: unknown): void
}
