// What ops mean in JavaScript where one expression does not say it: conversions, roundings, sums of bytes. Used by the records
// of op.ts only. Results may still lie outside of their type: who computes rounds or wraps them.

import type { Scalar } from '../../base/dtype.ts'

/** One element of a result, given elements of the operands. */
export type Meaning = (a: number, b: number, c: number) => number

export const isInt = (scalar: Scalar): boolean => scalar === 'i32' || scalar === 'u32'

/** Float to integer saturates; wrapping to 32 bits then truncates, and makes NaN 0. Anything but 0 is true. */
export function convert(from: Scalar, to: Scalar): Meaning {
  if (to === 'bool') return (a) => (a === 0 ? 0 : 1)
  if (!isInt(to) || isInt(from) || from === 'bool') return (a) => a
  const [low, high] = to === 'i32' ? [-(2 ** 31), 2 ** 31 - 1] : [0, 2 ** 32 - 1]
  return (a) => (a < low ? low : a > high ? high : a)
}

const scratch = new DataView(new ArrayBuffer(4))

/** The same 32 bits as another type. */
export function reinterpret(from: Scalar, to: Scalar): Meaning {
  const write = from === 'f32' ? scratch.setFloat32.bind(scratch, 0) : (a: number) => scratch.setUint32(0, a >>> 0)
  const read = to === 'f32' ? scratch.getFloat32.bind(scratch, 0) : scratch.getUint32.bind(scratch, 0)
  return (a) => {
    write(a)
    return read()
  }
}

export function roundHalfEven(a: number): number {
  const down = Math.floor(a)
  const rest = a - down
  if (rest !== 0.5) return rest < 0.5 ? down : down + 1
  return down % 2 === 0 ? down : down + 1
}

export function countBits(a: number): number {
  let count = 0
  for (let rest = a >>> 0; rest !== 0; rest &= rest - 1) count++
  return count
}

/** Four products of bytes, both signed. */
export function dotSigned(x: number, y: number): number {
  return (
    ((x << 24) >> 24) * ((y << 24) >> 24) +
    ((x << 16) >> 24) * ((y << 16) >> 24) +
    ((x << 8) >> 24) * ((y << 8) >> 24) +
    (x >> 24) * (y >> 24)
  )
}

/** Two sums of two products as 16-bit numbers side by side; `dot` adds four. */
export function pairsOf(dot: (x: number, y: number) => number, x: number, y: number): number {
  return ((dot(x & 0xffff, y & 0xffff) & 0xffff) | (dot(x >>> 16, y >>> 16) << 16)) >>> 0
}

/** Four products of bytes, the first unsigned, the second signed. */
export function dotUnsigned(x: number, y: number): number {
  return (
    (x & 255) * ((y << 24) >> 24) + ((x >>> 8) & 255) * ((y << 16) >> 24) + ((x >>> 16) & 255) * ((y << 8) >> 24) + (x >>> 24) * (y >> 24)
  )
}

/** Each byte of a word replaced by the entry of a table of sixteen; only the low half of a byte is looked at. */
export function lookUp(bytes: Uint8Array, word: number): number {
  const entry = (at: number): number => (bytes[(word >>> at) & 15] ?? 0) << at
  return entry(0) | entry(8) | entry(16) | entry(24)
}
