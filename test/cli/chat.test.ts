// The chat: how lines become messages, what is kept, and the conversation itself on a terminal made of streams.

import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Terminal, chatOnTerminal } from '../../src/cli/chat/terminal.ts'
import { Conversation } from '../../src/cli/chat/conversation.ts'
import { MOST_LINES, readHistory, writeHistory } from '../../src/cli/chat/history.ts'
import { MessageReader } from '../../src/cli/chat/message.ts'
import { styleFor } from '../../src/cli/output/style.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { useTinyFile } from './command-line.ts'

const files = useTinyFile()
let model: Model
beforeAll(async () => {
  model = await load(files.model, { device: 'cpu', threads: 1, contextLength: 1024 })
})
afterAll(() => model.close())
beforeEach(() => {
  vi.stubEnv('XDG_STATE_HOME', join(files.folder, 'state'))
})

describe('messages', () => {
  const read = (...lines: string[]): (string | undefined)[] => {
    const reader = new MessageReader()
    return [...lines.map((line) => reader.push(line)), reader.flush()]
  }

  test('are lines', () => expect(read('a', '', 'b')).toEqual(['a', '', 'b', undefined]))
  test('continue after a backslash', () =>
    expect(read('a\\', 'b\\', 'c', 'd\\')).toEqual([undefined, undefined, 'a\nb\nc', undefined, 'd']))
  test('are blocks between quotes', () => {
    expect(read('"""', 'a\\', '', 'b', '"""')).toEqual([undefined, undefined, undefined, undefined, 'a\\\n\nb', undefined])
    expect(read('"""a', 'b"""', '"""c"""')).toEqual([undefined, 'a\nb', 'c', undefined])
  })
  test('are pasted whole', () => {
    const reader = new MessageReader()
    expect([reader.push('a', { more: true }), reader.push('b', { more: true }), reader.push('c')]).toEqual([
      undefined,
      undefined,
      'a\nb\nc',
    ])
  })
})

test('history is kept, bounded, and for its owner only', async () => {
  const path = join(files.folder, 'deep', 'history')
  await writeHistory(
    Array.from({ length: MOST_LINES + 20 }, (_, i) => `line ${i}`),
    path,
  )
  const lines = await readHistory(path)
  expect([lines.length, lines[0]]).toEqual([MOST_LINES, 'line 0'])
  if (process.platform !== 'win32') expect((await stat(path)).mode & 0o077).toBe(0)
  expect(await readHistory(join(files.folder, 'none'))).toEqual([])
  await writeHistory(['x'], join(files.model, 'not a folder'))
})

test('colours only where they are wanted', () => {
  vi.stubEnv('NO_COLOR', '')
  vi.stubEnv('TERM', 'xterm')
  expect(styleFor({ isTTY: true }).red('x')).toBe('\x1b[31mx\x1b[39m')
  expect(styleFor({}).red('x')).toBe('x')
  vi.stubEnv('NO_COLOR', '1')
  expect(styleFor({ isTTY: true }).red('x')).toBe('x')
})

