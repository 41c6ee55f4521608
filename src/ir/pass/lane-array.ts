// Workgroup arrays that keep one value per lane, for values that outlive one loop over the lanes, and how values of every type
// are kept in them: vectors as consecutive scalars, booleans as 0 and 1.

import { type DType, type Storage, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import type { Builder } from '../build.ts'
import type { Kernel, SharedArray } from '../kernel.ts'
import type { Node } from '../node.ts'
import type { Value } from '../value.ts'

export class LaneArrays {
  readonly list: SharedArray[] = []
  readonly #taken: Set<string>
  readonly #homes = new Map<number, string>()
  readonly #scratch = new Map<string, string>()
  readonly #lanes: number

  constructor(kernel: Kernel, lanes: number) {
    this.#lanes = lanes
    this.#taken = new Set([...kernel.params, ...kernel.shared].map(({ name }) => name))
  }

  make(wanted: string, storage: Storage, length: number): string {
    const base = wanted === '' ? 'kept' : wanted
    let name = base
    for (let count = 2; this.#taken.has(name); count++) name = `${base}${count}`
    this.#taken.add(name)
    this.list.push({ name, storage, length, atomic: false })
    return name
  }

  /** The array that keeps the local or variable `id`. */
  home(id: number, dtype: DType): string {
    let name = this.#homes.get(id)
    if (name === undefined) this.#homes.set(id, (name = this.make(`kept${id}`, storageOf(dtype), this.#lanes * widthOf(dtype))))
    return name
  }

  /** An array of the elements of a vector, for a moment: of lanes side by side that run a statement one after the other. */
  spill(id: number, dtype: DType): string {
    const full = `spill ${id} ${dtype}`
    let name = this.#scratch.get(full)
    if (name === undefined) this.#scratch.set(full, (name = this.make('spilled', storageOf(dtype), widthOf(dtype))))
    return name
  }

  /** An array for a moment. Users of the same key must not overlap. */
  scratch(key: string, dtype: DType): string {
    const full = `${key} ${dtype}`
    let name = this.#scratch.get(full)
    if (name === undefined) this.#scratch.set(full, (name = this.make('passed', storageOf(dtype), this.#lanes * widthOf(dtype))))
    return name
  }
}

/** Scalars that memory can hold. */
function storageOf(dtype: DType): Storage {
  const scalar = scalarOf(dtype)
  return scalar === 'bool' ? 'u32' : scalar
}

export function keep(builder: Builder, mem: string, index: Value<'u32'>, node: Node): void {
  const width = widthOf(node.dtype)
  const value = scalarOf(node.dtype) === 'bool' ? builder.make('cast', vector('u32', width), [node]) : node
  if (width === 1) builder.store(mem, index.node, value)
  else builder.store(mem, index.mul(width).node, value, width)
}

/** Reads a kept value here; the result is an expression of a new local, or of local `id` if it can be. */
export function recall(builder: Builder, mem: string, index: Value<'u32'>, dtype: DType, name: string, id?: number): Node {
  const width = widthOf(dtype)
  const scalar = scalarOf(dtype)
  const held = vector(scalar === 'bool' ? 'u32' : scalar, width)
  const load = builder.make('load', held, [index.mul(width).node], width === 1 ? { mem } : { mem, width })
  const local = builder.bind(name, load, scalar === 'bool' ? undefined : id)
  return scalar === 'bool' ? builder.make('ne', dtype, [local, builder.constant(0, held)]) : local
}
