// What every operation refuses: operands whose shape or type a kernel would read or write past. Nothing is computed here.

import { describe, expect, test } from 'vitest'
import type { BufferHandle } from '../../src/device/device.ts'
import type { GgmlType } from '../../src/quant/type.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const BUFFER = 1 as BufferHandle
const leaf = (shape: readonly number[], format: GgmlType = 'f32', layout: 'file' | 'packed' = 'file'): Tensor =>
  Tensor.leaf(BUFFER, shape, format, { layout })
const ids = (count: number): Tensor => Tensor.integers(BUFFER, [count], 'ids')

const x = leaf([2, 32])
const ROPE = { style: 'half', heads: 4, dims: 8, magnitude: 1 } as const
const ATTENTION = { heads: 4, scale: 0.3, window: 0, softcap: 0 } as const
const cache = (...shape: number[]): Tensor => leaf(shape, 'f16')
const attend = (keys: Tensor, values: Tensor, positions = ids(2), attrs = {}): Tensor =>
  x.attention(keys, values, positions, { ...ATTENTION, ...attrs })

/** By operation: what is wrong with it, and how it is asked for. */
const REFUSED: Readonly<Record<string, Readonly<Record<string, () => Tensor>>>> = {
  leaf: {
    'an empty axis': () => leaf([2, 0]),
    'half an element': () => leaf([2.5]),
    'no number': () => leaf([Number.NaN]),
    'more elements than kernels count': () => leaf([65536, 65536]),
  },
  reshape: { 'another size': () => x.reshape(63), 'a negative axis': () => x.reshape(-2, -32) },
  iota: { 'no numbers': () => Tensor.iota(0), 'half a number': () => Tensor.iota(1.5) },
  map: {
    'shapes that do not broadcast': () => x.add(leaf([31])),
    'a quantised operand': () => x.add(leaf([2, 32], 'q8_0')),
    'bf16, which is no f32': () => x.add(leaf([2, 32], 'bf16')),
    'an input that is not there': () => Tensor.map({ input: 1 }, [x]),
    'what is no tensor': () => x.add(null as never),
  },
  reduce: { halves: () => leaf([4], 'f16').sum(), 'no such axis': () => x.sum(2), 'half an axis': () => x.sum([0.5]) },
  softmax: { integers: () => ids(4).softmax() },
  norm: {
    'a weight of one element': () => x.rmsNorm(leaf([1]), 1e-5),
    'a weight that is too long': () => x.rmsNorm(leaf([33]), 1e-5),
    'a matrix': () => x.rmsNorm(leaf([1, 32]), 1e-5),
    'a weight of halves': () => x.rmsNorm(leaf([32], 'f16'), 1e-5),
    'a bias of another size': () => x.layerNorm(leaf([32]), leaf([16]), 1e-5),
    'an epsilon that is no number': () => x.rmsNorm(leaf([32]), Number.NaN),
    'a negative epsilon': () => x.rmsNorm(leaf([32]), -1),
  },
  linear: {
    'another inner size': () => x.linear(leaf([8, 31])),
    'a weight of one axis': () => x.linear(leaf([32])),
    'a weight of three axes': () => x.linear(leaf([2, 8, 32])),
    'a bias of another size': () => x.linear(leaf([8, 32]), leaf([7])),
    'a bias of halves': () => x.linear(leaf([8, 32]), leaf([8], 'f16')),
    'integers as a weight': () => x.linear(Tensor.iota(32).reshape(1, 32)),
    'x of halves': () => leaf([2, 32], 'f16').linear(leaf([8, 32])),
  },
  packedLinear: {
    'another inner size': () => leaf([2, 64]).linear(leaf([8, 32], 'q8_0', 'packed')),
    'rows of broken blocks': () => leaf([2, 48]).linear(leaf([8, 48], 'q8_0', 'packed')),
    'a bias of another size': () => x.linear(leaf([8, 32], 'q8_0', 'packed'), leaf([16])),
    'x of halves': () => leaf([2, 32], 'f16').linear(leaf([8, 32], 'q8_0', 'packed')),
  },
  gather: {
    'ids that are floats': () => leaf([4, 32]).gather(leaf([2])),
    'a table of one axis': () => leaf([32]).gather(ids(2)),
    'a packed table': () => leaf([4, 32], 'q8_0', 'packed').gather(ids(2)),
  },
  rope: {
    'heads that do not fit': () => x.rope(ids(2), leaf([4]), { ...ROPE, heads: 5 }),
    'no heads': () => x.rope(ids(2), leaf([4]), { ...ROPE, heads: 0 }),
    'heads of an odd size': () => leaf([2, 12]).rope(ids(2), leaf([1]), { ...ROPE, dims: 2 }),
    'more dimensions than a head has': () => x.rope(ids(2), leaf([8]), { ...ROPE, dims: 16 }),
    'an odd number of dimensions': () => x.rope(ids(2), leaf([3]), { ...ROPE, dims: 7 }),
    'too few frequencies': () => x.rope(ids(2), leaf([3]), ROPE),
    'too few positions': () => x.rope(ids(1), leaf([4]), ROPE),
    'positions that are floats': () => x.rope(leaf([2]), leaf([4]), ROPE),
    'no magnitude': () => x.rope(ids(2), leaf([4]), { ...ROPE, magnitude: Infinity }),
  },
  cacheWrite: {
    'rows that are too long': () => cache(2, 10, 8).cacheWrite(x, ids(2)),
    'heads that do not fit': () => cache(3, 10, 8).cacheWrite(x, ids(2)),
    'too few positions': () => cache(4, 10, 8).cacheWrite(x, ids(1)),
    'a cache of two axes': () => leaf([4, 8]).cacheWrite(x, ids(2)),
    'a quantised cache': () => leaf([4, 10, 8], 'q8_0').cacheWrite(x, ids(2)),
  },
  attention: {
    'keys of another size': () => attend(cache(2, 10, 16), cache(2, 10, 16)),
    'values of another length': () => attend(cache(2, 10, 8), cache(2, 9, 8)),
    'values of another type': () => attend(cache(2, 10, 8), leaf([2, 10, 8])),
    'heads that do not share keys evenly': () => attend(cache(3, 10, 8), cache(3, 10, 8)),
    'more keys than heads': () => attend(cache(8, 10, 8), cache(8, 10, 8)),
    'too few positions': () => attend(cache(2, 10, 8), cache(2, 10, 8), ids(1)),
    'no scale': () => attend(cache(2, 10, 8), cache(2, 10, 8), ids(2), { scale: Number.NaN }),
    'a negative window': () => attend(cache(2, 10, 8), cache(2, 10, 8), ids(2), { window: -1 }),
    'an infinite softcap': () => attend(cache(2, 10, 8), cache(2, 10, 8), ids(2), { softcap: Infinity }),
  },
  argmax: { integers: () => ids(4).argmax() },
  topk: {
    'more than there are': () => leaf([1, 8]).topk(9),
    none: () => leaf([1, 8]).topk(0),
    'several rows': () => x.topk(4),
  },
  advance: { floats: () => leaf([2]).advance(1), 'half a step': () => ids(2).advance(0.5) },
}

