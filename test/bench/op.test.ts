// `ingot bench --ops`: what Ingot computes is what the lines say, samples are taken in turns, and a peer that computes something else is
// found out. Times are not looked at: only that there are some.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HandlersOf, RunningContender } from '../../src/bench/contender.ts'
import { readEntries, saveReport, showHistory } from '../../src/bench/history.ts'
import { type OpContender, OP_PEERS, findOpPeer } from '../../src/bench/op/contenders.ts'
import { prepareOperation } from '../../src/bench/op/ingot-operation.ts'
import { createOpServer, startOpsInProcess } from '../../src/bench/op/ingot-server.ts'
import { QUICK_OPS, measureLine } from '../../src/bench/op/measure.ts'
import type { OpProtocol } from '../../src/bench/op/protocol.ts'
import { type OpMeasure, type OpReport, opsToJson, showOpReport } from '../../src/bench/op/report.ts'
import { runOpBench } from '../../src/bench/op/run.ts'
import { OP_LINES, OP_SIZES, type OpLine, type OpName } from '../../src/bench/op/workload.ts'
import { open } from '../../src/device/open/open.ts'
import { compile } from '../../src/tensor/compile.ts'
import { ingot } from '../cli/command-line.ts'
import { defineOperation } from './op-definition.ts'

const EFFORT = { ...QUICK_OPS, sampleMs: 0 }

interface Fake {
  readonly ways: Readonly<Record<string, number>>
  readonly values?: readonly number[]
}

/** A contender whose ways take set times, in microseconds, and which writes down what it was asked. */
function fakeContender(name: string, log: string[], { ways, values = [1, 2] }: Fake): RunningContender<OpProtocol> {
  const handlers: HandlersOf<OpProtocol> = {
    open: async () => ({ info: { name, version: '1', device: 'cpu', detail: 'fake', gpu: false } }),
    prepare: async () => ({ ways: Object.keys(ways), values }),
    sample: async ({ way, repeats }) => {
      log.push(name)
      return { ms: ((ways[way] ?? NaN) * repeats) / 1000 }
    },
    limits: async () => ({ read: 1e9, peak: 1e10 }),
    ran: async () => ({ detail: 'fake' }),
  }
  return { name, idle: { cpuMs: 0, ms: 0 }, cpuMs: 0, ask: (kind, request) => handlers[kind](request), close: async () => {} }
}

const line = (more: Partial<OpLine> = {}): OpLine => ({
  name: 'add 10',
  work: { op: 'add', sizes: [10] },
  bytes: 120,
  operations: 10,
  count: 1,
  quick: true,
  ...more,
})

describe('a line', () => {
  test('is sampled in turns, each contender by its fastest way', async () => {
    const log: string[] = []
    const contenders = [
      fakeContender('A', log, { ways: { eager: 30, compiled: 10 } }),
      fakeContender('B', log, { ways: { eager: 20, other: 40 } }),
      fakeContender('C', log, { ways: {} }),
    ]
    const { contenders: found, ofReads, ofPeak } = await measureLine(contenders, line(), EFFORT)
    expect(log.slice(-6).join('')).toBe('ABABAB')
    expect(found.map((each) => each?.way)).toEqual(['compiled', 'eager', undefined])
    expect(found.map((each) => each?.us.map(Math.round))).toEqual([[10, 10, 10], [20, 20, 20], undefined])
    expect(ofReads).toBeCloseTo(120 / 10e-6 / 1e9)
    expect(ofPeak).toBeCloseTo(10 / 10e-6 / 1e10)
  })

  test('that is to be eager takes no plan; one that is to be planned takes one where there is one', async () => {
    const contenders = [
      fakeContender('A', [], { ways: { eager: 30, compiled: 50 } }),
      fakeContender('B', [], { ways: { 'compiled, into': 1 } }),
    ]
    const waysOf = async (way: 'eager' | 'compiled'): Promise<unknown[]> =>
      (await measureLine(contenders, line({ way }), EFFORT)).contenders.map((each) => each?.way)
    expect(await waysOf('eager')).toEqual(['eager', undefined])
    expect(await waysOf('compiled')).toEqual(['compiled', 'compiled, into'])
  })

  test('of several operations shows the time of one, and short work is repeated', async () => {
    const log: string[] = []
    const { contenders } = await measureLine([fakeContender('A', log, { ways: { eager: 500 } })], line({ count: 100 }), EFFORT)
    expect(contenders[0]?.us[0]).toBeCloseTo(5)
    const asked: number[] = []
    const slow = fakeContender('A', log, { ways: { eager: 500 } })
    const noting: typeof slow = {
      ...slow,
      ask: (kind, request) => {
        if ('repeats' in request) asked.push(request.repeats)
        return slow.ask(kind, request)
      },
    }
    await measureLine([noting], line(), { ...EFFORT, sampleMs: 10 })
    expect(asked.at(-1)).toBe(20)
  })

  test('is refused where a peer computes something else', async () => {
    const ways = { eager: 1 }
    const measure = (values: readonly number[]) =>
      measureLine([fakeContender('A', [], { ways }), fakeContender('B', [], { ways, values })], line(), EFFORT)
    await expect(measure([1, 2.1])).rejects.toMatchObject({ code: 'wrong-result' })
    await expect(measure([1])).rejects.toMatchObject({ code: 'wrong-result' })
    await expect(measure([1, 2.0001])).resolves.toBeDefined()
  })
})

