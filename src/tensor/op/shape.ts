// Operations that move elements without computing. Most are only other ways to see memory (view.ts) and have no kernels; what puts elements
// into part of a larger tensor does.

import { registerOf } from '../../kernel/element.ts'
import type { Launch } from '../../kernel/family.ts'
import { type MapParams, map } from '../../kernel/map/map.ts'
import { contiguous } from '../../kernel/map/walk.ts'
import { type ElementType, type TensorNode, sizeOf } from '../node.ts'
import { checkElements, checkList, checkShape, checkWhole, fail, show } from '../operand.ts'
import { sameShape } from '../shape.ts'
import type { Operation } from './operation.ts'

/** The copy of a whole tensor into the result, from these indices on. */
function copyInto({ shape, dtype }: TensorNode, from: TensorNode, starts: readonly number[], steps: readonly number[] = []): MapParams {
  const strides = contiguous(shape)
  const type = dtype as ElementType // `infer` has seen it
  return {
    expr: { input: 0 },
    type,
    shape: from.shape,
    inputs: [{ type, strides: contiguous(from.shape) }],
    to: {
      strides: strides.map((step, axis) => step * (steps[axis] ?? 1)),
      offset: starts.reduce((sum, start, axis) => sum + start * (strides[axis] ?? 0), 0),
      size: sizeOf(shape),
    },
  }
}

const reading = (launches: readonly Launch[], input: string): Launch[] => launches.map((launch) => ({ ...launch, binds: { in0: input } }))

