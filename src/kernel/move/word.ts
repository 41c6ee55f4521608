// Elements that only move are no numbers: they are words of 8, 16 or 32 bits, one or more for each. So a move keeps every bit, of a NaN and
// of a number that a GPU would take for zero, too; and kernels need not know of element types.

import { ELEMENT_BYTES, type ElementType, encodeElements } from '../../base/element.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import type { ElementSource, ElementTarget } from '../element.ts'

export type Word = 'u8' | 'u16' | 'u32'

/** Elements of memory as words. */
export interface WordRun {
  readonly word: Word
  /** that the elements take together */
  readonly words: number
}

/** The largest words that `count` elements, which stand side by side and move together, are made of. */
export function wordsOf(type: ElementType, count = 1): WordRun {
  const bytes = ELEMENT_BYTES[type] * count
  if (bytes % 4 === 0) return { word: 'u32', words: bytes / 4 }
  return bytes % 2 === 0 ? { word: 'u16', words: bytes / 2 } : { word: 'u8', words: bytes }
}

/** The words of one element with this value, lowest first, as kernels are given them. */
export function wordsOfValue(type: ElementType, value: number): number[] {
  const { word, words } = wordsOf(type)
  const { buffer, byteOffset } = encodeElements(type, [value])
  const view = new DataView(buffer, byteOffset)
  const get = {
    u8: (at: number) => view.getUint8(at),
    u16: (at: number) => view.getUint16(at, true),
    u32: (at: number) => view.getUint32(at, true),
  }
  return Array.from({ length: words }, (_, i) => get[word](4 * i))
}

/** Moves one element, whose words stand side by side; places are counted in elements. */
export function moveElement(
  k: LaneScope,
  { words }: WordRun,
  { x, y }: { readonly x: ElementSource; readonly y: ElementTarget },
  { from, to }: { readonly from: Value<'u32'>; readonly to: Value<'u32'> },
): void {
  if (words === 1) return y.set(to, x.at(from))
  const source = k.let('place', from.mul(words))
  for (let i = 0; i < words; i++) y.set(to.mul(words).add(i), x.at(source.add(i)))
}
