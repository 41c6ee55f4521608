// `ingot train`: what it shows in a pipe and in a terminal, what it writes, Ctrl-C and going on, a disk that is full.

import { execFile } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { createDisplay, showSeconds } from '../../src/cli/train/display.ts'
import { drawPlot, drawSvg } from '../../src/cli/train/plot.ts'
import type { StepEvent } from '../../src/train/event.ts'
import { readAdapterGguf } from '../../src/llm/adapter/gguf.ts'
import { BIN, finish, ingot, notBuilt, spawnIngot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
const at = (name: string): string => join(files.folder, name)
let data: string
const SHORT = ['--steps', '3', '--ctx', '16', '--rank', '2', '--targets', 'attn_q,attn_v', '--batch', '2', '-d', 'cpu']

beforeAll(() => {
  data = at('data.jsonl')
  writeFileSync(data, `${['abcd ab', 'dd ca ab', 'cab dab', 'aaaa bc'].map((text) => JSON.stringify({ text })).join('\n')}\n{oops\n`)
})

describe('in a pipe', () => {
  test('plain lines, an adapter, a log and a plot', async () => {
    const [out, log, plot] = [at('a.gguf'), at('run.jsonl'), at('run.svg')]
    const { code, stdout, stderr } = await ingot('train', files.model, data, '-o', out, ...SHORT, '--log', log, '--plot', plot, '--validation', '1') // prettier-ignore
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).not.toContain('\x1b')
    expect(stdout).toMatch(
      /^data: 4 records, \d+ tokens, \d+ of them learnt\ndata: left out: no JSON: .* \(1 record at .*data\.jsonl:5\)\n/,
    )
    expect(stdout).toMatch(/training LoRA of rank 2 on cpu: \d+ parameters, [\d.]+ [kM]B; 3 sequences, 1 for validation; 3 steps \(/)
    expect(stdout).toMatch(/\nmemory: [\d.]+ [kM]B expected at most \(weights [\d.]+ [kM]B, what learns .*\)\nstep 1\/3/)
    expect(stdout).toMatch(/step 1\/3 {2}epoch [\d.]+ {2}loss [\d.]+ {2}rate [\d.e-]+ {2}\d+ tok\/s {2}\d+ s left {2}[\d.]+ [kM]B\n/)
    expect(stdout).toMatch(/3 steps in \d+ s, loss [\d.]+, validation [\d.]+ \(best [\d.]+\); wrote .*a\.gguf\n$/)
    const kinds = readFileSync(log, 'utf8').trim().split('\n').map((line) => (JSON.parse(line) as { kind: string }).kind) // prettier-ignore
    expect(kinds.filter((kind) => kind === 'step')).toHaveLength(3)
    expect([kinds[0], kinds[1], kinds.at(-1)]).toEqual(['data', 'start', 'end'])
    const drawn = readFileSync(plot, 'utf8')
    expect(drawn).toMatch(/^<svg [^]*<polyline[^]*<\/svg>\n$/)
    expect(drawn).toContain(`>${basename(files.model)}<`) // not where it lies: plots are shown to others
    expect((await readAdapterGguf(out)).alpha).toBe(4)
  })

  test('--new begins with a vocabulary of the data, and leaves a model that runs', async () => {
    const [texts, out] = [at('tale.txt'), at('new.gguf')]
    writeFileSync(texts, 'The cat sat on the mat. The dog sat on the log.\n'.repeat(40))
    const shape = ['--new', 'dim=32,layers=1,heads=2,hidden=64,context=32', '--vocab', '300']
    const { code, stdout, stderr } = await ingot('train', texts, ...shape, '-o', out, '--steps', '12', '--batch', '2', '-d', 'cpu')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^new: [\d.]+ ?k? parameters, a vocabulary of \d+ tokens\n/)
    const losses = [...stdout.matchAll(/ {2}loss ([\d.]+)/g)].map(([, loss]) => Number(loss))
    expect(losses.at(-1)).toBeLessThan((losses[0] ?? 0) - 0.5)
    expect(existsSync(`${out}.new`)).toBe(false)
    const written = await ingot('run', out, '-p', 'The cat', '-n', '4', '-d', 'cpu', '--temp', '0')
    expect({ code: written.code, isEmpty: written.stdout.trim() === '' }).toEqual({ code: 0, isEmpty: false })
    expect((await ingot('train', texts, '--vocab', '300', '-o', at('y.gguf'))).stderr).toContain('use it with --new')
  })

  test('--dry-run says what it takes and writes nothing', async () => {
    const before = readdirSync(files.folder)
    const { code, stdout, stderr } = await ingot('train', files.model, data, ...SHORT, '--dry-run')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /run: 4 sequences; 3 steps in [\d.]+ epochs; \d+ tokens\nsize: \d+ parameters learn on cpu\nmemory: [\d.]+ [kM]B expected at most \(weights .*\)\ntime: \d+ s, \d+ ms for a step/,
    )
    expect(readdirSync(files.folder)).toEqual(before)
    const json = await ingot('train', files.model, data, ...SHORT, '--dry-run', '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({ steps: 3, data: { records: 4 }, settings: { lora: { rank: 2 } } })
  })

  test('refuses in one line, before any work', async () => {
    writeFileSync(at('there.gguf'), 'x')
    for (const [args, said] of [
      [[files.model], 'no data given'],
      [[files.model, data], 'no place for the result'],
      [[files.model, at('none.jsonl'), '-o', at('x.gguf')], 'no such file'],
      [[at('none.gguf'), data, '-o', at('x.gguf')], 'no such file'],
      [[files.model, data, '-o', at('there.gguf')], 'exists; --force replaces it'],
      [[files.model, data, '-o', at('x.gguf'), '--rank', '0'], 'a whole number from 1'],
      [[files.model, data, '-o', at('x.gguf'), '--targets', 'attn_x'], 'attn_q, attn_k'],
      [[files.model, data, '-o', at('x.gguf'), '--steps', '2', '--epochs', '2'], 'both epochs and steps'],
      [[files.model, data, '-o', at('x.gguf'), '--full', '--rank', '2'], 'cannot be trained together'],
      [[files.model, data, '-o', at('x.gguf'), '--resume', files.model], 'safetensors'],
      [[files.model, data, '-o', at('x.gguf'), '--strict'], 'data.jsonl:5: no JSON'],
    ] as const) {
      const { code, stdout, stderr } = await ingot('train', ...args, '-d', 'cpu')
      expect({ args, ok: code !== 0, stdout: stdout.replace(/^data: .*\n/gm, '') }).toEqual({ args, ok: true, stdout: '' })
      expect(stderr).toMatch(/^ingot: .+\n$/)
      expect(stderr).toContain(said)
    }
    expect(readFileSync(at('there.gguf'), 'utf8')).toBe('x')
  })

  test('--full writes a model that runs', async () => {
    const { code } = await ingot('train', files.model, data, '-o', at('full.gguf'), '--full', '--type', 'q8_0', '--steps', '2', '--ctx', '16', '-d', 'cpu', '--json') // prettier-ignore
    expect(code).toBe(0)
    expect((await ingot('run', at('full.gguf'), '-p', 'ab', '-n', '3', '-d', 'cpu', '--ctx', '16')).code).toBe(0)
  })
})

