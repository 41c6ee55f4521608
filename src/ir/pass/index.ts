// The passes, in the order they run. `lower` takes a kernel as written to one that a target can spell, with the verifier
// between all steps when INGOT_DEBUG asks for it (tests do), since checking costs as much as the passes.

import { debugLevel } from '../../base/debug.ts'
import { scalarOf, storageScalar } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, buffersOf, uses } from '../kernel.ts'
import type { Target } from '../target.ts'
import { verify } from '../verify/verify.ts'
import { decompose } from './decompose.ts'
import { half } from './half.ts'
import { narrow } from './narrow.ts'
import { place } from './place.ts'
import { serialize } from './serialize.ts'
import { simplify } from './simplify.ts'
import { tile } from './tile.ts'
import { widen } from './widen.ts'

export type Pass = (kernel: Kernel, target: Target) => Kernel

/** Each leaves a legal kernel; only after the last may effects stand inside expressions. */
export const PASSES: readonly (readonly [name: string, run: Pass])[] = [
  ['simplify', simplify],
  ['serialize', serialize],
  ['tile', tile],
  ['half', half],
  ['narrow', narrow],
  ['decompose', decompose],
  ['widen', widen],
  ['place', place],
]

/** Makes a kernel ready to be printed in a target's language. */
export function lower(kernel: Kernel, target: Target): Kernel {
  if (target.double === undefined && usesDouble(kernel)) {
    throw new IngotError('unsupported', `${target.name} has no 64-bit floats`, {
      op: kernel.name,
      got: 'f64',
      hint: 'choose a kernel by `caps.f64`; the cpu and reference devices have them',
    })
  }
  let lowered = kernel
  for (const [name, pass] of PASSES) {
    const before = lowered
    lowered = pass(before, target)
    if (debugLevel >= 1 && lowered !== before) verify(lowered, { inlined: name === 'place' })
  }
  return lowered
}

/** True if a kernel holds or computes 64-bit floats. */
export function usesDouble(kernel: Kernel): boolean {
  return (
    [...buffersOf(kernel), ...kernel.shared].some(({ storage }) => storageScalar(storage) === 'f64') ||
    uses(kernel, ({ dtype }) => dtype !== 'void' && scalarOf(dtype) === 'f64')
  )
}
