// Kernels of the library are known by their origin instead of their content: one origin, one text; and every kernel that a CPU can be
// asked for is listed, so that libraries compiled ahead of time hold it.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { cpuCaps } from '../../src/device/cpu/level.ts'
import { describeOrigin, hashKernel } from '../../src/ir/hash.ts'
import { printKernel } from '../../src/ir/print.ts'
import { attention } from '../../src/kernel/attention/attention.ts'
import type { Family, Launch } from '../../src/kernel/family.ts'
import { FAMILIES } from '../../src/kernel/index.ts'
import { linear } from '../../src/kernel/linear/linear.ts'
import { packedLinear } from '../../src/kernel/linear/packed-linear.ts'
import { PACKED_FORMATS, repack } from '../../src/kernel/linear/repack.ts'
import { scatter } from '../../src/kernel/move/scatter.ts'
import { takeAlong } from '../../src/kernel/move/take-along.ts'
import { take } from '../../src/kernel/move/take.ts'
import { convolve } from '../../src/kernel/window/convolve.ts'
import { random } from '../../src/kernel/random/random.ts'
import { argsort } from '../../src/kernel/select/argsort.ts'
import { fold } from '../../src/kernel/window/fold.ts'
import { pool } from '../../src/kernel/window/pool.ts'
import { unfold } from '../../src/kernel/window/unfold.ts'
import type { Windows } from '../../src/kernel/window/windows.ts'
import { tileSizes } from '../../src/kernel/linear/activations.ts'
import type { FoldTraits, FrameTraits } from '../../src/kernel/reduce/frame.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { ALL_CAPS, casesFor } from './interpret-case.ts'

/** A family with parameters. */
const use = <P extends object>(family: Family<P>, params: P) => ({ name: family.name, work: (caps: Caps) => family.work(caps, params) })

const indexed = { type: 'f32', indexType: 'i32', outer: 2, axis: 5, inner: 9, count: 3 } as const
const windows: Windows = { in: [9], kernel: [3], strides: [1], dilations: [1], padding: [[1, 1]], out: [9] }
const convolution = { type: 'f32', n: 1, channels: 4, outputs: 4, groups: 1, bias: false, ...windows } as const
const USUAL = [
  use(take, indexed),
  use(takeAlong, indexed),
  use(scatter, { ...indexed, kind: 'add', ids: 'rows' }),
  use(scatter, { ...indexed, kind: 'add', ids: 'along' }),
  use(unfold, { type: 'f32', n: 1, value: 0, ...windows }),
  use(fold, { type: 'f32', n: 1, ...windows }),
  use(convolve, convolution),
  use(convolve, { ...convolution, bias: true }),
  use(convolve, { ...convolution, groups: 4 }),
  use(pool, { kind: 'max', type: 'f32', n: 1, includePad: false, ...windows }),
  use(pool, { kind: 'average', type: 'f32', n: 1, includePad: false, ...windows }),
  use(argsort, { type: 'f32', rows: 2, cols: 9, descending: false }),
  use(argsort, { type: 'f32', rows: 2, cols: 999, descending: true }),
  use(random, { kind: 'uniform', count: 99 }),
  use(random, { kind: 'normal', count: 99 }),
]
const TENSOR_FAMILIES: ReadonlySet<string> = new Set(USUAL.map(({ name }) => name))

test('one origin, one text', () => {
  // The first and the last of one origin: those between are the least different, and writing bodies takes long.
  const found = new Map<string, { readonly first: Launch['kernel']; last: Launch['kernel'] }>()
  const add = ({ kernel }: Launch): void => {
    expect([kernel.name, kernel.origin]).not.toContain(undefined)
    const key = describeOrigin(kernel.origin!)
    const known = found.get(key) ?? { first: kernel, last: kernel }
    known.last = kernel
    found.set(key, known)
  }
  for (const caps of Object.values(ALL_CAPS)) {
    for (const family of FAMILIES) for (const params of casesFor(family, caps)) family.work(caps, params).launches.forEach(add)
  }
  expect(found.size).toBeGreaterThan(400)
  const differ = [...found].filter(([, { first, last }]) => first !== last && printKernel(first) !== printKernel(last))
  expect(differ.map(([key]) => key)).toEqual([])
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
      context: fc.integer({ min: 300, max: 9000 }),
      apart: fc.boolean(),
      softcap: fc.constantFrom(0, 30),
    })
    fc.assert(
      fc.property(params, threads, ({ group, kvHeads, ...rest }, count) => {
        const all = { ...rest, kvHeads, heads: group * kvHeads, scale: 0.1, window: 0, slots: 1, pages: 200 }
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

  test('lists the few kernels of tensors that are used most', () => {
    const launches = USUAL.flatMap(({ work }) => work(capsOf(2, 1)).launches)
    expect(missing(launches, 1)).toEqual([])
    const listed = FAMILIES.filter(({ name }) => TENSOR_FAMILIES.has(name)).flatMap(({ forms }) =>
      forms.flatMap((form) => form.kernels?.(capsOf(2, 1)) ?? []),
    )
    // no other: each takes set-up a quarter of a second for every instruction set, and all run as WebAssembly without it
    expect(new Set(listed.map(hashKernel))).toEqual(new Set(launches.map(({ kernel }) => hashKernel(kernel))))
  })

  test('lists every kernel of the other families, but for expressions and many axes', () => {
    const unlisted = FAMILIES.filter((family) => family !== linear && family.forms.some((form) => form.kernels !== undefined))
      .flatMap((family) => casesFor(family, capsOf(2, 1)).flatMap((params) => family.work(capsOf(2, 1), params).launches))
      .filter(({ kernel }) => !lists[1].has(hashKernel(kernel)))
      .map(({ kernel: { origin } }) => origin!)
    expect(unlisted.filter(({ family, traits }) => !isUnbounded(family, traits)).map(describeOrigin)).toEqual([])
  })
})

/** Expressions, types and views are whatever a program computes; more axes than two are left after merging only in made-up examples. */
function isUnbounded(family: string, traits: object): boolean {
  if (family === 'quantize8') return (traits as { source: { kind: string } }).source.kind === 'map'
  if (TENSOR_FAMILIES.has(family)) return true
  if (family === 'softmax' || family === 'norm') return (traits as { type: string }).type !== 'f32'
  if (family === 'scan') return (traits as { type: string }).type !== 'f32' || (traits as { kind: string }).kind !== 'sum'
  if (family !== 'reduce') return false
  if ('partial' in traits) return traits.partial !== 'f32' // what parts have left is compared
  const { expr, inputs, kept, reduced, type = 'f32' } = traits as FrameTraits & Partial<FoldTraits>
  const isPlain = 'input' in expr && inputs.every(({ type, along, back }) => type === 'f32' && along === 'next' && back.length === 0)
  return !isPlain || type !== 'f32' || kept > 2 || reduced > 2
}
