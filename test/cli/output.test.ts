// The one rule for files that commands write: what exists is kept unless --force is given, what is read is never overwritten, streams
// are written through, and nothing is left behind by errors or signals.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, readdir, readlink, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { checkOutput, openOutput, writeOutput } from '../../src/cli/output/file.ts'
import { finish, ingot, notBuilt, spawnIngot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
const CPU = ['-d', 'cpu', '--threads', '1']
const SHAPE = ['--shape', '256,1,4,2,512,300', '--type', 'q8_0']

/** The commands that write a file, by how they are told which. */
const COMMANDS: Readonly<Record<string, (out: string) => string[]>> = {
  synth: (out) => ['synth', out, ...SHAPE],
  quantize: (out) => ['quantize', files.model, out, '-t', 'q8_0'],
  'eval -o': (out) => ['eval', files.model, '--tokens', '1,260', '-o', out, ...CPU],
}

const here = (name: string): string => join(files.folder, name)
const partsOf = async (name: string): Promise<string[]> => (await readdir(files.folder)).filter((each) => each.startsWith(`${name}.`))

describe.each(Object.entries(COMMANDS))('%s', (name, args) => {
  const file = `${name.replace(/\W/g, '')}.out`

  test('keeps an existing file without --force, and replaces it with it', async () => {
    await writeFile(here(file), 'mine')
    expect(await ingot(...args(here(file)))).toMatchObject({
      code: 2,
      stdout: '',
      stderr: `ingot: ${here(file)} exists; --force replaces it\n`,
    })
    expect(await readFile(here(file), 'utf8')).toBe('mine')
    expect(await ingot(...args(here(file)), '--force')).toMatchObject({ code: 0, stderr: '' })
    expect((await readFile(here(file))).length).toBeGreaterThan(100)
    expect(await partsOf(file)).toEqual([])
  })

  test('takes a link for what it names', async () => {
    const link = `${file}.link`
    await writeFile(here(`${link}ed`), 'mine')
    await symlink(here(`${link}ed`), here(link))
    expect((await ingot(...args(here(link)))).code).toBe(2)
    expect(await readFile(here(`${link}ed`), 'utf8')).toBe('mine')
    expect((await ingot(...args(here(link)), '--force')).code).toBe(0)
    expect(await readlink(here(link))).toBe(here(`${link}ed`))
    expect((await readFile(here(`${link}ed`))).length).toBeGreaterThan(100)
    // and a link to nothing for something
    await symlink(here('nowhere'), here(`${link}.dangling`))
    expect((await ingot(...args(here(`${link}.dangling`)))).code).toBe(2)
    expect(existsSync(here('nowhere'))).toBe(false)
  })

  test('writes through what is no regular file', async () => {
    expect(await ingot(...args('/dev/null'))).toMatchObject({ code: 0, stderr: '' })
    expect(existsSync('/dev/null')).toBe(true)
    execFileSync('mkfifo', [here(`${file}.pipe`)])
    const [piped, outcome] = await Promise.all([readFile(here(`${file}.pipe`)), ingot(...args(here(`${file}.pipe`)))])
    expect(outcome).toMatchObject({ code: 0, stderr: '' })
    expect((await ingot(...args(here(`${file}.plain`)))).code).toBe(0)
    expect(piped.equals(await readFile(here(`${file}.plain`)))).toBe(true)
  })

  test('refuses folders, and files in none', async () => {
    expect(await ingot(...args(files.folder), '--force')).toMatchObject({ code: 2, stderr: `ingot: not a file: ${files.folder}\n` })
    expect(await ingot(...args(here('none/x')), '--force')).toMatchObject({ code: 2, stderr: `ingot: no such folder: ${here('none')}\n` })
  })
})

test.each(['quantize', 'eval -o'])('%s never writes what it reads', async (name) => {
  const before = await readFile(files.model)
  await symlink(files.model, here(`${name}.alias`))
  for (const path of [files.model, here(`${name}.alias`)]) {
    expect(await ingot(...COMMANDS[name]!(path), '--force')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is the file to read') as string,
    })
  }
  expect((await readFile(files.model)).equals(before)).toBe(true)
})

test('bench appends to a history, and to nothing else', async () => {
  await writeFile(here('notes.txt'), 'not a history\n')
  const { code, stdout } = await ingot('bench', files.model, '--quick', '--save', here('notes.txt'), '-d', 'cpu')
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(await readFile(here('notes.txt'), 'utf8')).toBe('not a history\n')
})

describe('a sink', () => {
  test('makes nothing before the first byte, and leaves nothing when it is aborted', async () => {
    const sink = openOutput(await checkOutput(here('lazy')))
    expect(await partsOf('lazy')).toEqual([])
    await sink.write(Uint8Array.of(1, 2, 3))
    expect(await partsOf('lazy')).toHaveLength(1)
    expect(existsSync(here('lazy'))).toBe(false)
    await sink.abort?.()
    expect([existsSync(here('lazy')), await partsOf('lazy')]).toEqual([false, []])
    expect(process.listenerCount('SIGTERM')).toBe(0)
  })

  test('does not replace what came while it was written', async () => {
    const output = await checkOutput(here('raced'))
    const sink = openOutput(output)
    await sink.write(Uint8Array.of(1))
    await writeFile(here('raced'), 'first')
    await expect(sink.finish?.()).rejects.toThrow(/exists; --force/)
    await sink.abort?.()
    expect(await readFile(here('raced'), 'utf8')).toBe('first')
    expect(await partsOf('raced')).toEqual([])
    await writeOutput(await checkOutput(here('raced'), { force: true }), 'second')
    expect(await readFile(here('raced'), 'utf8')).toBe('second')
  })
})

describe.skipIf(notBuilt !== undefined)(`signals${notBuilt === undefined ? '' : `: ${notBuilt}`}`, () => {
  test.each([
    ['SIGINT', { code: 130 }],
    ['SIGTERM', { code: null, signal: 'SIGTERM' }],
    ['SIGHUP', { code: null, signal: 'SIGHUP' }],
  ] as const)('%s leaves no partial file', async (signal, ended) => {
    const name = `cut-${signal}`
    const child = spawnIngot('synth', here(name), '--shape', '4096,4,8,8,8192,32000', '--type', 'q6_k')
    const done = finish(child)
    while ((await partsOf(name)).length === 0 && child.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 10))
    child.kill(signal)
    const { code } = await done
    expect({ code, ...(child.signalCode === null ? {} : { signal: child.signalCode }) }).toEqual(ended)
    expect([existsSync(here(name)), await partsOf(name)]).toEqual([false, []])
  })
})
