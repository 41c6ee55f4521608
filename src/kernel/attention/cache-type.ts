// How keys and values lie in their caches: as f32, as f16, or as bytes (q8_0): all elements as signed bytes, then a scale in f32 for
// each 32 of them. Scales are words of their own, so that no two rows share one and devices without 16-bit stores can write them.

import { wholeNumbers } from '../linear/activations.ts'

export const CACHE_TYPES = ['f16', 'f32', 'q8_0'] as const
export type CacheType = (typeof CACHE_TYPES)[number]

/** elements that share a scale */
export const CACHE_BLOCK = 32

/** Bytes of a cache of so many elements. */
export function cacheBytes(type: CacheType, elements: number): number {
  return type === 'q8_0' ? elements + 4 * (elements / CACHE_BLOCK) : elements * (type === 'f16' ? 2 : 4)
}

/** Whether heads of this size can be held so. */
export function canCache(type: CacheType, headDim: number): boolean {
  return headDim % (type === 'q8_0' ? CACHE_BLOCK : 2) === 0
}

/** What a buffer of so many cached elements holds. */
export function cacheShape(type: CacheType, elements: number): { readonly type: 'f32' | 'f16' | 'u32'; readonly elements: number } {
  return type === 'q8_0' ? { type: 'u32', elements: cacheBytes(type, elements) / 4 } : { type, elements }
}

/** Writes values into the bytes of a cache of `elements`, from an element on; both are multiples of a block. */
export function putQuantized(words: Uint32Array, elements: number, at: number, values: ArrayLike<number>): void {
  const bytes = new Int8Array(words.buffer, words.byteOffset)
  const floats = new Float32Array(words.buffer, words.byteOffset)
  const all = Array.from(values)
  for (let from = 0; from < all.length; from += CACHE_BLOCK) {
    const { scale, whole } = wholeNumbers(all.slice(from, from + CACHE_BLOCK), 127)
    bytes.set(whole, at + from)
    floats[(elements + 4 * ((at + from) / CACHE_BLOCK)) / 4] = scale
  }
}

/** The words of a cache that holds these values. */
export function quantizedCache(values: Float32Array): Uint32Array {
  const words = new Uint32Array(cacheBytes('q8_0', values.length) / 4)
  putQuantized(words, values.length, 0, values)
  return words
}

/** The values that the words of a cache of `elements` stand for. */
export function cachedValues(words: ArrayLike<number>, elements: number): Float32Array {
  const { buffer } = Uint32Array.from(words)
  const [bytes, floats] = [new Int8Array(buffer), new Float32Array(buffer)]
  return Float32Array.from({ length: elements }, (_, i) => {
    const scale = floats[elements / 4 + Math.floor(i / CACHE_BLOCK)] ?? 0
    return (bytes[i] ?? 0) * scale
  })
}

/** The words of a cache of numbers in [-1, 1). */
export function randomCache(elements: number, random: () => number): Uint32Array {
  return quantizedCache(Float32Array.from({ length: elements }, () => 2 * random() - 1))
}
