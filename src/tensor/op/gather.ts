// Operations that choose elements by indices, and those that write where indices say. Indices are u32, i32 or i64; a negative one counts
// from the end, and whatever is still outside is the nearest that is inside.

import { map } from '../../kernel/map/map.ts'
import { INDEX_TYPES, type IndexType } from '../../kernel/move/index-type.ts'
import { scatter } from '../../kernel/move/scatter.ts'
import { take } from '../../kernel/move/take.ts'
import { takeAlong } from '../../kernel/move/take-along.ts'
import { type ElementType, type TensorNode, sizeOf } from '../node.ts'
import { checkAxes, checkElements, checkNumbers, checkWhole, fail, show } from '../operand.ts'
import { sameShape } from '../shape.ts'
import type { Operation } from './operation.ts'

/** What a node is along an axis: everything before it, the axis, everything after. */
const around = (shape: readonly number[], axis: number) => ({
  outer: sizeOf(shape.slice(0, axis)),
  axis: shape[axis] ?? 1,
  inner: sizeOf(shape.slice(axis + 1)),
})

function indexType(op: string, { dtype }: TensorNode): IndexType {
  return INDEX_TYPES.find((type) => type === dtype) ?? fail(op, 'wrong type of the indices', dtype, INDEX_TYPES.join(' or '))
}

export const GATHERS: { readonly [O in 'gather' | 'gatherElements' | 'scatter']: Operation<O> } = {
  gather: {
    about: 'whole slices of an axis: x [.., axis, ..], ids of any shape, which takes the place of the axis',
    infer: ([x, ids], { axis }) => {
      const dtype = checkElements('gather', 'x', x)
      checkWhole('gather', 'the axis', axis, 0, x.shape.length - 1)
      indexType('gather', ids)
      return { shape: [...x.shape.slice(0, axis), ...ids.shape, ...x.shape.slice(axis + 1)], dtype }
    },
    gradient: ({ src: [x, ids], cotangent, attrs: { axis } }) => {
      const rows = cotangent.reshape(...x.shape.with(axis, ids.size))
      return [x.zeros().scatterRows(ids.reshape(ids.size), rows, axis, 'add'), undefined]
    },
    lower: ({ src: [x, ids], dtype, attrs }, caps) =>
      take.work(caps, {
        type: dtype as ElementType, // `infer` has seen it
        indexType: indexType('gather', ids),
        ...around(x.shape, attrs.axis),
        count: sizeOf(ids.shape),
      }),
    inputs: () => ['x', 'ids'],
  },

  gatherElements: {
    about: 'one element for each index: ids and the result have the shape of x but for the axis',
    infer: ([x, ids], { axis }) => {
      const dtype = checkElements('gatherElements', 'x', x)
      checkWhole('gatherElements', 'the axis', axis, 0, x.shape.length - 1)
      indexType('gatherElements', ids)
      checkAxes('gatherElements', 'the indices', ids, x.shape.with(axis, ids.shape[axis] ?? 1))
      return { shape: ids.shape, dtype }
    },
    gradient: ({ src: [x, ids], cotangent, attrs: { axis } }) => [x.zeros().scatterAdd(ids, cotangent, axis), undefined],
    lower: ({ src: [x, ids], dtype, attrs }, caps) =>
      takeAlong.work(caps, {
        type: dtype as ElementType, // `infer` has seen it
        indexType: indexType('gatherElements', ids),
        ...around(x.shape, attrs.axis),
        count: ids.shape[attrs.axis] ?? 1,
      }),
    inputs: () => ['x', 'ids'],
  },

  scatter: {
    about: 'x with values written, or added, where ids say: slices of an axis by `ids [count]`, or one element for each index',
    infer: ([x, ids, values], { axis, kind, ids: form }) => {
      const dtype = checkElements('scatter', 'x', x)
      if (kind === 'add') checkNumbers('scatterAdd', dtype)
      checkWhole('scatter', 'the axis', axis, 0, x.shape.length - 1)
      indexType('scatter', ids)
      if (values.dtype !== dtype) fail('scatter', 'wrong type of the values', values.dtype, dtype)
      const count = form === 'rows' ? sizeOf(ids.shape) : (ids.shape[axis] ?? 1)
      checkAxes('scatter', 'the values', values, x.shape.with(axis, count))
      if (form === 'along' && !sameShape(ids.shape, values.shape)) fail('scatter', 'wrong shape of the indices', show(ids), show(values))
      if (form === 'rows') checkAxes('scatter', 'the indices', ids, [count])
      return { shape: x.shape, dtype }
    },
    gradient: ({ src: [, ids, values], cotangent, attrs: { axis, kind, ids: form }, wants }) => {
      const taken = wants(2) ? (form === 'rows' ? cotangent.gather(ids, axis) : cotangent.gatherElements(ids, axis)) : undefined
      if (kind === 'add') return [cotangent, undefined, taken]
      const gone = form === 'rows' ? cotangent.scatterRows(ids, values.zeros(), axis, 'set') : cotangent.scatter(ids, values.zeros(), axis)
      return [gone, undefined, taken]
    },
    // Starts from a copy of x.
    lower: ({ src: [x, ids, values], dtype, attrs: { axis, kind, ids: form } }, caps) => {
      const type = dtype as ElementType // `infer` has seen it
      const count = sizeOf(x.shape)
      const copied = map.work(caps, { expr: { input: 0 }, type, shape: [count], inputs: [{ type, strides: [1] }] })
      const written = scatter.work(caps, {
        kind,
        ids: form,
        type,
        indexType: indexType('scatter', ids),
        ...around(x.shape, axis),
        count: values.shape[axis] ?? 1,
      })
      return {
        launches: [...copied.launches.map((launch) => ({ ...launch, binds: { in0: 'x' } })), ...written.launches],
        ...(written.scratch && { scratch: written.scratch }),
      }
    },
    inputs: () => ['x', 'ids', 'src'],
  },
}
