// A file whose names and texts are full of what terminals obey: none of it gets there as it is, and nothing of it is lost where a
// program reads.

import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import { printable, printableJson, printableLine } from '../../src/base/printable.ts'
import { textFor } from '../../src/cli/output/style.ts'
import { type TinyFile, tinyBytes } from '../llm/tiny-model.ts'
import { ingot, useTinyFile } from './command-line.ts'

/** A title, a colour, the same as one character, a reversed line, DEL. */
const EVIL = '\x1b]0;title\x07\x1b[31m\u009b32m\u202eevil\x7f'
// oxlint-disable-next-line no-control-regex -- these are what must not appear
const OBEYED = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/

const files = useTinyFile()
const write = async (name: string, change: (file: TinyFile) => void, template?: string): Promise<string> => {
  const path = join(files.folder, `${name}.gguf`)
  await writeFile(path, await tinyBytes({ change, ...(template === undefined ? {} : { template }) }))
  return path
}
const set =
  (key: string, value: string) =>
  ({ metadata }: TinyFile): void =>
    void metadata.set(key, { type: 'string', value })

/** All tokens that are texts become this. */
const speak =
  (text: string) =>
  ({ metadata }: TinyFile): void => {
    const [tokens, types] = ['tokens', 'token_type'].map((key) => metadata.get(`tokenizer.ggml.${key}`))
    if (tokens?.type !== 'array' || tokens.of !== 'string' || types?.type !== 'array' || types.of !== 'i32')
      throw new Error('no vocabulary')
    metadata.set('tokenizer.ggml.tokens', { ...tokens, value: tokens.value.map((own, id) => (id < 3 ? own : `${id}${text}`)) })
    metadata.set('tokenizer.ggml.token_type', { ...types, value: types.value.map((own, id) => (id < 3 ? own : 1)) })
  }

describe('inspect', () => {
  let path: string
  beforeAll(async () => {
    path = await write('names', (file) => {
      set('general.name', `name${EVIL}\nsecond line`)(file)
      set(`key${EVIL}`, `value${EVIL}`)(file)
      set('general.architecture', `arch${EVIL}`)(file)
      set('tokenizer.ggml.pre', `pre${EVIL}`)(file)
      const norm = file.tensors.get('output_norm.weight')
      if (norm !== undefined) file.tensors.set('more', { ...norm, name: `tensor${EVIL}` })
    })
  })

  test('writes control characters out', async () => {
    const { code, stdout } = await ingot('inspect', path)
    expect(code).toBe(0)
    expect(stdout).not.toMatch(OBEYED)
    for (const part of ['name', 'key', 'arch', 'pre', 'tensor']) expect(stdout).toContain(`${part}\\x1b]0;title\\x07`)
    expect(stdout).not.toMatch(/^second line/m)
  })

  test('gives programs what is there', async () => {
    const { stdout } = await ingot('inspect', path, '--json')
    expect(stdout).not.toMatch(OBEYED)
    const { name, metadata } = JSON.parse(stdout) as { name: string; metadata: Record<string, { value: unknown }> }
    expect([name, metadata[`key${EVIL}`]?.value]).toEqual([`name${EVIL}\nsecond line`, `value${EVIL}`])
  })
})

describe('errors', () => {
  test.each([
    ['an architecture', set('general.architecture', `arch${EVIL}`), 'arch'],
    ['a tokenizer', set('tokenizer.ggml.model', `kind${EVIL}`), 'kind'],
  ])('about %s', async (_what, change, word) => {
    const { code, stderr } = await ingot('run', await write('bad', change), '-p', 'abc', '-d', 'cpu')
    expect(code).toBe(1)
    expect(stderr).toContain(`${word}\\x1b]0;`)
    expect(stderr).not.toMatch(OBEYED)
  })

  test('from a template', async () => {
    const path = await write('raise', () => {}, `{{ raise_exception('no${EVIL}') }}`)
    const { stderr } = await ingot('chat', path, '-d', 'cpu')
    expect(stderr).toContain('no\\x1b]0;')
    expect(stderr).not.toMatch(OBEYED)
  })

  test('about a file with such a name', async () => {
    const { code, stderr } = await ingot('run', `no${EVIL}.gguf`, '-p', 'abc')
    expect(code).toBe(2)
    expect(stderr).not.toMatch(OBEYED)
  })

  test('have the facts as they are', () => {
    const error = new IngotError('bad-file', `what${EVIL}`, { got: EVIL })
    expect(error.message).not.toMatch(OBEYED)
    expect(error.what).not.toMatch(OBEYED)
    expect(error.facts.got).toBe(EVIL)
  })
})

