// What an entry of the kernel library is: forms for different hardware, and one meaning. The meaning (`define`) is plain
// double arithmetic over arrays, written to be read; every form on every device is compared with it.

import type { Caps } from '../base/caps.ts'
import type { Kernel } from '../ir/kernel.ts'

/** One dispatch: a kernel, its uniforms and its grid. Buffers are bound by the names of the kernel's parameters. */
export interface Launch {
  readonly kernel: Kernel
  readonly uniforms: Readonly<Record<string, number>>
  readonly grid: readonly [number, number, number]
}

/** What it takes to run an entry once: dispatches in order, and scratch buffers by name that live only meanwhile. */
export interface Work {
  readonly launches: readonly Launch[]
  /** bytes of each scratch buffer that the kernels name beside the entry's own buffers */
  readonly scratch?: Readonly<Record<string, number>>
}

export type NumberArray = Float32Array | Int32Array | Uint32Array | Uint8Array
export type Arrays = Readonly<Record<string, NumberArray>>

/** A buffer of an entry as a test or a tool must prepare it. */
export interface BufferShape {
  readonly name: string
  readonly role: 'in' | 'out' | 'inout'
  /** what the bytes are: an element type, or a quantised format by name */
  readonly type: 'f32' | 'f16' | 'u32' | 'i32' | string
  readonly elements: number
}

export interface KernelRecord<P extends object = object> {
  readonly name: string
  /** one line for `ingot kernel --list` */
  readonly about: string
  /** The buffers for these parameters, in the order users think of them. */
  buffers(params: P): readonly BufferShape[]
  /** Values for the inputs that numbers in [-1, 1] would not suit: ids, positions, masks. `random` gives [0, 1). */
  inputs?(params: P, random: () => number): Arrays
  /** Chooses a form from the caps. */
  work(caps: Caps, params: P): Work
  /** The meaning: values of the `out` and `inout` buffers, given those of the `in` and `inout` ones as f32 or integers. */
  define(inputs: Arrays, params: P): Arrays
  /** Parameters worth testing: small, odd, large enough to need every loop. The first is the example shown by tools. */
  readonly cases: readonly P[]
  /** largest normalised mean square error against `define`; 0 means equal */
  readonly tolerance: number
}