describe('a conversation', () => {
  const begin = (): Conversation => new Conversation(model, { temperature: 0, ignoreEos: true, maxTokens: 4 })

  test('remembers, forgets, is saved and loaded', async () => {
    const file = join(files.folder, 'saved.json')
    const chat = begin()
    await chat.command('/system dd!')
    const { text } = await chat.ask('abc', () => {})
    expect(chat.messages).toEqual([
      { role: 'system', content: 'dd!' },
      { role: 'user', content: 'abc' },
      { role: 'assistant', content: text },
    ])
    expect(await chat.command(`/save ${file}`)).toBe(`saved 3 messages to ${file}`)
    await chat.command('/reset')
    expect(chat.messages).toEqual([{ role: 'system', content: 'dd!' }])
    const other = begin()
    await other.command(`/load ${file}`)
    expect(other.messages).toHaveLength(3)
    expect(await other.command('/system')).toBe('dd!')
  })

  test('is saved over its own file, and over others only when told to', async () => {
    const file = join(files.folder, 'notes.json')
    await writeFile(file, 'mine')
    const chat = begin()
    await expect(chat.command(`/save ${file}`)).rejects.toThrow(`${file} exists; /save --force ${file} replaces it`)
    expect(await readFile(file, 'utf8')).toBe('mine')
    expect(await chat.command(`/save --force ${file}`)).toBe(`saved 0 messages to ${file}`)
    expect(await chat.command(`/save ${file}`)).toBe(`saved 0 messages to ${file}`)
    await expect(chat.command('/save --force')).rejects.toThrow('no file given')
  })

  test('reuses what it said before', async () => {
    const chat = begin()
    await chat.ask('abc', () => {})
    expect((await chat.ask('dd', () => {})).stats.cachedTokens).toBeGreaterThan(4)
    expect(await chat.command('/stats')).toMatch(/cached/)
  })

  test('is unharmed by mistakes', async () => {
    const chat = begin()
    await writeFile(join(files.folder, 'bad.json'), '{"messages": [1]}')
    for (const line of ['/nope', '/save', '/load', `/load ${join(files.folder, 'bad.json')}`, `/load ${files.model}`, '/load /no/such']) {
      await expect(chat.command(line)).rejects.toThrow()
    }
    await expect(chat.ask('abc '.repeat(2000), () => {})).rejects.toMatchObject({ code: 'too-large' })
    expect(chat.messages).toEqual([])
  })
})

/** A terminal of which tests see the screen and press the keys. */
function openTerminal(maxTokens: number): {
  press(keys: string): void
  screen(): string
  until(text: string): Promise<void>
  ended: Promise<void>
} {
  vi.stubEnv('NO_COLOR', '1')
  const input = new PassThrough()
  let shown = ''
  const output = Object.assign(new PassThrough(), { isTTY: true, columns: 80 }) as unknown as Terminal & PassThrough
  output.on('data', (part: Buffer) => {
    shown += part.toString()
  })
  const chat = new Conversation(model, { temperature: 0, ignoreEos: true, maxTokens })
  const ended = chatOnTerminal(chat, { title: 'tiny', stats: false, input, output })
  // oxlint-disable-next-line no-control-regex -- escapes are what it removes
  const screen = (): string => shown.replace(/\x1b\[[\d;?]*[A-Za-z]/g, '')
  return {
    press: (keys) => input.write(keys),
    screen,
    ended,
    until: (text) => vi.waitFor(() => expect(screen()).toContain(text), { timeout: 8000, interval: 5 }),
  }
}

describe('on a terminal', () => {
  test('replies, and ends with /quit', async () => {
    const { press, until, ended } = openTerminal(6)
    press('abc\r')
    await until('(cut off: token limit reached)')
    press('/stats\r')
    await until('generated 6 tokens')
    press('/quit\r')
    await ended
    expect((await readFile(join(files.folder, 'state', 'ingot', 'chat-history'), 'utf8')).split('\n').slice(0, 3)).toEqual([
      '/quit',
      '/stats',
      'abc',
    ])
  })

  test('Ctrl-C stops the reply and not the program; what was typed ahead waits', async () => {
    const { press, until, screen, ended } = openTerminal(900)
    press('abc\r')
    await vi.waitFor(() => expect(screen().length).toBeGreaterThan(150), { timeout: 8000, interval: 2 })
    press('typed ahead')
    press('\x03')
    await until('(stopped)')
    await until('> typed ahead')
    press('\x03') // clears the line
    await until('^C')
    press('\x03')
    await until('(press Ctrl-C again to leave)')
    press('\x03')
    await ended
    expect(screen().match(/typed ahead/g)).toHaveLength(1)
  })

  test('takes a paste as one message, and ends with Ctrl-D', async () => {
    const { press, until, screen, ended } = openTerminal(3)
    press('\x1b[200~/one\n/two\n\x1b[201~')
    press('!\r')
    await until('(cut')
    expect(screen()).not.toContain('no such command')
    press('\x04')
    await ended
  })
})
