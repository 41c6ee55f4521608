// Random kernels on every target, compared with the interpreter: `npm run random -- [N] [--seed S] [--target wasm,c,swiftshader,lavapipe]`.
// The same tests as in `npm test`, with more kernels; a difference names its seed, which `--seed S` with N = 1 runs again. With `--atlas`,
// random programs of the Atlas instruction set instead; there a difference shows the program.

import { spawnSync } from 'node:child_process'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..')
/** @type {Record<string, { project: string, file: string, share: number, test?: string }>} share of N: drivers compile slowly */
const KERNELS = {
  wasm: { project: 'main', file: 'test/emit/wasm-random.test.ts', share: 1 },
  c: { project: 'main', file: 'test/emit/c-random.test.ts', share: 1 },
  swiftshader: { project: 'swiftshader', file: 'test/emit/random.gpu.test.ts', share: 0.1 },
  lavapipe: { project: 'lavapipe', file: 'test/emit/random.gpu.test.ts', share: 0.1 },
}

/** @type {typeof KERNELS} */
const PROGRAMS = {
  wasm: { project: 'main', file: 'test/atlas/compile.test.ts', share: 1, test: 'on cpu.*random' },
  c: { project: 'main', file: 'test/atlas/c-random.test.ts', share: 1 },
  reference: { project: 'main', file: 'test/atlas/compile.test.ts', share: 0.1, test: 'on reference.*random' },
  swiftshader: { project: 'swiftshader', file: 'test/atlas/compile.gpu.test.ts', share: 0.2, test: 'random' },
  lavapipe: { project: 'lavapipe', file: 'test/atlas/compile.gpu.test.ts', share: 0.2, test: 'random' },
  metal: { project: 'main', file: 'test/atlas/metal.test.ts', share: 0.04, test: 'random' },
}

const args = process.argv.slice(2)
const isAtlas = args.includes('--atlas')
const TARGETS = isAtlas ? PROGRAMS : KERNELS
const what = isAtlas ? 'programs' : 'kernels'
const option = (/** @type {string} */ name) => (args.includes(`--${name}`) ? args[args.indexOf(`--${name}`) + 1] : undefined)
const count = Number(args.find((each, i) => /^\d+$/.test(each) && !args[i - 1]?.startsWith('--seed')) ?? (isAtlas ? 5000 : 10_000))
const names = (option('target') ?? Object.keys(TARGETS).join(',')).split(',')
const unknown = names.filter((name) => TARGETS[name] === undefined)
if (unknown.length > 0) {
  process.stderr.write(`unknown target ${unknown.join(', ')}; known: ${Object.keys(TARGETS).join(', ')}\n`)
  process.exit(2)
}
let failed = 0
for (const name of names) {
  const { project, file, share, test } = TARGETS[name]
  const kernels = String(Math.max(1, Math.ceil(count * share)))
  const started = Date.now()
  const vitest = [
    join(ROOT, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--project',
    project,
    file,
    ...(test === undefined ? [] : ['-t', test]),
  ]
  const { status } = spawnSync(process.execPath, vitest, {
    cwd: ROOT,
    stdio: 'inherit',
    env: {
      ...process.env,
      INGOT_RANDOM_KERNELS: kernels,
      INGOT_RANDOM_PROGRAMS: kernels,
      INGOT_RANDOM_SEED: option('seed') ?? '0',
      INGOT_RANDOM_ALL: '1',
    },
  })
  process.stdout.write(
    `${name}: ${kernels} ${what}, ${status === 0 ? 'no difference' : 'DIFFERENCES'}, ${Math.round((Date.now() - started) / 1000)} s\n`,
  )
  if (status !== 0) failed++
}
process.exit(failed === 0 ? 0 : 1)
