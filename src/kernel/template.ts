// Kernels that are known by what they are written for. A template is given its traits and nothing else, so the traits stand for the
// text: they are the key of every cache and of the native library, and a body is written only when somebody needs it. Make templates
// at the top of a file, where neither a device's caps nor an operation's parameters are in sight.

import { type Handles, type KernelSpec, type Params, type Scope, deferredKernel } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'

/** `kernel` of ir/author.ts for a kernel whose origin is known. */
export type Write = <const P extends Params>(name: string, spec: KernelSpec<P>, body: (params: Handles<P>, k: Scope) => void) => Kernel

/** Which kernel this is: of a family, a form of it, and a stage where the form has several. */
export interface TemplateName {
  readonly family: string
  readonly form: string
  readonly stage?: string
}

/** A kernel for every value of its traits, which are plain data. */
export function template<T extends object>(
  { family, form, stage = '' }: TemplateName,
  write: (traits: T, kernel: Write) => Kernel,
): (traits: T) => Kernel {
  return (traits) => write(traits, (name, spec, body) => deferredKernel({ family, form, stage, traits }, name, spec, body))
}

/** Every combination of values: `{ a: [1, 2], b: ['x'] }` gives `{ a: 1, b: 'x' }` and `{ a: 2, b: 'x' }`. */
export function combinations<T extends object>(axes: { readonly [K in keyof T]: readonly T[K][] }): T[] {
  const names = Object.keys(axes) as (keyof T)[]
  return names.reduce<T[]>((found, name) => found.flatMap((one) => axes[name].map((value) => ({ ...one, [name]: value }))), [{} as T])
}
