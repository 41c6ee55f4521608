// A generation's numbers as people read them: two lines at most.

import type { GenerationStats } from '../llm/generation.ts'
import type { Model } from '../llm/model.ts'
import { showBytes } from './terminal.ts'

export function describeStats(model: Model, stats: GenerationStats): string {
  const { promptTokens, cachedTokens, prefillTokensPerSecond, generatedTokens, decodeTokensPerSecond } = stats
  const cached = cachedTokens > 0 ? `, ${cachedTokens} of them cached` : ''
  const { weights, cache } = model.memory
  return [
    `prompt ${count(promptTokens)}${cached} (${rate(prefillTokensPerSecond)}), answer ${count(generatedTokens)} (${rate(decodeTokensPerSecond)})`,
    `${model.device.name}: ${model.device.detail}; loaded in ${(model.loadMs / 1000).toFixed(1)} s; weights ${showBytes(weights)}, cache ${showBytes(cache)}; ` +
      `${round(stats.submissionsPerToken)} submission(s), ${Math.round(stats.dispatchesPerToken)} dispatches${messages(stats)} per token`,
  ].join('\n')
}

function messages({ messagesPerToken }: GenerationStats): string {
  return messagesPerToken === undefined ? '' : `, ${Math.round(messagesPerToken)} Objective-C messages`
}

function count(tokens: number): string {
  return `${tokens} token${tokens === 1 ? '' : 's'}`
}

function rate(perSecond: number): string {
  return `${perSecond.toFixed(perSecond < 100 ? 1 : 0)} tok/s`
}

function round(value: number): string {
  return String(Math.round(value * 100) / 100)
}
