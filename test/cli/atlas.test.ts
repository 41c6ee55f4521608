// `ingot atlas`: programs from files, on a device and as source.
import { mkdtempSync, rmSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { encodeProgram, parseProgram } from '../../src/atlas.ts'
import { VECTOR_ADD } from '../atlas/compiled.ts'
import { ingot } from './command-line.ts'

const folder = mkdtempSync(join(tmpdir(), 'ingot-atlas-'))
const at = (name: string): string => join(folder, name)
beforeAll(async () => {
  await writeFile(at('add.atlas'), VECTOR_ADD)
  await writeFile(at('add.bin'), encodeProgram(parseProgram(VECTOR_ADD)))
  await writeFile(at('wrong.atlas'), 'exit\n  add.f32 r1, r2, r300')
  await writeFile(at('a.f32'), new Uint8Array(Float32Array.of(1, 2, 3).buffer))
  await writeFile(at('b.f32'), new Uint8Array(Float32Array.of(10, 20, 30).buffer))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('atlas', () => {
  test('check counts, or says what is wrong and where', async () => {
    expect((await ingot('atlas', 'check', at('add.atlas'))).stdout).toContain('9 instructions, 0 labels')
    const { code, stderr } = await ingot('atlas', 'check', at('wrong.atlas'))
    expect(code).not.toBe(0)
    expect(stderr).toContain('atlas:2:19')
    expect(stderr).toContain(`\n${' '.repeat(18)}^`)
  })

  test('run reads buffers, writes them, and says how long it took', async () => {
    const buffers = ['--buffer', `1=${at('a.f32')}`, '--buffer', `2=${at('b.f32')}`, '--buffer', '3=12', '--out', `3=${at('sum.f32')}`]
    const { code, stdout } = await ingot('atlas', 'run', at('add.bin'), '-d', 'reference', '--block', '3', ...buffers)
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /^3 lanes in [\d.]+ ms, compiled in [\d.]+ ms; 36 B of memory, [\d.e-]+ GB\/s\njumps: .*\nmemory: .*\nchecks: on\n/,
    )
    expect(stdout).toContain('\ndevice: reference, ')
    const bytes = Uint8Array.from(await readFile(at('sum.f32')))
    expect(new Float32Array(bytes.buffer)).toEqual(Float32Array.of(11, 22, 33))
    const { stderr } = await ingot('atlas', 'run', at('add.bin'), '-d', 'reference', '--block', '4', ...buffers)
    expect(stderr).toContain('lane 3, instruction 5')
  })

  test('run knows buffers by name, and says on which form of which device it ran', async () => {
    await writeFile(at('named.atlas'), `; buffers: 1 x, 2 y (f32), 3 z; any lanes\n${VECTOR_ADD}`)
    const buffers = ['--buffer', `x=${at('a.f32')}`, '--buffer', `y=${at('b.f32')}`, '--buffer', 'z=12', '--out', `z=${at('z.f32')}`]
    const { code, stdout } = await ingot('atlas', 'run', at('named.atlas'), '-d', 'cpu', '--block', '3', '--repeat', '2', ...buffers)
    expect(code).toBe(0)
    expect(stdout).toMatch(/device: cpu, .*(WebAssembly|WASM)/i)
    const bytes = Uint8Array.from(await readFile(at('z.f32')))
    expect(new Float32Array(bytes.buffer)).toEqual(Float32Array.of(11, 22, 33))
    const wrong = await ingot('atlas', 'run', at('named.atlas'), '-d', 'reference', '--buffer', `w=${at('a.f32')}`)
    expect([wrong.code, wrong.stdout, wrong.stderr]).toEqual([2, '', expect.stringContaining('no memory is called w; there are x, y, z')])
    const missing = await ingot('atlas', 'run', at('named.atlas'), '-d', 'reference', '--buffer', 'x=12', '--buffer', 'z=12')
    expect([missing.code, missing.stdout, missing.stderr]).toEqual([2, '', expect.stringContaining('give it by --buffer y=FILE')])
    const twice = await ingot('atlas', 'run', at('named.atlas'), '--buffer', 'x=4', '--buffer', 'x=8')
    expect([twice.code, twice.stdout]).toEqual([2, ''])
  })

  test('run has pools', async () => {
    const text = 'movimm.u64 r0, 7\nmovimm.u64 r1, 0\npoolload.f32 r2, r0, r1\nstg.f32 r2, [buf1 + 4]'
    await writeFile(at('pool.atlas'), text)
    const memory = ['--pool', `7=${at('b.f32')}`, '--buffer', '1=8', '--out', `1=${at('one.f32')}`]
    expect((await ingot('atlas', 'run', at('pool.atlas'), '-d', 'reference', ...memory)).code).toBe(0)
    expect(new Float32Array(Uint8Array.from(await readFile(at('one.f32'))).buffer)).toEqual(Float32Array.of(0, 10))
  })

  test.each(['msl', 'wgsl', 'c', 'wat', 'ir'])('emit shows it in %s', async (target) => {
    const { code, stdout, stderr } = await ingot('atlas', 'emit', at('add.atlas'), '--to', target, '--block', '64', '--no-checks')
    expect(code).toBe(0)
    expect(stdout).toContain('buf1')
    expect(stderr).toContain('memory: buf1: f32, buf2: f32, buf3: f32')
  })

  test('disasm prints what parses to the same', async () => {
    const { stdout } = await ingot('atlas', 'disasm', at('add.bin'))
    expect(parseProgram(stdout)).toEqual(parseProgram(VECTOR_ADD))
  })
})
