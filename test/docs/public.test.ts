// Every name that the package exports says in a comment what it is: that is what an editor shows.

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

/** Exported names of an entry and the files that they come from. */
function exportsOf(entry: string): [name: string, file: string][] {
  const text = readFileSync(join(ROOT, entry), 'utf8')
  return [...text.matchAll(/^export (?:type )?\{([^}]*)\} from '([^']+)'/gm)].flatMap(([, names = '', from = '']) =>
    names
      .split(',')
      .map((name) => name.trim().replace(/^type /, ''))
      .filter((name) => name !== '')
      .map((name): [string, string] => [name, join(dirname(entry), from)]),
  )
}

/** Whether the declaration of a name has a comment of its own right before it. */
function isExplained(name: string, file: string): boolean {
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  const declaration = new RegExp(`^export (?:abstract |async |declare )*(?:class|interface|type|function|const) ${name}\\b`)
  const at = lines.findIndex((line) => declaration.test(line))
  return at > 0 && lines[at - 1]!.trimEnd().endsWith('*/')
}

describe.each(['src/index.ts', 'src/train.ts', 'src/atlas.ts'])('%s', (entry) => {
  const names = exportsOf(entry)

  test('exports something', () => {
    expect(names.length).toBeGreaterThan(10)
  })
  test('explains every name', () => {
    expect(names.filter(([name, file]) => !isExplained(name, file)).map(([name, file]) => `${name} of ${file}`)).toEqual([])
  })
})
