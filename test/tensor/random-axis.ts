// Operations of random graphs over whole axes: sorting, reductions, norms, scans, products and windows.

import type { ElementType } from '../../src/base/element.ts'
import { isFloatType } from '../../src/tensor/promote.ts'
import { castKnown, functionError, isExact, known, movedKnown, productKnown, sumKnown } from './random-known.ts'
import { type Operate, made } from './random-op.ts'
import { MOST_ELEMENTS, type Tape, type Value, fit, sizeOf } from './random-tape.ts'

function sorted(tape: Tape): Value | undefined {
  const x = tape.value(({ type, tensor }) => tensor.rank > 0 && type !== 'bool' && type !== 'i64')
  if (x === undefined) return undefined
  const [axis, descending] = [tape.axis(x), tape.flag()]
  if (tape.flag()) return made(x.tensor.sort(axis, { descending }), movedKnown(x))
  const k = tape.between(1, x.tensor.shape.at(axis) ?? 1)
  if (tape.flag()) return made(x.tensor.topK(k, axis).values, movedKnown(x))
  return isExact(x) ? made(x.tensor.argsort(axis, { descending }), known('u32', { most: MOST_ELEMENTS })) : undefined
}

function reduced(tape: Tape): Value | undefined {
  const x = tape.value(({ type }) => type !== 'i64')
  if (x === undefined) return undefined
  const [axes, keep, isFloat] = [tape.axes(x), tape.flag(), isFloatType(x.type)]
  const all = tape.below(6) === 0 ? undefined : axes
  const count = sizeOf((all ?? x.tensor.shape.map((_, i) => i)).map((axis) => x.tensor.shape[axis] ?? 1))
  const { tensor, type, most, error } = x
  switch (tape.of(['sum', 'sum', 'mean', 'max', 'min', 'prod', 'arg', 'any', 'all', 'logsumexp', 'l1'])) {
    case 'sum':
      return type === 'bool' ? undefined : made(tensor.sum(all, keep), sumKnown(x, count))
    case 'mean':
      return isFloat ? made(tensor.mean(all, keep), known(type, { most, error, operations: count + 2 })) : undefined
    case 'max':
      return made(tensor.max(all, keep), movedKnown(x))
    case 'min':
      return made(tensor.min(all, keep), movedKnown(x))
    case 'prod': {
      if (type === 'bool') return undefined
      const grain = x.grain === undefined ? undefined : x.grain ** count
      const about = { most: Math.max(1, most) ** count, error: count * Math.max(1, most) ** (count - 1) * error, grain, operations: count }
      return made(tensor.prod(all, keep), known(type, about))
    }
    case 'arg':
      if (!isExact(x) || tensor.rank === 0) return undefined
      return made(
        tape.flag() ? tensor.argmax(tape.axis(x), keep) : tensor.argmin(tape.axis(x), keep),
        known('u32', { most: MOST_ELEMENTS }),
      )
    case 'any':
      return isExact(x) ? made(tensor.any(all, keep), known('bool', { most: 1 })) : undefined
    case 'all':
      return isExact(x) ? made(tensor.all(all, keep), known('bool', { most: 1 })) : undefined
    case 'logsumexp': {
      const size = most + Math.log(count) + 1
      return isFloat
        ? made(tensor.logsumexp(all, keep), known(type, { most: size, error: 3 * error + storage(type) * count * size }))
        : undefined
    }
    default:
      return isFloat ? made(tensor.l1Norm(all, keep), sumKnown(x, count)) : undefined
  }
}

/** Relative error of a result that goes through memory of this type on the way. */
function storage(type: ElementType): number {
  return functionError(type) + (type === 'f16' ? 2 ** -9 : type === 'bf16' ? 2 ** -6 : 0)
}

