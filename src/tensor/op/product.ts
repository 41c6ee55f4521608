// Products of matrices, over batches that broadcast.

import { matmul } from '../../kernel/matmul/matmul.ts'
import type { MatmulParams } from '../../kernel/matmul/params.ts'
import type { TensorNode } from '../node.ts'
import { checkType, fail, show } from '../operand.ts'
import { broadcast, last, stridesFor } from '../shape.ts'
import type { Operation } from './operation.ts'

/** The last two axes of a factor, as it is multiplied. */
function matrixOf({ shape }: TensorNode, transposed: boolean): [rows: number, columns: number] {
  const [rows, columns] = [shape.at(-2) ?? 1, last(shape)]
  return transposed ? [columns, rows] : [rows, columns]
}

export const PRODUCTS: { readonly matmul: Operation<'matmul'> } = {
  matmul: {
    about: 'a [.., m, k] times b [.., k, n]; with `transposeA` a is [.., k, m], with `transposeB` b is [.., n, k]',
    infer: ([a, b], { transposeA, transposeB }) => {
      checkType('matmul', 'a', a, 'f32', 'f16', 'bf16', 'f64')
      if (b.dtype !== a.dtype) fail('matmul', 'types differ', `${a.dtype} and ${b.dtype}`, 'one type', 'cast one with to()')
      if (a.shape.length < 2 || b.shape.length < 2) fail('matmul', 'factors have two axes at least', `${show(a)} x ${show(b)}`)
      const [[m, k], [inner, n]] = [matrixOf(a, transposeA), matrixOf(b, transposeB)]
      if (k !== inner) fail('matmul', 'inner sizes differ', `${show(a)} x ${show(b)}`, undefined, 'transpose one of them?')
      const batch = broadcast('matmul', [a.shape.slice(0, -2), b.shape.slice(0, -2)])
      return { shape: [...batch, m, n], dtype: a.dtype }
    },
    gradient: ({ src: [a, b], cotangent, attrs: { transposeA, transposeB }, wants }) => {
      const [left, right] = [transposeA ? a.transpose() : a, transposeB ? b.transpose() : b]
      const da = wants(0) ? cotangent.matmul(right.transpose()) : undefined
      const db = wants(1) ? left.transpose().matmul(cotangent) : undefined
      return [da && (transposeA ? da.transpose() : da).sumTo(a.shape), db && (transposeB ? db.transpose() : db).sumTo(b.shape)]
    },
    define: ([a, b], { transposeA, transposeB }) => {
      const [left, right] = [transposeA ? a.transpose() : a, transposeB ? b.transpose() : b]
      return left.unsqueeze(-1).mul(right.unsqueeze(-3)).sum(-2)
    },
    lower: ({ shape, dtype, src: [a, b], attrs }, caps) => {
      const [m, k] = matrixOf(a, attrs.transposeA)
      const batch = shape.slice(0, -2)
      const steps = ({ shape: own }: TensorNode): number[] =>
        stridesFor(own.slice(0, -2), batch).map((step) => step * (own.at(-2) ?? 1) * last(own))
      const [strideA, strideB] = [steps(a), steps(b)]
      return matmul.work(caps, {
        type: dtype as MatmulParams['type'], // 64-bit floats do not come here (rewrite/double.ts)
        m,
        k,
        n: last(shape),
        ...attrs,
        batch: batch.map((size, axis) => ({ size, strideA: strideA[axis] ?? 0, strideB: strideB[axis] ?? 0 })),
        bias: false,
      })
    },
    inputs: () => ['a', 'b'],
  },
}
