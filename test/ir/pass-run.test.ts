// Elements of 8 and 16 bits that are read side by side share the loads of their words, wherever they begin.

import { expect, test } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { half } from '../../src/ir/pass/half.ts'
import { narrow } from '../../src/ir/pass/narrow.ts'
import { printKernel } from '../../src/ir/print.ts'
import { wgslTarget } from '../../src/emit/wgsl.ts'

const WORDS = wgslTarget({ subgroup: 0, f16: false, tiles: false })
const BYTES = 24
const toWords = (written: Kernel): Kernel => narrow(half(written, WORDS), WORDS)

/** Reads elements `at` + each offset and stores them one after the other. */
function reading(storage: 'u8' | 'i8' | 'u16' | 'i16' | 'f16', offsets: readonly number[]): Kernel {
  return kernel(
    'reading',
    { params: { w: buffer(storage as 'u8', 'read'), y: buffer('f32', 'write'), at: uniform('u32') } },
    ({ w, y, at }) => {
      offsets.forEach((offset, i) => y.set(i, w.at(at.add(offset)).to('f32')))
    },
  )
}

const loadsOf = (written: Kernel): number => printKernel(written).split(/= w\[/).length - 1

test('a block of 18 bytes takes five loads, one of 17 bytes five', () => {
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i)
  expect(loadsOf(toWords(reading('u16', upTo(9))))).toBe(5)
  expect(loadsOf(toWords(reading('u8', upTo(17))))).toBe(5)
  expect(loadsOf(toWords(reading('u16', [0, 2, 4])))).toBe(3) // not side by side
})

test.each(['u8', 'i8', 'u16', 'i16', 'f16'] as const)(
  'runs of %s mean the same from every start, and never leave the buffer',
  (storage) => {
    const size = storage.endsWith('8') ? 1 : 2
    const w = Uint8Array.from({ length: BYTES }, (_, i) => (37 * i + 11) & (storage === 'f16' ? 0x3f : 0xff))
    for (const offsets of [
      [0, 1],
      [0, 1, 2],
      [2, 1, 0, 3],
      [0, 1, 2, 3, 4, 5],
      [0, 1, 4, 5, 6, 9],
    ]) {
      const written = reading(storage, offsets)
      const lowered = toWords(written)
      for (let at = 0; at + Math.max(...offsets) < BYTES / size; at++) {
        const [want, got] = [written, lowered].map((each) => {
          const y = new Uint8Array(4 * offsets.length)
          interpret(each, { buffers: { w: w.slice(), y }, uniforms: { at }, grid: [1, 1, 1] }, { check: true })
          return y
        })
        expect(got).toEqual(want)
      }
    }
  },
)
