// What programs of these languages say or must know about a kernel as a whole.

import { type Kernel, buffersOf, uses } from '../../ir/kernel.ts'
import { opRecord } from '../../ir/op.ts'
import type { Target } from '../../ir/target.ts'

/** How the first line of every program describes its kernel. */
export function describe({ name, workgroup, subgroup }: Kernel): string {
  const [x, y, z] = workgroup
  const lanes = z > 1 ? `${x} x ${y} x ${z} lanes` : y > 1 ? `${x} x ${y} lanes` : x === 1 ? '1 lane' : `${x} lanes`
  return `${name}: workgroups of ${lanes}${subgroup > 0 ? `, subgroups of ${subgroup}` : ''}`
}

/** True if a barrier must also order accesses to buffers: some buffer is both read and written. */
export function sharesBuffers(kernel: Kernel): boolean {
  return buffersOf(kernel).some(({ role, atomic }) => role === 'readwrite' && !atomic)
}

/** True if lanes of a subgroup work together, or know their place in it. */
export function usesSubgroups(kernel: Kernel): boolean {
  return uses(kernel, ({ op, arg }) => opRecord(op).collective === true || (op === 'index' && arg === 'sublane'))
}

/**
 * The target to lower a kernel for. A kernel written for subgroups of another size than the machine has still runs, and runs right:
 * the lanes of its workgroup become loops in one lane.
 */
export function targetFor(kernel: Kernel, target: Target): Target {
  return kernel.subgroup === target.subgroup || !usesSubgroups(kernel) ? target : { ...target, lanes: false }
}
