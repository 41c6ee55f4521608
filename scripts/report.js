// A vitest reporter that writes what scripts/test.js needs as JSON: counts, every skip with its reason, time per file.
// vitest's own JSON report leaves out the reason given to `skip(reason)` and the project a file ran in.
// A file that cannot be loaded, a failing hook and an unhandled error each count as one failure.

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** @typedef {{ project: string, file: string, test: string, reason: string | undefined }} Skip */
/** @typedef {{ project: string, file: string, milliseconds: number }} FileTime */
/** @typedef {{ passed: number, failed: number, skips: Skip[], times: FileTime[] }} Report */

/** vitest wants a reporter to be a default export. */
export default class FactsReporter {
  onTestRunEnd(/** @type {readonly import('vitest/node').TestModule[]} */ modules, /** @type {readonly unknown[]} */ unhandled) {
    /** @type {Report} */
    const report = { passed: 0, failed: unhandled.length, skips: [], times: [] }
    for (const module of modules) addModule(report, module)
    const path = process.env.INGOT_TEST_REPORT ?? 'build/test-report.json'
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, JSON.stringify(report, undefined, 1))
  }
}

function addModule(/** @type {Report} */ report, /** @type {import('vitest/node').TestModule} */ module) {
  const where = { project: module.project.name, file: module.relativeModuleId }
  const { collectDuration, setupDuration, duration } = module.diagnostic()
  report.times.push({ ...where, milliseconds: collectDuration + setupDuration + duration })
  report.failed += module.errors().length
  for (const suite of module.children.allSuites()) report.failed += suite.errors().length
  for (const test of module.children.allTests()) {
    const result = test.result()
    if (result.state === 'passed') report.passed++
    else if (result.state === 'skipped') report.skips.push({ ...where, test: test.fullName, reason: result.note })
    else report.failed++ // 'pending' too: a test that never finished has not passed
  }
}
