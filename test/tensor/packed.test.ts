// Rewrites around packed weights: what is joined, what is not, and that it makes no difference to the result.

import { expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { repack } from '../../src/kernel/linear/repack.ts'
import type { NodeOf, OpName, TensorNode } from '../../src/tensor/node.ts'
import { buildPlan } from '../../src/tensor/plan.ts'
import { rewriteGraph } from '../../src/tensor/rewrite/index.ts'
import { Storage } from '../../src/tensor/storage.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { randomBlocks } from '../kernel/block.ts'
import { randomFrom } from '../kernel/input.ts'
import { filled } from './leaf.ts'

const K = 256
const ROWS = 2

const openCpuLike = (): Device =>
  openReference({ caps: { lanes: 1, subgroup: 0, width: 4, dot: true, sharedBytes: 2 ** 20 }, check: false })

/** A packed weight [m, K] of random blocks. */
function packed(device: Device, format: 'q4_k' | 'q8_0', m: number): Tensor {
  const words = repack.define({ w: randomBlocks(format, m * K, randomFrom(7)) }, { format, m, k: K })['y']!
  const y = new Uint8Array(words.buffer)
  const buffer = device.alloc(y.length)
  device.write(buffer, 0, y)
  return Tensor.leaf(new Storage('packed', buffer), [m, K], format)
}

/** The first of some tensors; the others are wanted as well, so that they are not joined to it. */
async function read(device: Device, ...tensors: Tensor[]): Promise<Float32Array> {
  using plan = await buildPlan(device, { reads: tensors })
  const [bytes] = await plan.run()
  return new Float32Array(bytes!.slice().buffer)
}

/** Operations of the rewritten graph, each node once. */
function operations(root: Tensor): TensorNode[] {
  return rewriteGraph([root.node], openCpuLike().caps).nodes.filter(({ op }) => op !== 'leaf')
}

function find<O extends OpName>(nodes: readonly TensorNode[], op: O): NodeOf<O> {
  return nodes.find((node): node is TensorNode & NodeOf<O> => node.op === op)!
}

/** What differs between a joined result and one whose parts are wanted too, which keeps them apart. */
async function difference(device: Device, make: (part: (tensor: Tensor) => Tensor) => Tensor): Promise<number> {
  const parts: Tensor[] = []
  const keep = (tensor: Tensor): Tensor => {
    parts.push(tensor)
    return tensor
  }
  const [fused, apart] = [
    await read(
      device,
      make((tensor) => tensor),
    ),
    await read(device, make(keep), ...parts),
  ]
  const size = Math.max(...apart.map(Math.abs))
  return Math.max(...fused.map((value, i) => Math.abs(value - apart[i]!))) / size
}

test.each(['q4_k', 'q8_0'] as const)('a norm that only %s weights read is quantised where it is computed', async (format) => {
  await using device = openCpuLike()
  const [x, scale, w] = [filled(device, [ROWS, K], 1), filled(device, [K], 2), packed(device, format, 20)]
  const make = (part: (tensor: Tensor) => Tensor): Tensor => part(x.rmsNorm(scale, 1e-5)).linear(w)
  const all = operations(make((tensor) => tensor))
  expect(all.map(({ op }) => op).sort()).toEqual(['packedLinear', 'quantize8'])
  expect(find(all, 'quantize8').attrs.source.kind).toBe('norm')
  expect(await difference(device, make)).toBeLessThan(1e-3)
})

test('so is a gated activation', async () => {
  await using device = openCpuLike()
  const [gate, up, w] = [filled(device, [ROWS, K], 1), filled(device, [ROWS, K], 2), packed(device, 'q4_k', 16)]
  const make = (part: (tensor: Tensor) => Tensor): Tensor => part(gate.silu().mul(up)).linear(w)
  expect(
    operations(make((tensor) => tensor))
      .map(({ op }) => op)
      .sort(),
  ).toEqual(['packedLinear', 'quantize8'])
  expect(await difference(device, make)).toBeLessThan(1e-3)
})

test('a product that is only added is added where it is made', async () => {
  await using device = openCpuLike()
  const [x, y, w] = [filled(device, [ROWS, K], 1), filled(device, [ROWS, 20], 2), packed(device, 'q8_0', 20)]
  for (const add of [(a: Tensor, b: Tensor) => a.add(b), (a: Tensor, b: Tensor) => b.add(a)]) {
    const make = (part: (tensor: Tensor) => Tensor): Tensor => add(y, part(x.linear(w)))
    const all = operations(make((tensor) => tensor))
    expect(all.map(({ op }) => op).sort()).toEqual(['packedLinear', 'quantize8'])
    expect(find(all, 'packedLinear').attrs.added).toBe('residual')
    expect(await difference(device, make)).toBeLessThan(1e-6)
  }
})

test('what others read too, other shapes and biases stay apart', () => {
  const device = openCpuLike()
  const [x, scale, w, bias] = [filled(device, [ROWS, K], 1), filled(device, [K], 2), packed(device, 'q8_0', 20), filled(device, [20], 3)]
  const normal = x.rmsNorm(scale, 1e-5)
  const ops = (tensor: Tensor): string[] =>
    operations(tensor)
      .map(({ op }) => op)
      .sort()
  expect(ops(normal.linear(w).add(normal.sum(-1, true)))).toContain('norm')
  expect(ops(x.linear(w).add(filled(device, [20], 4)))).toContain('map')
  expect(ops(filled(device, [ROWS, 20], 5).add(x.linear(w, bias)))).toContain('map')
  expect(ops(x.mul(scale).linear(w))).toContain('map')
})

test('two kinds of weights quantise a tensor once each', () => {
  const device = openCpuLike()
  const x = filled(device, [ROWS, K], 1)
  const [a, b, c] = [packed(device, 'q8_0', 16), packed(device, 'q4_k', 16), packed(device, 'q4_k', 16)]
  const all = operations(x.linear(a).add(x.linear(b)).add(x.linear(c)))
  expect(all.flatMap((node) => (node.op === 'quantize8' ? [node.attrs.scaled] : [])).toSorted((a, b) => b - a)).toEqual([256, 32])
})
