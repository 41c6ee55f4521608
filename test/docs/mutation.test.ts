// The faults of `npm run mutate` are about the code as it is: each stands just once in its file, and the tests that should notice are there.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

interface Mutation {
  readonly name: string
  readonly file: string
  readonly find: string
  readonly replace: string
  /** files, and options of vitest */
  readonly tests: readonly string[]
}

const ROOT = join(import.meta.dirname, '../..')

test('no fault is stale', async () => {
  const { MUTATIONS } = (await import(new URL('../../scripts/mutations.js', import.meta.url).href)) as { MUTATIONS: readonly Mutation[] }
  const stale = MUTATIONS.flatMap(({ name, file, find, replace, tests }) => {
    const count = existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), 'utf8').split(find).length - 1 : 0
    const missing = tests.filter((each) => each.startsWith('test/') && !existsSync(join(ROOT, each)))
    return [
      ...(count === 1 ? [] : [`${name}: ${find} stands ${count} times in ${file}`]),
      ...(replace === find ? [`${name}: changes nothing`] : []),
      ...missing.map((each) => `${name}: there is no ${each}`),
    ]
  })
  expect(stale).toEqual([])
})
