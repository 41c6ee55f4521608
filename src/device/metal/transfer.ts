// Copies and fills as kernels, so that a whole submission is dispatches of one encoder: no change to a blit encoder and back,
// and barriers only where ranges meet. Written in the kernel language like every other kernel.

import { buffer, kernel, uniform } from '../../ir/author.ts'
import { hashKernel } from '../../ir/hash.ts'
import { type Kernel, packUniforms } from '../../ir/kernel.ts'
import type { MetalProgram, Pipelines } from './pipeline.ts'

const LANES = 256
/** Words that each lane moves, one by one: ranges start at any word, where vectors may not be read. */
const EACH = 4

/** The kernels below, compiled. */
export interface Transfers {
  readonly copy: MetalProgram
  readonly fill: MetalProgram
}

/** y[i] = x[i] for i < n */
export const COPY_WORDS: Kernel = kernel(
  'copy_words',
  {
    params: { x: buffer('u32', 'read'), y: buffer('u32', 'write'), n: uniform('u32') },
    workgroup: [LANES],
  },
  (p, k) => {
    const first = k.let('first', k.workgroupId.x.mul(LANES * EACH).add(k.lane))
    // Lanes side by side move words side by side.
    k.for({ from: first, to: first.add(LANES * EACH).min(p.n), step: LANES }, (i) => p.y.set(i, p.x.at(i)))
  },
)

/** y[i] = value for i < n */
export const FILL_WORDS: Kernel = kernel(
  'fill_words',
  {
    params: { y: buffer('u32', 'write'), n: uniform('u32'), value: uniform('u32') },
    workgroup: [LANES],
  },
  (p, k) => {
    const first = k.let('first', k.workgroupId.x.mul(LANES * EACH).add(k.lane))
    k.for({ from: first, to: first.add(LANES * EACH).min(p.n), step: LANES }, (i) => p.y.set(i, p.value))
  },
)

/** What the device itself needs; not counted among the programs of its users. */
export async function compileTransfers(pipelines: Pipelines): Promise<Transfers> {
  const compile = (kernel: Kernel): Promise<MetalProgram> => pipelines.compile(kernel, hashKernel(kernel)).program
  const [copy, fill] = await Promise.all([compile(COPY_WORDS), compile(FILL_WORDS)])
  return { copy, fill }
}

/** Workgroups that move so many bytes. */
export function groupsFor(bytes: number): number {
  return Math.ceil(bytes / 4 / (LANES * EACH))
}

export function copyUniforms(bytes: number): Uint8Array {
  return packUniforms(COPY_WORDS, { n: bytes / 4 })
}

/** `value` is a byte; words repeat it. */
export function fillUniforms(bytes: number, value: number): Uint8Array {
  return packUniforms(FILL_WORDS, { n: bytes / 4, value: value * 0x01010101 })
}
