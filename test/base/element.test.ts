// The codecs of element types against typed arrays, bigints and a search among all values that a type has.

import * as fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { ELEMENT_BYTES, ELEMENT_TYPES, type ElementType, decodeElements, encodeElements, roundElements } from '../../src/base/element.ts'

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): number[] => [...new Uint8Array(buffer, byteOffset, byteLength)]
/** Any number, whole or not, near or far, and what is none. */
const anyNumber = fc.oneof(
  fc.double(),
  fc.float(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.constantFrom(0, -0, 0.5, -0.5, Infinity, -Infinity, NaN),
)
const anyNumbers = fc.array(anyNumber, { maxLength: 20 })

describe('types that typed arrays have', () => {
  const arrays = { f32: Float32Array, f64: Float64Array, i32: Int32Array, u32: Uint32Array, i8: Int8Array, u8: Uint8Array } as const
  test.each(Object.keys(arrays) as (keyof typeof arrays)[])('%s is encoded as its typed array does it, and comes back', (type) => {
    const run = fc.property(anyNumbers, (values) => {
      const typed = arrays[type].from(values)
      const bytes = encodeElements(type, values)
      expect([...bytes]).toEqual(bytesOf(typed))
      expect(decodeElements(type, bytes, values.length)).toEqual(typed)
    })
    fc.assert(run)
  })
})

describe('bf16', () => {
  const valueOf = (half: number): number => new Float32Array(Uint32Array.of(half * 65536).buffer)[0]!
  /** those that are finite and not negative, in order: their bits count up */
  const finite = Float64Array.from({ length: 0x7f80 }, (_, half) => valueOf(half))

  /** The nearest by search; of two as near the even one. Half a step beyond the largest is infinity. */
  function nearest(x: number): number {
    const size = Math.abs(x)
    let [low, high] = [0, 0x7f80]
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (finite[middle]! <= size) low = middle
      else high = middle
    }
    const [a, b] = [finite[low]!, high === 0x7f80 ? 2 ** 128 : finite[high]!]
    const even = size - a === b - size ? low % 2 === 0 : size - a < b - size
    return (x < 0 || Object.is(x, -0) ? 0x8000 : 0) + (even ? low : high)
  }
  const encoded = (x: number): number => new Uint16Array(encodeElements('bf16', [x]).buffer)[0]!

  it('keeps every value it has', () => {
    const all = Uint16Array.from({ length: 65536 }, (_, half) => half)
    const values = decodeElements('bf16', new Uint8Array(all.buffer), 65536)
    expect([...values].every((value, half) => Object.is(value, valueOf(half)))).toBe(true)
    const back = new Uint16Array(encodeElements('bf16', values).buffer)
    expect([...all].filter((half) => back[half] !== (Number.isNaN(values[half]) ? 0x7fc0 : half))).toEqual([])
  })

  it('rounds any double to the nearest, ties to even, in one step', () => {
    const step = fc.integer({ min: 0, max: 0x7f7e })
    const part = fc.oneof(fc.constantFrom(0.5, 0.5 + 2 ** -40, 0.5 - 2 ** -40), fc.double({ min: 0, max: 1, noNaN: true }))
    const between = fc
      .tuple(step, part, fc.constantFrom(1, -1))
      .map(([at, f, sign]) => sign * (finite[at]! + f * (finite[at + 1]! - finite[at]!)))
    const agrees = (x: number): boolean => encoded(x) === nearest(x)
    fc.assert(fc.property(fc.oneof(between, fc.double({ noNaN: true, noDefaultInfinity: true, min: -4e38, max: 4e38 })), agrees), {
      numRuns: 2000,
    })
  })

  it('knows the ends', () => {
    expect([Infinity, -Infinity, 1e300, 2 ** 128 - 2 ** 119, 2 ** 128 - 2 ** 119 - 2 ** 80].map(encoded)).toEqual([
      0x7f80, 0xff80, 0x7f80, 0x7f80, 0x7f7f,
    ])
    expect([1e-300, -1e-300, 2 ** -134, 2 ** -134 + 2 ** -180].map(encoded)).toEqual([0, 0x8000, 0, 1])
  })
})

