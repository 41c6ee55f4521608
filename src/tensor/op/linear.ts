// Operations that read weights: products with a matrix of any format, rows of a table, and the forms for int8 arithmetic that a plan
// puts in their place (rewrite/packed.ts).

import { quantizedWords, tileColumns } from '../../kernel/linear/activations.ts'
import { dequantize } from '../../kernel/linear/dequantize.ts'
import { linear } from '../../kernel/linear/linear.ts'
import { packedLinear } from '../../kernel/linear/packed-linear.ts'
import { linearTransposed } from '../../kernel/linear/transposed.ts'
import { quantize8, quantize8Inputs } from '../../kernel/linear/quantize8.ts'
import { gather } from '../../kernel/move/gather.ts'
import { formatOf } from '../../quant/index.ts'
import { sideBySide } from '../../quant/packed/packed.ts'
import type { GgmlType } from '../../quant/type.ts'
import { type ElementType, type TensorNode, type TensorType, sizeOf } from '../node.ts'
import { checkAxes, checkMatrix, checkSize, checkType, fail, show } from '../operand.ts'
import { last } from '../shape.ts'
import type { Operation } from './operation.ts'

const rowsOf = (shape: readonly number[]): number => sizeOf(shape) / last(shape)
/** `checkMatrix` has seen it. */
export const weightFormat = ({ dtype }: TensorNode): GgmlType => dtype as GgmlType

/** Only of floats the gradient is asked for. */
const floatType = (dtype: TensorType): ElementType => dtype as ElementType

/** A bias [m] of a weight [m, k]. */
function checkBias(op: string, bias: TensorNode, weight: TensorNode, type: TensorType = 'f32'): void {
  checkType(op, 'the bias', bias, 'f32', type)
  checkAxes(op, 'the bias', bias, [weight.shape[0]])
}

/** u [rows, r] and v of this shape, given r; of f32. */
export function checkJoined(op: string, [u, v]: readonly TensorNode[], rows: number, shapeOf: (rank: number) => readonly number[]): void {
  if (u === undefined || v === undefined) return
  checkType(op, 'u', u, 'f32')
  checkType(op, 'v', v, 'f32')
  checkAxes(op, 'u', u, [rows, undefined])
  checkAxes(op, 'v', v, shapeOf(last(u.shape)))
}

