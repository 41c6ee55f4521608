#!/usr/bin/env node
// Runs one experiment of the kernel lab: `node lab/run.js NAME [options]`. Builds what is stale: the library, the experiment itself, which
// is TypeScript, and a native library of the kernels that it times. Experiments use the library as built: what is timed is what users get.
// `--as-built` takes dist/ as it is.

import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const EXPERIMENTS = readdirSync(join(ROOT, 'lab'))
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.slice(0, -3))

const [name = '', ...options] = process.argv.slice(2)
if (!EXPERIMENTS.includes(name)) {
  process.stderr.write(`usage: node lab/run.js NAME [options]; experiments: ${EXPERIMENTS.join(', ')}\n`)
  process.exit(name === '--help' ? 0 : 2)
}
if (!options.includes('--as-built')) setUp()
const folder = join(ROOT, 'build', 'lab', name)
await bundle()
const [{ main }, { buildNative }] = await Promise.all(
  [join(folder, `${name}.js`), join(ROOT, 'scripts', 'build-native.js')].map((path) => import(pathToFileURL(path).href)),
)
await main(options, { folder, build })
process.exit(0)

/** Says nothing when nothing is stale. */
function setUp() {
  const { status } = spawnSync(process.execPath, [join(ROOT, 'scripts/setup.js')], {
    cwd: ROOT,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, npm_lifecycle_event: 'prelab' },
  })
  if (status !== 0) process.exit(1)
}

async function bundle() {
  // installed by set-up
  const { rolldown } = await import('rolldown')
  const made = await rolldown({
    input: join(ROOT, 'lab', `${name}.ts`),
    platform: 'node',
    external: /^[^./]/,
    plugins: [{ name: 'built library', resolveId: toBuilt }],
  })
  await made.write({ dir: folder, format: 'esm', entryFileNames: '[name].js' })
}

/** Files of src/ are used from dist/, where they find their threads and native parts. */
function toBuilt(/** @type {string} */ source, /** @type {string | undefined} */ importer) {
  if (importer === undefined || !source.startsWith('.')) return null
  const path = relative(join(ROOT, 'src'), resolve(dirname(importer), source))
  return path.startsWith('..') ? null : { id: pathToFileURL(join(ROOT, 'dist', path.replace(/\.ts$/, '.js'))).href, external: true }
}

/** The native library of an experiment, for the instruction set that INGOT_CPU names or else the best one. */
function build(/** @type {Function} */ list) {
  const asked = process.env.INGOT_CPU?.trim().toLowerCase() || 'auto'
  if (asked === 'wasm') return { reason: 'INGOT_CPU is wasm' }
  return buildNative({
    only: asked === 'auto' ? 'best' : asked,
    folder,
    list,
    log: (/** @type {string} */ line) => process.stderr.write(`lab: ${line}\n`),
  })
}
