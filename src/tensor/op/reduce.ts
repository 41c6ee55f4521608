// Operations over whole axes: reductions, norms, softmax, and the place of the largest element.

import type { FloatType } from '../../kernel/reduce/float-row.ts'
import { norm } from '../../kernel/reduce/norm.ts'
import { reduce } from '../../kernel/reduce/reduce.ts'
import { scan } from '../../kernel/reduce/scan.ts'
import { softmax } from '../../kernel/reduce/softmax.ts'
import type { Methods } from '../method/methods.ts'
import { type ElementType, type TensorType, sizeOf } from '../node.ts'
import { checkAxes, checkElements, checkFinite, checkNumbers, checkType, checkWhole, fail } from '../operand.ts'
import { isFloatType } from '../promote.ts'
import { last } from '../shape.ts'
import { inputsOf, operandNumbers } from './map.ts'
import type { Operation } from './operation.ts'

const rowsOf = (shape: readonly number[]): number => sizeOf(shape) / last(shape)
const FLOATS = ['f32', 'f16', 'bf16', 'f64'] as const
/** Those that kernels compute in f32; 64-bit floats do not come here (rewrite/double.ts). */
const floatType = (dtype: TensorType): FloatType => dtype as FloatType

export const REDUCTIONS: { readonly [O in 'reduce' | 'norm' | 'softmax' | 'scan']: Operation<O> } = {
  reduce: {
    about: 'one number of all along some axes: their sum, product, mean, maximum or minimum, or where the last two are',
    infer: ([x], { kind, axes, keep }) => {
      const dtype = checkElements(kind, 'x', x)
      if (kind === 'mean' && !isFloatType(dtype)) fail('mean', 'only floats have a mean', dtype, 'a tensor of floats', `.to('f32') first`)
      if (kind === 'sum' || kind === 'prod') checkNumbers(kind, dtype)
      for (const axis of axes) checkWhole(kind, 'an axis', axis, 0, x.shape.length - 1)
      const shape = keep ? x.shape.map((size, axis) => (axes.includes(axis) ? 1 : size)) : x.shape.filter((_, axis) => !axes.includes(axis))
      return { shape, dtype: kind === 'argmax' || kind === 'argmin' ? 'u32' : dtype }
    },
    gradient: ({ src: [x], out, cotangent, attrs: { kind, axes } }) => {
      const kept = x.shape.map((size, axis) => (axes.includes(axis) ? 1 : size))
      const change = cotangent.reshape(...kept)
      const count = axes.reduce((product, axis) => product * (x.shape[axis] ?? 1), 1)
      switch (kind) {
        case 'sum':
          return [change.expand(...x.shape)]
        case 'mean':
          return [change.div(count).expand(...x.shape)]
        case 'max':
        case 'min': {
          const isBest = x.eq(out.reshape(...kept)).to(x.dtype as ElementType) // all that are equally good share the change
          return [isBest.mul(change.div(isBest.sum(axes, true)))]
        }
        case 'prod': {
          // The product of all others, zeros or not.
          const rest = x.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis))
          const order = [...rest, ...axes]
          const flat = x.permute(...order).reshape(...rest.map((axis) => x.shape[axis] ?? 1), count)
          const before = flat.cumprod(-1, { exclusive: true })
          const after = flat.cumprod(-1, { exclusive: true, reversed: true })
          const others = before.mul(after).reshape(...order.map((axis) => x.shape[axis] ?? 1))
          return [change.mul(others.permute(...order.map((_, axis) => order.indexOf(axis))))]
        }
        default:
          return [undefined]
      }
    },
    lower: ({ src, attrs: { kind, axes, source, inputs } }, caps) => {
      const [x] = src
      const type = source?.type ?? (x.dtype as ElementType) // `infer` has seen it
      const shape = source?.shape ?? x.shape
      return reduce.work(caps, {
        kind,
        axes,
        shape,
        expr: source?.expr ?? { input: 0 },
        type: kind === 'argmax' || kind === 'argmin' ? 'u32' : type,
        inputs: inputs ?? inputsOf(src, shape),
      })
    },
    inputs: ({ src, attrs: { inputs } }) => operandNumbers(src, inputs).map((i) => `in${i}`),
  },

  norm: {
    about: 'x [.., n] over the root of its mean square, or less its mean over its deviation; times a weight [n], plus a bias [n]',
    infer: ([x, ...scales], { eps, weight, bias }) => {
      if (scales.length !== Number(weight) + Number(bias)) fail('norm', 'wrong number of operands', scales.length)
      checkType('norm', 'x', x, ...FLOATS)
      const [first = x] = scales
      for (const scale of scales) {
        checkType('norm', 'a weight', scale, 'f32', x.dtype)
        if (scale.dtype !== first.dtype) fail('norm', 'weight and bias differ in type', scale.dtype, first.dtype)
        checkAxes('norm', 'a weight', scale, [last(x.shape)])
      }
      checkFinite('norm', 'eps', eps, 0)
      return { shape: x.shape, dtype: x.dtype }
    },
    define: ([x, ...scales], { kind, eps, weight }) => {
      const centred = kind === 'layer' ? x.sub(x.mean(-1, true)) : x
      const scaled = centred.mul(centred.mul(centred).mean(-1, true).add(eps).rsqrt())
      const [first, second] = scales
      if (first === undefined) return scaled
      if (!weight) return scaled.add(first)
      return second === undefined ? scaled.mul(first) : scaled.mul(first).add(second)
    },
    gradient: ({ src: [x, ...scales], cotangent, attrs: { kind, eps, weight }, wants }) => {
      const centred = kind === 'layer' ? x.sub(x.mean(-1, true)) : x
      const inverse = centred.square().mean(-1, true).add(eps).rsqrt()
      const normal = centred.mul(inverse)
      const [first] = scales
      const change = weight && first !== undefined ? cotangent.mul(first) : cotangent
      const along = change.sub(normal.mul(change.mul(normal).mean(-1, true)))
      const dx = inverse.mul(kind === 'layer' ? along.sub(change.mean(-1, true)) : along)
      return [
        dx,
        ...scales.map((scale, i) =>
          wants(i + 1) ? (i === 0 && weight ? cotangent.mul(normal) : cotangent).sumTo(scale.shape) : undefined,
        ),
      ]
    },
    lower: ({ shape, dtype, src: [, scale], attrs }, caps) =>
      norm.work(caps, {
        ...attrs,
        rows: rowsOf(shape),
        cols: last(shape),
        type: floatType(dtype),
        ...(scale && { scaleType: floatType(scale.dtype) }),
      }),
    inputs: ({ attrs: { weight, bias } }) => ['x', ...(weight ? ['weight'] : []), ...(bias ? ['bias'] : [])],
  },

  softmax: {
    about: 'exp(x) over the sum of exp(x) along the last axis, or the logarithm of that',
    infer: ([x]) => {
      checkType('softmax', 'x', x, ...FLOATS)
      return { shape: x.shape, dtype: x.dtype }
    },
    define: ([x], { log }) => {
      const shifted = x.sub(x.max(-1, true).stopGradient())
      return log ? shifted.sub(shifted.exp().sum(-1, true).log()) : shifted.exp().div(shifted.exp().sum(-1, true))
    },
    gradient: ({ out, cotangent, attrs: { log } }) => [
      log ? cotangent.sub(out.exp().mul(cotangent.sum(-1, true))) : out.mul(cotangent.sub(cotangent.mul(out).sum(-1, true))),
    ],
    lower: ({ shape, dtype, attrs: { log } }, caps) =>
      softmax.work(caps, { rows: rowsOf(shape), cols: last(shape), log, type: floatType(dtype) }),
    inputs: () => ['x'],
  },

  scan: {
    about: 'sums or products of all elements up to each along an axis',
    infer: ([x], { axis }) => {
      const dtype = checkElements('cumsum', 'x', x)
      checkNumbers('cumsum', dtype)
      checkWhole('cumsum', 'the axis', axis, 0, x.shape.length - 1)
      return { shape: x.shape, dtype }
    },
    // Each step doubles how many elements are in each result; what comes from outside is neutral.
    define: ([x], { kind, axis, exclusive, reversed }) => {
      const size = x.shape[axis] ?? 1
      const neutral = kind === 'sum' ? 0 : 1
      const nowhere = x.shape.map(() => 0)
      const shifted = (from: Methods, by: number): Methods =>
        by >= size
          ? from.zeros().add(neutral)
          : from.narrow(axis, reversed ? by : 0, size - by).place(
              x.shape,
              nowhere.with(axis, reversed ? 0 : by),
              x.shape.map(() => 1),
              neutral,
            )
      let y: Methods = exclusive ? shifted(x, 1) : x
      for (let by = 1; by < size; by *= 2) y = kind === 'sum' ? y.add(shifted(y, by)) : y.mul(shifted(y, by))
      return y
    },
    gradientByDefinition: ({ kind }) => kind === 'prod',
    gradient: ({ cotangent, attrs: { axis, exclusive, reversed } }) => [cotangent.cumsum(axis, { exclusive, reversed: !reversed })],
    lower: ({ shape, dtype, attrs }, caps) => scan.work(caps, { ...attrs, shape, type: dtype as ElementType }), // `infer` has seen it
    inputs: () => ['x'],
  },
}
