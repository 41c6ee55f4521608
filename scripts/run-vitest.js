// Runs vitest and says how it went: what `npm test` and `npm run test:arm64` share. Knows nothing of what is tested.

import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const REPORT = join(ROOT, 'build', `test-report.${process.pid}.json`)
const SLOWEST_SHOWN = 10
const NAMES_SHOWN = 3 // per reason, of the skipped tests

/** Runs vitest and gives its report; undefined when it ended without one.
 * @returns {Promise<import('./report.js').Report | undefined>} */
export async function runVitest(/** @type {string[]} */ args, /** @type {NodeJS.ProcessEnv} */ env) {
  mkdirSync(dirname(REPORT), { recursive: true })
  const reporters = ['--reporter=default', `--reporter=${join(ROOT, 'scripts', 'report.js')}`]
  try {
    const { code } = await runNode(['vitest/vitest.mjs', 'run', ...reporters, ...args], { ...env, INGOT_TEST_REPORT: REPORT }, 'inherit')
    if (!existsSync(REPORT)) return undefined
    const found = JSON.parse(readFileSync(REPORT, 'utf8'))
    // vitest can fail for reasons that no test shows: no file matched, a worker died.
    if (code !== 0 && found.failed === 0) found.failed = 1
    return found
  } finally {
    rmSync(REPORT, { force: true })
  }
}

/**
 * Prints slow files, skips and the last line; true when nothing failed.
 * @param {import('./report.js').Report | undefined} found
 * @param {{ failedBefore?: number, everySkipFails?: boolean, forgiven: RegExp }} options `forgiven`: reasons of skips that never fail
 */
export function summarize(found, { failedBefore = 0, everySkipFails = false, forgiven }) {
  const { passed, failed, skips, times } = found ?? { passed: 0, failed: 1, skips: [], times: [] }
  if (found === undefined) say('vitest ended without a report')
  if (times.length > 0) say('\nslowest files')
  for (const { milliseconds, file, project } of times.toSorted((a, b) => b.milliseconds - a.milliseconds).slice(0, SLOWEST_SHOWN)) {
    say(`${(milliseconds / 1000).toFixed(2).padStart(8)} s  ${file}${inProject(project)}`)
  }
  const failing = everySkipFails ? skips.filter((skip) => !forgiven.test(whyOf(skip))) : []
  if (skips.length > 0) say('\nskipped')
  for (const [reason, skipped] of groupBy(skips, whyOf)) {
    say(`  ${reason}${failing.includes(skipped[0]) ? ', which INGOT_REQUIRE=all counts as failed' : ''}`)
    for (const { file, test, project } of skipped.slice(0, NAMES_SHOWN)) say(`    ${file}${inProject(project)}: ${test}`)
    if (skipped.length > NAMES_SHOWN) say(`    and ${skipped.length - NAMES_SHOWN} more`)
  }
  return sayTotal(passed, failed + failedBefore + failing.length, skips.length - failing.length)
}

/** The plain last line of a run; true when nothing failed. */
export function sayTotal(/** @type {number} */ passed, /** @type {number} */ failed, /** @type {number} */ skipped) {
  say(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  return failed === 0
}

function whyOf(/** @type {import('./report.js').Skip} */ { reason }) {
  return reason ?? 'no reason given'
}

function inProject(/** @type {string} */ project) {
  return project === 'main' || project === '' ? '' : ` (${project})`
}

/** @template T @param {T[]} items @param {(item: T) => string} keyOf */
function groupBy(items, keyOf) {
  /** @type {Map<string, T[]>} */
  const groups = new Map()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}

/** Runs a script of node_modules. @returns {Promise<{ code: number, output: string }>} */
export function runNode(
  /** @type {string[]} */ [script = '', ...args],
  /** @type {NodeJS.ProcessEnv} */ env,
  /** @type {'pipe' | 'inherit'} */ out,
) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(ROOT, 'node_modules', script), ...args], {
      cwd: ROOT,
      env,
      stdio: ['ignore', out, out],
    })
    let output = ''
    child.stdout?.on('data', (chunk) => {
      output += chunk
    })
    child.stderr?.on('data', (chunk) => {
      output += chunk
    })
    child.on('error', (error) => resolve({ code: 1, output: error.message }))
    child.on('close', (code) => resolve({ code: code ?? 1, output: output.trimEnd() }))
  })
}

export function say(/** @type {string} */ line) {
  process.stdout.write(`${line}\n`)
}
