// Numbers and names as text: short, legal, and the same number back.
import { assert, double, float, property } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { doubleDigits, floatDigits, halfDigits, hex } from '../../src/emit/clike/literal.ts'
import { Names, words } from '../../src/emit/clike/name.ts'

describe('numbers as text', () => {
  it('uses the fewest digits', () => {
    expect(
      [0.0625, 1e-5, 0.1, 1, -2.5, 3.4028234663852886e38, 1.401298464324817e-45, -0, 65504, 1 / 3, 16777216, 4294967296].map((value) =>
        floatDigits(Math.fround(value)),
      ),
    ).toEqual([
      '0.0625',
      '1e-5',
      '0.1',
      '1.0',
      '-2.5',
      '3.4028234e38',
      '1e-45',
      '-0.0',
      '65504.0',
      '0.33333334',
      '16777216.0',
      '4.2949673e9',
    ])
    expect([0.5, 65519, 65520].map(halfDigits)).toEqual(['0.5', '65504.0', undefined])
    expect(hex(-1)).toBe('0xffffffff')
  })

  it('stays within the type: WGSL refuses a decimal above the largest number', () => {
    for (const sign of [1, -1]) {
      const text = floatDigits(sign * 3.4028234663852886e38)
      expect(Math.fround(Number(text))).toBe(sign * 3.4028234663852886e38)
      expect(Math.abs(Number(text))).toBeLessThanOrEqual(3.4028234663852886e38)
      expect(halfDigits(sign * 65510)).toBe(sign > 0 ? '65504.0' : '-65504.0')
    }
  })

  it('gives every f64 back, with a point or an exponent', () => {
    expect([0.1, -0, 1, 1 / 3, 1e22, 5e-324, -123456789.125].map(doubleDigits)).toEqual([
      '0.1',
      '-0.0',
      '1.0',
      '0.3333333333333333',
      '1e22',
      '5e-324',
      '-123456789.125',
    ])
    assert(
      property(double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = doubleDigits(value)
        return Object.is(Number(text), value) && /[.e]/.test(text)
      }),
      { numRuns: 2000 },
    )
  })

  it('gives every f32 back', () => {
    assert(
      property(float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = floatDigits(value)
        expect(Math.fround(Number(text))).toBe(value)
        expect(text).toMatch(/^-?\d+(\.\d+)?(e-?\d+)?$/)
        expect(text).toMatch(/[.e]/)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('names', () => {
  it('are legal, unique in sight and free again after their scope', () => {
    const names = new Names(words('max for'))
    expect(['x', 'x', 'n1', 'n1', 'max', '9-lives', ''].map((hint) => names.declare(hint))).toEqual([
      'x',
      'x2',
      'n1',
      'n1_2',
      'maxValue',
      'lives',
      'value',
    ])
    names.open()
    expect([names.declare('i'), names.declare('x')]).toEqual(['i', 'xValue'])
    names.close()
    names.open()
    expect([names.declare('i'), names.declare('i')]).toEqual(['i', 'i2'])
  })
})
