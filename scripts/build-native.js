// Builds the native libraries of the cpu device into build/native: for each instruction set of this architecture the kernels that
// models run, as C (src/emit/c.ts), and the runtime (native/cpu). Needs Node, dist/ and a C compiler ($CC, cc, gcc or clang).
// Does nothing when nothing has changed, which is decided by content, never by clocks; objects are kept by content too.
// `node scripts/build-native.js [--force] [--level NAME]` does the same from a shell.

import { execFile, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const script = fileURLToPath(import.meta.url)
const root = join(dirname(script), '..')
const nativeFolder = join(root, 'native', 'cpu')
const distFolder = join(root, 'dist')

/** See native/cpu/prelude.h for why. */
export const FLAGS = [
  '-std=gnu11',
  '-O3',
  '-fPIC',
  '-pthread',
  '-fvisibility=hidden',
  '-ffp-contract=off',
  '-fwrapv',
  '-fno-strict-aliasing',
  '-fno-math-errno',
  '-fno-trapping-math',
  '-Wno-psabi',
]
/** Kernels share C files by their hashes, so that a new one changes one file only. About seven of those that models need in each. */
const FILES = 40
/** Kernels are listed for this many threads; other numbers choose among the same kernels. */
const LISTED_THREADS = 2
const MOST_OUTPUT = 64 << 20

const sha = (/** @type {(string | Buffer)[]} */ ...parts) =>
  parts.reduce((hash, part) => hash.update(String(part.length)).update(part), createHash('sha256')).digest('hex')

/** A hash over the files of a folder whose names end so. */
function hashFolder(/** @type {string} */ folder, /** @type {RegExp} */ names) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && names.test(entry.name))
  const paths = entries.map((entry) => join(entry.parentPath, entry.name)).sort()
  return sha(...paths.flatMap((path) => [path.slice(folder.length), readFileSync(path)]))
}

/** The first compiler that runs, and what it calls itself. */
async function findCompiler() {
  for (const cc of process.env.CC ? [process.env.CC] : ['cc', 'gcc', 'clang']) {
    try {
      const { stdout } = await run(cc, ['--version'])
      return { cc, version: stdout.split('\n')[0] ?? '' }
    } catch {
      // the next one
    }
  }
  return undefined
}

/** The level that this machine will most likely use; the library asks the processor itself when it is loaded. */
function bestLevel(/** @type {string[]} */ names) {
  const info = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : ''
  const can = (/** @type {string} */ name) =>
    ({
      avx512: /avx512_?vnni/.test(info),
      avx2: /\bavx2\b/.test(info) || process.platform === 'darwin',
      i8mm: /\bi8mm\b/.test(info) || hasOnMac('hw.optional.arm.FEAT_I8MM'),
      dotprod: /asimddp/.test(info) || process.platform === 'darwin',
    })[name] ?? true
  return names.find(can)
}

/** What macOS says of the processor; false elsewhere, and of names that it does not know. */
function hasOnMac(/** @type {string} */ name) {
  if (process.platform !== 'darwin') return false
  return spawnSync('sysctl', ['-n', name], { encoding: 'utf8' }).stdout?.trim() === '1'
}

/** Runs the tasks with as many at a time as there are cores. */
async function inParallel(/** @type {(() => Promise<void>)[]} */ tasks) {
  const queue = [...tasks]
  const worker = async () => {
    for (let task = queue.shift(); task !== undefined; task = queue.shift()) await task()
  }
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), 8) }, worker))
}

/** Writes a file that is either whole or not there. */
function writeWhole(/** @type {string} */ path, /** @type {string} */ text) {
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  writeFileSync(temporary, text)
  renameSync(temporary, path)
}

/**
 * False for a library that is not what its manifest says: cut short, or changed. True where there is none, as where one did not
 * compile.
 */
function isIntact(/** @type {string} */ folder, /** @type {string} */ level) {
  const path = join(folder, `libingot-${level}.so`)
  if (!existsSync(path)) return true
  try {
    const { library } = JSON.parse(readFileSync(join(folder, `libingot-${level}.json`), 'utf8'))
    return library.sha256 === createHash('sha256').update(readFileSync(path)).digest('hex')
  } catch {
    return false
  }
}