function normalized(tape: Tape): Value | undefined {
  const x = tape.float(({ tensor, most }) => tensor.rank > 0 && most <= 64)
  if (x === undefined) return undefined
  const { tensor, type, most, error } = x
  const axis = tape.axis(x)
  const cols = tensor.shape.at(-1) ?? 1
  const along = (2 * error + 2 ** -20 * cols * most) * 4 * (1 + Math.sqrt(cols)) // eps is 1/16: its root is 4
  switch (tape.below(4)) {
    case 0:
      return made(
        tensor.softmax(axis),
        known(type, { most: 1, error: 2 * error + functionError(type), operations: 2 * MOST_ELEMENTS ** 0.5 }),
      )
    case 1: {
      const size = 2 * most + Math.log(MOST_ELEMENTS)
      return made(tensor.logSoftmax(axis), known(type, { most: size, error: 3 * error + functionError(x.type) * size }))
    }
    case 2:
      return made(tensor.layerNorm(undefined, undefined, 1 / 16), known(type, { most: 4 * most + 1, error: along, operations: 8 }))
    default:
      return made(tensor.rmsNorm(undefined, 1 / 16), known(type, { most: 4 * most + 1, error: along, operations: 8 }))
  }
}

function scanned(tape: Tape): Value | undefined {
  const x = tape.value(({ type, tensor }) => tensor.rank > 0 && type !== 'bool' && type !== 'i64')
  if (x === undefined) return undefined
  const axis = tape.axis(x)
  const count = x.tensor.shape.at(axis) ?? 1
  const options = { exclusive: tape.flag(), reversed: tape.flag() }
  if (tape.below(3) > 0) return made(x.tensor.cumsum(axis, options), sumKnown(x, count))
  if (isFloatType(x.type)) return undefined
  return made(x.tensor.cumprod(axis, options), known(x.type, { most: Infinity }))
}

function multiplied(tape: Tape): Value | undefined {
  const [a, b] = [tape.value(({ type, tensor }) => tensor.rank > 0 && type !== 'i64'), tape.value(({ type }) => type !== 'i64')]
  if (a === undefined || b === undefined) return undefined
  const { shape } = a.tensor
  const k = shape.at(-1) ?? 1
  const batch = tape.flag() ? [] : shape.slice(0, -2).map((size) => (tape.flag() ? 1 : size))
  const n = tape.between(1, 9)
  const right = tape.flag() ? fit(b.tensor, [...batch, k, n]) : fit(b.tensor, [...batch, n, k]).transpose()
  const left = tape.flag() || a.tensor.rank < 2 ? a.tensor : fit(a.tensor, [...shape.slice(0, -2), k, shape.at(-2) ?? 1]).transpose()
  const y = left.matmul(right)
  const type = y.dtype as ElementType
  const [x, w] = [castKnown(a, type), castKnown(b, type)]
  const about = x && w && productKnown(isFloatType(type) ? type : 'f32', x, w, k)
  if (about === undefined) return undefined
  // Integers are multiplied as floats, which hold them up to 2 ** 24.
  return isFloatType(type) ? made(y, about) : isExact(about) && (type === 'i32' || type === 'u32') ? made(y, known(type, about)) : undefined
}

function convolved(tape: Tape): Value | undefined {
  const x = tape.float()
  const w = x && tape.float(({ type }) => type === x.type)
  if (x === undefined || w === undefined) return undefined
  const groups = tape.between(1, 2)
  const [c, o, kh, kw] = [groups * tape.between(1, 2), groups * tape.between(1, 3), tape.between(1, 3), tape.between(1, 3)]
  const image = fit(x.tensor, [tape.between(1, 2), c, tape.between(5, 7), tape.between(5, 7)])
  const options = { stride: tape.between(1, 2), padding: tape.below(3), dilation: kh * kw < 5 ? tape.between(1, 2) : 1 }
  if (tape.flag()) {
    const weights = fit(w.tensor, [o, c / groups, kh, kw])
    return made(image.conv2d(weights, { ...options, groups }), productKnown(x.type, x, w, (c / groups) * kh * kw))
  }
  const area = { ...options, padding: 0 }
  if (tape.flag()) return made(image.maxPool2d([kh, kw], area), movedKnown(x))
  return made(image.averagePool2d([kh, kw], area), known(x.type, { most: x.most, error: x.error, operations: kh * kw + 4 }))
}

export const OVER_AXES: readonly Operate[] = [sorted, reduced, reduced, reduced, normalized, scanned, multiplied, multiplied, convolved]
