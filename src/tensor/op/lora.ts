// A linear layer with a low-rank change (LoRA), and the form in which a plan computes it: two products in one sum.

import { linear } from '../../kernel/linear/linear.ts'
import { linearTransposed } from '../../kernel/linear/transposed.ts'
import type { Methods } from '../method/methods.ts'
import { type ElementType, type LoraAttrs, type TensorNode, type TensorType, sizeOf } from '../node.ts'
import { checkAxes, checkType, fail, show } from '../operand.ts'
import { last } from '../shape.ts'
import { LINEAR, checkJoined, weightFormat } from './linear.ts'
import type { Operation } from './operation.ts'

/** Only of floats the gradient is asked for. */
const floatType = (dtype: TensorType): ElementType => dtype as ElementType
const rowsOf = (shape: readonly number[]): number => sizeOf(shape) / last(shape)

/** Factors [r, in] and [out, r] of a change of a weight [out, in]. */
function checkChange(x: TensorNode, weight: TensorNode, a: TensorNode, b: TensorNode): void {
  checkType('lora', 'a', a, x.dtype)
  checkType('lora', 'b', b, x.dtype)
  const [out, inner] = weight.shape
  checkAxes('lora', 'a', a, [undefined, inner])
  checkAxes('lora', 'b', b, [out, undefined])
  if (a.shape[0] !== b.shape[1]) fail('lora', 'a and b differ in rank', `${show(a)} and ${show(b)}`, 'a [rank, in] and b [out, rank]')
}

/** What an operation was given beside its four operands. */
function partsOf<T>(more: readonly T[], { seen, bias }: LoraAttrs): { seen?: T | undefined; bias?: T | undefined } {
  return { seen: seen ? more[0] : undefined, bias: bias ? more.at(-1) : undefined }
}

const scaled = (x: Methods, scale: number): Methods => (scale === 1 ? x : x.mul(scale))
/** All rows, whatever axes they are counted along. */
const rowsOnly = (x: Methods): Methods => (x.rank === 2 ? x : x.reshape(-1, last(x.shape)))
const turned = (x: Methods): Methods => rowsOnly(x).transpose()

export const LORA: { readonly [O in 'lora' | 'joinedLinear']: Operation<O> } = {
  lora: {
    about: 'x [n, k] times a weight [m, k] of any format with a change of low rank, x wᵀ + scale (x aᵀ) bᵀ, plus an optional bias [m]',
    infer: ([x, w, a, b, ...more], attrs) => {
      const { seen, bias } = partsOf(more, attrs)
      const typed = LINEAR.linear.infer(bias === undefined ? [x, w] : [x, w, bias], {})
      if (seen !== undefined) {
        checkType('lora', 'what the change sees', seen, x.dtype)
        checkAxes('lora', 'what the change sees', seen, x.shape)
      }
      checkChange(x, w, a, b)
      if (!Number.isFinite(attrs.scale)) fail('lora', 'the scale is no number', attrs.scale)
      return typed
    },
    define: ([x, w, a, b, ...more], attrs) => {
      const { seen = x, bias } = partsOf(more, attrs)
      return x.linear(w, bias).add(scaled(seen.linear(a), attrs.scale).linear(b))
    },
    gradient: ({ src: [x, w, a, b, ...more], cotangent, attrs, wants }) => {
      const { seen, bias } = partsOf(more, attrs)
      const given = seen ?? x
      // What comes back through b, [n, r], is wanted by two.
      const low = scaled(cotangent.matmul(b), attrs.scale)
      const through = wants(0) ? (w.dtype === x.dtype ? cotangent.matmul(w) : cotangent.linearTransposed(w)) : undefined
      const ofSeen = seen !== undefined || wants(0) ? low.matmul(a) : undefined
      const dw = wants(1) ? turned(cotangent).matmul(rowsOnly(x)).to(floatType(w.dtype)) : undefined
      const db = wants(3) ? turned(cotangent).matmul(rowsOnly(scaled(given.linear(a), attrs.scale))) : undefined
      return [
        seen === undefined ? through?.add(ofSeen ?? 0) : through,
        dw,
        wants(2) ? turned(low).matmul(rowsOnly(given)) : undefined,
        db,
        ...(seen === undefined ? [] : [ofSeen]),
        ...(bias === undefined ? [] : [cotangent.sumTo(bias.shape)]),
      ]
    },
  },

  joinedLinear: {
    about: 'linear plus u [n, r] times v [m, r] transposed, or linearTransposed plus u [n, r] times v [r, k], in the same sums',
    infer: ([x, w, u, v, ...bias], { transposed }) => {
      const typed = transposed ? LINEAR.linearTransposed.infer([x, w], {}) : LINEAR.linear.infer([x, w, ...bias], {})
      const columns = last(typed.shape)
      checkJoined('joinedLinear', [u, v], rowsOf(x.shape), (rank) => (transposed ? [rank, columns] : [columns, rank]))
      return typed
    },
    define: ([x, w, u, v, bias], { transposed }) => {
      const y = transposed ? x.linearTransposed(w) : x.linear(w, bias)
      return y.add((transposed ? u.matmul(v) : u.linear(v)).reshape(...y.shape))
    },
    lower: ({ src: [x, w, u, , bias], attrs: { transposed } }, caps) => {
      const [m, k] = [w.shape[0] ?? 1, last(w.shape)]
      const shared = { format: weightFormat(w), m, k, n: rowsOf(x.shape), rank: last(u.shape) }
      return transposed ? linearTransposed.work(caps, shared) : linear.work(caps, { ...shared, bias: bias !== undefined })
    },
    inputs: () => ['x', 'w', 'u', 'v', 'bias'],
  },
}
