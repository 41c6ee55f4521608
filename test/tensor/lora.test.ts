// A linear layer with a low-rank change: what a plan makes of it, that this is what its definition says, forwards and backwards, for any
// shapes and on any kind of hardware, and what is refused.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { repack } from '../../src/kernel/linear/repack.ts'
import { sideBySide } from '../../src/quant/packed/packed.ts'
import { gradients } from '../../src/tensor/grad.ts'
import { expand } from '../../src/tensor/lowering.ts'
import type { TensorNode } from '../../src/tensor/node.ts'
import { buildPlan } from '../../src/tensor/plan.ts'
import { rewriteGraph } from '../../src/tensor/rewrite/index.ts'
import { Storage } from '../../src/tensor/storage.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { randomBlocks } from '../kernel/block.ts'
import { randomFrom } from '../kernel/input.ts'
import { filled } from './leaf.ts'

const CPU = { lanes: 1, subgroup: 0, width: 4, dot: true, sharedBytes: 2 ** 20 } as const

/** Operations that a plan runs, by name. */
function operations(device: Device, ...roots: Tensor[]): string[] {
  const { nodes } = rewriteGraph(roots.map(({ node }) => node), device.caps) // prettier-ignore
  const isWork = ({ op }: TensorNode): boolean => op !== 'leaf' && op !== 'reshape'
  return nodes
    .filter(isWork)
    .map(({ op }) => op)
    .toSorted()
}

async function read(device: Device, ...tensors: Tensor[]): Promise<Float32Array[]> {
  using plan = await buildPlan(device, { reads: tensors })
  return (await plan.run()).map((bytes) => new Float32Array(bytes.slice().buffer))
}

/** The length of the difference over that of what is wanted. */
function distance(got: Float32Array, want: Float32Array): number {
  return Math.hypot(...got.map((value, i) => value - want[i]!)) / Math.hypot(...want)
}

/** The same without the operation, and without sums that go on: nothing is joined to what others want as well. */
const defined = (tensor: Tensor): Tensor => new Tensor(expand([tensor.node], new Set(['lora']))(tensor.node))

test('is two products in one sum, behind what the change makes of x', () => {
  const device = openReference({ check: false })
  const [x, w, a, b] = [filled(device, [12, 32], 1), filled(device, [20, 32], 2), filled(device, [4, 32], 3), filled(device, [20, 4], 4)]
  expect(operations(device, x.lora(w, a, b))).toEqual(['joinedLinear', 'linear'])
  expect(operations(device, x.lora(w, a, b, 2, { bias: filled(device, [20], 5) }))).toEqual(['joinedLinear', 'linear', 'map'])
  // who writes it as two products gets the same
  expect(operations(device, x.matmul(w.transpose()).add(x.matmul(a.transpose()).matmul(b.transpose())))).toEqual(['joinedLinear', 'matmul'])
  // a change that is as large as the weight, or wanted by itself, stays a product
  const wide = x.lora(w, filled(device, [24, 32], 6), filled(device, [20, 24], 7))
  expect(operations(device, wide)).toEqual(['linear', 'linear', 'linear', 'map'])
  const change = x.linear(a).linear(b)
  expect(operations(device, x.linear(w).add(change), change)).toContain('map')
})

test('what comes back is joined, too, and what the change made of x is not computed again', () => {
  const device = openReference({ check: false })
  const [x, w, a, b] = [filled(device, [12, 32], 1), filled(device, [20, 32], 2), filled(device, [4, 32], 3), filled(device, [20, 4], 4)]
  const y = x.lora(w, a, b)
  const all = operations(device, y, ...gradients(y, [x, a, b], filled(device, [12, 20], 5)))
  // forwards: u and y; backwards: what comes back through b, x, a and b
  expect(all).toEqual(['joinedLinear', 'joinedLinear', 'linear', 'matmul', 'matmul', 'matmul'])
})

