// Contenders as processes: requests and replies, errors, a process that dies; and how samples are taken in turns.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { timeOutput } from '../../src/bench/cold-start.ts'
import { findBestSettings, sampleInTurns } from '../../src/bench/measure.ts'
import { type Handlers, type RunningContender, type Settings, startChild } from '../../src/bench/contender.ts'
import { FULL, type Workload, selectWorkloads, promptFor, randomTokens } from '../../src/bench/workload.ts'

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ingot-bench-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** A contender that does with a message what `body` says. */
async function scriptContender(body: string): Promise<RunningContender> {
  const path = join(folder, `${body.length}.mjs`)
  const send = 'const send = (outcome, id) => process.send({ ...outcome, id, idle: { cpuMs: 1, ms: 10 }, cpuMs: 5 })'
  await writeFile(
    path,
    `${send}\nprocess.on('message', ({ kind, id, tokens }) => { ${body} })\nprocess.on('disconnect', () => process.exit())\n`,
  )
  return startChild('script', path)
}

describe('a child', () => {
  test('replies, counts its time, and ends', async () => {
    const contender = await scriptContender("send({ reply: kind === 'peak' ? { bytes: 7 } : { ms: tokens.length } }, id)")
    expect(await contender.ask('prefill', { tokens: [1, 2, 3] })).toMatchObject({ ms: 3 })
    expect(await contender.ask('peak', {})).toMatchObject({ bytes: 7 })
    expect([contender.idle, contender.cpuMs]).toEqual([{ cpuMs: 1, ms: 10 }, 5])
    await contender.close()
  })

  test('fails with what it says', async () => {
    const contender = await scriptContender("send({ error: 'cannot do ' + kind }, id)")
    await expect(contender.ask('peak', {})).rejects.toThrow('script: cannot do peak')
    await contender.close()
  })

  test('that dies fails what waits for it, with its last words', async () => {
    const contender = await scriptContender("process.stderr.write('oh no\\n', () => process.exit(3))")
    await expect(contender.ask('peak', {})).rejects.toMatchObject({
      code: 'device-lost',
      message: 'script: the process ended (3), got oh no',
    })
    await contender.close()
  })
})

/** A contender that takes a set time per token and writes down what it was asked. */
function fakeContender(name: string, log: string[], msPerToken: (settings: Settings) => number): RunningContender {
  let settings: Settings = {}
  const info = { name, version: '1', device: 'none', detail: '', gpu: false }
  const handlers: Handlers = {
    open: async (request) => {
      settings = request.settings
      return { ms: 1, info }
    },
    prefill: async ({ tokens }) => {
      log.push(name)
      return { ms: tokens.length * msPerToken(settings) }
    },
    decode: async ({ count }) => {
      log.push(name)
      return { ms: count * msPerToken(settings), tokens: Array.from({ length: count }, (_, i) => i) }
    },
    /** the sequences one token each in turns, the first after as long as a prompt takes */
    parallel: async ({ prompts, count }) => {
      const each = prompts.length * msPerToken(settings)
      const times = prompts.map((_, i) => Array.from({ length: count }, (_, n) => (n + 1) * each + i))
      return { ms: (count + 1) * each, times }
    },
    peak: async () => ({ bytes: 1 }),
  }
  return { name, idle: { cpuMs: 0, ms: 0 }, cpuMs: 0, ask: (kind, request) => handlers[kind](request), close: async () => {} }
}

const WORK: Workload = { kind: 'prefill', tokens: 10 }
const SOURCE = { vocabulary: 100, seed: 1 }

test('samples are taken in turns, after two unmeasured runs of each contender', async () => {
  const log: string[] = []
  const contenders = [fakeContender('A', log, () => 1), fakeContender('B', log, () => 2)]
  const samples = await sampleInTurns(contenders, WORK, { samples: 3, sampleMs: 0, workloadMs: 1000 }, SOURCE)
  expect(log.join('')).toBe('AABBABABAB')
  expect(samples.map((each) => each.map(({ tokensPerSecond }) => tokensPerSecond))).toEqual([
    [1000, 1000, 1000],
    [500, 500, 500],
  ])
})

test('sequences at once: all of it, and how fast they go on when all have begun', async () => {
  const work: Workload = { kind: 'parallel', sequences: 4, tokens: 10, count: 5 }
  const [[sample] = []] = await sampleInTurns(
    [fakeContender('A', [], () => 10)],
    work,
    { samples: 1, sampleMs: 0, workloadMs: 1000 },
    SOURCE,
  )
  expect(sample?.tokensPerSecond).toBeCloseTo((4 * 5 * 1000) / 240)
  expect(sample?.lastBegun).toBe(43) // the fourth begins 3 ms after the first
  expect(sample?.together).toBeCloseTo((4 * 4 * 1000) / (203 - 43))
})

test('short work is repeated within a sample', async () => {
  const log: string[] = []
  await sampleInTurns([fakeContender('A', log, () => 1)], WORK, { samples: 2, sampleMs: 25, workloadMs: 1000 }, SOURCE)
  expect(log).toHaveLength(2 + 2 * 3)
})

test('the fastest settings are found', async () => {
  const contender = fakeContender('A', [], ({ threads = 0 }) => Math.abs(threads - 3) + 1)
  const candidates = [1, 2, 3, 8].map((threads) => ({ threads }))
  expect(await findBestSettings(contender, candidates, [WORK], { path: '', context: 1 }, SOURCE)).toEqual({ threads: 3 })
  expect(await findBestSettings(contender, candidates.slice(0, 1), [WORK], { path: '', context: 1 }, SOURCE)).toEqual({ threads: 1 })
})

test('workloads are those that fit', () => {
  const { fits, misses } = selectWorkloads(FULL, 256)
  expect(fits.map((work) => (work.kind === 'decode' ? work.context : work.tokens))).toEqual([16, 128, 0])
  expect(misses).toHaveLength(3)
  expect(selectWorkloads(FULL, 2048).misses).toEqual([])
})

test('prompts come from the seed, and a longer one begins like a shorter one', () => {
  expect(randomTokens(20, 50, 1)).toEqual(randomTokens(40, 50, 1).slice(0, 20))
  expect(randomTokens(20, 50, 1)).not.toEqual(randomTokens(20, 50, 2))
  expect(randomTokens(500, 7, 3).every((token) => Number.isInteger(token) && token >= 0 && token < 7)).toBe(true)
  expect(promptFor({ kind: 'decode', context: 0, count: 4 }, 50, 1)).toHaveLength(1)
})

test('a program is timed until it prints, and has to succeed', async () => {
  expect(await timeOutput('node', process.execPath, ['-e', 'console.log(1)'])).toBeGreaterThan(0)
  await expect(timeOutput('node', process.execPath, ['-e', ''])).rejects.toThrow('no token came')
  await expect(timeOutput('node', process.execPath, ['-e', 'console.error("why"); process.exit(1)'])).rejects.toThrow('why')
})