/** Kernels as C files of a few each, with a symbol of their own for every one. */
function emitFiles(kernels, { emitC, hashKernel }) {
  const listed = kernels.map((kernel) => {
    const hash = hashKernel(kernel)
    return { hash, renamed: { ...kernel, name: `${kernel.name}_${hash.slice(0, 8)}` } }
  })
  const entries = []
  const files = []
  for (let file = 0; file < FILES; file++) {
    const part = listed.filter(({ hash }) => parseInt(hash.slice(0, 8), 16) % FILES === file)
    if (part.length === 0) continue
    const source = emitC(part.map(({ renamed }) => renamed))
    files.push({ name: `kernels${file}`, text: source.text })
    part.forEach(({ hash }, i) => entries.push({ hash, symbol: source.entries[i], scratch: source.scratch[i] }))
  }
  return { entries, files }
}

function tableFile(entries, /** @type {string} */ key) {
  return [
    '#include "runtime.h"',
    ...entries.map(({ symbol }) => `ingot_kernel ${symbol};`),
    `static ingot_kernel *const kernels[] = {${entries.map(({ symbol }) => symbol).join(', ')}};`,
    `uint64_t ingot_kernel_at(uint32_t index) { return index < ${entries.length} ? (uint64_t)(uintptr_t)kernels[index] : 0; }`,
    `const char *ingot_build_key(void) { return "${key}"; }`,
    '',
  ].join('\n')
}

/**
 * Compiles kernels into `libingot-LEVEL.so` with its manifest `libingot-LEVEL.json` in `folder`.
 * @param {{
 *   level: object
 *   kernels: readonly object[]
 *   emitC: Function
 *   hashKernel: Function
 *   folder: string
 *   sources?: string[]
 *   compiler?: object
 *   flags?: string[]
 * }} options
 *   `sources`: hashes of the code that the kernels may serve (src/device/open/code-hash.ts)
 * @returns {Promise<{ path: string, compiled: number }>} `compiled`: files that were not in the cache of objects
 */
