// The code of a page, as a reader copies it, and what it says that it prints.

import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { format } from 'node:util'
import { vi } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
/** What package.json exports, as it is in this checkout. */
const ENTRIES: Readonly<Record<string, string>> = {
  ingot: 'src/index.ts',
  'ingot/kernel': 'src/kernel.ts',
  'ingot/train': 'src/train.ts',
  'ingot/atlas': 'src/atlas.ts',
}

export interface Block {
  readonly file: string
  /** the line of the page that it begins on */
  readonly line: number
  readonly code: string
}

/** Every block of TypeScript in a page. */
export function blocksOf(page: string): Block[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(({ index, 1: code = '' }) => {
    const line = text.slice(0, index).split('\n').length + 1
    return { file: `${basename(page, '.md')}-${line}.ts`, line, code }
  })
}

/** What its comments promise: beside a `console.log`, or in the lines below it. */
export function promisedOutput(code: string): string[] {
  let isBelow = false
  return code.split('\n').flatMap((line) => {
    if (isBelow && line.startsWith('// ')) return [line.slice(3)]
    const beside = /console\.log\(.*\)\s*\/\/ (.*)$/.exec(line)?.[1]
    isBelow = beside === undefined && (line.includes('console.log(') || (isBelow && /^[\s})]*$/.test(line)))
    return beside === undefined ? [] : [beside]
  })
}

/** Runs a block as a module in a folder; gives the lines that it prints. */
export async function runBlock({ file, code }: Block, folder: string): Promise<string[]> {
  const path = join(folder, file)
  const here = code.replaceAll(/ from '(ingot[^']*)'/g, (_, name: string) => ` from ${JSON.stringify(join(ROOT, ENTRIES[name] ?? name))}`)
  writeFileSync(path, here)
  const printed: string[] = []
  const log = vi.spyOn(console, 'log').mockImplementation((...values) => void printed.push(...format(...values).split('\n')))
  try {
    await import(/* @vite-ignore */ path)
  } finally {
    log.mockRestore()
  }
  return printed
}
