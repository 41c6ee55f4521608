// What a family of kernels is: parameters, one meaning, and forms for different hardware. The meaning (`define`) is plain double
// arithmetic over arrays, written to be read; every form on every device is compared with it. All else that knows the library reads
// these records: plans, the native library's list, the self-test, the conformance suite, `ingot kernel` and the lab.

import type { Caps } from '../base/caps.ts'
import type { NumberArray } from '../base/element.ts'
import { IngotError } from '../base/error.ts'
import { type Kernel, buffersOf } from '../ir/kernel.ts'

/** One dispatch: a kernel, its uniforms and its grid. */
export interface Launch {
  readonly kernel: Kernel
  /** which buffer a parameter of the kernel sees, where the two have different names: `{ y: 'partial' }` */
  readonly binds?: Readonly<Record<string, string>>
  readonly uniforms: Readonly<Record<string, number>>
  readonly grid: readonly [number, number, number]
}

/** What it takes to run a family once: dispatches in order, and scratch buffers by name that live only meanwhile. */
export interface Work {
  readonly launches: readonly Launch[]
  /** bytes of each scratch buffer that the kernels name beside the family's own buffers */
  readonly scratch?: Readonly<Record<string, number>>
}

export type { NumberArray }
export type Arrays = Readonly<Record<string, NumberArray>>
/** Stands in for an input that a definition is always given. */
export const NONE = new Float32Array(0)

/** A buffer of a family as whoever runs it must prepare it. */
export interface BufferShape {
  readonly name: string
  readonly role: 'in' | 'out' | 'inout'
  /** what the bytes are: an element type (base/element.ts), or a quantised format by name */
  readonly type: string
  readonly elements: number
  /** a quantised weight that lies in memory packed (quant/packed), not as in a file: how many rows it has */
  readonly packedRows?: number
  /** a model finds it in memory, not in a cache of the processor: weights, keys and values */
  readonly cold?: true
}

/** What a result costs at the least; a multiplication with its addition is two operations. */
export interface Cost {
  readonly operations: number
  /** which peak of the machine they are held against */
  readonly arithmetic: 'f32' | 'i8'
  /** moved, if not all of every buffer: the rows that are gathered */
  readonly bytes?: number
}

/** A way to compute a family on some hardware. */
export interface Form<P extends object = object> {
  readonly name: string
  /** Whether it serves these parameters on a device with these caps. */
  fits(caps: Caps, params: P): boolean
  work(caps: Caps, params: P): Work
  /**
   * Every kernel that `work` can ask for on CPUs with these caps, whatever the parameters: what libraries are compiled from. Absent
   * where kernels are compiled when they are met.
   */
  kernels?(caps: Caps): readonly Kernel[]
  /** where its arithmetic is coarser than the family's tolerance allows for */
  tolerance?(params: P): number
}

export interface FamilySpec<P extends object> {
  readonly name: string
  /** one line for `ingot kernel --list` */
  readonly about: string
  /** The buffers for these parameters, in the order users think of them. */
  buffers(params: P): readonly BufferShape[]
  /** Values for the inputs that numbers in [-1, 1] would not suit: ids, positions, masks. `random` gives [0, 1). */
  inputs?(params: P, random: () => number): Arrays
  /** The meaning: values of the `out` and `inout` buffers, given those of the `in` and `inout` ones as numbers. */
  define(inputs: Arrays, params: P): Arrays
  /** in order of preference: the first that fits is taken */
  readonly forms: readonly Form<P>[]
  /** Parameters worth testing: small, odd, large enough to need every loop. The first is the example shown by tools. */
  readonly cases: readonly P[]
  /** what a device must get right before it is trusted with a model */
  readonly proofs?: readonly P[]
  /** Results as numbers that can be compared, where their bits stand for something else. */
  meaning?(outputs: Arrays, params: P): Arrays
  /** Largest normalised mean square error against `define`: near what the arithmetic allows; 0 means equal bit for bit. */
  tolerance(params: P): number
  cost(params: P): Cost
}

export interface Family<P extends object = object> extends FamilySpec<P> {
  /** The form that serves; undefined if none does. */
  form(caps: Caps, params: P): Form<P> | undefined
  /** The work of that form. */
  work(caps: Caps, params: P): Work
  /** The tolerance of that form. */
  allowed(caps: Caps, params: P): number
}

export function family<P extends object>(spec: FamilySpec<P>): Family<P> {
  const form = (caps: Caps, params: P): Form<P> | undefined => spec.forms.find((each) => each.fits(caps, params))
  return {
    ...spec,
    form,
    allowed: (caps, params) => (form(caps, params)?.tolerance ?? spec.tolerance)(params),
    work(caps, params) {
      const found = form(caps, params)
      if (found === undefined) {
        throw new IngotError('unsupported', 'no form of this kernel serves', {
          op: spec.name,
          got: params,
          wanted: spec.forms.map(({ name }) => name),
        })
      }
      return found.work(caps, params)
    },
  }
}

/** Names of the buffers that a launch binds, in the order of the kernel's parameters: the family's own or scratch. */
export function boundBuffers({ kernel, binds = {} }: Launch): string[] {
  return buffersOf(kernel).map(({ name }) => binds[name] ?? name)
}

/** Where lanes would be loops, kernels are written with vectors instead. */
export function isCpu({ lanes }: Caps): boolean {
  return lanes === 1
}

export function isGpu({ lanes }: Caps): boolean {
  return lanes > 1
}