/** Sizes that are soon computed, by what they mean. */
const SMALL: Readonly<Record<string, number>> = { elements: 33, side: 9, rows: 5, columns: 12, rank: 2, count: 4 }

describe('Ingot', () => {
  const { handlers, close } = createOpServer()
  beforeAll(async () => void (await handlers.open({ device: 'cpu', threads: 1 })))
  afterAll(close)

  test.each(Object.keys(OP_SIZES) as OpName[])('computes %s as defined, in every way', async (op) => {
    const work = { op, sizes: OP_SIZES[op].map((size) => SMALL[size] ?? 1) }
    const { ways, values } = await handlers.prepare({ work })
    const expected = defineOperation(work)
    const shown = values.map((_, i) => expected[Math.floor((i * expected.length) / values.length)] ?? NaN)
    values.forEach((value, i) => expect(value).toBeCloseTo(shown[i] ?? NaN, 4))
    expect(ways).toEqual(['eager', 'scope', 'compiled'])
    for (const way of ways) expect((await handlers.sample({ way, repeats: 2 })).ms).toBeGreaterThan(0)
  })

  test('finds the limits of its device', async () => {
    const { read, peak } = await handlers.limits({})
    expect([read, peak].every((value) => value > 1e6 && Number.isFinite(value))).toBe(true)
  })
})

test('what is meant as many operations is as many dispatches', async () => {
  await using device = (await open('cpu', { threads: 1 })).device
  const { inputs, apply } = prepareOperation({ op: 'rowChain', sizes: [64, 10] }, device)
  using planned = compile(apply)
  await planned(...inputs)
  const before = device.stats.dispatches
  await planned(...inputs)
  expect(device.stats.dispatches - before).toBe(10)
  expect(OP_LINES.find(({ name }) => name === 'compiled 1000 x 64')).toMatchObject({
    work: { op: 'rowChain', sizes: [64, 1000] },
    count: 1000,
  })
})