test('values and gradients are those of the definition, for any shapes', async () => {
  const side = fc.integer({ min: 1, max: 40 })
  const shape = fc.record({
    rows: fc.constantFrom([1], [3], [12], [2, 5]),
    out: side,
    inner: fc.integer({ min: 2, max: 40 }),
    rank: fc.integer({ min: 1, max: 9 }),
    scale: fc.constantFrom(1, 0.5),
    hasBias: fc.boolean(),
    hasSeen: fc.boolean(),
    isCpu: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(shape, async ({ rows, out, inner, rank, scale, hasBias, hasSeen, isCpu }) => {
      await using device = openReference(isCpu ? { caps: CPU } : {})
      const [x, w] = [filled(device, [...rows, inner], 1), filled(device, [out, inner], 2)]
      const [a, b] = [filled(device, [rank, inner], 3), filled(device, [out, rank], 4)]
      const bias = hasBias ? filled(device, [out], 5) : undefined
      const seen = hasSeen ? filled(device, [...rows, inner], 6) : undefined
      const y = x.lora(w, a, b, scale, { bias, seen })
      const dy = filled(device, [...rows, out], 7)
      const sources = [x, w, a, b, ...(bias ? [bias] : []), ...(seen ? [seen] : [])]
      const [got, want] = [y, defined(y)].map((each) => [each, ...gradients(each, sources, dy)])
      const wanted = await read(device, ...want!)
      const values = await read(device, ...got!)
      for (const [i, each] of wanted.entries()) expect(distance(values[i]!, each)).toBeLessThan(1e-5)
    }),
    { numRuns: 25 },
  )
})

test('with packed weights, factors that lie as their rows do are joined; others are added', async () => {
  await using device = openReference({ caps: CPU, check: false })
  const [m, k, rank] = [20, 256, 3]
  const words = repack.define({ w: randomBlocks('q8_0', m * k, randomFrom(7)) }, { format: 'q8_0', m, k })['y']!
  const buffer = device.alloc(words.byteLength)
  device.write(buffer, 0, new Uint8Array(words.buffer))
  const w = Tensor.leaf(new Storage('packed', buffer), [m, k], 'q8_0')
  const [x, a, bias, other] = [filled(device, [2, k], 1), filled(device, [rank, k], 2), filled(device, [m], 4), filled(device, [2, m], 5)]
  const beside = filled(device, sideBySide(m, rank), 3)
  const b = beside.permute(0, 2, 1).reshape(32, rank).slice([0, m])
  const plain = new Tensor((await new Tensor(b.node, device).realize()).node)
  const forms: [string[], (b: Tensor) => Tensor][] = [
    [['linear', 'packedLinear', 'quantize8'], (each) => x.lora(w, a, each)],
    [['linear', 'packedLinear', 'quantize8'], (each) => x.lora(w, a, each, 1, { bias })],
    [['linear', 'packedLinear', 'quantize8'], (each) => other.add(x.lora(w, a, each))],
  ]
  for (const [wanted, make] of forms) {
    const joined = make(filled(device, sideBySide(m, rank), 3).permute(0, 2, 1).reshape(32, rank).slice([0, m]))
    expect(operations(device, joined)).toEqual(wanted)
    expect(operations(device, make(plain))).toContain('packedLinear')
    expect(operations(device, make(plain)).filter((op) => op === 'linear')).toHaveLength(2)
    const [got, want] = await read(device, joined, make(plain))
    expect(distance(got!, want!)).toBeLessThan(1e-6)
  }
})

test('what does not fit is refused', () => {
  const device = openReference({ check: false })
  const of = (...shape: number[]): Tensor => filled(device, shape, 1)
  const [x, w] = [of(3, 8), of(5, 8)]
  expect(() => x.lora(w, of(2, 7), of(5, 2))).toThrow('lora: wrong shape of a')
  expect(() => x.lora(w, of(2, 8), of(4, 2))).toThrow('lora: wrong shape of b')
  expect(() => x.lora(w, of(2, 8), of(5, 3))).toThrow('a and b differ in rank')
  expect(() => x.lora(w, of(2, 8), of(5, 2), Number.NaN)).toThrow('the scale is no number')
  expect(() => x.lora(w, of(2, 8), of(5, 2), 1, { seen: of(2, 8) })).toThrow('what the change sees')
  expect(() => x.lora(w, of(2, 8), of(5, 2), 1, { bias: of(4) })).toThrow('the bias')
})
