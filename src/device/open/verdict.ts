// What the self-test said of a device, remembered from one process to the next: where there is a verdict, it need not run again.

import { type CacheStore, openCacheStore } from './cache-store.ts'

export interface Verdict {
  readonly passed: readonly string[]
  /** `lasting` is false for troubles that may be gone tomorrow */
  readonly failed: readonly { readonly name: string; readonly error: string; readonly lasting: boolean }[]
}

export type VerdictStore = CacheStore<Verdict>

/** The verdicts of this machine. */
export function openVerdicts(): VerdictStore {
  return openCacheStore({ name: 'verdicts', isValid: isVerdict })
}

function isVerdict(value: unknown): value is Verdict {
  if (typeof value !== 'object' || value === null || !('passed' in value) || !('failed' in value)) return false
  const { passed, failed } = value
  return Array.isArray(passed) && passed.every((name) => typeof name === 'string') && Array.isArray(failed) && failed.every(isFailure)
}

function isFailure(value: unknown): value is Verdict['failed'][number] {
  if (typeof value !== 'object' || value === null || !('name' in value) || !('error' in value) || !('lasting' in value)) return false
  return typeof value.name === 'string' && typeof value.error === 'string' && typeof value.lasting === 'boolean'
}
