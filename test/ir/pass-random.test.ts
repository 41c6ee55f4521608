// The passes on random kernels: after each of them, on targets rich and poor, a kernel still means the same.
import { expect, test } from 'vitest'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { PASSES } from '../../src/ir/pass/index.ts'
import { printKernel } from '../../src/ir/print.ts'
import { verify } from '../../src/ir/verify/verify.ts'
import { type RandomKernel, type RandomOptions, compareOutputs, randomKernel } from './random.ts'
import { TARGETS } from './target.ts'

const KINDS: readonly RandomOptions[] = [
  { workgroupMax: 16 },
  { subgroup: 4, tiles: true, workgroupMax: 16 },
  { subgroup: 8, workgroupMax: 32 },
  { f16: false, narrow: false },
  { workgroupMax: 1 },
]
const KERNELS = Number(process.env['INGOT_RANDOM'] ?? 20)
const FIRST = Number(process.env['INGOT_RANDOM_SEED'] ?? 0)

function outcome(kernel: Kernel, { buffers, uniforms, grid }: RandomKernel): Record<string, Uint8Array> {
  // memory of words ends at a word
  const used = Object.fromEntries(
    Object.entries(buffers()).map(([name, bytes]) => {
      const padded = new Uint8Array(Math.ceil(bytes.length / 4) * 4)
      padded.set(bytes)
      return [name, padded]
    }),
  )
  interpret(kernel, { buffers: used, uniforms, grid })
  return used
}

test.each(TARGETS.map((target) => [target.name, target] as const))(`${KERNELS} random kernels mean the same on %s`, (_, target) => {
  let changed = 0
  for (let seed = FIRST; seed < FIRST + KERNELS; seed++) {
    const random = randomKernel(seed, { ...KINDS[seed % KINDS.length], f64: target.double !== undefined && seed % 2 === 0 })
    const wanted = outcome(random.kernel, random)
    let { kernel } = random
    for (const [name, pass] of PASSES) {
      const next = pass(kernel, target)
      if (next === kernel) continue
      try {
        verify(next, { inlined: name === 'place' })
        compareOutputs(wanted, outcome(next, random), random.outputs)
      } catch (error) {
        throw new Error(`seed ${seed} after ${name}: ${String(error)}\n${printKernel(next)}`, { cause: error })
      }
      changed++
      kernel = next
    }
  }
  expect(changed).toBeGreaterThanOrEqual(2 * KERNELS)
})
