// Makes a checkout ready: installs what the lockfile says, compiles dist/, builds native parts where a compiler is.
// Runs before `npm start` and `npm test`, so it needs nothing but Node, and does nothing when nothing is stale.
// Staleness is decided by content hashes, never by clocks: a checkout may set any file time it likes.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const at = (/** @type {string[]} */ ...parts) => join(ROOT, ...parts)

const MODULES = at('node_modules')
const INSTALL_STAMP = at('node_modules', '.ingot-setup')
const BUILD_STAMP = at('build', 'dist.stamp')
const OLDEST_NODE = [20, 19]
/** Failures of npm that leaving a package out would not mend: a wrong lockfile, no network. */
const HOPELESS = /EUSAGE|ENOTFOUND|EAI_AGAIN|ECONNREFUSED/
const ERROR_LINES = 40 // of npm's output; the rest is usage

/**
 * Before `npm start` and `npm run train:default` only what this machine will run is built; tests want every instruction set, and the
 * software Metal. Experiments of the lab compile the kernels that they time themselves (lab/run.js).
 */
const starting = ['prestart', 'pretrain:default'].includes(process.env.npm_lifecycle_event ?? '')
const experimenting = process.env.npm_lifecycle_event === 'prelab'
/** The native parts: each script exports a function that builds what is stale and says what it did. */
const NATIVE = experimenting
  ? []
  : [
      ...(starting
        ? []
        : [{ script: 'build-soft-metal.js', build: 'buildSoftMetal', what: 'soft-metal (Metal in software, for tests)', options: {} }]),
      { script: 'build-native.js', build: 'buildNative', what: 'the native CPU library', options: starting ? { only: 'best' } : {} },
    ]

class SetupError extends Error {}

try {
  checkNode()
  install()
  await compile()
  await buildNativeParts()
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  say(error.message)
  // The summary line is what readers of a test run look for, also when it did not get as far as testing.
  if (process.env.npm_lifecycle_event === 'pretest') process.stdout.write('0 passed, 1 failed\n')
  process.exitCode = 1
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const [wantedMajor = 0, wantedMinor = 0] = OLDEST_NODE
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return
  throw new SetupError(`Node ${OLDEST_NODE.join('.')} or later is needed, this is ${process.versions.node}`)
}

/** `npm ci` when node_modules is not what the lockfile says. */
function install() {
  const wanted = hash([at('package-lock.json')])
  if (read(INSTALL_STAMP) === wanted) return
  if (!installedByHand()) {
    say('installing…')
    const attempt = npmCi(ROOT)
    if (attempt.status !== 0) {
      // webgpu is the largest package and the only native one that is not optional to npm; npm's error may not name it.
      if (HOPELESS.test(attempt.output) || !installWithout('webgpu')) {
        throw new SetupError(`npm ci failed\n${attempt.output.split('\n').slice(0, ERROR_LINES).join('\n')}`)
      }
      say('webgpu cannot be installed, so there is no WebGPU device; all else is')
    }
  }
  writeFileSync(INSTALL_STAMP, wanted)
}

/** True when somebody ran npm after the lockfile last changed, and nothing the package names is missing. */
function installedByHand() {
  const hidden = join(MODULES, '.package-lock.json')
  if (!existsSync(hidden) || statSync(hidden).mtimeMs < statSync(at('package-lock.json')).mtimeMs) return false
  const { dependencies, devDependencies } = JSON.parse(readFileSync(at('package.json'), 'utf8'))
  const names = Object.keys({ ...dependencies, ...devDependencies })
  return names.every((name) => existsSync(join(MODULES, name)))
}

