// What every operation refuses: operands whose shape or type a kernel would read or write past. Nothing is computed here.

import { describe, expect, test } from 'vitest'
import type { GgmlType } from '../../src/quant/type.ts'
import { Storage } from '../../src/tensor/storage.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const leaf = (shape: readonly number[], format: GgmlType = 'f32'): Tensor => Tensor.leaf(new Storage(), shape, format)
const ids = (count: number): Tensor => Tensor.leaf(new Storage(), [count], 'u32', 'ids')

const x = leaf([2, 32])
const pairs = (...widths: (readonly [number, number])[]) => widths
const ROPE = { style: 'half', heads: 4, dims: 8, magnitude: 1 } as const
const ATTENTION = { heads: 4, scale: 0.3, window: 0, softcap: 0, apart: false } as const
/** Where rows lie in a cache: in the pages of one sequence. */
const places = (positions = ids(2), more = {}) => ({ positions, slots: ids(2), table: Tensor.leaf(new Storage(), [3, 2], 'u32'), ...more })
const cache = (...shape: number[]): Tensor => leaf(shape, 'f16')
const attend = (keys: Tensor, values: Tensor, positions = ids(2), attrs = {}): Tensor =>
  x.cachedAttention(keys, values, places(positions), { ...ATTENTION, ...attrs })

/** By operation: what is wrong with it, and how it is asked for. */
const REFUSED: Readonly<Record<string, Readonly<Record<string, () => unknown>>>> = {
  leaf: {
    'an empty axis': () => leaf([2, 0]),
    'half an element': () => leaf([2.5]),
    'no number': () => leaf([Number.NaN]),
    'more elements than kernels count': () => leaf([65536, 65536]),
  },
  from: {
    'a typed array that no tensor holds': () => Tensor.from(new BigUint64Array(2) as never),
    'lists that hold themselves': () => {
      const list: unknown[] = []
      list.push(list)
      return Tensor.from(list as never)
    },
    'no such type': () => Tensor.from([1], { dtype: 'f8' as never }),
    'no such device': () => Tensor.from([1], { device: null as never }),
  },
  flatten: { 'an end before the beginning': () => x.flatten(1, 0) },
  narrow: { 'more than there is': () => x.narrow(1, 30, 3), 'a negative start': () => x.narrow(1, -1, 1) },
  scatter: {
    'indices beyond the tensor': () => x.scatter(Tensor.zeros([3, 1], { dtype: 'i32' }), leaf([3, 1]), 1),
    'sums of truth values': () => Tensor.from([true]).scatterAdd(ids(1), Tensor.from([true])),
  },
  reshape: { 'another size': () => x.reshape(63), 'a negative axis': () => x.reshape(-2, -32) },
  iota: { 'no numbers': () => Tensor.iota([0]), 'half a number': () => Tensor.iota([1.5]), 'no such axis': () => Tensor.iota([3], 1) },
  permute: { 'an axis twice': () => x.permute(0, 0), 'too few axes': () => x.permute(0), 'no such axis': () => x.permute(0, 2) },
  expand: { 'an axis that is not 1': () => x.expand(3, 32), 'fewer axes': () => x.expand(32), 'no size': () => x.expand(2, Number.NaN) },
  slice: {
    'nothing left': () => x.slice([1, 1]),
    'a step of 0': () => x.slice(null, [0, 3, 0]),
    'too many ranges': () => x.slice(null, null, null),
    'an index past the end': () => x.at(2),
  },
  pad: {
    'too few axes': () => x.pad([[1, 1]]),
    'a negative width': () => x.pad(pairs([1, -1], [0, 0])),
    'a mirror beyond the end': () => x.pad(pairs([2, 0], [0, 0]), { mode: 'reflect' }),
  },
  concat: {
    'other sizes': () => x.concat([leaf([2, 31])]),
    'other types': () => x.concat([leaf([2, 32], 'f16')]),
    'no such axis': () => x.concat([x], 2),
  },
  split: { 'uneven parts': () => x.split(3, 1), 'parts that are not the whole': () => x.split([10, 20], 1) },
  assign: {
    'another shape': () => x.assign(leaf([32])),
    'another type': () => x.assign(leaf([2, 32], 'f16')),
    'what is no tensor': () => x.assign(1 as never),
  },
  map: {
    'shapes that do not broadcast': () => x.add(leaf([31])),
    'a quantised operand': () => x.add(leaf([2, 32], 'q8_0')),
    'what is no tensor': () => x.add(null as never),
  },
  reduce: {
    'blocks of a weight': () => leaf([32], 'q8_0').sum(),
    'sums of truth values': () => Tensor.from([true]).cumsum(),
    'the mean of integers': () => ids(4).mean(),
    'no such axis': () => x.sum(2),
    'half an axis': () => x.sum([0.5]),
    'an axis twice': () => x.sum([0, -2]),
  },
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
    'integers as a weight': () => x.linear(Tensor.iota([1, 32])),
    'x of integers': () => Tensor.iota([2, 32]).linear(leaf([8, 32])),
  },
  embedding: {
    'ids that are floats': () => leaf([4, 32]).embedding(leaf([2])),
    'a table of one axis': () => leaf([32]).embedding(ids(2)),
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
    'rows that are too long': () => cache(2, 64, 8).cacheWrite(x, places(ids(2))),
    'heads that do not fit': () => cache(3, 64, 8).cacheWrite(x, places(ids(2))),
    'too few positions': () => cache(4, 64, 8).cacheWrite(x, places(ids(1))),
    'a cache of half a page': () => cache(4, 96, 8).cacheWrite(x, places()),
    'slots of another number': () => cache(4, 64, 8).cacheWrite(x, places(ids(2), { slots: ids(3) })),
    'a table of one axis': () => cache(4, 64, 8).cacheWrite(x, places(ids(2), { table: ids(2) })),
    'a cache of two axes': () => leaf([4, 8]).cacheWrite(x, places(ids(2))),
    'a quantised cache': () => leaf([4, 64, 8], 'q8_0').cacheWrite(x, places(ids(2))),
  },
  attention: {
    'keys of another size': () => attend(cache(2, 64, 16), cache(2, 64, 16)),
    'values of another length': () => attend(cache(2, 64, 8), cache(2, 128, 8)),
    'values of another type': () => attend(cache(2, 64, 8), leaf([2, 10, 8])),
    'heads that do not share keys evenly': () => attend(cache(3, 64, 8), cache(3, 64, 8)),
    'more keys than heads': () => attend(cache(8, 10, 8), cache(8, 10, 8)),
    'too few positions': () => attend(cache(2, 64, 8), cache(2, 64, 8), ids(1)),
    'no scale': () => attend(cache(2, 64, 8), cache(2, 64, 8), ids(2), { scale: Number.NaN }),
    'a negative window': () => attend(cache(2, 64, 8), cache(2, 64, 8), ids(2), { window: -1 }),
    'an infinite softcap': () => attend(cache(2, 64, 8), cache(2, 64, 8), ids(2), { softcap: Infinity }),
  },
  candidates: {
    'more than there are': () => leaf([1, 8]).candidates(9),
    none: () => leaf([1, 8]).candidates(0),
  },
}

