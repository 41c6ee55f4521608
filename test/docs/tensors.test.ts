// docs/tensors.md and README, as a reader uses them: the code has no wrong types, runs and prints what it says, and the
// tables are those of the records.

import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ELEMENT_TYPES } from '../../src/base/element.ts'
import { closeDevices, setDefaultDevice } from '../../src/tensor/default-device.ts'
import { gradients } from '../../src/tensor/grad.ts'
import { MAP_OPS } from '../../src/kernel/map/op.ts'
import { OPERATIONS } from '../../src/tensor/op/index.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { blocksOf, promisedOutput, runBlock } from './block.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** What `npm run docs` is made of. */
interface Marker {
  between(text: string, name: string): string
}
interface Tables {
  readonly METHOD_FILES: readonly string[]
  operationTables(library: object, sources: readonly string[]): string
}
const scripts = async (): Promise<[Marker, Tables]> => {
  const load = (name: string): Promise<unknown> => import(new URL(`../../scripts/docs/${name}.js`, import.meta.url).href)
  return (await Promise.all([load('marker'), load('operation')])) as [Marker, Tables]
}

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ingot-docs-'))
  process.chdir(folder) // blocks write files
  process.env['INGOT_DEVICE'] = 'cpu'
})
afterEach(async () => {
  await closeDevices()
  setDefaultDevice('auto')
})
afterAll(() => {
  process.chdir(ROOT)
  rmSync(folder, { recursive: true, force: true })
})

const guide = blocksOf('docs/tensors.md')
const [, ...readme] = blocksOf('README.md') // the first talks to a model

test('the second block of README is a gradient', () => {
  expect(readme[0]?.code).toMatch(/grad\(/i)
})

test.each(readme)('line $line of README runs and prints what it says', async (block) => {
  expect(await runBlock(block, folder)).toEqual(promisedOutput(block.code))
})

test('the code of all pages has no wrong types', async ({ skip }) => {
  if (!existsSync(join(ROOT, 'dist/index.d.ts'))) return skip('dist/ is not built')
  const types = join(folder, 'types')
  mkdirSync(types)
  for (const { file, code } of [...guide, ...readme, ...blocksOf('docs/training.md')]) writeFileSync(join(types, file), code)
  const compilerOptions = {
    module: 'esnext',
    moduleResolution: 'bundler',
    paths: {
      ingot: [join(ROOT, 'dist/index.d.ts')],
      'ingot/kernel': [join(ROOT, 'dist/kernel.d.ts')],
      'ingot/train': [join(ROOT, 'dist/train.d.ts')],
    },
    typeRoots: [join(ROOT, 'node_modules/@types')],
    types: ['node'],
    noUnusedLocals: false,
  }
  writeFileSync(join(types, 'tsconfig.json'), JSON.stringify({ extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: ['*.ts'] }))
  const tsc = promisify(execFile)(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', types])
  expect(await tsc.then(({ stdout }) => stdout, ({ stdout }: { stdout: string }) => stdout)).toBe('') // prettier-ignore
})

describe('docs/tensors.md', () => {
  test('has code', () => {
    expect(guide.length).toBeGreaterThan(12)
  })

  test.each(guide)('line $line runs and prints what it says', async (block) => {
    expect(await runBlock(block, folder)).toEqual(promisedOutput(block.code))
  })

  test('has the tables of the records (npm run docs writes them)', async () => {
    const [{ between }, { METHOD_FILES, operationTables }] = await scripts()
    const library = { Tensor, gradients, operations: OPERATIONS, mapOps: MAP_OPS, types: ELEMENT_TYPES }
    expect(between(read('docs/tensors.md'), 'operations')).toBe(operationTables(library, METHOD_FILES.map(read)))
  })
})
