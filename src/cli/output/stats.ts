// A generation's statistics as people read them: two lines.

import type { GenerationStats } from '../../llm/generation-stats.ts'
import type { Model } from '../../llm/model.ts'
import { showBytes } from './style.ts'

export function describeStats(model: Model, stats: GenerationStats): string {
  const { promptTokens, cachedTokens, prefillTokensPerSecond, generatedTokens, decodeTokensPerSecond } = stats
  const cached = cachedTokens > 0 ? `, ${cachedTokens} of them cached` : ''
  const prompt = `prompt ${count(promptTokens)}${cached} (${rate(prefillTokensPerSecond)})`
  const generated = `generated ${count(generatedTokens)} (${rate(decodeTokensPerSecond)})`
  const { device, loadMs, memory } = model
  const loaded = `loaded in ${(loadMs / 1000).toFixed(1)} s`
  const bytes = `weights ${showBytes(memory.weights)}, cache ${showBytes(memory.cache)}`
  const dispatches = Math.round(stats.dispatchesPerToken)
  const work = `${round(stats.submissionsPerToken)} submission(s), ${dispatches} dispatches${extras(stats)} per token`
  return `${prompt}, ${generated}\n${device.name}: ${device.detail}; ${loaded}; ${bytes}; ${work}`
}

/** What only this device counts, in its own words. */
function extras({ extrasPerToken }: GenerationStats): string {
  return Object.entries(extrasPerToken)
    .map(([name, count]) => `, ${Math.round(count)} ${name}`)
    .join('')
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
