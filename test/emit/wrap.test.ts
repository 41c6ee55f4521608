// Long statements are broken where a reader would, and nothing but white space changes.

import { expect, test } from 'vitest'
import { wrap } from '../../src/emit/clike/wrap.ts'

const long = (count: number, separator: string): string =>
  Array.from({ length: count }, (_, i) => `value${i}[index${i} + 1]`).join(separator)

test('short lines stay', () => {
  expect(wrap('a = b + c;', 2)).toEqual(['  a = b + c;'])
  expect(wrap('', 4)).toEqual([''])
})

test('sums break before an operator, and never inside an index if that can be helped', () => {
  expect(wrap(`sum = ${long(8, ' + ')};`, 2)).toEqual([
    '  sum = value0[index0 + 1] + value1[index1 + 1] + value2[index2 + 1] + value3[index3 + 1] + value4[index4 + 1]',
    '      + value5[index5 + 1] + value6[index6 + 1] + value7[index7 + 1];',
  ])
})

test('what is all inside a call starts on a line of its own', () => {
  expect(wrap(`float4 value = call(${long(5, ', ')});`, 0)).toEqual([
    'float4 value =',
    '    call(value0[index0 + 1], value1[index1 + 1], value2[index2 + 1], value3[index3 + 1], value4[index4 + 1]);',
  ])
})

test('directives and what cannot be broken stay whole', () => {
  const directive = `#define x ${long(9, ' + ')}`
  expect(wrap(directive, 0)).toEqual([directive])
  expect(wrap('x'.repeat(200), 2)).toEqual([`  ${'x'.repeat(200)}`])
})

test('only white space is added', () => {
  for (const separator of [' + ', ', ', ' && ', ' * ']) {
    const text = `if (f(${long(30, separator)}) < 3) {`
    const lines = wrap(text, 6)
    expect(
      lines
        .map((line) => line.trim())
        .join(' ')
        .replaceAll('= ', '='),
    ).toBe(text.replaceAll('= ', '='))
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(116)
  }
})