describe.each(Object.entries(REFUSED))('%s', (_op, cases) => {
  test.each(Object.entries(cases))('refuses %s', (_what, make) => {
    expect(make).toThrow(expect.objectContaining({ name: 'IngotError', code: 'bad-argument' }))
  })
})

test('formats that no kernel reads are unsupported', () => {
  expect(() => leaf([2, 256]).linear(leaf([8, 256], 'iq3_s'))).toThrow(expect.objectContaining({ code: 'unsupported' }))
  expect(() => leaf([8, 256], 'f64').gather(ids(2))).toThrow(expect.objectContaining({ code: 'unsupported' }))
})

test('says which operand it was, what it has and what was wanted', () => {
  expect(() => x.rmsNorm(leaf([31]).named('attn_norm.weight'), 1e-5)).toThrow(
    'norm: wrong shape of a weight, got attn_norm.weight[31], wanted [32]',
  )
  expect(() => attend(cache(2, 10, 6), cache(2, 10, 6))).toThrow(
    /attention: wrong shape of the keys, got .*\[2,10,6\], wanted \[any,any,8\]/,
  )
})

test('takes what fits', () => {
  expect(x.rope(ids(2), leaf([4]), ROPE).shape).toEqual([2, 32])
  expect(attend(cache(2, 10, 8), cache(2, 10, 8)).shape).toEqual([2, 32])
  expect(cache(4, 10, 8).cacheWrite(x, ids(2)).shape).toEqual([4, 10, 8])
  expect(x.linear(leaf([8, 32], 'q8_0', 'packed'), leaf([8])).shape).toEqual([2, 8])
  expect(leaf([1, 8]).topk(8).shape).toEqual([16])
})
