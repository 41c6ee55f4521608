// Native libraries for tests: compiled from given kernels, at every level that this machine can run. Objects are kept in build/ by
// content, so that only what has changed is compiled again.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { LEVELS, type Level } from '../../src/device/cpu/level.ts'
import { findNative } from '../../src/device/cpu/native/library.ts'
import { emitC } from '../../src/emit/c.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import type { Kernel } from '../../src/ir/kernel.ts'

const ROOT = join(import.meta.dirname, '../..')

interface BuildScript {
  readonly FLAGS: readonly string[]
  compileLibrary(options: {
    level: Level
    kernels: readonly Kernel[]
    emitC: typeof emitC
    hashKernel: typeof hashKernel
    folder: string
    flags: readonly string[]
  }): Promise<{ path: string }>
}
const { FLAGS: SET_UP_FLAGS, compileLibrary } = (await import(pathToFileURL(join(ROOT, 'scripts', 'build-native.js')).href)) as BuildScript
/** Tests wait for the compiler more than for the kernels. */
const FLAGS = SET_UP_FLAGS.map((flag) => (flag === '-O3' ? '-O1' : flag))

/** Levels of this architecture, best first. */
export const NATIVE_LEVELS: readonly Level[] = LEVELS.filter(({ arch }) => arch === process.arch)

export interface TestLibrary {
  readonly folder: string
  readonly missing: string | undefined
}

/** A library of these kernels in a folder of its own; `missing` says why it cannot be used here. */
export async function buildTestLibrary(name: string, level: Level, kernels: readonly Kernel[]): Promise<TestLibrary> {
  // What set-up has built knows the CPU already, and a library that cannot run here need not be compiled.
  const lacking = (await findNative({ level: level.name })).reason?.evidence
  if (lacking?.startsWith('this CPU has no')) return { folder: '', missing: lacking }
  const distinct = [...new Map(kernels.map((kernel) => [hashKernel(kernel), kernel])).values()]
  const folder = join(ROOT, 'build', 'native-test', name)
  mkdirSync(folder, { recursive: true })
  try {
    await compileLibrary({ level, kernels: distinct, emitC, hashKernel, folder, flags: FLAGS })
  } catch (error) {
    const message = String((error as { stderr?: string }).stderr ?? error)
    if (message.includes('no C compiler')) return { folder, missing: 'no C compiler here' }
    throw error
  }
  const evidence = (await findNative({ level: level.name, folder })).reason?.evidence
  return { folder, missing: evidence !== undefined && /^(this CPU has no|koffi)/.test(evidence) ? evidence : undefined }
}
