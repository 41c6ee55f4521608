// Operations with windows that slide over the last axes: taking them out, putting them back, convolutions and pooling.

import { convolve } from '../../kernel/window/convolve.ts'
import type { ConvolveType } from '../../kernel/window/convolution.ts'
import { fold } from '../../kernel/window/fold.ts'
import { pool } from '../../kernel/window/pool.ts'
import { unfold } from '../../kernel/window/unfold.ts'
import { type Windows, checkWindows } from '../../kernel/window/windows.ts'
import { type ElementType, type WindowAttrs, sizeOf } from '../node.ts'
import { checkAxes, checkElements, checkList, checkType, fail, show } from '../operand.ts'
import type { Operation } from './operation.ts'

/** The axes before those that windows slide over. */
const lead = (shape: readonly number[], { kernel }: WindowAttrs): readonly number[] => shape.slice(0, shape.length - kernel.length)
/** The axes that windows slide over, in the operand of a node. */
const windowsOf = (shape: readonly number[], attrs: WindowAttrs): Windows => ({
  ...windowPart(attrs),
  in: shape.slice(-attrs.kernel.length),
})
const windowPart = ({ kernel, strides, dilations, padding, out }: WindowAttrs): Omit<Windows, 'in'> => ({
  kernel,
  strides,
  dilations,
  padding,
  out,
})

/** Lists and nothing else, before anybody counts what is in them. */
function checkWindowLists(op: string, { kernel, strides, dilations, padding, out }: WindowAttrs): void {
  for (const list of [kernel, strides, dilations, padding, out]) checkList(op, 'what names windows', list)
  for (const width of padding) {
    checkList(op, 'the padding of an axis', width)
    if (width.length !== 2) fail(op, 'the padding of an axis has no two sides', width.length, 2)
  }
}

