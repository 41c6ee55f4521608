// `npm run mutate`: shows that the tests can fail. Applies faults of one line (scripts/mutations.js) to a copy of the tree, one at a time,
// runs the tests that should notice, and tells which faults were caught. Ends with `N of N faults caught`; the exit code is 0 only when
// all were. `npm run mutate -- packed` takes those whose name or file contains the word; `--list` shows them.

import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { findDrivers } from './drivers.js'
import { MUTATIONS } from './mutations.js'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const COPY = join(ROOT, 'build', 'mutate')
const MOST_SECONDS = 600

const words = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const chosen = MUTATIONS.filter(({ name, file }) => words.every((word) => `${name} ${file}`.includes(word)))
if (process.argv.includes('--list')) {
  for (const { name, file } of chosen) say(`${file}: ${name}`)
  process.exit(0)
}

makeCopy()
const survivors = []
for (const mutation of chosen) {
  const { name, file, project = 'main' } = mutation
  const start = performance.now()
  const outcome = await tryMutation(mutation)
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  const where = project === 'main' ? '' : ` (${project})`
  say(`${outcome.caught ? 'caught  ' : 'SURVIVED'} ${seconds.padStart(4)} s  ${file}: ${name}${where}${outcome.note}`)
  if (!outcome.caught) survivors.push(mutation)
}
say(`\n${chosen.length - survivors.length} of ${chosen.length} faults caught`)
process.exitCode = survivors.length === 0 && chosen.length > 0 ? 0 : 1

/** The tree as it is now, without what is built; native objects are kept by content, so those that are there serve. */
function makeCopy() {
  rmSync(COPY, { recursive: true, force: true })
  mkdirSync(COPY, { recursive: true })
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
  for (const file of listed.split('\n').filter((path) => path !== '' && existsSync(join(ROOT, path)))) {
    cpSync(join(ROOT, file), join(COPY, file), { recursive: true })
  }
  symlinkSync(join(ROOT, 'node_modules'), join(COPY, 'node_modules'))
  for (const built of ['dist', 'build/native', 'build/native-test', 'build/soft-metal']) {
    if (existsSync(join(ROOT, built))) cpSync(join(ROOT, built), join(COPY, built), { recursive: true })
  }
}

/** A fault is caught when tests run and one of them fails. */
async function tryMutation(/** @type {import('./mutations.js').Mutation} */ { file, find, replace, tests, project = 'main' }) {
  const path = join(COPY, file)
  const original = readFileSync(path, 'utf8')
  if (original.split(find).length !== 2) return { caught: false, note: `: its text stands there ${original.split(find).length - 1} times` }
  writeFileSync(
    path,
    original.replace(find, () => replace),
  )
  try {
    const { output, late } = await runTests(['--project', project, ...tests])
    const failed = Number(/Tests .*?(\d+) failed/.exec(output)?.[1] ?? 0)
    const hung = late ? ', by hanging' : ''
    return failed > 0 || late
      ? { caught: true, note: hung }
      : { caught: false, note: / passed/.test(output) ? '' : `: no test ran\n${output.slice(-800)}` }
  } finally {
    writeFileSync(path, original)
  }
}

/** @returns {Promise<{ output: string, late: boolean }>} */
function runTests(/** @type {string[]} */ args) {
  const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' }
  for (const { variable, icd } of Object.values(findDrivers())) if (icd !== undefined) env[variable] = icd
  env.XDG_RUNTIME_DIR ??= COPY
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', '--bail', '1', ...args], { cwd: COPY, env })
    let [output, late] = ['', false]
    const timer = setTimeout(() => {
      late = true
      child.kill('SIGKILL')
    }, MOST_SECONDS * 1000)
    child.stdout.on('data', (part) => (output += part))
    child.stderr.on('data', (part) => (output += part))
    child.on('close', () => {
      clearTimeout(timer)
      resolve({ output, late })
    })
  })
}

function say(/** @type {string} */ line) {
  process.stdout.write(`${line}\n`)
}