export async function compileLibrary({
  level,
  kernels,
  emitC,
  hashKernel,
  folder,
  sources = undefined,
  compiler = undefined,
  flags = FLAGS,
}) {
  const { cc, version } = compiler ?? (await findCompiler()) ?? {}
  if (cc === undefined) throw new Error('no C compiler')
  const objects = join(folder, 'objects')
  mkdirSync(objects, { recursive: true })
  const [prelude, runtime] = [/^prelude.*\.h$/, /^(runtime|wait|blas|float)\.[ch]$/].map((names) =>
    sha(version, hashFolder(nativeFolder, names)),
  )
  const { entries, files } = emitFiles(kernels, { emitC, hashKernel })
  const key = sha(prelude, runtime, JSON.stringify([level, flags, entries]), ...files.map(({ text }) => text))
  const baseline = [...flags, `-DINGOT_LEVEL_${level.name}`]
  const units = [
    ...files.map(({ name, text }) => ({ name, text, under: prelude, flags: [...flags, ...level.flags] })),
    { name: 'table', text: tableFile(entries, key), under: runtime, flags: baseline },
    { name: 'runtime', text: readFileSync(join(nativeFolder, 'runtime.c'), 'utf8'), under: runtime, flags: baseline },
  ].map((unit) => ({
    ...unit,
    object: join(objects, `${level.name}-${unit.name}-${sha(unit.under, unit.text, unit.flags.join(' ')).slice(0, 24)}.o`),
  }))
  const missing = units.filter(({ object }) => !existsSync(object))
  await inParallel(
    missing.map(({ text, flags: own, object }) => async () => {
      const temporary = `${object}.${randomBytes(6).toString('hex')}`
      writeFileSync(`${temporary}.c`, text)
      try {
        await run(cc, [...own, `-I${nativeFolder}`, '-c', `${temporary}.c`, '-o', temporary], { maxBuffer: MOST_OUTPUT })
        renameSync(temporary, object)
      } finally {
        rmSync(`${temporary}.c`, { force: true })
        rmSync(temporary, { force: true })
      }
    }),
  )
  const path = join(folder, `libingot-${level.name}.so`)
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  await run(cc, ['-shared', '-pthread', '-o', temporary, ...units.map(({ object }) => object), '-lm'], { maxBuffer: MOST_OUTPUT })
  const bytes = readFileSync(temporary)
  const library = { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
  renameSync(temporary, path)
  const listed = Object.fromEntries(entries.map(({ hash, symbol, scratch }, index) => [hash, { index, symbol, scratch }]))
  writeWhole(
    join(folder, `libingot-${level.name}.json`),
    `${JSON.stringify({ level: level.name, key, sources, library, kernels: listed }, undefined, 1)}\n`,
  )
  const kept = new Set(units.map(({ object }) => object))
  for (const name of readdirSync(objects))
    if (name.startsWith(`${level.name}-`) && !kept.has(join(objects, name))) rmSync(join(objects, name), { force: true })
  return { path, compiled: missing.length }
}

/**
 * Builds the libraries of this architecture when something has changed.
 * @param {{ force?: boolean, only?: string, log?: (line: string) => void, folder?: string, list?: Function, arch?: string }} [options]
 *   `only`: the name of one level, or `best` for the one that this machine will use; `list`: gives other kernels than those of models, for
 *   another `folder`; `arch`: another architecture, whose compiler $CC then is
 * @returns {Promise<{ built: boolean, path?: string, reason?: string }>} `path` is absent when there is no library to load;
 *   `reason` then says why
 */
export async function buildNative({
  force = false,
  only = undefined,
  log = (line) => process.stderr.write(`setup: ${line}\n`),
  folder = join(root, 'build', 'native'),
  list = undefined,
  arch = process.arch,
} = {}) {
  if (process.platform === 'win32') return { built: false, reason: 'the native CPU library needs a POSIX system; WebAssembly serves' }
  const compiler = await findCompiler()
  if (compiler === undefined) return { built: false, reason: 'no C compiler (install gcc or clang, or set CC); WebAssembly serves' }
  if (!existsSync(join(distFolder, 'train', 'kernel-list.js'))) return { built: false, reason: 'dist/ is not built' }
  const load = (/** @type {string} */ path) => import(pathToFileURL(join(distFolder, path)).href)
  const { LEVELS, cpuCaps } = await load('device/cpu/level.js')
  const ours = LEVELS.filter((level) => level.arch === arch)
  const levels =
    only === undefined ? ours : ours.filter(({ name }) => name === (only === 'best' ? bestLevel(ours.map((level) => level.name)) : only))
  if (levels.length === 0) return { built: false, reason: `no instruction set to build for on ${arch}` }
  const allStampPath = join(folder, arch === process.arch ? 'stamp' : `stamp-${arch}`)
  const stampPath = only === undefined ? allStampPath : join(folder, `stamp-${levels[0].name}`)
  const wanted = sha(
    hashFolder(distFolder, /\.js$/),
    hashFolder(join(root, 'src'), /\.ts$/),
    hashFolder(nativeFolder, /\.[ch]$/),
    readFileSync(script),
    compiler.version,
  )
  const first = join(folder, `libingot-${levels[0].name}.so`)
  const stamped = (/** @type {string} */ path) => existsSync(path) && readFileSync(path, 'utf8') === wanted
  const current = existsSync(first) && (stamped(stampPath) || stamped(allStampPath))
  if (!force && list === undefined && current && levels.every(({ name }) => isIntact(folder, name))) return { built: false, path: first }

  const [{ collectAllKernels }, { emitC }, { hashKernel }, { hashSources }] = await Promise.all([
    load('train/kernel-list.js'),
    load('emit/c.js'),
    load('ir/hash.js'),
    load('device/open/code-hash.js'),
  ])
  const trees = [distFolder, join(root, 'src')].filter((tree) => existsSync(tree))
  const sources = await Promise.all(trees.map((tree) => hashSources(pathToFileURL(`${tree}/`))))
  if (force) rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const lists = new Map()
  const problems = []
  let path
  for (const level of levels) {
    const start = performance.now()
    try {
      if (!lists.has(level.width))
        lists.set(
          level.width,
          await (list ?? collectAllKernels)(
            cpuCaps({ width: level.width, registers: level.registers, pairs: level.pairs, threads: LISTED_THREADS, bufferBytes: 2 ** 40 }),
          ),
        )
      const { kernels, failed } = lists.get(level.width)
      for (const line of failed) log(`kernels of ${line}`)
      const made = await compileLibrary({ level, kernels, emitC, hashKernel, folder, sources, compiler })
      path ??= made.path
      if (made.compiled > 0)
        log(`native kernels for ${level.title}: ${kernels.length}, ${((performance.now() - start) / 1000).toFixed(0)} s`)
    } catch (error) {
      problems.push(`${level.name}: ${String(error.stderr || error.message).slice(0, 2000)}`)
    }
  }
  for (const line of problems) log(`no native kernels for ${line}`)
  if (path === undefined) return { built: false, reason: `the native CPU library does not compile: ${problems.join('\n')}` }
  if (problems.length === 0 && list === undefined) writeWhole(stampPath, wanted)
  return { built: true, path }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const at = process.argv.indexOf('--level')
  const result = await buildNative({ force: process.argv.includes('--force'), ...(at < 0 ? {} : { only: process.argv[at + 1] }) })
  console.log(result.path ? `native: ${result.built ? 'built' : 'up to date'}: ${result.path}` : `native: ${result.reason}`)
  process.exitCode = result.path ? 0 : 1
}
