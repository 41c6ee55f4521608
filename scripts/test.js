// `npm test`: types, lint, format, then every test; arguments go to vitest (`npm test -- test/ir`).
// Ends with the plain line `N passed, N failed` (and `, N skipped`); the exit code is 0 only when nothing failed.
// With INGOT_REQUIRE=all a skipped test is a failure: a machine meant to have every device must not skip one unseen. Only what no
// installation can bring, an instruction set that the CPU does not have, and peers (bench/peers) may be missing even then.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findDrivers } from './drivers.js'
import { runNode, runVitest, say, summarize } from './run-vitest.js'

const checks = [
  { name: 'typecheck', args: ['typescript/bin/tsc', '--noEmit', '-p', 'tsconfig.json'] },
  { name: 'lint', args: ['oxlint/bin/oxlint', '--type-aware', '--deny-warnings'] },
  { name: 'format (npm run format mends it)', args: ['oxfmt/bin/oxfmt', '--check'] },
]

/** Reasons of skips that are never failures: hardware, and other programs to compare with, which are no part of this one. */
const FORGIVEN = /^(this CPU has no |the peer is not installed)/
const scratch = mkdtempSync(join(tmpdir(), 'ingot-test-'))
let failedBefore = 0
/** @type {import('./report.js').Report | undefined} */
let report
try {
  for (const { name, code, output } of await Promise.all(checks.map(runCheck))) {
    say(`${name}: ${code === 0 ? 'ok' : 'failed'}`)
    if (code === 0) continue
    say(output)
    failedBefore++
  }
  report = await runVitest(process.argv.slice(2), testEnvironment())
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
const everySkipFails = process.env.INGOT_REQUIRE === 'all'
process.exitCode = summarize(report, { failedBefore, everySkipFails, forgiven: FORGIVEN }) ? 0 : 1

async function runCheck(/** @type {typeof checks[number]} */ { name, args }) {
  return { name, ...(await runNode(args, process.env, 'pipe')) }
}

function testEnvironment() {
  const env = { ...process.env }
  for (const { variable, icd } of Object.values(findDrivers())) if (icd !== undefined) env[variable] = icd
  env.XDG_RUNTIME_DIR ??= scratch // Vulkan drivers complain without one
  return env
}
