// 64-bit floats have kernels for maps, reductions and scans, and for what moves elements; everything else is computed with them as
// its definition says.

import { type NodeOf, type TensorNode, inPlaceOf, operandsOf, sizeOf } from '../node.ts'
import { Sketch, definitionOf } from '../sketch.ts'
import type { Rewrite } from './rewrite.ts'

const HAVE_KERNELS: ReadonlySet<TensorNode['op']> = new Set(['map', 'reduce', 'scan', 'fold'])

export const doubleDefinitions: Rewrite = {
  name: '64-bit floats',
  about: 'operations without kernels for them are computed as their definitions',
  again: true,
  concerns: (node) => operandsOf(node).some(({ dtype }) => dtype === 'f64'),
  begin: ({ lanes }) => ({
    rule: (node) => {
      // The kernels of devices with lanes compare keys of 32 bits.
      if (node.op === 'reduce' && isPick(node) && lanes > 1) return inPlaceOf(node, placeOfBest(node).node)
      if (HAVE_KERNELS.has(node.op)) return undefined
      const defined = definitionOf(node)
      return defined && inPlaceOf(node, defined)
    },
  }),
}

function isPick({ attrs: { kind } }: NodeOf<'reduce'>): boolean {
  return kind === 'argmax' || kind === 'argmin'
}

/** The number of the first element that is the best, counted over the reduced axes in order; of nothing but NaN, the first. */
function placeOfBest({ src: [node], shape, attrs: { kind, axes } }: NodeOf<'reduce'>): Sketch {
  const x = new Sketch(node)
  const isMax = kind === 'argmax'
  const known = x.isNaN().where(isMax ? -Infinity : Infinity, x)
  const best = isMax ? known.max(axes, true) : known.min(axes, true)
  const count = sizeOf(axes.map((axis) => x.shape[axis] ?? 1))
  const number = axes.map((axis) => x.indices(x.shape, axis)).reduce((sum, index, i) => sum.mul(x.shape[axes[i] ?? 0] ?? 1).add(index))
  const place = x.eq(best).where(number, count).min(axes)
  return place
    .eq(count)
    .where(0, place)
    .reshape(...shape)
}
