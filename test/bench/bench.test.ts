// `ingot bench` as a whole, on a tiny model; and what it refuses. Times are not looked at: only that there are some.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findPeer } from '../../src/bench/contenders.ts'
import type { Report } from '../../src/bench/report.ts'
import { isIngotError } from '../../src/base/error.ts'
import { ingot, useTinyFile } from '../cli/command-line.ts'

const files = useTinyFile()
const quick = (...more: string[]) => ingot('bench', files.model, '--quick', '--device', 'cpu', '--threads', '1', '--ctx', '20', ...more)

test('measures a model, prints everything, and keeps a history', async () => {
  const history = join(files.folder, 'history.jsonl')
  const { code, stdout, stderr } = await quick('--json', '--save', history, '--title', 'first')
  expect([code, stderr]).toEqual([0, ''])
  const report = JSON.parse(stdout) as Report
  expect(report.contenders).toMatchObject([{ name: 'ingot', device: 'cpu', settings: { decode: { threads: 1 } } }])
  expect(report.measures.map(({ name }) => name)).toEqual(expect.arrayContaining(['prefill 16', 'decode at 0', 'load', 'peak memory']))
  for (const { ours } of report.measures) expect(ours.every((value) => value > 0 && Number.isFinite(value))).toBe(true)
  expect(report.output.hash).toMatch(/^[0-9a-f]{12}$/)
  expect(JSON.parse(await readFile(history, 'utf8'))).toMatchObject({ title: 'first', model: { path: 'tiny.gguf' } })

  const again = await quick('--save', history)
  expect(again.code).toBe(0)
  expect(again.stdout).toContain(report.output.hash) // the same seed gives the same tokens
  const shown = await ingot('bench', '--history', history)
  expect(shown.stdout).toMatch(/before: .*, first\nafter: /)
})

test('measures sequences at once', async () => {
  const { code, stdout } = await quick('--ctx', '200', '--parallel', '1,3', '--json')
  const { measures } = JSON.parse(stdout) as Report
  expect([code, measures.map(({ name }) => name)]).toEqual([
    0,
    ['1', '3'].flatMap((count) => ['', ', after all began', ', last to begin'].map((what) => `${count} at once${what}`)),
  ])
  for (const { ours } of measures) expect(ours.every((value) => value > 0 && Number.isFinite(value))).toBe(true)
})

test.each([
  ['no model', ['bench'], 'no model given'],
  ['no such file', ['bench', 'nowhere.gguf'], 'no such file'],
  ['an unknown flag', ['bench', '--fast'], 'unknown option'],
  ['a bad number', ['bench', 'x', '--threads', '0'], 'whole number from 1'],
  ['an unknown device', ['bench', 'x', '--device', 'abacus'], 'one of auto'],
  ['a title without a file', ['bench', 'x', '--title', 'y'], '--save'],
  ['a model and a history', ['bench', 'x', '--history', 'y'], 'measures no model'],
  ['a history that is not there', ['bench', '--history', 'nowhere.jsonl'], 'no such file'],
])('refuses %s', async (_, args, words) => {
  const { code, stdout, stderr } = await ingot(...args)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain(words)
  expect(stderr.trim().split('\n')).toHaveLength(1)
})

test('names the peers it knows', async () => {
  const { code, stderr } = await quick('--against', 'nobody')
  expect(code).toBe(2)
  expect(stderr).toContain('one of node-llama-cpp')
})

test('says how to install a peer that is missing', async () => {
  const missing = catchError(() => findPeer('node-llama-cpp'))
  if (missing === undefined) return // it is installed here
  expect(isIngotError(missing, 'bad-argument')).toBe(true)
  const { code, stderr } = await quick('--against', 'node-llama-cpp')
  expect(code).toBe(2)
  expect(stderr).toContain('npm --prefix bench/peers ci --ignore-scripts')
})

function catchError(work: () => unknown): unknown {
  try {
    work()
    return undefined
  } catch (error) {
    return error
  }
}
