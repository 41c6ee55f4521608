// Random programs in C, compiled by the system's compilers, held against the interpreter. INGOT_RANDOM_PROGRAMS says how many.
import { describe, expect, it } from 'vitest'
import { compileProgram } from '../../src/atlas/compile/compile.ts'
import { Executor } from '../../src/atlas/executor.ts'
import { openHost } from '../../src/device/core/host.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { emitC } from '../../src/emit/c.ts'
import { type Kernel, buffersOf, uniformsOf } from '../../src/ir/kernel.ts'
import { COMPILERS, type Library, build } from '../emit/c-build.ts'
import { LAUNCH, expectSameResult, sampleRuns } from './random.ts'

const PROGRAMS = Number(process.env.INGOT_RANDOM_PROGRAMS ?? 50)
/** Programs per C file: enough that the prelude does not dominate the time to compile. */
const BATCH = 25
/** Quick to compile; random programs say silly things, such as x < x. */
const EXTRA = [
  '-O0',
  '-Wno-unknown-warning-option',
  ...['tautological-compare', 'bool-compare', 'type-limits', 'int-in-bool-context', 'bool-operation', 'unused-variable'].map(
    (name) => `-Wno-${name}`,
  ),
]

describe.skipIf(COMPILERS.length === 0)('random programs in C (skipped where no C compiler is installed)', () => {
  it(`${PROGRAMS} of them agree with the interpreter`, { timeout: 60_000 + PROGRAMS * 1000 }, async () => {
    const runs = sampleRuns({ programs: PROGRAMS, f64: true })
    expect(runs.length).toBeGreaterThanOrEqual(PROGRAMS)
    for (let start = 0; start < runs.length; start += BATCH) {
      const batch = runs.slice(start, start + BATCH)
      const handles = { buffers: [1, 2, 3, 4], pools: [] }
      const kernels = batch.map(({ program, checks }) => compileProgram(program, LAUNCH, { checks, handles }).kernel)
      // of two runs of one program only the first is compiled
      const isFirst = (each: Kernel, at: number): boolean => kernels.findIndex(({ name }) => name === each.name) === at
      const compiler = COMPILERS[(start / BATCH) % COMPILERS.length] as string
      using library = build(emitC(kernels.filter(isFirst)), compiler, 'native', EXTRA, ['-lm'])
      await using executor = new Executor(openLibrary(library))
      for (const [at, run] of batch.entries()) {
        const kernel = kernels[at]
        if (kernel !== undefined && isFirst(kernel, at)) await expectSameResult(executor, run)
      }
    }
  })
})

/** A device whose kernels are those of a library. */
function openLibrary(library: Library): ReturnType<typeof openHost> {
  return openHost({
    name: 'c',
    detail: 'emitted C',
    caps: openReference().caps,
    compile() {},
    run(kernel, memory, packed, grid) {
      const view = new DataView(packed.buffer, packed.byteOffset)
      const buffers = Object.fromEntries(buffersOf(kernel).map(({ name }, i) => [name, memory[i] ?? new Uint8Array()]))
      const uniforms = Object.fromEntries(uniformsOf(kernel).map(({ name }, i) => [name, view.getUint32(4 * i, true)]))
      library.run(kernel, { buffers, uniforms, grid })
    },
  })
}
