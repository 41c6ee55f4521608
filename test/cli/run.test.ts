// `ingot run`, and what all commands share: mistakes are one line on stderr, exit code 2, and nothing on stdout.

import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ingot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
const STEADY = ['-d', 'cpu', '--threads', '1', '--temp', '0', '--ignore-eos']
const run = (...args: string[]) => ingot('run', files.model, ...STEADY, ...args)

describe('ingot run', () => {
  test('streams text to stdout and nothing else anywhere', async () => {
    const plain = await run('-p', 'abc', '-n', '12')
    const { text } = JSON.parse((await run('-p', 'abc', '-n', '12', '--json')).stdout) as { text: string }
    expect(plain).toMatchObject({ code: 0, stdout: text, stderr: '' })
    expect(text).not.toBe('')
  })

  test('gives one object with --json', async () => {
    const { stdout, stderr } = await run('--prompt-tokens', '1, 260,261', '-n', '5', '--json')
    expect(stderr).toBe('')
    expect(stdout.trimEnd().split('\n')).toHaveLength(1)
    expect(JSON.parse(stdout)).toEqual({
      text: expect.any(String),
      tokens: expect.any(Array),
      device: 'cpu',
      finishReason: 'length',
      stats: {
        loadMs: expect.any(Number),
        promptTokens: 3,
        cachedTokens: 0,
        prefillTokensPerSecond: expect.any(Number),
        generatedTokens: 5,
        decodeTokensPerSecond: expect.any(Number),
        submissionsPerToken: 1,
        dispatchesPerToken: expect.any(Number),
        bytesPerToken: expect.any(Number),
        fallbacks: 0,
      },
    })
  })

  test('prints statistics to stderr when asked', async () => {
    const { stdout, stderr } = await run('-p', 'abc', '-n', '3', '--stats')
    expect(stdout).not.toContain('tok/s')
    expect(stderr).toMatch(/^prompt \d+ tokens .*generated 3 tokens .*\ncpu: .*\n$/)
  })

  test('takes every flag of sampling', async () => {
    const flags = [
      '--temp',
      '0.9',
      '--top-k',
      '20',
      '--top-p',
      '0.9',
      '--min-p',
      '0',
      '--typical-p',
      '0.8',
      '--repeat-penalty',
      '1.1',
      '--repeat-last-n',
      '-1',
      '--presence-penalty',
      '0.5',
      '--frequency-penalty',
      '-0.5',
      '--seed',
      '4',
      '--stop',
      'never',
      '--stop',
      'ever',
      '--cache-type',
      'f32',
      '--ctx',
      '64',
    ]
    const [first, second] = [await run('-p', 'abc', '-n', '8', ...flags), await run('-p', 'abc', '-n', '8', ...flags)]
    expect(first).toMatchObject({ code: 0, stdout: second.stdout })
  })

  test('writes nothing with -n 0', async () => {
    expect(await run('-p', 'abc', '-n', '0')).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })
})

describe('mistakes', () => {
  const wrong: readonly (readonly [args: readonly string[], message: RegExp])[] = [
    [['run', 'no-such.gguf', '-p', 'a'], /no such file: no-such\.gguf/],
    [['run', '.', '-p', 'a'], /not a file/],
    [['run', 'MODEL', '-p', 'a', '-n', 'abc'], /'abc' is invalid.*whole number/],
    [['run', 'MODEL', '-p', 'a', '-n', '1.5'], /whole number/],
    [['run', 'MODEL', '-p', 'a', '-n', '-1'], /from 0/],
    [['run', 'MODEL', '-p', 'a', '--temp', '-1'], /number from 0/],
    [['run', 'MODEL', '-p', 'a', '--temp', 'warm'], /number/],
    [['run', 'MODEL', '-p', 'a', '--temp', 'Infinity'], /number/],
    [['run', 'MODEL', '-p', 'a', '--top-p', '1.5'], /above 0 to 1/],
    [['run', 'MODEL', '-p', 'a', '--seed', ''], /whole number/],
    [['run', 'MODEL', '-p', 'a', '--stop', ''], /empty/],
    [['run', 'MODEL', '-p', 'a', '--ctx', '0'], /from 1/],
    [['run', 'MODEL', '-p', 'a', '--device', 'toaster'], /one of auto.*cpu/],
    [['run', 'MODEL', '-p', 'a', '--device', 'cuda'], /cuda is not supported yet.*one of auto/],
    [['run', 'MODEL', '-p', 'a', '--cache-type', 'q9'], /f16, f32/],
    [['run', 'MODEL', '-p', 'a', '--prompt-tokens', '1'], /exclude each other/],
    [['run', 'MODEL', '--prompt-tokens', '1,x'], /'1,x' is invalid/],
    [['run', 'MODEL', '--prompt-tokens', '1,99999', '-d', 'cpu'], /no such token/],
    [['run', 'MODEL', '-p', 'a', '--tmep', '1'], /unknown option '--tmep'.*--temp/],
    [['run', 'MODEL', 'extra', '-p', 'a'], /too many arguments/],
    [['rum'], /unknown command 'rum'/],
    [['eval', 'MODEL'], /either --tokens .* or --text/],
    [['eval', 'MODEL', '--tokens', '1', '--json'], /--out/],
    [['eval', 'MODEL', '--text', 'no-such.txt'], /no such file/],
    [['compare', 'MODEL'], /--devices/],
    [['compare', 'MODEL', '--devices', 'cpu'], /two devices/],
    [['compare', 'MODEL', '--devices', 'cpu,toaster'], /one of/],
    [['chat', 'no-such.gguf'], /no such file: no-such\.gguf/],
  ]
  test.each(wrong)('ingot %j', async (args, message) => {
    const { code, stdout, stderr } = await ingot(...args.map((arg) => (arg === 'MODEL' ? files.model : arg)))
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/^ingot: [^\n]+\n$/)
  })

  test('a file that is no model is the work failing', async () => {
    const { code, stdout, stderr } = await ingot('run', join(import.meta.dirname, 'run.test.ts'), '-p', 'a')
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^ingot: [^\n]+\n$/)
  })

  test('a prompt that is longer than the context', async () => {
    const { code, stderr } = await run('-p', 'abc abc abc', '--ctx', '2')
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/do not fit the context/) as string })
  })
})

describe('help', () => {
  test.each(['run', 'chat', 'eval', 'compare'])('of %s', async (name) => {
    const [first, second] = [await ingot(name, '--help'), await ingot('help', name)]
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(first.stdout).toMatch(new RegExp(`^Usage: ingot ${name} \\[options\\] \\[model\\]`))
    expect(second.stdout).toBe(first.stdout)
  })

  test('of the program, and its version', async () => {
    expect(await ingot()).toMatchObject({ code: 0, stdout: expect.stringContaining('compare') as string })
    for (const flag of ['-v', '--version']) expect((await ingot(flag)).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })
})