export const SHAPES: { readonly [O in 'reshape' | 'permute' | 'expand' | 'slice' | 'place' | 'concat' | 'iota']: Operation<O> } = {
  reshape: {
    about: 'the same elements in another shape',
    infer: ([x], { shape }) => {
      checkShape('reshape', shape)
      const dtype = checkElements('reshape', 'x', x)
      if (sizeOf(x.shape) !== sizeOf(shape)) fail('reshape', 'sizes differ', show(x), `${sizeOf(shape)} elements for [${shape.join(',')}]`)
      return { shape, dtype }
    },
    gradient: ({ src: [x], cotangent }) => [cotangent.reshape(...x.shape)],
    inPlace: () => 0,
  },

  permute: {
    about: 'the same elements with axes in another order: axis i is axis `axes[i]` of the operand',
    infer: ([x], { axes }) => {
      const dtype = checkElements('permute', 'x', x)
      const isWhole = axes.length === x.shape.length && x.shape.every((_, axis) => axes.includes(axis))
      if (!isWhole) fail('permute', 'axes are not those of the tensor', axes, `each of 0 to ${x.shape.length - 1} once`)
      return { shape: axes.map((axis) => x.shape[axis] ?? 1), dtype }
    },
    gradient: ({ cotangent, attrs: { axes } }) => [cotangent.permute(...axes.map((_, axis) => axes.indexOf(axis)))],
  },

  expand: {
    about: 'repeated along axes of size 1, and along new ones in front',
    infer: ([x], { shape }) => {
      checkShape('expand', shape)
      const dtype = checkElements('expand', 'x', x)
      const before = shape.length - x.shape.length
      const fits = before >= 0 && x.shape.every((size, axis) => size === 1 || size === shape[axis + before])
      if (!fits) fail('expand', 'a tensor repeats along axes of size 1 only', show(x), shape)
      return { shape, dtype }
    },
    gradient: ({ src: [x], cotangent }) => [cotangent.sumTo(x.shape)],
  },

  slice: {
    about: 'part of each axis, in steps, also backwards',
    infer: ([x], { starts, sizes, steps }) => {
      const dtype = checkElements('slice', 'x', x)
      for (const list of [starts, sizes, steps]) checkList('slice', 'what names places', list)
      if (sizes.length !== x.shape.length) fail('slice', 'wrong number of axes', sizes.length, x.shape.length)
      x.shape.forEach((size, axis) => {
        const [start = 0, count = 1, step = 1] = [starts[axis], sizes[axis], steps[axis]]
        checkWhole('slice', `the start of axis ${axis}`, start, 0, size - 1)
        checkWhole('slice', `the size of axis ${axis}`, count, 1)
        if (!Number.isSafeInteger(step) || step === 0)
          fail('slice', `the step of axis ${axis} is out of range`, step, 'a whole number but 0')
        checkWhole('slice', `the last index of axis ${axis}`, start + (count - 1) * step, 0, size - 1)
      })
      return { shape: sizes, dtype }
    },
    // What went backwards is turned around first.
    gradient: ({ src: [x], cotangent, attrs: { starts, sizes, steps } }) => {
      const back = steps.flatMap((step, axis) => (step < 0 ? [axis] : []))
      const firsts = starts.map((start, axis) => Math.min(start, start + ((sizes[axis] ?? 1) - 1) * (steps[axis] ?? 1)))
      return [(back.length > 0 ? cotangent.flip(back) : cotangent).place(x.shape, firsts, steps.map(Math.abs))]
    },
  },

  place: {
    about: 'a tensor of one number, with the operand in part of it: what `slice` with the same starts and steps would take out',
    infer: ([x], { shape, starts, steps, value }) => {
      checkShape('place', shape)
      const dtype = checkElements('place', 'x', x)
      for (const list of [starts, steps]) checkList('place', 'what names places', list)
      if (shape.length !== x.shape.length) fail('place', 'wrong number of axes', shape.length, x.shape.length)
      x.shape.forEach((size, axis) => {
        const [start = 0, step = 1, room = 1] = [starts[axis], steps[axis], shape[axis]]
        checkWhole('place', `the start of axis ${axis}`, start, 0, room - 1)
        checkWhole('place', `the step of axis ${axis}`, step, 1)
        checkWhole('place', `the last index of axis ${axis}`, start + (size - 1) * step, 0, room - 1)
      })
      if (typeof value !== 'number') fail('place', 'the value is no number', value)
      return { shape, dtype }
    },
    gradient: ({ src: [x], cotangent, attrs: { starts, steps } }) => [cotangent.cut(starts, x.shape, steps)],
    // Fills all of it, then puts the operand there.
    lower: (node, caps) => {
      const { src, shape, dtype, attrs } = node
      const type = dtype as ElementType // `infer` has seen it
      const filled = map.work(caps, { expr: { const: attrs.value, type: registerOf(type) }, type, shape: [sizeOf(shape)], inputs: [] })
      const copied = map.work(caps, copyInto(node, src[0], attrs.starts, attrs.steps))
      return { launches: [...filled.launches, ...reading(copied.launches, 'x')] }
    },
    inputs: () => ['x'],
  },

  concat: {
    about: 'tensors one after the other along an axis',
    infer: (src, { axis }) => {
      const [first] = src
      if (first === undefined) return fail('concat', 'nothing to join', 'no tensors', 'at least one')
      const dtype = checkElements('concat', 'operand 0', first)
      checkWhole('concat', 'the axis', axis, 0, first.shape.length - 1)
      const others = (shape: readonly number[]): number[] => shape.toSpliced(axis, 1)
      for (const [i, node] of src.entries()) {
        if (node.dtype !== dtype) fail('concat', 'types differ', `${node.dtype} of operand ${i}`, dtype)
        if (node.shape.length !== first.shape.length || !sameShape(others(node.shape), others(first.shape)))
          fail('concat', 'shapes differ beside the axis', src.map(show).join(' and '), `all but axis ${axis} the same`)
      }
      const total = src.reduce((sum, { shape }) => sum + (shape[axis] ?? 1), 0)
      return { shape: first.shape.with(axis, total), dtype }
    },
    gradient: ({ src, cotangent, attrs: { axis } }) =>
      cotangent.split(
        src.map(({ shape }) => shape[axis] ?? 1),
        axis,
      ),
    lower: (node, caps) => {
      let at = 0
      const parts = node.src.map((part, i) => {
        const starts = node.shape.map((_, axis) => (axis === node.attrs.axis ? at : 0))
        at += part.shape[node.attrs.axis] ?? 1
        return reading(map.work(caps, copyInto(node, part, starts)).launches, `in${i}`)
      })
      return { launches: parts.flat() }
    },
    inputs: ({ src }) => src.map((_, i) => `in${i}`),
  },

  iota: {
    about: 'the index of every element along an axis, as u32',
    infer: (_src, { shape, axis }) => {
      checkShape('iota', shape)
      checkWhole('iota', 'the axis', axis, 0, shape.length - 1)
      return { shape, dtype: 'u32' }
    },
  },
}
