// Attention without a cache against attention over one: the same rows see the same, in every architecture.

import { expect, test } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { ARCHITECTURES } from '../../src/model/index.ts'
import { type AttentionOptions, attend } from '../../src/nn/attention.ts'
import { gradients } from '../../src/tensor/grad.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { createTinySource } from './tiny-source.ts'
import { random } from '../../src/tensor/random.ts'

const ids = (device: Device, values: readonly number[]): Tensor => Tensor.from([...values], { dtype: 'u32', device })

/** A page of keys and of values. */
function emptyCache(device: Device, { heads, dim }: { heads: number; dim: number }) {
  const empty = (): Tensor => Tensor.zeros([heads, 64, dim], { device })
  return { keys: empty(), values: empty() }
}

/** All rows are of one sequence, which has that page. */
function oneSequence(device: Device, rows: number) {
  return {
    slots: ids(
      device,
      Array.from({ length: rows }, () => 0),
    ),
    table: ids(device, [0]).reshape(1, 1),
  }
}

/** Attention of four heads over two of keys, over a cache that holds nothing else. */
function cached(device: Device, [q, k, v]: readonly [Tensor, Tensor, Tensor], positions: Tensor, options: AttentionOptions): Tensor {
  return attend(
    q,
    k,
    v,
    { ...emptyCache(device, { heads: 2, dim: 4 }), ...oneSequence(device, q.shape[0] ?? 1), apart: 0 },
    positions,
    options,
  )
}

const OPTIONS: readonly AttentionOptions[] = [
  { heads: 4, scale: 0.5 },
  { heads: 4, scale: 0.5, window: 2 },
  { heads: 4, scale: 3, softcap: 1.5 },
]

test.for(OPTIONS)('blocks and packed sequences see what they would see alone: %j', async (options) => {
  await using device = openReference()
  const n = 10
  const rows = (width: number, seed: number): Tensor => random.normal([n, width], { seed, device })
  const all = [rows(16, 1), rows(8, 2), rows(8, 3)] as const
  // Two blocks of five rows; in the second, a sequence of two rows and one of three.
  const sequences = [[0, 5], [5, 7], [7, 10]] as const // prettier-ignore
  const positions = ids(device, [0, 1, 2, 3, 4, 0, 1, 0, 1, 2])
  const got = await attend(...all, { block: 5 }, positions, options).data()
  const alone = sequences.map(([from, to]) => {
    const [q, k, v] = all.map((x) => x.slice([from, to])) as [Tensor, Tensor, Tensor]
    const places = Array.from({ length: to - from }, (_, i) => i)
    return cached(device, [q, k, v], ids(device, places), options)
  })
  const want = await Tensor.concat(alone).data()
  expect(Math.max(...got.map((value, i) => Math.abs(value - want[i]!)))).toBeLessThan(1e-5)
})

test.for(OPTIONS)('long blocks are taken some rows at a time: %j', async (options) => {
  await using device = await openCpu()
  const [n, length] = [600, 200] // three tiles, and three sequences that begin elsewhere
  const rows = (width: number, seed: number): Tensor => random.normal([n, width], { seed, device })
  const all = [rows(16, 1), rows(8, 2), rows(8, 3)] as const
  const positions = ids(device, Array.from({ length: n }, (_, i) => i % length)) // prettier-ignore
  const mixed = attend(...all, { block: n }, positions, options)
  const want = attend(...all, { block: length }, positions, options)
  const cotangent = rows(16, 4)
  const [changes, defined] = [gradients(mixed, all, cotangent), gradients(want, all, cotangent)]
  for (const [got, other] of [[mixed, want], ...changes.map((each, i) => [each, defined[i]!])] as [Tensor, Tensor][]) {
    const [a, b] = [await got.data(), await other.data()]
    expect(Math.max(...a.map((value, i) => Math.abs(value - b[i]!)))).toBeLessThan(1e-4)
    expect(Math.max(...a)).toBeGreaterThan(0.1)
  }
})

test('rows that do not fall into blocks are refused', async () => {
  await using device = openReference()
  const x = Tensor.zeros([5, 8], { device })
  expect(() => attend(x, x, x, { block: 2 }, ids(device, [0, 1, 2, 3, 4]), { heads: 2, scale: 1 })).toThrow(IngotError)
})

test.for(ARCHITECTURES.map((architecture) => [architecture.names[0]!, architecture] as const))(
  '%s gives the same with and without a cache',
  async ([name, architecture]) => {
    await using device = openReference({ check: false })
    const model = architecture.build(createTinySource(device, name, { bias: name === 'qwen2', fused: name === 'phi3' }))
    const n = 6
    const [tokens, positions] = [ids(device, [3, 1, 4, 1, 5, 9]), ids(device, [0, 1, 2, 3, 4, 5])]
    const caches = { layers: model.state.caches.map((shape) => emptyCache(device, shape)), ...oneSequence(device, n), apart: 0 }
    const want = await model.logits(model.forward({ tokens, positions, cache: caches })).data()
    const got = await model.logits(model.forward({ tokens, positions, cache: { block: n } })).data()
    expect(got.some((value) => Math.abs(value) > 0.1)).toBe(true)
    expect(Math.max(...got.map((value, i) => Math.abs(value - want[i]!)))).toBeLessThan(1e-4)
  },
)
