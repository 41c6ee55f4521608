// docs/atlas.md, as a reader uses it: the code runs and prints what it says, and the tables are those of the records.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import * as atlas from '../../src/atlas.ts'
import { emitSource } from '../../src/cli/source.ts'
import { blocksOf, promisedOutput, runBlock } from './block.ts'

const PAGE = 'docs/atlas.md'
const folder = mkdtempSync(join(tmpdir(), 'ingot-atlas-docs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Scripts {
  between(text: string, name: string): string
  instructionTables(instructions: object): string
  metalSource(page: string, atlas: object, emit: typeof emitSource): string
}

test('the tables are those of the records, and the kernel is that of the program', async () => {
  const load = (name: string): Promise<object> => import(new URL(`../../scripts/docs/${name}.js`, import.meta.url).href) as Promise<object>
  const { between, instructionTables, metalSource } = { ...(await load('marker')), ...(await load('instruction')) } as Scripts
  const page = readFileSync(join(import.meta.dirname, '../..', PAGE), 'utf8')
  expect(between(page, 'instructions')).toBe(instructionTables(atlas.INSTRUCTIONS))
  expect(between(page, 'metal')).toBe(metalSource(page, atlas, emitSource))
  expect(page.match(/^\| `[a-z]/gm)).toHaveLength(60)
})

test.each(blocksOf(PAGE))('the code on line $line prints what it says', async (block) => {
  const promised = promisedOutput(block.code)
  expect(promised.length).toBeGreaterThan(0)
  expect(await runBlock(block, folder)).toEqual(promised)
})
