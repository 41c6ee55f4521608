// What a step has to bring back for samplers, and what they make of it.

import { IngotError } from '../../base/error.ts'
import type { DrawRule } from '../../kernel/select/draw.ts'
import { type SamplerInput, type SamplerNeeds, noNumber } from '../sample.ts'
import type { Choice, Output } from './runner.ts'

/** What a device chooses without the host. */
export type ChosenOnDevice = 'argmax' | { readonly topK: number; readonly rule: DrawRule }

export function choosesOnDevice(needs: SamplerNeeds): needs is ChosenOnDevice {
  return needs === 'argmax' || (typeof needs === 'object' && needs.rule !== undefined)
}

/** How the device draws a row's token, if it does. */
export function ruleOf(needs: SamplerNeeds): DrawRule | undefined {
  return typeof needs === 'object' ? needs.rule : undefined
}

/** What brings back all that the samplers of several rows need: as many candidates as the one that needs most. */
export function outputFor(all: readonly SamplerNeeds[]): Output {
  const topK = all.reduce((most, needs) => Math.max(most, typeof needs === 'object' ? needs.topK : 0), 0)
  return { kind: 'choose', topK, logits: all.includes('logits') }
}

/** What one of them needed. Throws where the model has computed what is no number. */
export function samplerInput(needs: SamplerNeeds, choice: Choice | undefined, vocabulary: number): SamplerInput {
  if (choosesOnDevice(needs)) return { kind: 'token', token: chosenToken(choice, vocabulary) }
  if (needs === 'logits') {
    if (choice?.logits === undefined) throw missing('logits')
    return { kind: 'logits', logits: choice.logits }
  }
  const candidates = choice?.candidates
  if (candidates === undefined) throw missing('candidates')
  return { kind: 'candidates', ids: candidates.ids.slice(0, needs.topK), logits: candidates.logits.slice(0, needs.topK) }
}

/** The token that a step chose. */
export function chosenToken(choice: Choice | undefined, vocabulary: number): number {
  if (choice === undefined) throw missing('a token')
  if (choice.token < vocabulary && Number.isFinite(choice.largest)) return choice.token
  throw noNumber(`logit ${choice.token}`, choice.largest)
}

function missing(what: string): IngotError {
  return new IngotError('device-failed', `the device brought back no ${what}`, { op: 'runner' })
}
