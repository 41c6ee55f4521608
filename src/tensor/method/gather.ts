// Methods that choose elements by indices, write where indices say, or sort.

import type { ElementType } from '../../base/element.ts'
import { checkWhole, checkWord, fail, optionsOf } from '../operand.ts'
import { ReduceMethods } from './reduce.ts'

/** Elements and where they were. */
export interface Ranked<T> {
  readonly values: T
  readonly indices: T
}

export abstract class GatherMethods extends ReduceMethods {
  /** The slices of an axis that `ids` name; their shape takes the place of the axis. */
  gather(ids: this, axis = 0): this {
    return this.apply('gather', [this, ids], { axis: this.axisOf('gather', axis) })
  }
  /** One element of an axis for each index; `ids` has as many axes as this tensor, and is not larger beside that one. */
  gatherElements(ids: this, axis = 0): this {
    this.checkTensors('gatherElements', [ids])
    const at = this.axisOf('gatherElements', axis)
    if (ids.rank !== this.rank) fail('gatherElements', 'wrong number of axes of the indices', ids.rank, this.rank)
    const part = this.slice(...this.shape.map((size, each) => (each === at ? null : ([0, Math.min(size, ids.shape[each] ?? 1)] as const))))
    return this.apply('gatherElements', [part, ids], { axis: at })
  }
  /** What lies at each list of indices: the last axis of `ids` names a place along the first axes. */
  gatherNd(ids: this): this {
    this.checkTensors('gatherNd', [ids])
    const depth = ids.shape.at(-1) ?? 1
    checkWhole('gatherNd', 'the length of an index', depth, 1, this.rank)
    const rest = this.shape.slice(depth)
    const rows = this.reshape(-1, ...rest)
    return rows.gather(ids.#flatIndices(this.shape.slice(0, depth)), 0)
  }
  /** Indices of several axes, along the last one, as indices of these axes as one; negative ones count from the end. */
  #flatIndices(sizes: readonly number[]): this {
    const at = this.to('i32')
    return sizes
      .map((size, i) => {
        const index = at.narrow(-1, i, 1).squeeze(-1)
        return index
          .lt(0)
          .where(index.add(size), index)
          .clamp(0, size - 1)
      })
      .reduce((sum, index, i) => sum.mul(sizes[i] ?? 1).add(index))
  }

  /** With `values` written where `ids` say along an axis, one element for each index; the last of equal ones counts. */
  scatter(ids: this, values: this, axis = 0): this {
    return this.#scatterAlong(ids, values, axis, 'set')
  }
  /** With `values` added where `ids` say along an axis, one element for each index. */
  scatterAdd(ids: this, values: this, axis = 0): this {
    return this.#scatterAlong(ids, values, axis, 'add')
  }
  #scatterAlong(ids: this, values: this, axis: number, kind: 'set' | 'add'): this {
    this.checkTensors('scatter', [ids, values])
    const at = this.axisOf('scatter', axis)
    const isFull = ids.shape.every((size, each) => each === at || size === this.shape[each])
    const fits = ids.shape.every((size, each) => each === at || size <= (this.shape[each] ?? 0))
    if (isFull || !fits || ids.rank !== this.rank) return this.apply('scatter', [this, ids, values], { axis: at, kind, ids: 'along' })
    // Only part of what lies beside the axis is written.
    const sizes = this.shape.map((size, each) => (each === at ? size : Math.min(size, ids.shape[each] ?? 1)))
    const part = this.slice(...sizes.map((size) => [0, size] as const)).#scatterAlong(ids, values, axis, kind)
    const nowhere = sizes.map(() => 0)
    const steps = sizes.map(() => 1)
    const inside = part.zeros().add(1).place(this.shape, nowhere, steps)
    return inside.ne(0).where(part.place(this.shape, nowhere, steps), this)
  }
  /** With slices of an axis written, or added, where `ids` [count] say. */
  scatterRows(ids: this, values: this, axis: number, kind: 'set' | 'add'): this {
    checkWord('scatter', 'kind', kind, ['set', 'add'])
    return this.apply('scatter', [this, ids, values], { axis: this.axisOf('scatter', axis), kind, ids: 'rows' })
  }
  /** With `values` written where lists of indices say: the last axis of `ids` names a place along the first axes. */
  scatterNd(ids: this, values: this): this {
    this.checkTensors('scatterNd', [ids, values])
    const depth = ids.shape.at(-1) ?? 1
    checkWhole('scatterNd', 'the length of an index', depth, 1, this.rank)
    const rest = this.shape.slice(depth)
    const flat = ids.#flatIndices(this.shape.slice(0, depth))
    return this.reshape(-1, ...rest)
      .scatterRows(flat.reshape(flat.size), values.reshape(flat.size, ...rest), 0, 'set')
      .reshape(...this.shape)
  }
  /** 1 at the index that each element is, along a new last axis of `count`; 0 elsewhere. */
  oneHot(count: number, dtype: ElementType = 'f32'): this {
    checkWhole('oneHot', 'the count', count, 1)
    const index = this.indices([count], 0).to('i32')
    return this.to('i32').unsqueeze(-1).eq(index).to(dtype)
  }

  /** The indices that would sort an axis; equal elements keep their order, and NaN comes last. */
  argsort(axis = -1, options: { descending?: boolean } = {}): this {
    const descending = optionsOf('argsort', options).descending === true
    const at = this.axisOf('argsort', axis)
    const exact = this.dtype === 'bool' ? 'u8' : this.dtype === 'i64' ? 'i32' : undefined // types in the same order that are sorted
    if (exact !== undefined) return this.to(exact).argsort(axis, options)
    if (at === this.rank - 1) return this.apply('argsort', [this], { descending })
    const turned = this.transpose(at, -1)
    return turned.apply('argsort', [turned], { descending }).transpose(at, -1)
  }
  /** The elements of an axis in order; equal ones keep theirs, and NaN comes last. */
  sort(axis = -1, options: { descending?: boolean } = {}): this {
    return this.gatherElements(this.argsort(axis, options), axis)
  }
  /** The k largest of an axis, largest first, and where they were. */
  topK(k: number, axis = -1): Ranked<this> {
    const at = this.axisOf('topK', axis)
    checkWhole('topK', 'k', k, 1, this.shape[at] ?? 1)
    const indices = this.argsort(at, { descending: true }).narrow(at, 0, k)
    return { values: this.gatherElements(indices, at), indices }
  }
}
