// Builds native/soft-metal, the software Metal that tests run against, into build/soft-metal.
// Needs only Node and g++ (or $CXX). Does nothing when the library is newer than its sources; says why when it can not.
// `node scripts/build-soft-metal.js [--force] [--sanitize]` does the same from a shell.

import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs'
import { cpus } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const sourceFolder = join(root, 'native', 'soft-metal')

const FLAGS = ['-std=c++17', '-O2', '-g1', '-fPIC', '-fvisibility=hidden', '-pthread', '-Wall', '-Wextra']
const SANITIZE = ['-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', '-fno-omit-frame-pointer']

/** Modification time in ms of the newest file below a folder. */
function newest(folder) {
  let time = 0
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    time = Math.max(time, entry.isDirectory() ? newest(path) : statSync(path).mtimeMs)
  }
  return time
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

async function compile(cxx, folder, flags, library, draft) {
  const sources = readdirSync(sourceFolder).filter((f) => /\.(cpp|S)$/.test(f) && f !== 'test_driver.cpp')
  const objects = sources.map((f) => join(folder, `${f}.${process.pid}.o`))
  await inParallel(sources.map((f, i) => () => run(cxx, [...flags, '-c', join(sourceFolder, f), '-o', objects[i]])))
  await run(cxx, [...flags, '-shared', '-Wl,-soname,libsoft-metal.so', ...objects, '-ldl', '-o', draft])
  renameSync(draft, library)
  const { unlinkSync } = await import('node:fs')
  for (const o of objects) unlinkSync(o)
}

/**
 * Build the library when it is missing or older than its sources.
 * @param {{ force?: boolean, sanitize?: boolean }} [options] `sanitize`: address and undefined-behaviour sanitizers, plus
 *   the driver executable that runs against them (`driver` in the result)
 * @returns {Promise<{ built: boolean, path?: string, driver?: string, reason?: string }>} `path` is absent when there is
 *   no library to load; `reason` then says why
 */
export async function buildSoftMetal({ force = false, sanitize = false } = {}) {
  if (process.platform === 'win32') return { built: false, reason: 'soft-metal needs a POSIX system' }
  if (!['x64', 'arm64'].includes(process.arch)) return { built: false, reason: `soft-metal has no assembly for ${process.arch}` }
  const folder = join(root, 'build', sanitize ? 'soft-metal-sanitized' : 'soft-metal')
  const library = join(folder, 'libsoft-metal.so')
  const driver = join(folder, 'test_driver')
  const result = sanitize ? { path: library, driver } : { path: library }
  if (!force && existsSync(library) && statSync(library).mtimeMs > newest(sourceFolder)) return { built: false, ...result }
  const cxx = process.env.CXX || 'g++'
  if (!(await compilerWorks(cxx))) return { built: false, reason: `no C++ compiler: '${cxx}' can not be run` }
  mkdirSync(folder, { recursive: true })
  const flags = sanitize ? [...FLAGS, ...SANITIZE] : FLAGS
  const draft = join(folder, `.libsoft-metal.${process.pid}.so`)
  try {
    cpSync(join(sourceFolder, 'shim'), join(folder, 'shim'), { recursive: true })
    await compile(cxx, folder, flags, library, draft)
    if (sanitize) {
      const source = join(sourceFolder, 'test_driver.cpp')
      await run(cxx, [...flags, source, library, `-Wl,-rpath,${folder}`, '-o', driver])
    }
  } catch (error) {
    return { built: false, reason: `soft-metal does not compile: ${error.stderr || error.message}` }
  }
  return { built: true, ...result }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const result = await buildSoftMetal({ force: process.argv.includes('--force'), sanitize: process.argv.includes('--sanitize') })
  console.log(result.path ? `soft-metal: ${result.built ? 'built' : 'up to date'}: ${result.path}` : `soft-metal: ${result.reason}`)
  process.exitCode = result.path ? 0 : 1
}