export const LINEAR: {
  readonly [O in 'linear' | 'linearTransposed' | 'dequantize' | 'embedding' | 'quantize8' | 'packedLinear']: Operation<O>
} = {
  linear: {
    about: 'x [n, k] times a weight [m, k] of any format, plus an optional bias [m]',
    infer: ([x, w, b]) => {
      checkType('linear', 'x', x, 'f32', 'f16', 'bf16', 'f64')
      if (x.dtype === 'f64' && w.dtype === 'f64') checkAxes('linear', 'the weight', w, [undefined, undefined])
      else checkMatrix('linear', 'the weight', w)
      if (last(x.shape) !== last(w.shape))
        fail('linear', 'inner sizes differ', `${show(x)} x ${show(w)}`, undefined, 'the weight is [out, in]')
      if (b !== undefined) checkBias('linear', b, w, x.dtype)
      return { shape: [...x.shape.slice(0, -1), w.shape[0] ?? 1], dtype: x.dtype }
    },
    define: ([x, w, b]) => {
      const [k, [m = 1]] = [last(x.shape), w.shape]
      const type = x.dtype === 'f64' ? 'f64' : 'f32'
      const y = x
        .to(type)
        .reshape(x.size / k, 1, k)
        .mul(w.to(type).reshape(1, m, k))
        .sum(-1)
        .reshape(...x.shape.slice(0, -1), m)
      return (b === undefined ? y : y.add(b)).to(x.dtype as ElementType) // `infer` has seen it
    },
    gradient: ({ src: [x, w, b], cotangent, wants }) => {
      const rows = cotangent.reshape(-1, last(cotangent.shape))
      const dw = wants(1) ? rows.transpose().matmul(x.reshape(-1, last(x.shape))) : undefined
      // What needs no decoding is a product like any other.
      const dx = wants(0) ? (w.dtype === x.dtype ? cotangent.matmul(w) : cotangent.linearTransposed(w)) : undefined
      return [dx, dw?.to(floatType(w.dtype)), b && cotangent.sumTo(b.shape).to(floatType(b.dtype))]
    },
    lower: ({ src: [x, w, b] }, caps) =>
      linear.work(caps, { format: weightFormat(w), m: w.shape[0] ?? 1, k: last(x.shape), n: rowsOf(x.shape), bias: b !== undefined }),
    inputs: () => ['x', 'w', 'bias'],
  },

  linearTransposed: {
    about: 'x [n, m] times a weight [m, k] of any format: what comes back through `linear`',
    infer: ([x, w]) => {
      checkType('linearTransposed', 'x', x, 'f32', 'f16', 'bf16', 'f64')
      if (x.dtype === 'f64' && w.dtype === 'f64') checkAxes('linearTransposed', 'the weight', w, [undefined, undefined])
      else checkMatrix('linearTransposed', 'the weight', w)
      if (last(x.shape) !== w.shape[0])
        fail('linearTransposed', 'inner sizes differ', `${show(x)} x ${show(w)}`, undefined, 'x has a column for each row of the weight')
      return { shape: [...x.shape.slice(0, -1), last(w.shape)], dtype: x.dtype }
    },
    define: ([x, w]) => {
      const [m, k] = [last(x.shape), last(w.shape)]
      const type = x.dtype === 'f64' ? 'f64' : 'f32'
      return x
        .to(type)
        .reshape(x.size / m, m, 1)
        .mul(w.to(type).reshape(1, m, k))
        .sum(1)
        .reshape(...x.shape.slice(0, -1), k)
        .to(floatType(x.dtype))
    },
    gradient: ({ src: [x, w], cotangent, wants }) => {
      const [rows, inner] = [x.reshape(-1, last(x.shape)), cotangent.reshape(-1, last(cotangent.shape))]
      const dw = wants(1) ? rows.transpose().matmul(inner) : undefined
      return [wants(0) ? cotangent.linear(w) : undefined, dw?.to(floatType(w.dtype))]
    },
    lower: ({ src: [x, w] }, caps) =>
      linearTransposed.work(caps, { format: weightFormat(w), m: last(x.shape), k: last(w.shape), n: rowsOf(x.shape) }),
    inputs: () => ['x', 'w'],
  },

  dequantize: {
    about: 'the values of a weight of any format',
    infer: ([w]) => {
      checkMatrix('dequantize', 'the weight', w)
      return { shape: w.shape, dtype: 'f32' }
    },
    lower: ({ src: [w] }, caps) => dequantize.work(caps, { format: weightFormat(w), elements: sizeOf(w.shape) }),
    inputs: () => ['w'],
  },

  embedding: {
    about: 'rows of a table [rows, cols] of any format, chosen by u32 ids',
    infer: ([table, ids]) => {
      checkMatrix('embedding', 'the table', table)
      checkType('embedding', 'ids', ids, 'u32')
      return { shape: [...ids.shape, last(table.shape)], dtype: 'f32' }
    },
    gradient: ({ src: [table, ids], cotangent }) => {
      const rows = cotangent.reshape(ids.size, last(table.shape))
      const sums = cotangent.zeros(table.shape).scatterRows(ids.reshape(ids.size), rows, 0, 'add')
      return [sums.to(floatType(table.dtype)), undefined]
    },
    lower: ({ src: [table, ids] }, caps) =>
      gather.work(caps, {
        format: weightFormat(table),
        rows: sizeOf(ids.shape),
        cols: last(table.shape),
        tableRows: rowsOf(table.shape),
      }),
    inputs: () => ['table', 'ids'],
  },

  quantize8: {
    about: 'x [n, k] as int8 for packed weights; or its norm, or an expression of several tensors (rewrite/int8.ts)',
    infer: ([x], { k, scaled }) => {
      if (x === undefined) fail('quantize8', 'nothing to quantise', 'no operand')
      checkType('quantize8', 'x', x, 'f32')
      if (last(x.shape) !== k || k % scaled !== 0)
        fail('quantize8', 'rows do not hold whole blocks', show(x), `rows of ${k}, a multiple of ${scaled}`)
      return { shape: [quantizedWords(sizeOf(x.shape) / k, k, scaled)], dtype: 'u32' }
    },
    lower: ({ src: [x], attrs: { k, scaled, source } }, caps) => {
      const n = sizeOf(x?.shape ?? []) / k
      return quantize8.work(caps, { n, k, scaled, columns: tileColumns(caps, n), source })
    },
    inputs: ({ attrs: { source } }) => quantize8Inputs(source),
  },

  packedLinear: {
    about: 'what quantize8 made of a tensor of `shape`, times a packed weight [m, k], plus a bias [m] or residual [n, m], plus u v',
    infer: ([x, w, ...more], { shape, added: kind, joined }) => {
      const added = kind === 'nothing' ? undefined : more[0]
      const { packed } = formatOf(weightFormat(w))
      if (packed === undefined) fail('packedLinear', 'the weight is not packed', show(w))
      checkType('packedLinear', 'x', x, 'u32')
      checkSize('packedLinear', 'x', x, quantizedWords(rowsOf(shape), last(shape), packed.scaled))
      checkAxes('packedLinear', 'the weight', w, [undefined, last(shape)])
      if (kind === 'bias' && added !== undefined) checkBias('packedLinear', added, w)
      if (joined) checkJoined('packedLinear', more.slice(-2), rowsOf(shape), (rank) => sideBySide(w.shape[0] ?? 1, rank))
      return { shape: [...shape.slice(0, -1), w.shape[0] ?? 1], dtype: 'f32' }
    },
    lower: ({ src: [, w, ...more], attrs: { shape, added, joined } }, caps) => {
      const n = rowsOf(shape)
      return packedLinear.work(caps, {
        format: weightFormat(w),
        m: w.shape[0] ?? 1,
        k: last(shape),
        n,
        columns: tileColumns(caps, n),
        added,
        ...(joined ? { rank: more.at(-1)?.shape[1] ?? 0 } : {}),
      })
    },
    inputs: ({ attrs: { added, joined } }) => ['x', 'w', ...(added === 'nothing' ? [] : [added]), ...(joined ? ['u', 'v'] : [])],
  },
}
