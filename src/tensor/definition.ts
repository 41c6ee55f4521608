// What each fused operation means in terms of simpler ones. A device that cannot run the fused kernel runs this instead (plan.ts), and
// tests compare the two. Written to be read, not to be fast: intermediate results may be large.

/* oxlint-disable typescript/no-non-null-assertion -- an operation is given as many operands as its method in tensor.ts passes */

import { leafOf } from './node.ts'
import type { AttentionAttrs, NormAttrs } from './op.ts'
import { Tensor } from './tensor.ts'

type Definition = (src: readonly Tensor[], attrs: object) => Tensor

function define<A extends object>(definition: (src: readonly Tensor[], attrs: A) => Tensor): Definition {
  return definition as unknown as Definition
}

export const DEFINITIONS: Readonly<Partial<Record<string, Definition>>> = {
  norm: define<NormAttrs>(([x, ...rest], { kind, eps, weight, bias }) => {
    const centred = kind === 'layer' ? x!.sub(x!.mean(-1, true)) : x!
    const scaled = centred.mul(centred.mul(centred).mean(-1, true).add(eps).rsqrt())
    const weighted = weight ? scaled.mul(rest[0]!) : scaled
    return bias ? weighted.add(rest[weight ? 1 : 0]!) : weighted
  }),

  softmax: define(([x]) => {
    const e = x!.sub(x!.max(-1, true)).exp()
    return e.div(e.sum(-1, true))
  }),

  /** x [n, k], w [m, k] */
  linear: define<{ bias: boolean }>(([x, w, b], { bias }) => {
    const [k, m] = [x!.shape.at(-1)!, w!.shape[0]!]
    const values = leafOf(w!) === undefined ? w! : w!.gather(Tensor.iota(m)) // [m, k] in f32, whatever the format
    const y = x!
      .reshape(x!.size / k, 1, k)
      .mul(values.reshape(1, m, k))
      .sum(-1)
      .reshape(...x!.shape.slice(0, -1), m)
    return bias ? y.add(b!) : y
  }),

  /** q [n, heads * dim], keys and values [kvHeads, capacity, dim], positions [n] */
  attention: define<AttentionAttrs>(([q, keys, values, positions], { heads, scale, window, softcap }) => {
    const [kvHeads, capacity, dim] = keys!.shape as [number, number, number]
    const [n, group] = [q!.size / (heads * dim), heads / kvHeads]
    const scored = q!
      .reshape(n, kvHeads, group, 1, dim)
      .mul(keys!.to('f32').reshape(1, kvHeads, 1, capacity, dim))
      .sum(-1)
      .mul(scale)
    const capped = softcap > 0 ? scored.div(softcap).tanh().mul(softcap) : scored // [n, kvHeads, group, capacity]
    const j = Tensor.iota(capacity).to('f32').reshape(1, 1, 1, capacity)
    const last = positions!.to('f32').reshape(n, 1, 1, 1)
    const upTo = j.le(last)
    const seen = window > 0 ? upTo.mul(j.gt(last.sub(window))) : upTo
    const weights = seen.where(capped, -1e30).softmax().reshape(n, kvHeads, group, capacity, 1)
    return weights
      .mul(values!.to('f32').reshape(1, kvHeads, 1, capacity, dim))
      .sum(3)
      .reshape(...q!.shape.slice(0, -1), heads * dim)
  }),
}

/** The graph below `roots` with every operation named in `ops` replaced by its definition; other nodes stay the same objects. */
export function expand(roots: readonly Tensor[], ops: ReadonlySet<string>): ReadonlyMap<Tensor, Tensor> {
  const done = new Map<Tensor, Tensor>()
  const go = (tensor: Tensor): Tensor => {
    const known = done.get(tensor)
    if (known !== undefined) return known
    const src = tensor.src.map(go)
    const definition = ops.has(tensor.op) ? DEFINITIONS[tensor.op] : undefined
    const same = src.every((operand, i) => operand === tensor.src[i])
    const result = definition === undefined ? (same ? tensor : tensor.withSources(src)) : definition(src, tensor.attrs)
    if (definition !== undefined && tensor.label !== undefined) result.named(tensor.label)
    done.set(tensor, result)
    return result
  }
  roots.forEach(go)
  return done
}
