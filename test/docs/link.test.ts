// Links of the pages lead somewhere: to files that are there, and to headings that they have. So do paths that are only named.

import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)].filter(
  (name) => name.endsWith('.md'),
)
/** Made by a build, or in the reader's own folder. */
const ELSEWHERE = /^(build|dist)\//

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
/** Without code, where brackets mean other things. */
const prose = (page: string): string => page.replaceAll(/^```.*?^```$/gms, '').replaceAll(/^ {4}.*$/gm, '')

/** The names that headings of a page have in links. */
function anchorsOf(page: string): Set<string> {
  const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, text = '']) => text)
  return new Set(
    headings.map((text) =>
      text
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

describe.each(PAGES)('%s', (page) => {
  const text = read(page)

  test('has no link that leads nowhere', () => {
    const links = [...prose(text).matchAll(/\]\(([^()\s]+)\)/g)].map(([, link = '']) => link).filter((link) => !/^[a-z]+:/.test(link))
    const broken = links.filter((link) => {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? page : join(dirname(page), path)
      if (!existsSync(join(ROOT, target))) return true
      return anchor !== undefined && statSync(join(ROOT, target)).isFile() && !anchorsOf(read(target)).has(anchor)
    })
    expect(broken).toEqual([])
  })

  test('names no file that is gone', () => {
    const named = [
      ...prose(text)
        .replaceAll(/\[[^\]]*\]\([^)]*\)/g, '')
        .matchAll(/`((?:src|test|native|scripts|lab|docs|examples|bench|bin)\/[\w./-]+)`/g),
    ].map(([, path = '']) => path)
    expect(named.filter((path) => !ELSEWHERE.test(path) && !existsSync(join(ROOT, path)))).toEqual([])
  })
})
