// What running a kernel needs besides the code: registers for all lanes of a workgroup, masks of active lanes, where we are,
// and how a fault is reported. Allocated once per kernel; a kernel does not recurse, so nothing here needs a stack.
//
// A register of a vector holds its elements lane by lane: element e of lane l is at l * width + e. A tile belongs to a
// subgroup and holds 64 numbers, row by row, at 64 * subgroup.
/* oxlint-disable typescript/no-non-null-assertion -- lanes and subgroups are counted from 0 by the arrays that hold them */

import { type DType, isTile, scalarOf, widthOf } from '../../base/dtype.ts'
import { type ErrorCode, IngotError } from '../../base/error.ts'
import { type Kernel, lanesOf } from '../kernel.ts'

export type Cells = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array
/** One thing to do for the active lanes. Pure steps compute all lanes and ignore the mask. */
export type Action = (mask: Mask) => void

/** The lanes that take part, in order. */
export interface Mask {
  readonly lanes: Int32Array
  count: number
}

export class State {
  readonly kernel: Kernel
  readonly lanes: number
  /** lanes of a subgroup; all lanes of the workgroup if the kernel names none */
  readonly subgroup: number
  readonly subgroups: number
  readonly all: Mask
  readonly uniforms = new Map<string, number>()
  workgroup: readonly [number, number, number] = [0, 0, 0]
  grid: readonly [number, number, number] = [1, 1, 1]
  readonly #active: Uint16Array

  constructor(kernel: Kernel) {
    this.kernel = kernel
    this.lanes = lanesOf(kernel)
    this.subgroup = kernel.subgroup > 0 ? kernel.subgroup : this.lanes
    this.subgroups = Math.ceil(this.lanes / this.subgroup)
    this.all = this.mask()
    this.all.count = this.lanes
    this.#active = new Uint16Array(this.subgroups)
  }

  /** A mask to be filled; its lanes count up until then. */
  mask(): Mask {
    return { lanes: Int32Array.from({ length: this.lanes }, (_, lane) => lane), count: 0 }
  }

  register(dtype: DType): Cells {
    const length = isTile(dtype) ? 64 * this.subgroups : this.lanes * widthOf(dtype)
    switch (scalarOf(dtype)) {
      case 'f32':
      case 'f16':
        return new Float32Array(length)
      case 'f64':
        return new Float64Array(length)
      case 'i32':
        return new Int32Array(length)
      case 'u32':
        return new Uint32Array(length)
      case 'bool':
        return new Uint8Array(length)
    }
  }

  /** 1 for each subgroup that is active. Reports a subgroup of which only some lanes are. */
  wholeSubgroups(mask: Mask, what: string): Uint16Array {
    const active = this.#active
    active.fill(0)
    for (let at = 0; at < mask.count; at++) active[Math.floor(mask.lanes[at]! / this.subgroup)]!++
    for (let group = 0; group < this.subgroups; group++) {
      const size = Math.min(this.subgroup, this.lanes - group * this.subgroup)
      const count = active[group]!
      if (count !== 0 && count !== size) {
        this.fault('bad-kernel', `divergent ${what}: only some lanes of subgroup ${group} are here`, undefined, {
          got: count,
          wanted: size,
        })
      }
    }
    return active
  }

  fault(code: ErrorCode, what: string, lane?: number, facts: { got?: unknown; wanted?: unknown; hint?: string } = {}): never {
    const where = `${lane === undefined ? '' : `lane ${lane} of `}workgroup [${this.workgroup.join(',')}]`
    throw new IngotError(code, `${what} (${where})`, { op: this.kernel.name, ...facts })
  }
}