/** Installs in a folder of its own from a lockfile that lacks one package, then moves the result here; false if it fails. */
function installWithout(/** @type {string} */ name) {
  const folder = at('build', `without-${name}`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const manifest = JSON.parse(readFileSync(at('package.json'), 'utf8'))
  const lock = JSON.parse(readFileSync(at('package-lock.json'), 'utf8'))
  for (const kind of ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies', 'peerDependenciesMeta']) {
    delete manifest[kind]?.[name]
    delete lock.packages[''][kind]?.[name]
  }
  delete lock.packages[`node_modules/${name}`]
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
  const works = npmCi(folder).status === 0
  if (works) {
    rmSync(MODULES, { recursive: true, force: true })
    renameSync(join(folder, 'node_modules'), MODULES)
  }
  rmSync(folder, { recursive: true, force: true })
  return works
}

function npmCi(/** @type {string} */ folder) {
  // --include=dev: the compiler is a dev dependency, and NODE_ENV=production would leave it out.
  const flags = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--include=dev', '--include=optional']
  const cli = process.env.npm_execpath
  return cli !== undefined && basename(cli) === 'npm-cli.js'
    ? run(process.execPath, [cli, ...flags], folder)
    : run('npm', flags, folder, process.platform === 'win32')
}

/** Compiles src/ to dist/, and joins it to dist/bundle, when a source or a setting differs from what dist/ was made of. */
async function compile() {
  const sources = files(at('src'), '.ts')
  const settings = ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json', 'scripts/bundle.js'].map((name) => at(name))
  const wanted = hash([...sources, ...settings])
  if (read(BUILD_STAMP) === wanted && existsSync(at('dist'))) return
  say('building…')
  const tsc = join(MODULES, 'typescript', 'bin', 'tsc')
  // --noEmitOnError: a broken source leaves the last good dist/ as it was.
  const { status, output } = run(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--noEmitOnError'], ROOT)
  if (status !== 0) throw new SetupError(`the build failed\n${output}`)
  removeOrphans(sources)
  const { bundle } = await import(pathToFileURL(at('scripts', 'bundle.js')).href)
  await bundle()
  mkdirSync(dirname(BUILD_STAMP), { recursive: true })
  writeFileSync(BUILD_STAMP, wanted)
}

/** Compiled files whose source is gone would still be found by an import. */
function removeOrphans(/** @type {string[]} */ sources) {
  const kept = new Set(sources.map((path) => relative(at('src'), path).slice(0, -'.ts'.length)))
  for (const path of files(at('dist'), '')) {
    if (path.startsWith(at('dist', 'bundle'))) continue
    if (!kept.has(relative(at('dist'), path).replace(/(\.d\.ts|\.js|\.js\.map)$/, ''))) rmSync(path)
  }
}

/** Native parts make things faster or testable, never possible: failing here is told and forgiven. */
async function buildNativeParts() {
  const parts = NATIVE.filter(({ script }) => existsSync(at('scripts', script)))
  if (parts.length === 0) return
  if (!hasCompiler()) {
    say(`no C++ compiler found; skipping ${parts.map(({ what }) => what).join(' and ')}`)
    return
  }
  for (const { script, build, what, options } of parts) {
    try {
      const module = await import(pathToFileURL(at('scripts', script)).href)
      const { built, path, reason } = await module[build]({ force: false, ...options })
      if (!built && path === undefined) say(`skipping ${what}: ${reason}`)
    } catch (error) {
      say(`skipping ${what}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}

/** Looks for a compiler without running one: on a Mac without developer tools, /usr/bin/c++ opens a dialog instead. */
function hasCompiler() {
  if (process.platform === 'darwin') {
    return existsSync('/Library/Developer/CommandLineTools') || existsSync('/Applications/Xcode.app')
  }
  if (process.env.CXX !== undefined && process.env.CXX !== '') return true
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  return folders.some((folder) => ['c++', 'g++', 'clang++'].some((name) => existsSync(join(folder, name))))
}

function run(/** @type {string} */ command, /** @type {string[]} */ args, /** @type {string} */ cwd, shell = false) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    shell,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  })
  return { status, output: `${stdout ?? ''}${stderr ?? ''}${error === undefined ? '' : error.message}`.trimEnd() }
}

/** Every file below a folder whose name ends so, in a stable order. */
function files(/** @type {string} */ folder, /** @type {string} */ ending) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}

/** One hash over the names and contents of files. */
function hash(/** @type {string[]} */ paths) {
  const sum = createHash('sha256')
  for (const path of paths) {
    const bytes = readFileSync(path)
    sum.update(`${relative(ROOT, path)} ${bytes.length}\n`).update(bytes)
  }
  return sum.digest('hex')
}

function read(/** @type {string} */ path) {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined
}

function say(/** @type {string} */ line) {
  process.stderr.write(`setup: ${line}\n`)
}
