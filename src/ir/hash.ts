// A content hash for caches: the same text gives the same 32 hex digits everywhere, at once and without crypto. Not secure
// against anyone who wants a collision. Knows kernels only through their printed form.

import type { Kernel, Origin } from './kernel.ts'
import { printKernel } from './print.ts'

const PRIMES = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f] as const

/** 128 bits of `text` as 32 hex digits. */
export function hashText(text: string): string {
  let a = 0x243f6a88
  let b = 0x85a308d3
  let c = 0x13198a2e
  let d = 0x03707344
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    a = Math.imul(a ^ code, PRIMES[0])
    b = Math.imul(b ^ (code + (a >>> 15)), PRIMES[1])
    c = Math.imul(c ^ (code + (b >>> 13)), PRIMES[2])
    d = Math.imul(d ^ (code + (c >>> 16)), PRIMES[3])
    a ^= d >>> 14
  }
  // Every word ends up depending on every other, and on the length.
  a ^= text.length
  for (let round = 0; round < 3; round++) {
    a = mix(a + d)
    b = mix(b + a)
    c = mix(c + b)
    d = mix(d + c)
  }
  return [a, b, c, d].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
}

function mix(word: number): number {
  let mixed = Math.imul(word ^ (word >>> 16), PRIMES[1])
  mixed = Math.imul(mixed ^ (mixed >>> 13), PRIMES[2])
  return mixed ^ (mixed >>> 16)
}

/** An origin as one line, whatever the order of its traits. */
export function describeOrigin({ family, form, stage, traits }: Origin): string {
  return `${family}/${form}${stage === '' ? '' : `/${stage}`} ${JSON.stringify(traits, canonical)}`
}

/** JSON knows neither -0 nor infinities, hence the text of numbers; properties come in the order of their names. */
function canonical(_key: string, value: unknown): unknown {
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : Number.isFinite(value) ? value : String(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

const known = new WeakMap<Kernel, string>()

/** The hash of a kernel's origin, or of its printed form: independent of node ids and of the order in which nodes were made. */
export function hashKernel(kernel: Kernel): string {
  let hash = known.get(kernel)
  if (hash === undefined) {
    hash = hashText(kernel.origin === undefined ? printKernel(kernel) : describeOrigin(kernel.origin))
    known.set(kernel, hash)
  }
  return hash
}
