// Words out of weights whose blocks are not aligned to words: GGUF packs blocks of 17, 18, 34 or 210 bytes without padding.

import type { LaneScope } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import type { ReadBlock } from './packed/packed.ts'
import type { WeightStorage, Weights } from './weight-storage.ts'

/** The word at an offset counted in 16-bit elements. */
export function wordOf16(w: Weights<'u16'>, at: Value<'u32'>): Value<'u32'> {
  return w.at(at).or(w.at(at.add(1)).shl(16))
}

/** The word at an offset counted in bytes. */
export function wordOf8(w: Weights<'u8'>, at: Value<'u32'>): Value<'u32'> {
  return w
    .at(at)
    .or(w.at(at.add(1)).shl(8))
    .or(w.at(at.add(2)).shl(16))
    .or(w.at(at.add(3)).shl(24))
}

/** The byte at an offset counted in bytes, of weights read by 16 bits. */
export function byteOf16(w: Weights<'u16'>, at: Value<'u32'>): Value<'u32'> {
  return w.at(at.shr(1)).shr(at.and(1).mul(8)).and(255)
}

/** The byte at an offset counted in bytes, of weights read by words. */
export function byteOf32(w: Weights<'u32'>, at: Value<'u32'>): Value<'u32'> {
  return w.at(at.shr(2)).shr(at.and(3).mul(8)).and(255)
}

/** The f32 value of the half in the low 16 bits. */
export function halfOf(bits: Value<'u32'>): Value<'f32'> {
  return bits.unpackF16().lane(0)
}

/** The low nibbles of four words, then their high nibbles: the order of all 32-weight blocks with 4-bit quants. */
export function nibbles(k: LaneScope, word: (i: number) => Value<'u32'>): Value<'u32'>[] {
  const words = [0, 1, 2, 3].map((i) => k.let('word', word(i)))
  return [...words.map((w) => w.and(0x0f0f0f0f)), ...words.map((w) => w.shr(4).and(0x0f0f0f0f))]
}

/** For weights of this storage; what is read is aligned as its elements are, unless it is a single byte. */
export function readerOf(storage: WeightStorage, w: Weights): ReadBlock<Value<'u32'>> {
  switch (storage) {
    case 'u32': {
      const words = w as Weights<'u32'>
      return (at, bytes) => {
        if (bytes === 4) return words.at(at.shr(2))
        return bytes === 2 ? words.at(at.shr(2)).shr(at.and(2).mul(8)).and(0xffff) : byteOf32(words, at)
      }
    }
    case 'u16': {
      const halves = w as Weights<'u16'>
      return (at, bytes) => (bytes === 4 ? wordOf16(halves, at.shr(1)) : bytes === 2 ? halves.at(at.shr(1)) : byteOf16(halves, at))
    }
    default: {
      const single = w as Weights<'u8'>
      return (at, bytes) => {
        if (bytes === 4) return wordOf8(single, at)
        return bytes === 2 ? single.at(at).or(single.at(at.add(1)).shl(8)) : single.at(at)
      }
    }
  }
}
