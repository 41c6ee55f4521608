// The examples, as a reader runs them: each ends by itself, prints what it promises, and fits a page.

import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tinyBytes } from '../llm/tiny-model.ts'

const ROOT = join(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'examples')
const MOST_LINES = 60
const run = promisify(execFile)
const missing = existsSync(join(ROOT, 'dist/bundle/index.js')) ? undefined : 'dist/ is not built'

/** What each says in the end. */
const PROMISES: Readonly<Record<string, (lines: readonly string[]) => void>> = {
  'atlas-vector-add.js': (lines) => {
    expect(lines.at(-2)).toMatch(/^3072 sums on \w+, all as they should be$/)
    expect(lines.at(-1)).toContain(
      'out-of-range: atlas: an access past the end (lane 768, instruction 8: stg.f32 r7, [r4 + r1]), got byte 3072',
    )
  },
  'regression.js': (lines) => {
    const numbers = [...lines.at(-1)!.matchAll(/-?\d+\.\d+/g)].map(([text]) => Number(text))
    expect(numbers).toHaveLength(4)
    for (const [i, wanted] of [2, -1, 0.5, 3].entries()) expect(Math.abs(numbers[i]! - wanted)).toBeLessThan(0.02)
  },
  'moons.js': (lines) => {
    const share = Number(/([\d.]+) % of the points/.exec(lines.at(-1)!)![1])
    expect(share).toBeGreaterThan(97)
    const picture = lines.slice(-23, -1)
    expect(picture.every((line) => line.length === 64)).toBe(true)
    expect(picture.join('')).toMatch(/@.* .*@/)
  },
  'convolution.js': (lines) => {
    const edges = lines.slice(lines.indexOf('its edges:') + 1)
    expect(edges).toHaveLength(30)
    expect(edges[0]!.trim()).toBe('') // nothing changes there
    expect(edges[15]!.trim().replaceAll(/\S+/g, '|').split(/\s+/)).toHaveLength(4) // two sides of a disc, and two of a box
  },
  'finetune.js': (lines) => {
    const losses = lines.flatMap((line) => /: loss ([\d.]+)$/.exec(line)?.[1] ?? []).map(Number)
    expect(losses).toHaveLength(4)
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 2)
    const [before, after] = lines.slice(-2).map((line) => line.slice(8))
    expect(after).not.toBe(before)
  },
  'mandelbrot.js': (lines) => {
    expect(lines.at(-1)).toContain('drawn on cpu')
    expect(lines.slice(1, 16)).toEqual(lines.slice(17, 32).toReversed()) // the set is its own mirror image
  },
}

/** What some are given: the path of a model. */
const folder = mkdtempSync(join(tmpdir(), 'ingot-example-'))
const MODEL = join(folder, 'tiny.gguf')
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = { 'finetune.js': [MODEL] }
beforeAll(async () => writeFileSync(MODEL, await tinyBytes()))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('every example is tried', () => {
  expect(readdirSync(FOLDER).filter((name) => name.endsWith('.js'))).toEqual(Object.keys(PROMISES).toSorted())
})

describe.each(Object.entries(PROMISES))('%s', (name, holds) => {
  test('fits a page', () => {
    expect(readFileSync(join(FOLDER, name), 'utf8').trimEnd().split('\n').length).toBeLessThan(MOST_LINES)
  })

  test('does what it says', { timeout: 60_000 }, async ({ skip }) => {
    if (missing !== undefined) return skip(missing)
    const { stdout, stderr } = await run(process.execPath, [join(FOLDER, name), ...(ARGUMENTS[name] ?? [])], {
      env: { ...process.env, INGOT_DEVICE: 'cpu' },
    })
    expect(stderr).toBe('')
    holds(stdout.split('\n').slice(0, -1))
  })
})
