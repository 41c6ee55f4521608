// The kernel lab: entries that fit their kernels, and a run as a shell starts it. Speed is nothing that a test can know.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { entries as attention } from '../../lab/attention.ts'
import { entries as gemm } from '../../lab/gemm.ts'
import { entries as matmul } from '../../lab/matmul.ts'
import { entries as matvec } from '../../lab/matvec.ts'
import { type Entry, bytesOf, limitEntry } from '../../lab/measure/entry.ts'
import { entries as reduce } from '../../lab/reduce.ts'
import { entries as small } from '../../lab/small.ts'
import { entries as tensor } from '../../lab/tensor.ts'
import type { Caps } from '../../src/base/caps.ts'
import { cpuCaps } from '../../src/device/cpu/level.ts'
import { boundBuffers } from '../../src/kernel/family.ts'
import { peakLimit, readLimit } from '../../src/kernel/limit/limit.ts'
import { notBuilt } from '../cli/command-line.ts'

const CPU = cpuCaps({ width: 16, threads: 2, bufferBytes: 2 ** 34 })
const GPU: Caps = { ...CPU, lanes: 256, subgroup: 32, width: 4, dot: false, parallel: 8, sharedBytes: 16384 }
const ROOT = join(import.meta.dirname, '../..')

/** What is wrong with an entry on such a device. */
function faultsOf(entry: Entry, caps: Caps): string[] {
  const work = entry.work(caps)
  const known = new Map(entry.buffers.map((shape) => [shape.name, shape]))
  const missing = (work?.launches ?? []).flatMap(boundBuffers).filter((name) => !known.has(name) && work?.scratch?.[name] === undefined)
  const written = entry.buffers.filter(({ cold, role }) => cold === true && role !== 'in').map(({ name }) => name)
  const all = entry.buffers.reduce((sum, shape) => sum + 2 * bytesOf(shape), 0)
  return [
    ...missing.map((name) => `no buffer ${name}`),
    ...written.map((name) => `${name} is cold and written`),
    ...(entry.bytes > all ? ['too many bytes'] : []),
  ].map((fault) => `${entry.kernel} ${entry.shape}: ${fault}`)
}

describe('entries', () => {
  const all = {
    matvec,
    matmul,
    gemm,
    attention,
    small,
    tensor,
    reduce,
    limits: [readLimit(2 ** 20), peakLimit('f32', CPU), peakLimit('i8', CPU)].map(limitEntry),
  }
  test.each(Object.entries(all))('of %s have what their kernels need', (_name, entries) => {
    for (const caps of [CPU, GPU]) expect(entries.flatMap((entry) => faultsOf(entry, caps))).toEqual([])
    expect(entries.some((entry) => entry.work(CPU) !== undefined)).toBe(true)
    expect(entries.some(({ quick }) => quick)).toBe(true)
  })

  test('of a linear layer are packed where the device has dot products, else as stored', () => {
    const kernels = (caps: Caps): string[] =>
      matvec
        .filter(({ kernel, shape }) => kernel.startsWith('q4_k') && shape === '2048x2048')
        .filter((entry) => entry.work(caps) !== undefined)
        .map(({ kernel }) => kernel)
    expect(kernels(CPU)).toEqual(['q4_k packed'])
    expect(kernels(GPU)).toEqual(['q4_k'])
  })

  test('count what one token must read and do', () => {
    const [decode] = attention
    // 512 keys and values of 4 heads of 64 halves, 32 heads of queries and results as floats, one position
    expect(decode).toMatchObject({ bytes: 2 * 512 * 4 * 64 * 2 + 2 * 32 * 64 * 4 + 4, operations: 2 * 2 * 32 * 512 * 64 })
  })
})

describe.skipIf(notBuilt !== undefined)(`lab/run.js${notBuilt === undefined ? '' : `: ${notBuilt}`}`, () => {
  test('prints kernels beside the limits of the machine', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      join(ROOT, 'lab/run.js'),
      'small',
      '--as-built',
      '--quick',
      '--rounds',
      '1',
      '--device',
      'cpu',
      '--threads',
      '1',
    ])
    const [limits, head, ...rows] = stdout.split('\n')
    expect(limits).toMatch(/^cpu: .*1 thread.*; reads [\d.]+ .*GB\/s, f32 peak [\d.]+ .*G ops\/s$/)
    expect(head).toMatch(/^kernel +shape +time +noise +GB\/s +of reads +G ops\/s +of peak +kind$/)
    for (const kernel of ['rmsNorm', 'rope', 'quantize8 norm', 'softmax', 'map silu\\*mul']) {
      expect(rows.find((row) => new RegExp(`^${kernel} +1x`).test(row))).toMatch(/ us +\d+% +[\d.]+ +\d+% +[\d.]+ +\d+% +f32$/)
    }
  })

  test('says which experiments there are', async () => {
    await expect(promisify(execFile)(process.execPath, [join(ROOT, 'lab/run.js'), 'nothing'])).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('attention, gemm, lora, matmul, matvec, reduce, small, static') as string,
    })
  })
})