describe('what a model writes', () => {
  const run = async (): Promise<string> => {
    const path = await write('tokens', speak(EVIL))
    const { code, stdout } = await ingot('run', path, '--prompt-tokens', '1,260', '-n', '3', '--temp', '0', '--ignore-eos', '-d', 'cpu')
    expect(code).toBe(0)
    return stdout
  }
  const before = process.stdout.isTTY
  afterEach(() => {
    process.stdout.isTTY = before
    vi.restoreAllMocks()
  })

  test('goes to a terminal with control characters written out', async () => {
    process.stdout.isTTY = true
    expect(await run()).toMatch(/\\x1b\]0;title/)
    expect(await run()).not.toMatch(OBEYED)
  })

  test('goes to a pipe as it is', async () => {
    process.stdout.isTTY = false
    expect(await run()).toContain(EVIL)
  })

  test('keeps lines, tabs and all letters', () => {
    const text = 'a\tb\nc é 漢字 שלום 👩‍👩‍👧 \u00a0\u00ad'
    expect(textFor({ isTTY: true }, text)).toBe(text)
    expect(textFor({ isTTY: true }, 'a\r\nb\bc')).toBe('a\nb\\x08c')
    expect(textFor({}, 'a\r\nb\bc')).toBe('a\r\nb\bc')
  })
})

describe('weights that are no numbers', () => {
  const garbage = ({ tensors }: TinyFile): void => {
    const norm = tensors.get('output_norm.weight')
    if (norm === undefined) throw new Error('no norm')
    tensors.set('output_norm.weight', { ...norm, data: () => new Uint8Array(new Float32Array(64).fill(NaN).buffer) })
  }
  const LINES: Readonly<Record<string, readonly string[]>> = {
    'run, the best token': ['run', 'MODEL', '-p', 'abc', '-n', '3', '--temp', '0'],
    'run, drawn': ['run', 'MODEL', '-p', 'abc', '-n', '3'],
    'run, as JSON': ['run', 'MODEL', '-p', 'abc', '-n', '3', '--json'],
    perplexity: ['eval', 'MODEL', '--text', 'TEXT'],
    'perplexity, as JSON': ['eval', 'MODEL', '--text', 'TEXT', '--json'],
    logits: ['eval', 'MODEL', '--tokens', '1,260', '--out', 'OUT'],
  }
  test.each(Object.entries(LINES))('%s: an error, nothing on stdout, and no file', async (_name, line) => {
    const places: Readonly<Record<string, string>> = {
      MODEL: await write('garbage', garbage),
      TEXT: join(files.folder, 'text'),
      OUT: join(files.folder, 'logits'),
    }
    await writeFile(join(files.folder, 'text'), 'abc abc')
    const { code, stdout, stderr } = await ingot(...line.map((word) => places[word] ?? word), '-d', 'cpu')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/the model computed garbage/)
    expect(existsSync(join(files.folder, 'logits'))).toBe(false)
  })
})

test('printable text', () => {
  expect(printable('\x1b\u0000\u0085\u202e\u2067')).toBe('\\x1b\\x00\\x85\\u202e\\u2067')
  expect(printableLine('a\n\tb\x1b')).toBe('a b\\x1b')
  expect(JSON.parse(printableJson({ [EVIL]: [EVIL] }))).toEqual({ [EVIL]: [EVIL] })
})
