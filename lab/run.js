#!/usr/bin/env node
// Runs one experiment of the kernel lab: `node lab/run.js NAME [options]`. Builds the library if it is stale, and the experiment
// itself, which is TypeScript, beside it. Experiments use the library as built, so that what is timed is what users get.

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const SUPPORT = ['lab', 'linear', 'stream'] // parts of experiments, not experiments
const EXPERIMENTS = readdirSync(join(ROOT, 'lab')).filter((name) => name.endsWith('.ts')).map((name) => name.slice(0, -3)).filter((name) => !SUPPORT.includes(name))

const [name = '', ...options] = process.argv.slice(2)
if (!EXPERIMENTS.includes(name)) {
  process.stderr.write(`usage: node lab/run.js NAME [options]; experiments: ${EXPERIMENTS.join(', ')}\n`)
  process.exit(name === '--help' ? 0 : 2)
}
buildLibrary()
const bundle = await rolldown({
  input: join(ROOT, 'lab', `${name}.ts`),
  platform: 'node',
  external: /^[^./]/,
  plugins: [{ name: 'built library', resolveId: toBuilt }],
})
const folder = join(ROOT, 'build/lab')
await bundle.write({ dir: folder, format: 'esm', entryFileNames: '[name].js' })
const { main } = await import(pathToFileURL(join(folder, `${name}.js`)).href)
await main(options)
process.exit(0)

function buildLibrary() {
  const { status } = spawnSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'], { cwd: ROOT, stdio: ['ignore', 2, 2] })
  if (status !== 0 && !existsSync(join(ROOT, 'dist/kernel/index.js'))) process.exit(1)
}

/** Files of src/ are used from dist/, where they find their threads and native parts. */
function toBuilt(/** @type {string} */ source, /** @type {string | undefined} */ importer) {
  if (importer === undefined || !source.startsWith('.')) return null
  const path = relative(join(ROOT, 'src'), resolve(dirname(importer), source))
  return path.startsWith('..') ? null : { id: pathToFileURL(join(ROOT, 'dist', path.replace(/\.ts$/, '.js'))).href, external: true }
}
