// What random graphs do: operations with random arguments on values made before, each with what is then known of its result. An operation
// whose arguments do not fit, or of whose result too little would be known, gives nothing. Where a rounding could change which element is
// meant (comparisons, indices, casts to integers), only elements that are the same everywhere are taken.

import type { ElementType } from '../../src/base/element.ts'
import { isFloatType, promote } from '../../src/tensor/promote.ts'
import type { Tensor } from '../../src/tensor/tensor.ts'
import { type Known, castKnown, functionError, isExact, isUnsigned, known, movedKnown, productKnown } from './random-known.ts'
import { type Tape, type Value, fit, narrower } from './random-tape.ts'

export type Operate = (tape: Tape) => Value | undefined

/** A tensor with what is known of it; its type is the tensor's own. */
export function made(tensor: Tensor, about: Known | undefined): Value | undefined {
  if (about !== undefined && about.type !== tensor.dtype) throw new Error(`${tensor.dtype} was thought to be ${about.type}`)
  return about && { ...about, tensor }
}

/** Operands as one shape and type, the second one perhaps smaller, as arithmetic takes them. */
function pair(tape: Tape, fits: (value: Value) => boolean = () => true): [Value, Value, ElementType] | undefined {
  const [a, other] = [tape.value(fits), tape.value(fits)]
  if (a === undefined || other === undefined || a.type === 'i64' || other.type === 'i64') return undefined
  const b = { ...other, tensor: fit(other.tensor, narrower(tape, a.tensor.shape)) }
  const common = promote(a.type, b.type)
  const type = common === 'bool' ? 'i32' : common
  const [left, right] = [castKnown(a, type), castKnown(b, type)]
  if (left === undefined || right === undefined) return undefined
  const both: [Value, Value] = [
    { ...left, tensor: a.tensor },
    { ...right, tensor: b.tensor },
  ]
  return tape.flag() ? [both[0], both[1], type] : [both[1], both[0], type]
}

function addKnown(a: Known, b: Known): Known | undefined {
  const grain = a.grain !== undefined && b.grain !== undefined ? Math.min(a.grain, b.grain) : undefined
  return known(a.type, { most: a.most + b.most, error: a.error + b.error, grain, isRounded: true })
}

const arithmetic =
  (of: (a: Tensor, b: Tensor) => Tensor, about: (a: Known, b: Known, type: ElementType) => Known | undefined): Operate =>
  (tape) => {
    const [a, b, type] = pair(tape) ?? []
    return a && b && type && made(of(a.tensor, b.tensor), about(a, b, type))
  }

/** An operation on integers; the second operand is small. */
const whole =
  (of: (a: Tensor, b: Tensor | number) => Tensor): Operate =>
  (tape) => {
    const [a, b] = [tape.integer(), tape.integer()]
    if (a === undefined || b === undefined) return undefined
    const number = tape.below(8)
    const result = of(a.tensor, tape.flag() ? number : fit(b.tensor, narrower(tape, a.tensor.shape)))
    return made(result, known(result.dtype as ElementType, { most: Infinity }))
  }

/** A function of floats: how large it is, and how much faster than its argument it changes. */
const smooth =
  (of: (x: Tensor) => Tensor, most: (x: number) => number, slope: (x: number) => number, limit = 64): Operate =>
  (tape) => {
    const x = tape.float((value) => value.most <= limit)
    if (x === undefined) return undefined
    const size = most(x.most)
    return made(of(x.tensor), known(x.type, { most: size, error: slope(x.most) * x.error + functionError(x.type) * size, operations: 4 }))
  }

/** A function of numbers that rounds nothing. */
const plain =
  (of: (x: Tensor) => Tensor): Operate =>
  (tape) => {
    const x = tape.value(({ type }) => type !== 'bool' && type !== 'i64')
    return x && made(of(x.tensor), isFloatType(x.type) ? { ...x, most: Math.max(1, x.most) } : known(x.type, { most: Infinity }))
  }

/** A function with steps. */
const stepped =
  (of: (x: Tensor) => Tensor): Operate =>
  (tape) => {
    const x = tape.float(isExact)
    return x && made(of(x.tensor), known(x.type, { most: x.most + 1, grain: 1 }))
  }

const compared =
  (of: (a: Tensor, b: Tensor) => Tensor): Operate =>
  (tape) => {
    const [a, b] = pair(tape, isExact) ?? []
    return a && b && isExact(a) && isExact(b) ? made(of(a.tensor, b.tensor), known('bool', { most: 1 })) : undefined
  }

const logical =
  (of: (a: Tensor, b: Tensor) => Tensor): Operate =>
  (tape) => {
    const [a, b] = [tape.value(isExact), tape.value(isExact)]
    return a && b && made(of(a.tensor, fit(b.tensor, narrower(tape, a.tensor.shape))), known('bool', { most: 1 }))
  }

function where(tape: Tape): Value | undefined {
  const condition = tape.value(isExact)
  const [a, b] = [tape.value(), tape.value()]
  if (condition === undefined || a === undefined || b === undefined) return undefined
  const { shape } = condition.tensor
  const type = promote(a.type, b.type)
  const [left, right] = [castKnown(a, type), castKnown(b, type)]
  const about = left && right && movedKnown(left, right)
  return made(condition.tensor.where(fit(a.tensor, shape), fit(b.tensor, narrower(tape, shape))), about)
}

function cast(tape: Tape): Value | undefined {
  const [x, type] = [tape.value(), tape.type()]
  return x && made(x.tensor.to(type), castKnown(x, type))
}

