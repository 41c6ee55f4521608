// Random kernels give the same as WebAssembly as interpreted: bit by bit for integers, within each output's tolerance for floats.
// INGOT_RANDOM_KERNELS says how many, INGOT_RANDOM_SEED where to begin.

import { expect, it } from 'vitest'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { printKernel } from '../../src/ir/print.ts'
import { type RandomOptions, compareOutputs, randomKernel } from '../ir/random.ts'
import { runWasm, VARIANTS } from './wasm-run.ts'

const KERNELS = Number(process.env['INGOT_RANDOM_KERNELS'] ?? 300)
const FIRST = Number(process.env['INGOT_RANDOM_SEED'] ?? 0)
const KINDS: readonly RandomOptions[] = [
  { workgroupMax: 16 },
  { subgroup: 4, tiles: true, workgroupMax: 16 },
  { subgroup: 8, workgroupMax: 32 },
  { f16: false, narrow: false },
  { workgroupMax: 1 },
  { workgroupMax: 16, f64: true },
  { subgroup: 4, workgroupMax: 8, f64: true },
]

/** What went wrong, with the kernel; undefined if all is well. */
function fault(seed: number): string | undefined {
  const { kernel, buffers, uniforms, grid, outputs } = randomKernel(seed, KINDS[seed % KINDS.length])
  const wanted = buffers()
  interpret(kernel, { buffers: wanted, uniforms, grid }, { check: false })
  // kinds repeat after seven seeds, variants after six: each meets each
  const [name, features] = VARIANTS[seed % VARIANTS.length]!
  const got = buffers()
  try {
    runWasm(kernel, { buffers: got, uniforms, grid }, features)
    compareOutputs(wanted, got, outputs)
  } catch (error) {
    return `seed ${seed}, ${name}: ${String(error)}\n${printKernel(kernel)}`
  }
  return undefined
}

it(`${KERNELS} random kernels`, { timeout: 60_000 + 500 * KERNELS }, () => {
  for (let seed = FIRST; seed < FIRST + KERNELS; seed++) expect(fault(seed)).toBeUndefined()
})
