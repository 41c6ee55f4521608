// What a device can do, as data. Kernel authors choose a form from this and never from a device's name.

import type { Width } from './dtype.ts'

export interface Caps {
  /** most lanes of one workgroup; 1 means that lanes would become loops: use vectors instead */
  readonly lanes: number
  /** lanes of a subgroup that kernels may rely on; 0 if there are none or the size is not fixed */
  readonly subgroup: number
  /** 8x8 matrix tiles */
  readonly tiles: boolean
  /** f16 arithmetic */
  readonly f16: boolean
  /** 64-bit floats */
  readonly f64: boolean
  /** widest vector that fits one register: 4 on GPUs and WASM, 8 with AVX2, 16 with AVX-512 */
  readonly width: Width
  /** vector registers of a CPU; 16 if not given */
  readonly registers?: number
  /** packed int8 dot products are faster than converting to f32 */
  readonly dot: boolean
  /** products of bytes end in pairs of 16 bits in one step, and in 32 bits in two more (AVX2): kernels that add them before are faster */
  readonly pairs?: boolean
  /** places that a kernel should read side by side where memory is slow: engines without prefetch instructions; 1 if not given */
  readonly streams?: number
  /** workgroups that run at the same time, as far as known: CPU threads, or a GPU's cores times a few */
  readonly parallel: number
  /** bytes of workgroup memory */
  readonly sharedBytes: number
  /** largest buffer, and largest part of one that a kernel may see, in bytes */
  readonly bufferBytes: number
  readonly bindingBytes: number
  /** buffers of one kernel */
  readonly bindings: number
  /** workgroups along one axis of a grid */
  readonly grid: number
  /** offsets of bindings are multiples of this */
  readonly alignment: number
  /** recordings may leave blanks for memory that every submission names, at no cost; elsewhere they are refused */
  readonly blanks?: true
}
