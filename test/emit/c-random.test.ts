// Random kernels give the same in C as interpreted. INGOT_RANDOM_KERNELS says how many; INGOT_RANDOM_SEED where to begin.
import { describe, expect, it } from 'vitest'
import { emitC } from '../../src/emit/c.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { printKernel } from '../../src/ir/print.ts'
import { type RandomOptions, compareOutputs, randomKernel } from '../ir/random.ts'
import { COMPILERS, build } from './c-build.ts'

const COUNT = Number(process.env.INGOT_RANDOM_KERNELS ?? 100)
const FIRST = Number(process.env.INGOT_RANDOM_SEED ?? 0)
/** Kernels per C file: enough that the prelude does not dominate the time to compile. */
const BATCH = 50
/** Quick to compile (c.test.ts optimises); random kernels say silly things, such as x < x. */
const EXTRA = [
  '-O0',
  '-Wno-unknown-warning-option',
  ...['tautological-compare', 'bool-compare', 'type-limits', 'int-in-bool-context', 'bool-operation'].map((name) => `-Wno-${name}`),
]
const KINDS: readonly RandomOptions[] = [
  {},
  { subgroup: 4, tiles: true },
  { workgroupMax: 1 },
  { subgroup: 32, size: 8 },
  { f16: false, narrow: false },
  { f64: true },
  { f64: true, subgroup: 4 },
]

describe.skipIf(COMPILERS.length === 0)('random kernels in C (skipped where no C compiler is installed)', () => {
  it(`${COUNT} of them agree with the interpreter`, { timeout: 60_000 + COUNT * 1000 }, () => {
    for (let start = FIRST; start < FIRST + COUNT; start += BATCH) {
      const batch = Array.from({ length: Math.min(BATCH, FIRST + COUNT - start) }, (_, index) => {
        const seed = start + index
        const random = randomKernel(seed, KINDS[seed % KINDS.length])
        return { seed, random, kernel: { ...random.kernel, name: `random${seed}` } satisfies Kernel }
      })
      const compiler = COMPILERS[(start / BATCH) % COMPILERS.length] as string
      const march = process.arch === 'x64' && start % (4 * BATCH) === 0 ? 'x86-64' : 'native'
      using library = build(emitC(batch.map(({ kernel }) => kernel)), compiler, march, EXTRA, ['-lm'])
      for (const {
        seed,
        random: { buffers, uniforms, grid, outputs },
        kernel,
      } of batch) {
        const [wanted, got] = [buffers(), buffers()]
        interpret(kernel, { buffers: wanted, uniforms, grid }, { check: false })
        library.run(kernel, { buffers: got, uniforms, grid })
        expect(difference(seed, printKernel(kernel), () => compareOutputs(wanted, got, outputs))).toBe('')
      }
    }
  })
})

/** What is wrong with which kernel, or nothing. */
function difference(seed: number, kernel: string, compare: () => void): string {
  try {
    compare()
    return ''
  } catch (error) {
    return `seed ${seed}: ${String(error)}\n${kernel}`
  }
}
