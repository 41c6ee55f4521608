// What a report says: words for differences, warnings, and the history.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readEntries, saveReport, showHistory } from '../../src/bench/history.ts'
import { type Report, compareSamples, showReport, toJson } from '../../src/bench/report.ts'

const report = (ours: readonly number[], more: Partial<Report> = {}): Report => ({
  date: '2030-01-02T03:04:05.000Z',
  seed: 1,
  context: 64,
  busy: 0,
  leftOut: ['prefill 512'],
  machine: { cpu: 'Some CPU', cores: 2, memoryBytes: 1e9, system: 'linux x64', node: '20.0.0' },
  model: { path: '/some/where/tiny.gguf', name: 'tiny', bytes: 1e6, trainedContext: 256 },
  contenders: ['ingot', 'other'].map((name) => ({
    name,
    version: '1.0.0',
    device: 'cpu',
    detail: 'x',
    gpu: false,
    settings: { prefill: { threads: 2 } },
    idle: { cpuMs: 0, ms: 5000 },
  })),
  measures: [
    { name: 'prefill 16', unit: 'tok/s', ours, peer: [99, 100, 101] },
    { name: 'load', unit: 'ms', ours: [50, 51, 49], peer: [100, 101, 99] },
    { name: 'peak memory', unit: 'bytes', ours: [2e8], peer: [1e8] },
  ],
  output: { hash: 'abc', agree: 3, of: 8 },
  ...more,
})

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ingot-bench-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const line = (text: string, start: string): string => text.split('\n').find((each) => each.startsWith(start)) ?? ''

test('a table has medians, ratios and words', () => {
  const text = showReport(report([149, 150, 151]))
  expect(line(text, 'prefill 16')).toMatch(/150 tok\/s ±1 % +100 tok\/s ±1 % +1\.50 +faster$/)
  expect(line(text, 'load')).toMatch(/0\.50 +faster$/)
  expect(line(text, 'peak memory')).toMatch(/2\.00 +too few samples to tell$/)
  expect(text).toContain('the first 3 of 8 tokens are the same')
  expect(text).toContain('left out, because the context of the model is 256: prefill 512')
  expect(text).not.toContain('warning')
  expect(line(showReport(report([100, 101, 102])), 'prefill 16')).toMatch(/same within noise$/)
})

test('nothing is faster on a busy machine', () => {
  const text = showReport(report([149, 150, 151], { busy: 0.4 }))
  expect(text).toContain('warning: other programs used 40 % of the machine')
  expect(text).not.toContain('faster')
  expect(compareSamples('ms', [1, 1, 1], [9, 9, 9], 0.4).verdict).toBe('machine busy')
})

test('a contender that works while it should wait is warned of', () => {
  const contenders = report([1]).contenders.map((each) => ({ ...each, idle: { cpuMs: 2500, ms: 5000 } }))
  expect(showReport(report([1, 1, 1], { contenders }))).toContain('warning: other used 50 % of a core while it waited')
})

test('JSON has the samples, and no number that JSON cannot say', () => {
  const { measures } = JSON.parse(JSON.stringify(toJson(report([149, 150, 151])))) as { measures: Record<string, unknown>[] }
  expect(measures[0]).toMatchObject({ ours: [149, 150, 151], median: { ours: 150, peer: 100 }, ratio: 1.5, verdict: 'better' })
  expect(measures[2]?.['noise']).toBe(null)
})

test('a history shows before and after, of the same model and machine', async () => {
  const file = join(folder, 'history.jsonl')
  await saveReport(file, report([99, 100, 101]), { title: 'old' })
  await saveReport(file, report([199, 200, 201]), { title: 'new', comment: 'twice' })
  await saveReport(file, report([1, 1, 1], { model: { path: 'other.gguf', name: 'x', bytes: 5, trainedContext: 1 } }), {})
  const entries = await readEntries(file)
  expect(entries.map((entry) => [entry.title, 'model' in entry && entry.model.path])).toEqual([
    ['old', 'tiny.gguf'],
    ['new', 'tiny.gguf'],
    [undefined, 'other.gguf'],
  ])
  const text = showHistory(entries)
  expect(text).toContain('before: 2030-01-02 03:04, old\nafter: 2030-01-02 03:04, new, twice')
  expect(line(text, 'prefill 16')).toMatch(/100 tok\/s.* 200 tok\/s.* 2\.00 +better; 2\.00 of the peer's$/)
  expect(text).toContain('other.gguf on cpu: 1 bench;')
})

test('a history saved under older names of fields is read', async () => {
  const file = join(folder, 'old.jsonl')
  const { contenders: sides, leftOut: left, ...rest } = report([99, 100, 101])
  await writeFile(file, `${JSON.stringify({ ...rest, sides, left })}\n`)
  await saveReport(file, report([199, 200, 201]), { title: 'new' })
  const entries = await readEntries(file)
  expect(entries[0]).toEqual(report([99, 100, 101]))
  const sameModel = entries.map((entry) => ({ ...entry, model: report([1]).model }))
  expect(line(showHistory(sameModel), 'prefill 16')).toMatch(/2\.00 +better/)
})

test.each([
  ['no JSON', 'nonsense\n'],
  ['other JSON', '{"a":1}\n'],
  ['null', 'null\n'],
])('a history with %s is refused, with the line', async (_, text) => {
  const file = join(folder, 'bad.jsonl')
  await writeFile(file, `\n${text}`)
  await expect(readEntries(file)).rejects.toMatchObject({ code: 'bad-file', facts: { got: `${file}:2` } })
})
