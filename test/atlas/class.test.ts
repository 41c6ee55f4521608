// The 96 classes, held against the rules of the reference written another way: by characters of a byte, by distance of labels.
import { describe, expect, it } from 'vitest'
import {
  BOUNDARY_BYTES,
  type ClassLabel,
  boundaryOffset,
  byteOfClass,
  classOfByte,
  classOfLabel,
  isUnity,
  labelOfByte,
  labelOfClass,
  mirrorOf,
  neighboursOf,
  turnClass,
} from '../../src/atlas/class.ts'
import { errorOf } from '../ir/run.ts'

const CLASSES = Array.from({ length: 96 }, (_, index) => index)
const BYTES = Array.from({ length: 256 }, (_, byte) => byte)
/** Bit 7 first. */
const bits = (byte: number): string => byte.toString(2).padStart(8, '0')

describe('bytes', () => {
  it('have the class of their bits, all 256', () => {
    const modality: Record<string, number> = { '00': 0, '01': 1, '10': 2, '11': 0 } // bits 5 and 4
    for (const byte of BYTES) {
      const text = bits(byte)
      const wanted =
        24 * Number.parseInt(text.slice(0, 2), 2) + 8 * (modality[text.slice(2, 4)] ?? 9) + Number.parseInt(text.slice(4, 7), 2)
      expect([text, classOfByte(byte)]).toEqual([text, wanted])
    }
    expect(classOfByte(0x2a)).toBe(21)
    expect(new Set(BYTES.map(classOfByte)).size).toBe(96)
  })

  it('are found again from their class', () => {
    for (const index of CLASSES) {
      expect(classOfByte(byteOfClass(index))).toBe(index)
      expect(BYTES.find((byte) => classOfByte(byte) === index)).toBe(byteOfClass(index))
    }
  })

  it('have labels, all 256', () => {
    for (const byte of BYTES) {
      const text = [...bits(byte)].toReversed().join('')
      const [e1, e2, e3, e6, e7] = [...text].map(Number)
      const d45 = [-1, 0, 1, -1][Number.parseInt(bits(byte).slice(1, 3), 2)]
      expect(labelOfByte(byte)).toEqual({ e1, e2, e3, e6, e7, d45 })
    }
  })

  it('turn round', () => {
    for (const index of CLASSES) {
      expect(turnClass(index, { quadrants: 4, slots: -8 })).toBe(index)
      expect(turnClass(turnClass(index, { quadrants: 1, slots: 3, mirror: true }), { quadrants: -1, slots: -3, mirror: true })).toBe(index)
    }
    expect(turnClass(21, { quadrants: 1 })).toBe(45)
    expect(turnClass(21, { slots: 3 })).toBe(16)
    expect(turnClass(21, { mirror: true })).toBe(13)
    expect(turnClass(5, { mirror: true })).toBe(5)
  })
})

describe('the Atlas graph', () => {
  it('numbers labels', () => {
    expect(CLASSES.map((index) => classOfLabel(labelOfClass(index)))).toEqual(CLASSES)
    expect(labelOfClass(95)).toEqual({ e1: 1, e2: 1, e3: 1, e6: 1, e7: 1, d45: 1 })
    expect(labelOfClass(48)).toEqual({ e1: 1, e2: 0, e3: 0, e6: 0, e7: 0, d45: -1 })
  })

  it('mirrors by three', () => {
    for (const index of CLASSES) expect(mirrorOf(index)).toBe(index % 6 < 3 ? index + 3 : index - 3)
    expect([0, 1, 2, 6].map(mirrorOf)).toEqual([3, 4, 5, 9])
  })

  it('has the neighbours that are one step away, but never the mirror', () => {
    const distance = (a: ClassLabel, b: ClassLabel): number =>
      (['e1', 'e2', 'e3', 'd45', 'e6', 'e7'] as const).reduce((sum, name) => sum + Math.abs(a[name] - b[name]), 0)
    for (const index of CLASSES) {
      const one = labelOfClass(index)
      const near = CLASSES.filter((other) => distance(one, labelOfClass(other)) === 1 && labelOfClass(other).e7 === one.e7)
      expect(neighboursOf(index)).toEqual(near)
      expect(neighboursOf(index)).toHaveLength(one.d45 === 0 ? 6 : 5)
      expect(neighboursOf(index).every((other) => neighboursOf(other).includes(index))).toBe(true)
    }
  })

  it('has two unities', () => {
    expect(CLASSES.filter(isUnity)).toEqual([1, 4])
  })

  it('lays classes out in the boundary pool', () => {
    expect(boundaryOffset(0, 0, 0)).toBe(0)
    expect(boundaryOffset(5, 12, 200)).toBe(5 * 12288 + 12 * 256 + 200)
    expect(boundaryOffset(95, 47, 255)).toBe(BOUNDARY_BYTES - 1)
    expect(BOUNDARY_BYTES).toBe(1_179_648)
  })

  it('refuses what is none', () => {
    for (const wrong of [-1, 96, 1.5, NaN]) {
      expect(errorOf(() => mirrorOf(wrong)).code).toBe('bad-class')
      expect(errorOf(() => boundaryOffset(wrong, 0, 0)).code).toBe('bad-class')
    }
    expect(errorOf(() => boundaryOffset(0, 48, 0)).code).toBe('bad-coordinates')
    expect(errorOf(() => boundaryOffset(0, 0, 256)).code).toBe('bad-coordinates')
    expect(errorOf(() => classOfByte(256)).code).toBe('bad-argument')
  })
})
