// The choices that timing led to, remembered from one process to the next: measuring takes some milliseconds for each class of sizes.

import { type CacheStore, openCacheStore } from '../../open/cache-store.ts'
import type { Choice } from './report.ts'

/** By library, CPU and number of threads. */
export type TimingStore = CacheStore<readonly Choice[]>

/** The timings of this machine. */
export function openTimings(): TimingStore {
  return openCacheStore({ name: 'timings', isValid: isChoices })
}

function isChoices(value: unknown): value is readonly Choice[] {
  return Array.isArray(value) && value.every(isChoice)
}

function isChoice(value: unknown): value is Choice {
  if (typeof value !== 'object' || value === null || !('size' in value) || !('verdict' in value) || !('why' in value)) return false
  const { size, verdict, why } = value
  return typeof size === 'string' && typeof why === 'string' && (verdict === 'wrong' || verdict === 'slower' || verdict === 'faster')
}
