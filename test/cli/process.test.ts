// The command line as a shell runs it: pipes, signals, exit codes.

import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { tinyBytes } from '../llm/tiny-model.ts'
import { BIN, finish, notBuilt, spawnIngot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
/** A device that takes nothing: `write` fails as on a full disk. */
const FULL = '/dev/full'

/** Runs a command whose stdout or stderr takes nothing; gives the exit code and what the other one got. */
async function runFull(full: 'stdout' | 'stderr', ...args: string[]): Promise<{ code: number | null; other: string }> {
  const file = openSync(FULL, 'w')
  const child = spawn(process.execPath, [BIN, ...args], {
    stdio: full === 'stdout' ? ['ignore', file, 'pipe'] : ['ignore', 'pipe', file],
  })
  closeSync(file)
  let other = ''
  for await (const part of (full === 'stdout' ? child.stderr : child.stdout) ?? []) other += String(part)
  const code = child.exitCode ?? (await new Promise<number | null>((resolve) => child.on('close', resolve)))
  return { code, other }
}

const STEADY = ['-d', 'cpu', '--threads', '1', '--temp', '0', '--ignore-eos']

describe.skipIf(notBuilt !== undefined)(`bin/ingot.js${notBuilt === undefined ? '' : `: ${notBuilt}`}`, () => {
  test('takes the prompt from a pipe, without its last newline', async () => {
    const child = spawnIngot('run', files.model, '-n', '6', '--json', ...STEADY)
    child.stdin.end('abc abc\n')
    const piped = await finish(child)
    const given = await finish(spawnIngot('run', files.model, '-p', 'abc abc', '-n', '6', '--json', ...STEADY))
    const text = ({ stdout }: { stdout: string }): unknown => (JSON.parse(stdout) as { text: unknown }).text
    expect(piped).toMatchObject({ code: 0, stderr: '' })
    expect(text(piped)).toBe(text(given))
  })

  test('ends with 130 on Ctrl-C, with what it wrote', async () => {
    const child = spawnIngot('run', files.model, '-p', 'abc', '--ctx', '8000', ...STEADY)
    child.stdout.once('data', () => child.kill('SIGINT'))
    const { code, stdout, stderr } = await finish(child)
    expect({ code, stderr }).toEqual({ code: 130, stderr: '' })
    expect(stdout).not.toBe('')
  })

  test('ends quietly when its reader goes away', async () => {
    const child = spawnIngot('run', files.model, '-p', 'abc', '--ctx', '8000', ...STEADY)
    child.stdout.once('data', () => child.stdout.destroy())
    const { code, stderr } = await finish(child)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  test('chats line by line over a pipe, with only replies on stdout', async () => {
    const child = spawnIngot('chat', files.model, '-n', '5', ...STEADY)
    child.stdin.end('abc\n/reset\nabc\n\ndd\\\ncd\n/quit\nnever read\n')
    const { code, stdout, stderr } = await finish(child)
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'conversation forgotten\n' })
    expect(stdout.endsWith('\n')).toBe(true)
    expect(stdout).not.toContain('\x1b')
    expect(stdout).not.toContain('> ')
  })

  test('says in one line what is wrong', async () => {
    expect(await finish(spawnIngot('run', 'no-such.gguf', '-p', 'a'))).toEqual({
      code: 2,
      stdout: '',
      stderr: 'ingot: no such file: no-such.gguf\n',
    })
  })

  test('ends by Ctrl-C while a template runs, which hears nothing', async () => {
    const [double, replace] = ['{% set ns.s = ns.s + ns.s %}', "{% set x = ns.s | replace('a', 'bb') %}"]
    const template = `{% set ns = namespace(s='ab') %}{% for i in range(19) %}${double}{% endfor %}{% for i in range(1000) %}${replace}{% endfor %}`
    const path = join(files.folder, 'slow.gguf')
    await writeFile(path, await tinyBytes({ template }))
    // Too early, and loading stops with 130; the template takes seconds, so that one of these comes while it runs.
    const ends: unknown[] = []
    for (const ms of [1000, 2000, 3000]) {
      const child = spawnIngot('chat', path, '-d', 'cpu')
      const timer = setTimeout(() => child.kill('SIGINT'), ms)
      await finish(child)
      clearTimeout(timer)
      ends.push(child.signalCode)
      if (child.signalCode === 'SIGINT') break
    }
    expect(ends).toContain('SIGINT')
  })

  const LINES: Readonly<Record<string, () => string[]>> = {
    '--help': () => ['--help'],
    '--version': () => ['--version'],
    inspect: () => ['inspect', files.model],
    kernel: () => ['kernel', '--list'],
    run: () => ['run', files.model, '-p', 'abc', '-n', '4', ...STEADY],
    'run --json': () => ['run', files.model, '-p', 'abc', '-n', '4', '--json', ...STEADY],
    eval: () => ['eval', files.model, '--tokens', '1,2,3', '-d', 'cpu'],
  }
  test.skipIf(!existsSync(FULL)).each(Object.entries(LINES))('%s says in one line that stdout is full', async (_name, args) => {
    const { code, other } = await runFull('stdout', ...args())
    expect(code).toBe(1)
    expect(other).toMatch(/^ingot: cannot write to stdout: ENOSPC.*\n$/)
  })

  test.skipIf(!existsSync(FULL))('a mistake stays one where stdout is full, and its exit code where stderr is', async () => {
    expect(await runFull('stdout', 'run', 'no-such.gguf', '-p', 'a')).toEqual({ code: 2, other: 'ingot: no such file: no-such.gguf\n' })
    expect(await runFull('stderr', 'run', 'no-such.gguf', '-p', 'a')).toEqual({ code: 2, other: '' })
    expect(await runFull('stderr', 'nonsense')).toEqual({ code: 2, other: '' })
    const { code, other } = await runFull('stderr', 'run', files.model, '-p', 'abc', '-n', '4', '--stats', ...STEADY)
    expect([code, other === '']).toEqual([0, false])
  })
})
