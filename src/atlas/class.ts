// The 96 classes, by the two schemes that share the name: those of the Atlas graph, which the instructions mean (a class is a label of
// six coordinates), and those of bytes, which the generators of the byte algebra mean. Pure arithmetic, no state.

import { IngotError } from '../base/error.ts'

/** How many classes there are. */
export const CLASSES = 96
export const PAGES = 48
export const PAGE_BYTES = 256
/** bytes of one class in the boundary pool */
export const CLASS_BYTES = PAGES * PAGE_BYTES
/** bytes of the whole boundary pool */
export const BOUNDARY_BYTES = CLASSES * CLASS_BYTES
export const PHASES = 768

/** Where a class is in the Atlas graph. */
export interface ClassLabel {
  readonly e1: 0 | 1
  readonly e2: 0 | 1
  readonly e3: 0 | 1
  readonly d45: -1 | 0 | 1
  readonly e6: 0 | 1
  readonly e7: 0 | 1
}

const bit = (value: number): 0 | 1 => ((value & 1) === 0 ? 0 : 1)
const third = (value: number): -1 | 0 | 1 => (value === 0 ? -1 : value === 1 ? 0 : 1)

/** The place of a class in the graph. */
export function labelOfClass(index: number): ClassLabel {
  checkClass('labelOfClass', index)
  const binary = Math.floor(index / 3)
  return {
    e1: bit(binary >> 4),
    e2: bit(binary >> 3),
    e3: bit(binary >> 2),
    e6: bit(binary >> 1),
    e7: bit(binary),
    d45: third(index % 3),
  }
}

/** The class at a place of the graph. */
export function classOfLabel({ e1, e2, e3, d45, e6, e7 }: ClassLabel): number {
  return ((((e1 * 2 + e2) * 2 + e3) * 2 + e6) * 2 + e7) * 3 + d45 + 1
}

/** The label of a byte: its low five bits are e1, e2, e3, e6, e7, the next two d45. */
export function labelOfByte(byte: number): ClassLabel {
  checkByte('labelOfByte', byte)
  return {
    e1: bit(byte),
    e2: bit(byte >> 1),
    e3: bit(byte >> 2),
    e6: bit(byte >> 3),
    e7: bit(byte >> 4),
    d45: third(((byte >> 5) & 3) % 3),
  }
}

/** The class on the other side of e7. */
export function mirrorOf(index: number): number {
  const label = labelOfClass(index)
  return classOfLabel({ ...label, e7: label.e7 === 0 ? 1 : 0 })
}

/** The classes one step away, smallest first: one of e1, e2, e3, e6 turned, or d45 moved by one. The mirror is none of them. */
export function neighboursOf(index: number): number[] {
  const label = labelOfClass(index)
  const turned = (['e1', 'e2', 'e3', 'e6'] as const).map((name) => ({ ...label, [name]: label[name] === 0 ? 1 : 0 }))
  const moved = (label.d45 === 0 ? ([-1, 1] as const) : ([0] as const)).map((d45) => ({ ...label, d45 }))
  return [...turned, ...moved].map(classOfLabel).toSorted((a, b) => a - b)
}

const UNITY: readonly number[] = [1, 4]

/** True for the two classes of unity, 1 and 4. */
export function isUnity(index: number): boolean {
  checkClass('isUnity', index)
  return UNITY.includes(index)
}

/** Where a byte of a page of a class is in the boundary pool. */
export function boundaryOffset(index: number, page: number, byte: number): number {
  checkClass('boundaryOffset', index)
  if (!isBelow(page, PAGES) || !isBelow(byte, PAGE_BYTES)) {
    throw new IngotError('bad-coordinates', 'no such place in the boundary pool', {
      op: 'boundaryOffset',
      got: [index, page, byte],
      wanted: `a page below ${PAGES} and a byte below ${PAGE_BYTES}`,
    })
  }
  return index * CLASS_BYTES + page * PAGE_BYTES + byte
}

/** What a byte is to the byte algebra: its quadrant h2 (0-3), modality d (0-2) and slot l (0-7). */
export interface ByteLabel {
  readonly quadrant: number
  readonly modality: number
  readonly slot: number
}

/** By bits 4 and 5, the lower first. */
const MODALITIES = [0, 1, 2, 0] as const

/** Quadrant, modality and slot of a byte. */
export function byteLabel(byte: number): ByteLabel {
  checkByte('byteLabel', byte)
  return { quadrant: byte >> 6, modality: MODALITIES[((byte >> 4) & 3) as 0 | 1 | 2 | 3], slot: (byte >> 1) & 7 }
}

/** The class of a byte; its lowest bit does not matter. */
export function classOfByte(byte: number): number {
  const { quadrant, modality, slot } = byteLabel(byte)
  return 24 * quadrant + 8 * modality + slot
}

/** The smallest byte of a class of the byte algebra. */
export function byteOfClass(index: number): number {
  checkClass('byteOfClass', index)
  return (Math.floor(index / 24) << 6) | ((Math.floor(index / 8) % 3) << 4) | ((index % 8) << 1)
}

/** Turns of a class of the byte algebra: quadrants and slots move round, the mirror exchanges modalities 1 and 2. */
export function turnClass(index: number, { quadrants = 0, slots = 0, mirror = false } = {}): number {
  checkClass('turnClass', index)
  const modality = Math.floor(index / 8) % 3
  const quadrant = modulo(Math.floor(index / 24) + quadrants, 4)
  return 24 * quadrant + 8 * (mirror ? (3 - modality) % 3 : modality) + modulo((index % 8) + slots, 8)
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by
}

function isBelow(value: number, end: number): boolean {
  return Number.isInteger(value) && value >= 0 && value < end
}

function checkClass(op: string, index: number): void {
  if (!isBelow(index, CLASSES)) throw new IngotError('bad-class', 'no such class', { op, got: index, wanted: `0 to ${CLASSES - 1}` })
}

function checkByte(op: string, byte: number): void {
  if (!isBelow(byte, 256)) throw new IngotError('bad-argument', 'no byte', { op, got: byte, wanted: '0 to 255' })
}