/** Arithmetic with a number. */
function scaled(tape: Tape): Value | undefined {
  const x = tape.value(({ type }) => type !== 'bool' && type !== 'i64')
  const number = tape.of([2, 3, 0.5, -1, 1, 0.25])
  if (x === undefined || (!isFloatType(x.type) && !(number >= 1))) return undefined
  const constant: Known = { type: x.type, most: Math.abs(number), error: 0, grain: isFloatType(x.type) ? 0.25 : 1 }
  switch (tape.below(4)) {
    case 0:
      return made(x.tensor.mul(number), productKnown(x.type, x, constant))
    case 1:
      return made(x.tensor.add(number), addKnown(x, constant))
    case 2:
      return made(x.tensor.clamp(isFloatType(x.type) ? -1 : 0, number + 1), { ...(movedKnown(x, { ...constant, most: number + 2 }) ?? x) })
    default:
      return made(x.tensor.maximum(number), movedKnown(x, constant))
  }
}

/** A quotient by what is no less than 1. */
function quotient(tape: Tape): Value | undefined {
  const [a, b] = pair(tape, ({ type, most }) => isFloatType(type) && most <= 32) ?? []
  if (a === undefined || b === undefined) return undefined
  const own = b.tensor.dtype as ElementType
  const inner = known(own, { most: b.most * b.most + 1, error: 2 * b.most * b.error, operations: 2 })
  const below = inner && castKnown(inner, a.type)
  const error = a.error + a.most * (below?.error ?? 0)
  return below && made(a.tensor.div(b.tensor.square().add(1)), known(a.type, { most: a.most, error, operations: 4 }))
}

const arithmetics: readonly Operate[] = [
  arithmetic((a, b) => a.add(b), addKnown),
  arithmetic(
    (a, b) => a.sub(b),
    (a, b, type) => (isUnsigned(type) ? known(type, { most: Infinity }) : addKnown(a, b)),
  ),
  arithmetic(
    (a, b) => a.mul(b),
    (a, b, type) => productKnown(type, a, b),
  ),
  arithmetic(
    (a, b) => a.minimum(b),
    (a, b) => movedKnown(a, b),
  ),
  arithmetic(
    (a, b) => a.maximum(b),
    (a, b) => movedKnown(a, b),
  ),
  scaled,
  scaled,
  cast,
]

export const ELEMENTWISE: readonly Operate[] = [
  // Chains of these are joined most, and rounded most alike.
  ...Array.from({ length: 5 }, () => arithmetics).flat(),
  quotient,
  where,
  whole((a, b) => a.quotient(b)),
  whole((a, b) => a.remainder(b)),
  whole((a, b) => a.bitAnd(b)),
  whole((a, b) => a.bitOr(b)),
  whole((a, b) => a.bitXor(b)),
  (tape) => {
    const x = tape.integer()
    const by = tape.below(8)
    return x && made(tape.flag() ? x.tensor.shiftLeft(by) : x.tensor.shiftRight(by), known(x.type, { most: Infinity }))
  },
  plain((x) => x.neg()),
  plain((x) => x.abs()),
  plain((x) => x.sign().mul(x)),
  plain((x) => x.relu()),
  stepped((x) => x.floor()),
  stepped((x) => x.ceil()),
  stepped((x) => x.round()),
  stepped((x) => x.trunc()),
  stepped((x) => x.sign()),
  compared((a, b) => a.eq(b)),
  compared((a, b) => a.lt(b)),
  compared((a, b) => a.ge(b)),
  compared((a, b) => a.ne(b)),
  logical((a, b) => a.and(b)),
  logical((a, b) => a.xor(b)),
  logical((a, b) => a.or(b.not())),
  smooth((x) => x.tanh(), () => 1, () => 1), // prettier-ignore
  smooth((x) => x.sigmoid(), () => 1, () => 0.25), // prettier-ignore
  smooth((x) => x.sin(), () => 1, () => 1), // prettier-ignore
  smooth((x) => x.cos(), () => 1, () => 1), // prettier-ignore
  smooth((x) => x.atan(), () => 1.6, () => 1), // prettier-ignore
  smooth((x) => x.erf(), () => 1, () => 1.2), // prettier-ignore
  smooth((x) => x.exp(), Math.exp, Math.exp, 4),
  smooth((x) => x.square().add(1).log(), (x) => Math.log(x * x + 1), () => 1), // prettier-ignore
  smooth((x) => x.square().add(1).sqrt(), (x) => x + 1, () => 1, 32), // prettier-ignore
  smooth((x) => x.abs().add(1).rsqrt(), () => 1, () => 0.5), // prettier-ignore
  smooth((x) => x.abs().add(1).reciprocal(), () => 1, () => 1), // prettier-ignore
  smooth((x) => x.abs().add(0.5).pow(1.5), (x) => (x + 0.5) ** 1.5, (x) => 1.5 * Math.sqrt(x + 0.5), 32), // prettier-ignore
  smooth((x) => x.gelu(), (x) => x + 1, () => 1.2), // prettier-ignore
  smooth((x) => x.geluErf(), (x) => x + 1, () => 1.2), // prettier-ignore
  smooth((x) => x.silu(), (x) => x + 1, () => 1.2), // prettier-ignore
  smooth((x) => x.softplus(), (x) => x + 1, () => 1), // prettier-ignore
  smooth((x) => x.softsign(), () => 1, () => 1), // prettier-ignore
  smooth((x) => x.hardSwish(), (x) => x + 1, () => 1.5), // prettier-ignore
  smooth((x) => x.hardSigmoid(), () => 1, () => 0.2), // prettier-ignore
  smooth((x) => x.elu(), (x) => x + 1, () => 1), // prettier-ignore
  smooth((x) => x.leakyRelu(), (x) => x, () => 1), // prettier-ignore
]
