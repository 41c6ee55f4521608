// Joins the files of dist/ that belong together into few, in dist/bundle: a program that starts reads ten files instead of two hundred.
// What is loaded when it is asked for (a device, a command) stays apart. `dist/` itself has the declarations, and serves the lab.
// Needs dist/ as `tsc -p tsconfig.build.json` makes it. `node scripts/bundle.js` does it from a shell.

import { existsSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const DIST = join(ROOT, 'dist')
/** Two folders below the package, as src/base/place.ts wants it. */
const FOLDER = join(DIST, 'bundle')
const ENTRIES = {
  index: 'index.js',
  kernel: 'kernel.js',
  train: 'train.js',
  atlas: 'atlas.js',
  main: join('cli', 'main.js'),
  // Processes that a bench starts, so that it measures what users run; src/base/place.ts knows their names.
  'bench-child': join('bench', 'child.js'),
  'bench-op-child': join('bench', 'op', 'child.js'),
  'bench-train-child': join('bench', 'train', 'child.js'),
}

export async function bundle() {
  const { rolldown } = await import('rolldown') // installed by set-up
  const made = await rolldown({
    input: Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, join(DIST, path)])),
    cwd: ROOT,
    platform: 'node',
    external: (id) => /^[^./]/.test(id) && !id.startsWith(ROOT),
    transform: { define: { BUNDLED: JSON.stringify(await hashes()) } },
  })
  // Aside first: whoever starts meanwhile finds the old files or the new ones.
  const draft = `${FOLDER}.${process.pid}`
  try {
    await made.write({ dir: draft, format: 'esm', entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js', sourcemap: true })
    rmSync(FOLDER, { recursive: true, force: true })
    renameSync(draft, FOLDER)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

async function hashes() {
  const { hashSources, hashDevices } = await import(pathToFileURL(join(DIST, 'device', 'open', 'code-hash.js')).href)
  const root = pathToFileURL(`${DIST}/`)
  return { sources: await hashSources(root), devices: await hashDevices(root) }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  if (!existsSync(join(DIST, 'index.js'))) throw new Error('dist/ is not built: tsc -p tsconfig.build.json')
  await bundle()
}
