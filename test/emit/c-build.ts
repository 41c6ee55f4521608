// Compiles emitted C with the system's compilers into a library in a temporary folder and calls its kernels.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CSource } from '../../src/emit/c.ts'
import type { KernelArguments } from '../../src/ir/interpret/interpret.ts'
import { type Kernel, buffersOf, packUniforms } from '../../src/ir/kernel.ts'

const PRELUDE = join(import.meta.dirname, '../../native/cpu')
const FLAGS = [
  '-std=gnu11',
  '-fwrapv',
  '-fno-strict-aliasing',
  '-ffp-contract=off',
  '-fno-math-errno',
  '-fno-trapping-math',
  '-Wno-psabi',
  '-Wall',
  '-Wextra',
  '-Werror',
]

/** A call into libm fails to link, unless a kernel with functions of f64 asks for it. */
const LINK = ['-shared', '-Wl,-z,defs']
/** Bytes that nobody may write to. */
const GUARD = 64

/** The compilers of this machine. */
export const COMPILERS = ['gcc', 'clang'].filter((name) => {
  try {
    execFileSync(name, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})
/** Instruction sets to compile for: only those at the end may be missing on the machine that runs the tests. */
export const MARCHES = process.arch === 'x64' ? ['x86-64', 'x86-64-v3', 'native'] : ['native']
export const canRun = (march: string): boolean => march === 'native' || march === 'x86-64' || hasAvx2()

function hasAvx2(): boolean {
  try {
    return execFileSync('grep', ['-c', '-m1', 'avx2', '/proc/cpuinfo'], { encoding: 'utf8' }).trim() !== '0'
  } catch {
    return false
  }
}

export interface Library extends Disposable {
  run(kernel: Kernel, dispatch: KernelArguments): void
}

/** Compiles without running; throws what the compiler says. */
export function compile(source: CSource, compiler: string, march: string, extra = ['-O2'], libraries: readonly string[] = []): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'ingot-c-'))
  try {
    return compileIn(folder, source, compiler, march, extra, libraries) !== ''
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function compileIn(
  folder: string,
  source: CSource,
  compiler: string,
  march: string,
  extra: readonly string[],
  libraries: readonly string[],
): string {
  const [input, output] = [join(folder, 'kernels.c'), join(folder, 'kernels.so')]
  const flags = [
    ...FLAGS,
    ...extra,
    `-march=${march}`,
    `-I${PRELUDE}`,
    '-fPIC',
    ...(extra.includes('-c') ? [] : LINK),
    '-o',
    output,
    input,
    ...libraries,
  ]
  writeFileSync(input, source.text)
  try {
    execFileSync(compiler, flags, { stdio: 'pipe' })
  } catch (error) {
    throw new Error(`${compiler} -march=${march}: ${String((error as { stderr?: Buffer }).stderr).slice(0, 4000)}`, { cause: error })
  }
  return output
}

/** Compiles and loads. */
export function build(source: CSource, compiler: string, march: string, extra = ['-O2'], libraries: readonly string[] = []): Library {
  const folder = mkdtempSync(join(tmpdir(), 'ingot-c-'))
  const path = compileIn(folder, source, compiler, march, extra, libraries)
  const koffi = createRequire(import.meta.url)('koffi') as {
    load(path: string): { func(prototype: string): (...values: unknown[]) => void; unload(): void }
    address(value: unknown): bigint
  }
  const library = koffi.load(path)
  return {
    run(kernel, { buffers, uniforms = {}, grid }) {
      const call = library.func(
        `void ingot_${kernel.name}(void *buffers, void *uniforms, void *grid, uint32_t begin, uint32_t end, void *scratch)`,
      )
      // memory that the garbage collector does not move, with guards behind each buffer
      const guarded = buffersOf(kernel).map(({ name }) => {
        const bytes = buffers[name] as Uint8Array
        const copy = new Uint8Array(new ArrayBuffer(bytes.length + GUARD)).fill(0xa5)
        copy.set(bytes)
        return { name, bytes, copy }
      })
      const pointers = BigUint64Array.from(guarded, ({ copy }) => koffi.address(copy))
      const scratch = new Uint8Array(new ArrayBuffer((source.scratch[source.entries.indexOf(`ingot_${kernel.name}`)] ?? 0) + 64))
      const start = (64 - Number(koffi.address(scratch) % 64n)) % 64
      const groups = grid[0] * grid[1] * grid[2]
      const split = groups >> 1 // two calls, as two threads would make
      for (const [begin, end] of [
        [0, split],
        [split, groups],
      ] as const) {
        call(pointers, packUniforms(kernel, uniforms), Uint32Array.from(grid), begin, end, scratch.subarray(start))
      }
      for (const { name, bytes, copy } of guarded) {
        if (copy.subarray(bytes.length).some((byte) => byte !== 0xa5)) throw new Error(`${kernel.name} wrote past the end of ${name}`)
        bytes.set(copy.subarray(0, bytes.length))
      }
    },
    [Symbol.dispose]() {
      library.unload()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