describe.each(Object.entries(REFUSED))('%s', (_op, cases) => {
  test.each(Object.entries(cases))('refuses %s', (_what, make) => {
    expect(make).toThrow(expect.objectContaining({ name: 'IngotError', code: 'bad-argument' }))
  })
})

test('formats that no kernel reads are unsupported', () => {
  expect(() => leaf([2, 256]).linear(leaf([8, 256], 'iq3_s'))).toThrow(expect.objectContaining({ code: 'unsupported' }))
  expect(() => leaf([8, 256], 'f64').embedding(ids(2))).toThrow(expect.objectContaining({ code: 'unsupported' }))
})

test('says which operand it was, what it has and what was wanted', () => {
  expect(() => x.rmsNorm(leaf([31]).named('attn_norm.weight'), 1e-5)).toThrow(
    'norm: wrong shape of a weight, got attn_norm.weight[31], wanted [32]',
  )
  expect(() => attend(cache(2, 64, 6), cache(2, 64, 6))).toThrow(
    /attention: wrong shape of the keys, got .*\[2,64,6\], wanted \[any,any,8\]/,
  )
})

test('takes what fits', () => {
  expect(x.rope(ids(2), leaf([4]), ROPE).shape).toEqual([2, 32])
  expect(attend(cache(2, 64, 8), cache(2, 64, 8)).shape).toEqual([2, 32])
  expect(cache(4, 64, 8).cacheWrite(x, places(ids(2))).shape).toEqual([4, 64, 8])
  expect(x.linear(leaf([8, 32], 'q8_0'), leaf([8])).shape).toEqual([2, 8])
  expect(leaf([1, 8]).candidates(8).shape).toEqual([1, 16])
})
