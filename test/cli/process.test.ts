// The command line as a shell runs it: pipes, signals, exit codes.

import { describe, expect, test } from 'vitest'
import { finish, notBuilt, spawnIngot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
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
})