describe.skipIf(notBuilt !== undefined)('as a process', () => {
  test('Ctrl-C writes a checkpoint and says how to go on; that gives what a run without it gives', { timeout: 60_000 }, async () => {
    const long = [
      '--steps',
      '25',
      '--ctx',
      '16',
      '--rank',
      '2',
      '--targets',
      'attn_q,attn_v',
      '--batch',
      '2',
      '-d',
      'cpu',
      '--threads',
      '1',
    ]
    const [out, straight] = [at('stopped.gguf'), at('straight.gguf')]
    const child = spawnIngot('train', files.model, data, '-o', out, ...long)
    child.stdout.on('data', (part: Buffer) => {
      if (part.includes('step 3/')) child.kill('SIGINT')
    })
    const { code, stdout } = await finish(child)
    expect(code).toBe(130)
    expect(existsSync(out)).toBe(false)
    const command = /^to go on: ingot (train .*)$/m.exec(stdout)?.[1]
    expect(command).toContain(`--resume ${out}.checkpoint`)
    const rest = await ingot(...command!.split(' '), '-d', 'cpu', '--threads', '1')
    expect(rest.stdout).toMatch(/from step \d+ on/)
    await ingot('train', files.model, data, '-o', straight, ...long)
    expect(readFileSync(out)).toEqual(readFileSync(straight))
    expect(readdirSync(files.folder).filter((name) => name.endsWith('.part'))).toEqual([])
  })

  test('a disk that is full loses neither the old checkpoint nor the run', { timeout: 60_000 }, async () => {
    const checkpoint = at('old.checkpoint')
    writeFileSync(checkpoint, 'what was there')
    // 4 blocks of 1024 bytes are the most that a file may have: too few for checkpoint and adapter.
    const args = ['train', files.model, data, '-o', at('full-disk.gguf'), ...SHORT, '--checkpoint', checkpoint, '--checkpoint-every', '1']
    const script = `ulimit -f 4; exec "$0" "$@"`
    const { code, stderr } = await promisify(execFile)('bash', ['-c', script, process.execPath, BIN, ...args]).then(
      ({ stderr: said }) => ({ code: 0, stderr: said }),
      (error: { code: number; stderr: string }) => error,
    )
    expect(code).toBe(1)
    expect(stderr).toMatch(/no checkpoint after step 1: .*(EFBIG|file too large)/i)
    expect(stderr).toMatch(/cannot write .*full-disk\.gguf/)
    expect(readFileSync(checkpoint, 'utf8')).toBe('what was there')
    expect(existsSync(at('full-disk.gguf'))).toBe(false)
    expect(readdirSync(files.folder).filter((name) => name.endsWith('.part'))).toEqual([])
  })
})

