// The native pool (native/cpu/runtime.c) under a thread sanitizer, which knows C's memory model and not only what this processor happens
// to keep in order: an x86 never shows what an ARM may do. pool-driver.c is the client; the comment in runtime.c is the argument.

import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const FLAGS = ['-std=gnu11', '-O1', '-g', '-fsanitize=thread', '-pthread', '-Wall', '-Wextra', '-Werror']
/** Addresses too random for a sanitizer that is older than the kernel. */
const RANDOM = /unexpected memory mapping/

/** Compiles a program with the sanitizer; false where that cannot be done. */
function compile(output: string, ...inputs: readonly string[]): boolean {
  const compilers = process.env.CC === undefined ? ['cc', 'gcc', 'clang'] : [process.env.CC]
  return compilers.some((cc) => {
    try {
      execFileSync(cc, [...FLAGS, `-I${join(ROOT, 'native/cpu')}`, ...inputs, '-o', output], { stdio: 'pipe' })
      return true
    } catch (error) {
      // Only what the compiler lacks is forgiven: a source that does not compile is a failure.
      const said = String((error as { stderr?: Buffer }).stderr ?? '')
      if (/error:.*\.(c|h):|\.[ch]:\d+:\d+: error/.test(said)) throw error
      return false
    }
  })
}

function run(path: string): { output: string; status: number | null } {
  const once = (command: string, ...args: readonly string[]): { output: string; status: number | null } => {
    const { stdout, stderr, status } = spawnSync(command, args, { encoding: 'utf8', env: { ...process.env, TSAN_OPTIONS: '' } })
    return { output: `${stdout ?? ''}${stderr ?? ''}`, status }
  }
  const first = once(path)
  return RANDOM.test(first.output) ? once('setarch', '-R', path) : first
}

it('threads of the pool do not race', { timeout: 120_000 }, ({ skip }) => {
  const folder = join(ROOT, 'build', `pool-race.${process.pid}`)
  mkdirSync(folder, { recursive: true })
  try {
    const driver = join(folder, 'driver')
    if (!compile(driver, join(import.meta.dirname, 'pool-driver.c'), join(ROOT, 'native/cpu/runtime.c')))
      return skip('no C compiler with a thread sanitizer here')
    expect(run(driver)).toEqual({ output: 'ok\n', status: 0 })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
