// LEB128 and floats: known bytes, and reading back what was written.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ByteReader, Bytes } from '../../src/emit/wasm/encode.ts'

function written(write: (out: Bytes) => void): Uint8Array {
  const out = new Bytes(1)
  write(out)
  return out.finish()
}

/** The length of the shortest LEB128 form of a number of `bits` bits. */
const lengthOf = (bits: number): number => Math.max(1, Math.ceil(bits / 7))

describe('Bytes', () => {
  it('writes the known forms', () => {
    expect([...written((out) => out.u32(624485))]).toEqual([0xe5, 0x8e, 0x26])
    expect([...written((out) => out.i32(-123456))]).toEqual([0xc0, 0xbb, 0x78])
    expect([...written((out) => out.i32(64))]).toEqual([0xc0, 0x00])
    expect([...written((out) => out.i32(-64))]).toEqual([0x40])
    expect([...written((out) => out.i32(0xffffffff))]).toEqual([0x7f])
    expect(written((out) => out.i64(-(2n ** 63n)))).toEqual(new Uint8Array(10).fill(0x80).fill(0x7f, 9))
    expect([...written((out) => out.f32(Number.NaN))]).toEqual([0, 0, 0xc0, 0x7f])
    expect([...written((out) => out.f64(1))]).toEqual([0, 0, 0, 0, 0, 0, 0xf0, 0x3f])
    expect([...written((out) => out.name('é'))]).toEqual([2, 0xc3, 0xa9])
  })

  it('u32 reads back, in the shortest form', () => {
    fc.assert(
      fc.property(fc.nat(0xffffffff), fc.nat(31), (large, shift) => {
        const value = large >>> shift
        const bytes = written((out) => out.u32(value))
        expect(new ByteReader(bytes).u32()).toBe(value)
        expect(bytes.length).toBe(lengthOf(value.toString(2).length))
      }),
    )
  })

  it('i32 reads back, in the shortest form', () => {
    fc.assert(
      fc.property(fc.integer({ min: -0x80000000, max: 0x7fffffff }), fc.nat(31), (large, shift) => {
        const value = large >> shift
        const bytes = written((out) => out.i32(value))
        expect(new ByteReader(bytes).i32()).toBe(value)
        const magnitude = value < 0 ? ~value : value
        expect(bytes.length).toBe(lengthOf((magnitude === 0 ? 0 : magnitude.toString(2).length) + 1))
        expect(written((out) => out.i64(BigInt(value)))).toEqual(bytes)
      }),
    )
  })

  it('i64 reads back', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.nat(63), (large, shift) => {
        const value = large >> BigInt(shift)
        expect(new ByteReader(written((out) => out.i64(value))).i64()).toBe(value)
      }),
    )
  })

  it('floats read back bit for bit', () => {
    fc.assert(
      fc.property(fc.float(), fc.double(), (single, double) => {
        const reader = new ByteReader(written((out) => (out.f32(single), out.f64(double))))
        expect(reader.f32()).toBe(single)
        expect(reader.f64()).toBe(double)
        expect(reader.done).toBe(true)
      }),
    )
  })

  it('grows by appends of any size', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 }), (parts) => {
        const bytes = written((out) => parts.forEach((part) => out.append(part)))
        expect([...bytes]).toEqual(parts.flatMap((part) => [...part]))
      }),
    )
  })
})