const ESCAPE = '\x1b'

describe('in a terminal', () => {
  const step = (number: number, loss: number): StepEvent => ({ kind: 'step', step: number, steps: 40, epoch: number / 20, loss, smooth: loss, rate: 1e-4, norm: 1, tokens: 10, tokensPerSecond: 100, ms: 100, memory: 5e6 }) // prettier-ignore

  test('a plot over one line, drawn again in place', async () => {
    const written: string[] = []
    const display = createDisplay({ isTTY: true, columns: 60, write: (text) => written.push(text) > 0 })
    for (let i = 1; i <= 40; i++) {
      display.show(step(i, 4 / i))
      if (i === 20) display.show({ kind: 'validation', step: 20, loss: 1.5, isBest: true })
      await new Promise((resolve) => setTimeout(resolve, i === 1 || i === 39 ? 120 : 0))
    }
    const last = written.at(-1)!
    expect(last).toMatch(new RegExp(`^${ESCAPE}\\[\\d+A\\r`))
    const lines = last.replace(new RegExp(`${ESCAPE}\\[\\d*[A-Z]|\\r`, 'g'), '').trimEnd().split('\n') // prettier-ignore
    expect(lines).toHaveLength(7)
    expect(lines[0]).toMatch(/^ *4\.00 ┤ [\u2800-\u28ff]+$/)
    expect(lines.at(-1)).toContain('val 1.5000')
    expect(lines.every((line) => line.replace(new RegExp(`${ESCAPE}\\[\\d+m`, 'g'), '').length < 60)).toBe(true)
    expect(written.length).toBeLessThan(10)
  })
  test('a curve that falls begins above and ends below', () => {
    const lines = drawPlot(Array.from({ length: 50 }, (_, i) => ({ step: i, loss: 50 - i })), 40, 5) // prettier-ignore
    const [first, last] = [lines[0]!.slice(7), lines.at(-1)!.slice(7)]
    expect(first[0]).not.toBe('\u2800')
    expect([first.at(-1), last[0]]).toEqual(['\u2800', '\u2800'])
    expect(last.at(-1)).not.toBe('\u2800')
    expect(drawPlot([{ step: 1, loss: 1 }], 40, 5)).toEqual([])
  })
  test('names in a plot are text, and durations are short', () => {
    expect(drawSvg({ losses: [], smooth: [], validation: [] }, '<a&b>')).toContain('&#60;a&#38;b&#62;')
    expect([0.2, 59.5, 130, 11_100].map(showSeconds)).toEqual(['1 s', '1 min 0 s', '2 min 10 s', '3 h 5 min'])
  })
})
