// What the passes must know about a target language before a kernel can be spelled in it. Plain data; the targets
// themselves are in emit/.

import type { Width } from '../base/dtype.ts'
import type { OpName } from './op.ts'

export interface Target {
  readonly name: string
  /** the ops its spelling table has; every other pure op is decomposed */
  readonly spells: ReadonlySet<OpName>
  /** true if it runs a workgroup's lanes itself; false: the lanes become loops (WASM, C) */
  readonly lanes: boolean
  /** lanes of a subgroup that it runs itself; 0 if it has no subgroup operations */
  readonly subgroup: number
  /** true if it has 8x8 tiles */
  readonly tiles: boolean
  /** true if registers and arithmetic can be f16 */
  readonly half: boolean
  /** its 64-bit floats; absent if it has none */
  readonly double?: {
    /** widest vector of them */
    readonly width: Width
    /** pure ops that it spells for them alone: nothing decomposes the functions of f64 */
    readonly spells: ReadonlySet<OpName>
  }
  /** true if memory can be read and written by 8 and 16 bits; false: all memory is 32-bit words (WGSL) */
  readonly narrow: boolean
  /** widest vector it can hold */
  readonly width: Width
}
