// The shape of the source tree: imports go down the ladder only, in no ring, and no file outgrows a reader.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { findBreach, findCycles, readImports } from './import-rule.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const LONGEST = 500 // lines
const WIDEST = 140 // columns
/** Casts that TypeScript would not believe without a detour. */
const MOST_CASTS = 20
const CAPPED_FOLDERS = ['src', 'native', 'test', 'scripts', 'lab', 'bin']
const CODE = /\.(ts|js|mjs|c|h|cc|cpp|hpp|m|mm|metal|sh)$/

/** Code files below a folder, relative to it, with forward slashes. */
function codeFiles(folder: string): string[] {
  const top = join(ROOT, folder)
  if (!existsSync(top)) return []
  return readdirSync(top, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && CODE.test(entry.name))
    .map((entry) => relative(top, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .filter((path) => !path.includes('node_modules/'))
    .sort()
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

const imports = codeFiles('src').flatMap((file) => readImports(file, read(`src/${file}`)))

describe('the source tree', () => {
  it('imports down the ladder only', () => {
    expect(imports.flatMap((each) => findBreach(each) ?? [])).toEqual([])
  })

  it('has no files that import each other in a ring', () => {
    expect(findCycles(imports)).toEqual([])
  })

  it(`has no file over ${LONGEST} lines`, () => {
    const long = CAPPED_FOLDERS.flatMap((folder) => codeFiles(folder).map((file) => `${folder}/${file}`)).flatMap((path) => {
      const lines = read(path).trimEnd().split('\n').length
      return lines > LONGEST ? [`${path} has ${lines} lines, at most ${LONGEST} are allowed; split it`] : []
    })
    expect(long).toEqual([])
  })

  it(`has no line over ${WIDEST} columns`, () => {
    const wide = codeFiles('src').flatMap((file) =>
      read(`src/${file}`)
        .split('\n')
        .flatMap((line, at) => (line.length > WIDEST ? [`src/${file}:${at + 1}: ${line.length}`] : [])),
    )
    expect(wide).toEqual([])
  })

  it('asks one file where it lies: others are somewhere else in a bundle', () => {
    const asking = codeFiles('src').filter((file) => /new URL\([^)]*import\.meta\.url/.test(read(`src/${file}`)))
    expect(asking).toEqual(['base/place.ts'])
  })

  it(`has at most ${MOST_CASTS} casts by force`, () => {
    const casts = codeFiles('src').flatMap((file) =>
      [...read(`src/${file}`).matchAll(/\bas (never|unknown as)\b/g)].map(({ index }) => `src/${file} at ${index}`),
    )
    expect(casts.length).toBeLessThanOrEqual(MOST_CASTS)
  })

  it('says why wherever it silences a rule', () => {
    const silences = codeFiles('src').flatMap((file) =>
      [...read(`src/${file}`).matchAll(/(?:ox|es)lint-disable.*/g)].map(([text]) => `${file}: ${text}`),
    )
    expect(silences.filter((text) => !text.includes(' -- '))).toEqual([])
  })
})

/** The complaints about one file of the given text. */
function complaints(file: string, text: string): string[] {
  return readImports(file, text).flatMap((each) => findBreach(each) ?? [])
}

describe('the rule itself', () => {
  it.each([
    ['up', 'ir/node.ts', "import { emit } from '../emit/clike.ts'"],
    ['sideways', 'emit/clike.ts', "import { q4 } from '../quant/q4.ts'"],
    ['types only', 'base/shape.ts', "import type { Node } from '../ir/node.ts'"],
    ['in a function', 'quant/q4.ts', "const f = async () => await import('../kernel/map.ts')"],
    ['a re-export', 'model/index.ts', "export { load } from '../llm/load.ts'"],
    ['a device by name', 'tensor/plan.ts', "import { open } from '../device/open.ts'"],
    ['files in a tensor', 'tensor/tensor.ts', "import { openFile } from '../weights/source.ts'"],
    ['kernels in a device', 'device/webgpu/queue.ts', "import { map } from '../../kernel/map.ts'"],
    ['out of src/', 'cli/bench.ts', "import { findDrivers } from '../../scripts/drivers.js'"],
    ['a public entry', 'llm/load.ts', "import { Tensor } from '../index.ts'"],
    ['no rung', 'misc/thing.ts', "import { IngotError } from '../base/error.ts'"],
  ])('refuses %s', (_what, file, text) => {
    expect(complaints(file, text)).toHaveLength(1)
  })

  it.each([
    ['down', 'ir/node.ts', "import { IngotError } from '../base/error.ts'"],
    ['its own folder', 'ir/pass/fold.ts', "import { Node } from '../node.ts'"],
    ['the device interface', 'tensor/plan.ts', "import type { Device } from '../device/device.ts'"],
    ['files where tensors are saved', 'tensor/file.ts', "import { openFile } from '../weights/source.ts'"],
    ['kernels in the self-test', 'device/open/self-test.ts', "import { map } from '../../kernel/map/map.ts'"],
    ['anything from an entry', 'index.ts', "export { main } from './cli/main.ts'"],
    ['packages', 'base/error.ts', "import { inspect } from 'node:util'"],
  ])('allows %s', (_what, file, text) => {
    expect(complaints(file, text)).toEqual([])
  })

  it('names the file, the line, the import and what is allowed', () => {
    const text = "import { a } from './a.ts'\nimport {\n  b, // why\n} from '../llm/load.ts'\n"
    expect(complaints('nn/linear.ts', text)).toEqual([
      "src/nn/linear.ts:4 imports '../llm/load.ts': nn may import nn/ itself, base, quant, tensor",
    ])
  })

  it('finds a ring, once', () => {
    const ring = [
      ['a', 'b'],
      ['b', 'c'],
      ['c', 'a'],
      ['d', 'a'],
    ] as const
    const found = ring.flatMap(([from, to]) => readImports(`ir/${from}.ts`, `import './${to}.ts'`))
    expect(findCycles(found)).toEqual(['ir/a.ts -> ir/b.ts -> ir/c.ts -> ir/a.ts'])
  })
})