describe('f16', () => {
  it('rounds to even, overflows to infinity and keeps the sign of zero', () => {
    const values = [1 + 2 ** -11, 1 + 3 * 2 ** -11, 1 + 2 ** -11 + 2 ** -40, 65519.99, 65520, -0, 2 ** -24, NaN]
    expect([...roundElements('f16', values)]).toEqual([1, 1 + 2 ** -9, 1 + 2 ** -10, 65504, Infinity, -0, 2 ** -24, NaN])
    expect(encodeElements('f16', [1, -2])).toEqual(Uint8Array.of(0x00, 0x3c, 0x00, 0xc0))
  })
})

describe('i64', () => {
  it('holds whole numbers of 53 bits exactly, low word first', () => {
    const run = fc.property(fc.array(fc.maxSafeInteger()), (values) => {
      const bytes = encodeElements('i64', values)
      expect([...bytes]).toEqual(bytesOf(BigInt64Array.from(values, BigInt)))
      expect([...decodeElements('i64', bytes, values.length)]).toEqual(values.map((value) => value + 0))
    })
    fc.assert(run)
    expect([...encodeElements('i64', [-2])]).toEqual([0xfe, 255, 255, 255, 255, 255, 255, 255])
    expect([...encodeElements('i64', [2 ** 53])]).toEqual([0, 0, 0, 0, 0, 0, 32, 0])
  })

  it('cuts and wraps like a typed array', () => {
    const run = fc.property(anyNumber, (value) => {
      const want = Number.isFinite(value) ? BigInt.asIntN(64, BigInt(Math.trunc(value))) : 0n
      expect(new BigInt64Array(encodeElements('i64', [value]).buffer)[0]).toBe(want)
    })
    fc.assert(run)
  })

  it('gives a number or refuses, and never rounds', () => {
    const run = fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.integer({ min: 0, max: 63 }), (big, shift) => {
      const value = (big >> BigInt(shift)) << BigInt(shift)
      const bytes = new Uint8Array(BigInt64Array.of(value).buffer)
      const decode = (): number => decodeElements('i64', bytes, 1)[0]!
      if (BigInt(Number(value)) === value) expect(decode()).toBe(Number(value))
      else expect(decode).toThrow(/no JavaScript number holds exactly, got -?\d+/)
    })
    fc.assert(run, { numRuns: 1000 })
  })
})

it('bool is whether a number is not 0', () => {
  expect([...encodeElements('bool', [0, -0, 1, 0.25, -3, NaN, 256])]).toEqual([0, 0, 1, 1, 1, 1, 1])
})

describe.each(ELEMENT_TYPES)('%s', (type: ElementType) => {
  const size = ELEMENT_BYTES[type]

  it('takes as many bytes as the table says, and what it holds stays', () => {
    const run = fc.property(anyNumbers, (values) => {
      const bytes = encodeElements(
        type,
        values.map((value) => (type === 'i64' && Math.abs(value) >= 2 ** 53 ? 7 : value)),
      )
      expect(bytes.length).toBe(size * values.length)
      const held = decodeElements(type, bytes, values.length)
      expect(encodeElements(type, held)).toEqual(bytes)
      expect(roundElements(type, held)).toEqual(held)
    })
    fc.assert(run)
  })

  it('is read from anywhere in memory, into memory of its own', () => {
    const bytes = encodeElements(type, [1, 0, 1])
    const larger = new Uint8Array(bytes.length + 4).fill(0xff)
    larger.set(bytes, 1)
    const held = decodeElements(type, larger.subarray(1), 3)
    larger.fill(0)
    expect([...held]).toEqual([1, 0, 1])
    expect([...decodeElements(type, bytes, 2)]).toEqual([1, 0])
  })

  it('is not read past the end', () => {
    expect(() => decodeElements(type, new Uint8Array(3 * size - 1), 3)).toThrow(`wanted ${3 * size}`)
    expect(decodeElements(type, new Uint8Array(3 * size), 3)).toHaveLength(3)
  })
})