export const WINDOWS: { readonly [O in 'unfold' | 'fold' | 'convolve' | 'pool']: Operation<O> } = {
  unfold: {
    about: 'x [.., ...in] -> [.., ...kernel, ...out]: what lies under each tap of each window',
    infer: ([x], attrs) => {
      const dtype = checkElements('unfold', 'x', x)
      checkWindowLists('unfold', attrs)
      if (typeof attrs.value !== 'number') fail('unfold', 'the value is no number', typeof attrs.value)
      if (x.shape.length < attrs.kernel.length) fail('unfold', 'too few axes', show(x), `${attrs.kernel.length} at least`)
      checkWindows('unfold', windowsOf(x.shape, attrs), 3)
      return { shape: [...lead(x.shape, attrs), ...attrs.kernel, ...attrs.out], dtype }
    },
    gradient: ({ src: [x], cotangent, attrs }) => [cotangent.fold(x.shape.slice(-attrs.kernel.length), windowPart(attrs))],
    lower: ({ src: [x], dtype, attrs }, caps) =>
      unfold.work(caps, {
        type: dtype as ElementType, // `infer` has seen it
        n: sizeOf(lead(x.shape, attrs)),
        ...windowsOf(x.shape, attrs),
        value: attrs.value,
      }),
    inputs: () => ['x'],
  },

  fold: {
    about: 'x [.., ...kernel, ...out] -> [.., ...in]: what lies under each tap added where it came from',
    infer: ([x], attrs) => {
      checkType('fold', 'x', x, 'f32', 'f16', 'bf16', 'f64')
      checkWindowLists('fold', attrs)
      checkList('fold', 'what names sizes', attrs.in)
      checkWindows('fold', { ...windowPart(attrs), in: attrs.in }, 3)
      const before = x.shape.slice(0, x.shape.length - 2 * attrs.kernel.length)
      checkAxes('fold', 'x', x, [...before, ...attrs.kernel, ...attrs.out])
      return { shape: [...before, ...attrs.in], dtype: x.dtype }
    },
    gradient: ({ cotangent, attrs }) => [cotangent.unfold(windowPart(attrs))],
    lower: ({ shape, dtype, attrs }, caps) =>
      fold.work(caps, {
        type: dtype as ElementType, // `infer` has seen it
        n: sizeOf(shape.slice(0, shape.length - attrs.kernel.length)),
        ...windowPart(attrs),
        in: attrs.in,
      }),
    inputs: () => ['x'],
  },

  convolve: {
    about: 'x [n, c, ...in], weights [o, c / groups, ...kernel], bias [o] -> [n, o, ...out]',
    infer: ([x, w, ...bias], attrs) => {
      const { kernel, groups, out } = attrs
      checkType('convolve', 'x', x, 'f32', 'f16', 'bf16', 'f64')
      checkType('convolve', 'the weights', w, x.dtype)
      const [n = 1, channels = 1] = x.shape
      const [outputs = 1] = w.shape
      if (x.shape.length !== kernel.length + 2) fail('convolve', 'wrong number of axes', show(x), `[n, channels] and ${kernel.length} more`)
      if (channels % groups !== 0 || outputs % groups !== 0)
        fail('convolve', 'channels do not fall into groups', `${channels} to ${outputs} in ${groups}`, 'multiples of the groups')
      checkAxes('convolve', 'the weights', w, [outputs, channels / groups, ...kernel])
      for (const each of bias) checkAxes('convolve', 'the bias', each, [outputs])
      checkWindows('convolve', windowsOf(x.shape, attrs), 2)
      return { shape: [n, outputs, ...out], dtype: x.dtype }
    },
    define: ([x, w, bias], attrs) => {
      const { groups, out } = attrs
      const [[n = 1, channels = 1], [outputs = 1]] = [x.shape, w.shape]
      const inner = (channels / groups) * sizeOf(attrs.kernel)
      const taps = x.unfold(windowPart(attrs)).reshape(n, groups, inner, sizeOf(out))
      const y = w
        .reshape(groups, outputs / groups, inner)
        .matmul(taps)
        .reshape(n, outputs, ...out)
      return bias === undefined ? y : y.add(bias.reshape(outputs, ...out.map(() => 1)))
    },
    lower: ({ src: [x, w, ...bias], dtype, attrs }, caps) =>
      convolve.work(caps, {
        type: dtype as ConvolveType, // `infer` has seen it
        n: x.shape[0] ?? 1,
        channels: x.shape[1] ?? 1,
        outputs: w.shape[0] ?? 1,
        groups: attrs.groups,
        bias: bias.length > 0,
        ...windowsOf(x.shape, attrs),
      }),
    inputs: () => ['x', 'w', 'bias'],
  },

  pool: {
    about: 'x [.., h, w] -> [.., oh, ow]: one number of each window',
    infer: ([x], attrs) => {
      checkType('pool', 'x', x, 'f32', 'f16', 'bf16', 'f64')
      checkWindowLists('pool', attrs)
      checkWindows('pool', windowsOf(x.shape, attrs), 2)
      return { shape: [...lead(x.shape, attrs), ...attrs.out], dtype: attrs.kind === 'argmax' ? 'u32' : x.dtype }
    },
    define: ([x], attrs) => {
      const { kind, includePad, kernel } = attrs
      const axes = kernel.map((_, i) => x.rank - kernel.length + i)
      const taps = x.unfold(windowPart(attrs))
      if (kind === 'l2') return taps.square().sum(axes).sqrt()
      if (kind === 'max') return x.unfold(windowPart(attrs), -Infinity).max(axes)
      const count = includePad ? sizeOf(kernel) : x.zeros().add(1).unfold(windowPart(attrs)).sum(axes)
      return taps.sum(axes).div(count)
    },
    gradientByDefinition: ({ kind }) => kind !== 'max',
    // The first of equal maxima takes it all.
    gradient: ({ src: [x], out, cotangent, attrs }) => {
      const [before, size] = [lead(x.shape, attrs), sizeOf(x.shape.slice(-attrs.kernel.length))]
      const places = x.pool('argmax', windowPart(attrs), attrs.includePad).reshape(sizeOf(before), sizeOf(attrs.out))
      const flat = cotangent.reshape(sizeOf(before), sizeOf(attrs.out))
      return [
        out
          .zeros([sizeOf(before), size])
          .scatterAdd(places, flat, 1)
          .reshape(...x.shape),
      ]
    },
    lower: ({ src: [x], attrs }, caps) =>
      pool.work(caps, {
        kind: attrs.kind,
        type: x.dtype as ConvolveType, // `infer` has seen it
        n: sizeOf(lead(x.shape, attrs)),
        ...windowsOf(x.shape, attrs),
        includePad: attrs.includePad,
      }),
    inputs: () => ['x'],
  },
}
