// Loops that are copied for each op, and what happens where a page's security policy forbids to compile text.

import { afterEach, expect, test, vi } from 'vitest'
import { byArity, copyOf } from '../../src/ir/interpret/loop.ts'

afterEach(() => {
  vi.unstubAllGlobals()
})

function sumOf(loop: ReturnType<typeof byArity>): number[] {
  const out = new Float32Array(2)
  loop((a, b) => a + b, Math.fround, out, Float32Array.of(1, 2), Float32Array.of(3, 4), out)()
  return [...out]
}

test('a copy does what the loop does, and is another function', () => {
  const copy = copyOf(byArity(2), 'test: copied')
  expect(copy).not.toBe(byArity(2))
  expect(copyOf(byArity(2), 'test: copied')).toBe(copy)
  expect(sumOf(copy)).toEqual([4, 6])
})

test('where no text may be compiled, the loop itself serves', () => {
  vi.stubGlobal('Function', function refuse() {
    throw new EvalError('forbidden')
  })
  expect(sumOf(copyOf(byArity(2), 'test: forbidden'))).toEqual([4, 6])
  expect(copyOf(byArity(2), 'test: forbidden')).toBe(byArity(2))
})
