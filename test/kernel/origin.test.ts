// Kernels of the library are known by their origin instead of their content: one origin, one text; and every kernel that a CPU can be
// asked for is listed, so that libraries compiled ahead of time hold it.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cpuCaps } from '../../src/device/cpu/level.ts'
import { describeOrigin, hashKernel } from '../../src/ir/hash.ts'
import { printKernel } from '../../src/ir/print.ts'
import { attention } from '../../src/kernel/attention/attention.ts'
import type { Launch } from '../../src/kernel/family.ts'
import { FAMILIES } from '../../src/kernel/index.ts'
import { linear } from '../../src/kernel/linear/linear.ts'
import { packedLinear } from '../../src/kernel/linear/packed-linear.ts'
import { PACKED_FORMATS, repack } from '../../src/kernel/linear/repack.ts'
import { tileSizes } from '../../src/kernel/linear/activations.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { ALL_CAPS, casesFor } from './interpret-case.ts'

test('one origin, one text', () => {
  const texts = new Map<string, string>()
  const add = ({ kernel }: Launch): void => {
    expect([kernel.name, kernel.origin]).not.toContain(undefined)
    const key = describeOrigin(kernel.origin!)
    const text = printKernel(kernel)
    expect(`${key} ${text}`).toBe(`${key} ${texts.get(key) ?? text}`)
    texts.set(key, text)
  }
  for (const caps of Object.values(ALL_CAPS)) {
    for (const family of FAMILIES) for (const params of casesFor(family, caps)) family.work(caps, params).launches.forEach(add)
  }
  expect(texts.size).toBeGreaterThan(400)
}, 120_000)

test('an origin tells -0 from 0, and knows infinities', () => {
  const key = (value: number): string => describeOrigin({ family: 'f', form: 'g', stage: '', traits: { value } })
  expect(new Set([0, -0, Infinity, -Infinity, Number.NaN].map(key)).size).toBe(5)
})

test('a body is written only when somebody looks', () => {
  const [launch] = repack.work(ALL_CAPS['vectors of 4']!, { format: 'q4_k', m: 16, k: 256 }).launches
  expect(launch!.kernel.params.map(({ name }) => name)).toEqual(['w', 'y', 'm', 'blocks', 'groupWords'])
  expect(launch!.kernel.body.op).toBe('block')
})

describe.each([4, 8, 16] as const)('a CPU with vectors of %i', (width) => {
  const capsOf = (threads: number, streams: number) => cpuCaps({ width, threads, bufferBytes: 2 ** 40, streams })
  const listed = (streams: number): Set<string> =>
    new Set(FAMILIES.flatMap(({ forms }) => forms.flatMap((form) => form.kernels?.(capsOf(2, streams)) ?? [])).map(hashKernel))
  const lists = { 1: listed(1), 4: listed(4) }
  const threads = fc.constantFrom(1, 2, 3, 8, 64)
  const streams = fc.constantFrom<(1 | 4)[]>(1, 4)
  const missing = (launches: readonly Launch[], which: 1 | 4): string[] =>
    launches.filter(({ kernel }) => !lists[which].has(hashKernel(kernel))).map(({ kernel }) => describeOrigin(kernel.origin!))

  test('lists every kernel of attention', () => {
    const params = fc.record({
      type: fc.constantFrom<('f32' | 'f16')[]>('f32', 'f16'),
      rows: fc.integer({ min: 1, max: 300 }),
      kvHeads: fc.integer({ min: 1, max: 16 }),
      group: fc.integer({ min: 1, max: 12 }),
      headDim: fc.integer({ min: 1, max: 64 }).map((quarter) => 4 * quarter),
      capacity: fc.integer({ min: 300, max: 9000 }),
      softcap: fc.constantFrom(0, 30),
    })
    fc.assert(
      fc.property(params, threads, ({ group, kvHeads, ...rest }, count) => {
        const all = { ...rest, kvHeads, heads: group * kvHeads, scale: 0.1, window: 0 }
        expect(missing(attention.work(capsOf(count, 1), all).launches, 1)).toEqual([])
      }),
      { numRuns: 500 },
    )
  })

  test('lists every kernel of products', () => {
    const params = fc.record({
      m: fc.integer({ min: 1, max: 9000 }),
      blocks: fc.integer({ min: 1, max: 20 }),
      n: fc.integer({ min: 1, max: 40 }),
      added: fc.constantFrom<('nothing' | 'bias' | 'residual')[]>('nothing', 'bias', 'residual'),
    })
    fc.assert(
      fc.property(params, threads, streams, ({ m, blocks, n, added }, count, which) => {
        const caps = capsOf(count, which)
        const columns = tileSizes(caps).find((size) => size >= n) ?? tileSizes(caps).at(-1)!
        for (const format of PACKED_FORMATS) {
          expect(missing(packedLinear.work(caps, { format, m, k: 256 * blocks, n, columns, added }).launches, which)).toEqual([])
        }
        for (const { name, element, packed } of FORMATS) {
          if (packed !== undefined) continue // models use the packed layout
          const k = element === undefined ? 256 * blocks : 4 * blocks
          expect(missing(linear.work(caps, { format: name, m, k, n, bias: added === 'bias' }).launches, which)).toEqual([])
        }
      }),
      { numRuns: 100 },
    )
  })

  test('lists every kernel of the other families, but for expressions and many axes', () => {
    const unlisted = FAMILIES.filter((family) => family !== linear && family.forms.some((form) => form.kernels !== undefined))
      .flatMap((family) => casesFor(family, capsOf(2, 1)).flatMap((params) => family.work(capsOf(2, 1), params).launches))
      .filter(({ kernel }) => !lists[1].has(hashKernel(kernel)))
      .map(({ kernel: { origin } }) => origin!)
    expect(unlisted.filter(({ family, traits }) => !isUnbounded(family, traits)).map(describeOrigin)).toEqual([])
  })
})

/** Expressions are whatever a model computes; more axes than two are left after merging only in made-up examples. */
function isUnbounded(family: string, traits: object): boolean {
  if (family === 'quantize8') return (traits as { source: { kind: string } }).source.kind === 'map'
  const { kept = 0, reduced = 0 } = traits as { kept?: number; reduced?: number }
  return family === 'reduce' && (kept > 2 || reduced > 2)
}
