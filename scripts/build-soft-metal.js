// Builds native/soft-metal, the software Metal that tests run against, into build/soft-metal.
// Needs only Node and g++ (or $CXX, which may be a clang++). Does nothing when the library was built from the sources at hand, which is
// decided by content, never by clocks; says why when it can not build.
// `node scripts/build-soft-metal.js [--force] [--sanitize]` does the same from a shell.

import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const sourceFolder = join(root, 'native', 'soft-metal')

const FLAGS = ['-std=c++17', '-O2', '-g1', '-fPIC', '-fvisibility=hidden', '-pthread', '-Wall', '-Wextra']
const SANITIZE = ['-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', '-fno-omit-frame-pointer']

/** A hash over the names and contents of all files below a folder, and over what else decides the result. */
function hashFolder(folder, ...more) {
  const hash = createHash('sha256')
  const visit = (at) => {
    for (const entry of readdirSync(at, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(at, entry.name)
      if (entry.isDirectory()) visit(path)
      else hash.update(entry.name).update(readFileSync(path))
    }
  }
  visit(folder)
  return hash.update(JSON.stringify(more)).digest('hex')
}

/** Whether the compiler can be run at all. */
async function compilerWorks(cxx) {
  try {
    await run(cxx, ['--version'])
    return true
  } catch {
    return false
  }
}

/** Run the tasks with as many at a time as there are cores. */
async function inParallel(tasks) {
  const queue = [...tasks]
  const worker = async () => {
    for (let task = queue.shift(); task; task = queue.shift()) await task()
  }
  await Promise.all(cpus().slice(0, 8).map(worker))
}

/** Compile everything into a scratch folder, so that half a build is never seen and two builds do not meet. */
async function compile(cxx, folder, flags) {
  const sources = readdirSync(sourceFolder).filter((f) => /\.(cpp|S)$/.test(f) && f !== 'test_driver.cpp')
  const objects = sources.map((f) => join(folder, `${f}.o`))
  await inParallel(sources.map((f, i) => () => run(cxx, [...flags, '-c', join(sourceFolder, f), '-o', objects[i]])))
  const library = join(folder, 'libsoft-metal.so')
  await run(cxx, [...flags, '-shared', '-Wl,-soname,libsoft-metal.so', ...objects, '-ldl', '-o', library])
  return library
}

/**
 * Build the library when it is missing or older than its sources.
 * @param {{ force?: boolean, sanitize?: boolean, arch?: string }} [options] `sanitize`: address and undefined-behaviour sanitizers, plus
 *   the driver executable that runs against them (`driver` in the result); `arch`: another architecture, whose compiler $CXX then is
 * @returns {Promise<{ built: boolean, path?: string, driver?: string, reason?: string }>} `path` is absent when there is
 *   no library to load; `reason` then says why
 */
export async function buildSoftMetal({ force = false, sanitize = false, arch = process.arch } = {}) {
  if (process.platform === 'win32') return { built: false, reason: 'soft-metal needs a POSIX system' }
  if (!['x64', 'arm64'].includes(arch)) return { built: false, reason: `soft-metal has no assembly for ${arch}` }
  // One folder serves one architecture: an emulated process and its host share build/ (scripts/test-arm64.js).
  const folder = join(root, 'build', `soft-metal${arch === 'x64' ? '' : `-${arch}`}${sanitize ? '-sanitized' : ''}`)
  const library = join(folder, 'libsoft-metal.so')
  const driver = join(folder, 'test_driver')
  const result = sanitize ? { path: library, driver } : { path: library }
  const cxx = process.env.CXX || 'g++'
  const flags = sanitize ? [...FLAGS, ...SANITIZE] : FLAGS
  const stamp = join(folder, 'stamp')
  const wanted = hashFolder(sourceFolder, cxx, flags)
  const fresh = existsSync(library) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted
  if (fresh && !force) return { built: false, ...result }
  if (!(await compilerWorks(cxx))) return { built: false, reason: `no C++ compiler: '${cxx}' can not be run` }
  const scratch = join(folder, `.build-${randomBytes(6).toString('hex')}`)
  mkdirSync(scratch, { recursive: true })
  try {
    const made = await compile(cxx, scratch, flags)
    if (sanitize) {
      const source = join(sourceFolder, 'test_driver.cpp')
      await run(cxx, [...flags, source, made, '-Wl,-rpath,$ORIGIN', '-o', join(scratch, 'test_driver')])
      renameSync(join(scratch, 'test_driver'), driver)
    }
    cpSync(join(sourceFolder, 'shim'), join(folder, 'shim'), { recursive: true })
    renameSync(made, library)
    writeFileSync(stamp, wanted)
  } catch (error) {
    return { built: false, reason: `soft-metal does not compile: ${error.stderr || error.message}` }
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
  return { built: true, ...result }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const result = await buildSoftMetal({ force: process.argv.includes('--force'), sanitize: process.argv.includes('--sanitize') })
  console.log(result.path ? `soft-metal: ${result.built ? 'built' : 'up to date'}: ${result.path}` : `soft-metal: ${result.reason}`)
  process.exitCode = result.path ? 0 : 1
}