describe('a whole bench', () => {
  let folder = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ingot-ops-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test('of Ingot and a peer gives a report, a table and a history', async () => {
    const expected = defineOperation(line().work)
    const peer: OpContender = { name: 'peer', start: () => fakeContender('peer', [], { ways: { eager: 1e5 }, values: expected }) }
    const ours: OpContender = { name: 'ingot', start: startOpsInProcess }
    const lines = [line(), line({ name: 'left out', quick: false })]
    const report = await runOpBench([ours, peer], { effort: EFFORT, device: 'cpu', threads: 1, lines })
    expect(report.contenders.map(({ name, device }) => [name, device])).toEqual([
      ['ingot', 'cpu'],
      ['peer', 'cpu'],
    ])
    expect(report.measures.map(({ name, ours: us, peers }) => [name, us.length, peers[0]?.us.length])).toEqual([['add 10', 3, 3]])
    const text = showOpReport(report)
    expect(text).toMatch(/^ingot \S+ on cpu \(.*1 thread\)$/m)
    expect(text).toMatch(/^the device reads .* GB\/s, and does .* G f32 ops\/s$/m)
    expect(text).toMatch(/^add 10 .* us .*(eager|scope|compiled) .* 100 ms /m)

    const file = join(folder, 'history.jsonl')
    await saveReport(file, report, { title: 'first' })
    await saveReport(file, report, { title: 'second' })
    const shown = showHistory(await readEntries(file))
    expect(shown).toContain('operations on cpu (')
    expect(shown).toMatch(/before: .*first\nafter: .*second/)
    expect(shown).toMatch(/^add 10 .* of the speed of peer$/m)
  })
})

const measure = (name: string, ours: number, peers: Record<string, number>): OpMeasure => ({
  name,
  unit: 'us',
  bytes: 12_000,
  operations: 0,
  count: 1,
  ours: [ours, ours, ours],
  way: 'eager',
  ofReads: 0.5,
  ofPeak: 0,
  peers: Object.entries(peers).map(([peer, us]) => ({ name: peer, way: 'eager', us: [us, us, us] })),
})

test('a report says on which lines Ingot is behind, and whom', () => {
  const info = { version: '1', device: 'cpu', detail: 'x', ran: 'x', gpu: false, idle: { cpuMs: 0, ms: 0 } }
  const report: OpReport = {
    kind: 'ops',
    date: '2030-01-02T03:04:05.000Z',
    machine: { cpu: 'Some CPU', cores: 2, memoryBytes: 1e9, system: 'linux x64', node: '20.0.0' },
    busy: 0,
    contenders: ['ingot', 'one', 'two'].map((name) => ({ name, ...info })),
    measures: [measure('add', 10, { one: 20, two: 40 }), measure('mul', 10, { one: 40, two: 5 }), measure('relu', 2000, { one: 4000 })],
    limits: [{ read: 2e9, peak: 2e10 }],
  }
  const text = showOpReport(report)
  expect(text).toContain('ahead of all of them on 2 of 3 lines\nbehind two: mul, 0.50\n')
  expect(text).toMatch(/^add +10\.0 us ±0 % +eager +1\.20 +50 % +20\.0 us ±0 % +2\.00 +40\.0 us ±0 % +4\.00$/m)
  expect(text).toMatch(/^relu +2\.00 ms .* 4\.00 ms ±0 % +2\.00 +-$/m)
  const json = opsToJson(report) as { measures: { median: number; peers: { ratio: number; verdict: string }[] }[] }
  expect(json.measures[0]).toMatchObject({ median: 10, peers: [{ ratio: 2, verdict: 'better' }, { ratio: 4 }] })
})

test.each([
  ['a model', ['bench', 'x.gguf', '--ops'], 'no model'],
  ['an unknown peer', ['bench', '--ops', '--against', 'tfjs,nobody'], `some of ${OP_PEERS.join(', ')}`],
  ['an operation that is none', ['bench', '--ops', '--only', 'divide'], 'no operation has divide in its name'],
  ['a choice of operations for a model', ['bench', 'package.json', '--only', 'add'], 'use it with --ops'],
  ['an unknown device', ['bench', '--ops', '--device', 'cpu,abacus'], 'one of auto'],
  ['several devices for a model', ['bench', 'package.json', '--device', 'cpu,webgpu'], 'one device'],
])('refuses %s', async (_, args, words) => {
  const { code, stdout, stderr } = await ingot(...args)
  expect([code, stdout]).toEqual([2, ''])
  if (!stderr.includes('is not installed')) expect(stderr).toContain(words)
  expect(stderr.trim().split('\n')).toHaveLength(1)
})

test('says how to install a peer that is missing', () => {
  for (const name of OP_PEERS) {
    try {
      findOpPeer(name)
    } catch (error) {
      expect(String(error)).toContain('npm --prefix bench/peers/ops ci --ignore-scripts')
    }
  }
})
