// Operations that choose: the best few of a row, and a token drawn from them.

import { argsort } from '../../kernel/select/argsort.ts'
import { SORT_TYPES, type SortType } from '../../kernel/select/sort-key.ts'
import { DRAW_RULE, draw } from '../../kernel/select/draw.ts'
import { MOST_CHOSEN, topk } from '../../kernel/select/topk.ts'
import { sizeOf } from '../node.ts'
import { checkSize, checkType, checkWhole, fail, show } from '../operand.ts'
import { last } from '../shape.ts'
import type { Operation } from './operation.ts'

export const SELECTIONS: { readonly [O in 'argsort' | 'topk' | 'draw']: Operation<O> } = {
  argsort: {
    about: 'the indices that sort the last axis',
    infer: ([x]) => {
      checkType('argsort', 'x', x, ...SORT_TYPES, 'f64')
      return { shape: x.shape, dtype: 'u32' }
    },
    // An element goes behind all that are smaller, and behind equal ones before it; NaN is the last either way.
    define: ([x], { descending }) => {
      const cols = last(x.shape)
      const [own, other] = [x.unsqueeze(-1), x.unsqueeze(-2)]
      const [at, before] = [x.indices([cols, cols], 0), x.indices([cols, cols], 1)]
      const isBetter = (descending ? other.gt(own) : other.lt(own)).or(own.isNaN().and(other.isNaN().not()))
      const isSame = other.eq(own).or(own.isNaN().and(other.isNaN()))
      const place = isBetter
        .or(isSame.and(before.lt(at)))
        .to('i32')
        .sum(-1)
      const index = x.indices(x.shape, x.rank - 1)
      return index.scatter(place, index, -1)
    },
    lower: ({ src: [x], attrs: { descending } }, caps) =>
      argsort.work(caps, {
        type: x.dtype as SortType, // `infer` has seen it
        rows: sizeOf(x.shape) / last(x.shape),
        cols: last(x.shape),
        descending,
      }),
    inputs: () => ['x'],
  },

  topk: {
    about: 'the k largest of each row: k ids, then the bits of their k values, largest first',
    infer: ([x], { k }) => {
      checkType('topk', 'x', x, 'f32')
      checkWhole('topk', 'k', k, 1, Math.min(last(x.shape), MOST_CHOSEN))
      return { shape: [...x.shape.slice(0, -1), 2 * k], dtype: 'u32' }
    },
    lower: ({ src: [x], attrs: { k } }, caps) => topk.work(caps, { rows: sizeOf(x.shape) / last(x.shape), cols: last(x.shape), k }),
    inputs: () => ['x'],
  },

  draw: {
    about: 'a token for each row [n], drawn from its k candidates, ids before logits, by its rule and its position',
    infer: ([x, rule, positions]) => {
      checkType('draw', 'the candidates', x, 'u32')
      if (last(x.shape) % 2 !== 0) fail('draw', 'candidates are ids and as many logits', show(x))
      const rows = sizeOf(x.shape) / last(x.shape)
      checkType('draw', 'the rule', rule, 'u32')
      checkSize('draw', 'the rule', rule, rows * DRAW_RULE.words)
      checkType('draw', 'positions', positions, 'u32')
      checkSize('draw', 'positions', positions, rows)
      return { shape: [rows], dtype: 'u32' }
    },
    lower: ({ src: [x] }, caps) => draw.work(caps, { k: last(x.shape) / 2, rows: sizeOf(x.shape) / last(x.shape) }),
    inputs: () => ['x', 'rule', 'positions'],
  },
}
