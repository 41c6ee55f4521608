// `npm test`: types, lint, format, then every test; arguments go to vitest (`npm test -- test/ir`).
// Ends with the plain line `N passed, N failed` (and `, N skipped`); the exit code is 0 only when nothing failed.
// With INGOT_REQUIRE=all a skipped test is a failure: a machine meant to have every device must not skip one unseen. Only what no
// installation can bring, an instruction set that the CPU does not have, may be missing even then.

import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findDrivers } from './drivers.js'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const REPORT = join(ROOT, 'build', `test-report.${process.pid}.json`)
const SLOWEST_SHOWN = 10
const NAMES_SHOWN = 3 // per reason, of the skipped tests

const checks = [
  { name: 'typecheck', args: ['typescript/bin/tsc', '--noEmit', '-p', 'tsconfig.json'] },
  { name: 'lint', args: ['oxlint/bin/oxlint', '--type-aware', '--deny-warnings'] },
  { name: 'format (npm run format mends it)', args: ['oxfmt/bin/oxfmt', '--check'] },
]

const everySkipFails = process.env.INGOT_REQUIRE === 'all'
/** Reasons of skips that are never failures. */
const HARDWARE = /^this CPU has no /
const scratch = mkdtempSync(join(tmpdir(), 'ingot-test-'))
let failedChecks = 0
/** @type {import('./report.js').Report | undefined} */
let report
try {
  for (const { name, code, output } of await Promise.all(checks.map(runCheck))) {
    say(`${name}: ${code === 0 ? 'ok' : 'failed'}`)
    if (code === 0) continue
    say(output)
    failedChecks++
  }
  report = await runTests(process.argv.slice(2))
} finally {
  rmSync(scratch, { recursive: true, force: true })
  rmSync(REPORT, { force: true })
}
process.exitCode = summarize(report) ? 0 : 1

async function runCheck(/** @type {typeof checks[number]} */ { name, args }) {
  return { name, ...(await runNode(args, process.env, 'pipe')) }
}

/** Runs vitest and gives its report; undefined when it ended without one. */
async function runTests(/** @type {string[]} */ args) {
  mkdirSync(dirname(REPORT), { recursive: true })
  const reporters = ['--reporter=default', `--reporter=${join(ROOT, 'scripts', 'report.js')}`]
  const { code } = await runNode(['vitest/vitest.mjs', 'run', ...reporters, ...args], testEnvironment(), 'inherit')
  if (!existsSync(REPORT)) return undefined
  const found = JSON.parse(readFileSync(REPORT, 'utf8'))
  // vitest can fail for reasons that no test shows: no file matched, a worker died.
  if (code !== 0 && found.failed === 0) found.failed = 1
  return found
}

function testEnvironment() {
  const env = { ...process.env, INGOT_TEST_REPORT: REPORT }
  for (const { variable, icd } of Object.values(findDrivers())) if (icd !== undefined) env[variable] = icd
  env.XDG_RUNTIME_DIR ??= scratch // Vulkan drivers complain without one
  return env
}

/** Prints slow files, skips and the last line; true when nothing failed. */
function summarize(/** @type {typeof report} */ found) {
  const { passed, failed, skips, times } = found ?? { passed: 0, failed: 1, skips: [], times: [] }
  if (found === undefined) say('vitest ended without a report')
  if (times.length > 0) say('\nslowest files')
  for (const { milliseconds, file, project } of times.toSorted((a, b) => b.milliseconds - a.milliseconds).slice(0, SLOWEST_SHOWN)) {
    say(`${(milliseconds / 1000).toFixed(2).padStart(8)} s  ${file}${inProject(project)}`)
  }
  const failing = everySkipFails ? skips.filter((skip) => !HARDWARE.test(whyOf(skip))) : []
  if (skips.length > 0) say('\nskipped')
  for (const [reason, skipped] of groupBy(skips, whyOf)) {
    say(`  ${reason}${failing.includes(skipped[0]) ? ', which INGOT_REQUIRE=all counts as failed' : ''}`)
    for (const { file, test, project } of skipped.slice(0, NAMES_SHOWN)) say(`    ${file}${inProject(project)}: ${test}`)
    if (skipped.length > NAMES_SHOWN) say(`    and ${skipped.length - NAMES_SHOWN} more`)
  }
  const allFailed = failed + failedChecks + failing.length
  const forgiven = skips.length - failing.length
  const tail = forgiven > 0 ? `, ${forgiven} skipped` : ''
  say(`\n${passed} passed, ${allFailed} failed${tail}`)
  return allFailed === 0
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

/** @returns {Promise<{ code: number, output: string }>} */
function runNode(
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

function say(/** @type {string} */ line) {
  process.stdout.write(`${line}\n`)
}
