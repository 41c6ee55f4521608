// Safetensors files: read and written as the reference implementation does, from any source, one tensor at a time.

import { existsSync, readdirSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ByteRange } from '../../src/device/device.ts'
import { SAFE_BYTES, SAFE_DTYPES } from '../../src/weights/safetensors/dtype.ts'
import { openSafetensors } from '../../src/weights/safetensors/safetensors.ts'
import { type SafetensorToWrite, writeSafetensors } from '../../src/weights/safetensors/write.ts'
import { fromBlob, fromBytes } from '../../src/weights/source.ts'
import { dataFolder } from '../data/folder.ts'
import { REFERENCE_FILE } from './safetensors-file.ts'

let dir = ''
beforeAll(async () => void (dir = await mkdtemp(join(tmpdir(), 'safetensors-'))))
afterAll(() => rm(dir, { recursive: true }))

const reference = Uint8Array.from(Buffer.from(REFERENCE_FILE, 'base64'))
const open = (bytes: Uint8Array) => openSafetensors(fromBytes(bytes, 'test.safetensors'))

/** What is written, as one array. */
async function encode(tensors: readonly SafetensorToWrite[], metadata?: Iterable<readonly [string, string]>): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  const written = await writeSafetensors({ write: async (bytes) => void parts.push(bytes.slice()) }, tensors, metadata)
  const whole = new Uint8Array(Buffer.concat(parts))
  expect(written).toBe(whole.length)
  return whole
}

/** The tensors of a file, ready to be written again. */
async function contents(bytes: Uint8Array): Promise<{ tensors: SafetensorToWrite[]; metadata: ReadonlyMap<string, string> }> {
  const { tensors, metadata } = await open(bytes)
  return {
    metadata,
    tensors: [...tensors.values()].map(({ name, dtype, shape, bytes: size, read }) => ({ name, dtype, shape, data: () => read(0, size) })),
  }
}

describe('the file of the reference implementation', () => {
  test('is read as it is', async () => {
    const { tensors, metadata } = await open(reference)
    expect([...metadata]).toEqual([['format', 'pt']])
    const described = [...tensors.values()].map(({ name, dtype, shape, elements, bytes }) => [name, dtype, shape, elements, bytes])
    expect(described).toEqual([
      ['q', 'U64', [1], 1, 8],
      ['l', 'I64', [1], 1, 8],
      ['d', 'F64', [], 1, 8],
      ['f', 'F32', [2, 2], 4, 16],
      ['u', 'U32', [1], 1, 4],
      ['i', 'I32', [1], 1, 4],
      ['b', 'BF16', [1, 2], 2, 4],
      ['h', 'F16', [2], 2, 4],
      ['w', 'U16', [1], 1, 2],
      ['s', 'I16', [1], 1, 2],
      ['x', 'F8_E4M3', [1], 1, 1],
      ['x5', 'F8_E5M2', [1], 1, 1],
      ['c', 'I8', [2], 2, 2],
      ['', 'U8', [1], 1, 1],
      ['__proto__', 'U8', [1], 1, 1],
      ['y', 'U8', [0], 0, 0],
      ['\ue000', 'U8', [1], 1, 1],
      ['\u{1f600} "x"\n', 'U8', [1], 1, 1],
      ['z', 'BOOL', [3], 3, 3],
    ])
    const f = tensors.get('f')!
    expect(new Float32Array((await f.read(0, f.bytes)).slice().buffer)).toEqual(Float32Array.of(1, 2, 3, 4.5))
    expect(await tensors.get('__proto__')!.read(0, 1)).toEqual(Uint8Array.of(3))
    expect(await tensors.get('z')!.read(1, 2)).toEqual(Uint8Array.of(0, 1))
  })

  test('is written the same, byte by byte, in whatever order the tensors come', async () => {
    const { tensors, metadata } = await contents(reference)
    const shuffled = tensors.toReversed().toSorted((a, b) => a.shape.length - b.shape.length)
    expect(Buffer.from(await encode(shuffled, metadata)).equals(reference)).toBe(true)
  })

  test('is read from a path, a blob and a source alike; a tensor is a range that devices load', async () => {
    const path = join(dir, 'reference.safetensors')
    await writeFile(path, reference)
    for (const from of [path, fromBlob(new Blob([reference])), fromBytes(reference)]) {
      const file = await openSafetensors(from)
      const range: ByteRange = file.tensors.get('h')!
      expect(await range.read(0, range.bytes)).toEqual(Uint8Array.of(0x00, 0x3e, 0x00, 0xc0))
      expect(range.path).toBe(from === path ? path : undefined)
      expect(Buffer.from(reference.subarray(range.offset, range.offset! + range.bytes)).toString('hex')).toBe('003e00c0')
      await expect(range.read(2, 3)).rejects.toMatchObject({ code: 'out-of-range' })
      await file.close()
      await expect(range.read(0, 1)).rejects.toMatchObject({ code: 'closed' })
    }
  })
})

describe('writing', () => {
  const bytes = (name: string, data: SafetensorToWrite['data'], shape = [2]): SafetensorToWrite => ({ name, dtype: 'U8', shape, data })

  test('pads an empty header, as others do', async () => {
    expect(Buffer.from(await encode([])).toString('latin1')).toBe('\u0008\0\0\0\0\0\0\0{}      ')
  })

  test('asks for one tensor at a time, whole or in pieces', async () => {
    let [asked, under] = [0, 0]
    const data = async function* (): AsyncGenerator<Uint8Array> {
      asked++
      expect(++under).toBe(1)
      yield Uint8Array.of(asked)
      yield Uint8Array.of(asked)
      under--
    }
    const whole = await encode([bytes('b', data), bytes('a', data), bytes('c', () => Uint8Array.of(7, 8))])
    expect([...whole.subarray(-6)]).toEqual([1, 1, 2, 2, 7, 8])
  })

  test.each<[string, SafetensorToWrite[], Record<string, string>, RegExp]>([
    ['too few bytes', [bytes('a', () => Uint8Array.of(1))], {}, /"a" \(U8 \[2\]\) has the wrong size, got 1 bytes, wanted 2/],
    ['too many bytes', [bytes('a', () => Uint8Array.of(1, 2, 3))], {}, /got 3 bytes or more/],
    ['a name twice', [bytes('a', () => []), bytes('a', () => [])], {}, /twice, got "a"/],
    ['the name of the metadata', [bytes('__metadata__', () => [])], {}, /no tensor can have this name/],
    ['a name that is no Unicode', [bytes('\ud800', () => [])], {}, /surrogates/],
    ['metadata that is no Unicode', [], { a: '\udc00' }, /surrogates/],
    ['a shape that is none', [bytes('a', () => [], [-1])], {}, /"a" has a bad shape/],
    ['more than can be counted', [bytes('a', () => [], [2 ** 40, 2 ** 40, 0])], {}, /bad shape/],
    ['too many axes', [bytes('a', () => [], Array<number>(65).fill(1))], {}, /bad shape/],
  ])('refuses %s, and aborts the sink', async (_, tensors, metadata, message) => {
    let aborted = 0
    const sink = { write: async () => {}, finish: () => Promise.reject(new Error('finished')), abort: async () => void aborted++ }
    await expect(writeSafetensors(sink, tensors, Object.entries(metadata))).rejects.toThrow(message)
    expect(aborted).toBe(1)
  })

  test('what is written is read again: any names, types, shapes and metadata', async () => {
    const text = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('__proto__', 'constructor', '', '\0', '"\\"', '\ufeff'))
    const tensor = fc.record({
      name: text.filter((name) => name !== '__metadata__'),
      dtype: fc.constantFrom(...SAFE_DTYPES),
      shape: fc.array(fc.nat(3), { maxLength: 4 }),
      seed: fc.nat(255),
    })
    const property = fc.asyncProperty(
      fc.uniqueArray(tensor, { selector: ({ name }) => name, maxLength: 6 }),
      fc.option(fc.uniqueArray(fc.tuple(text, text), { selector: ([key]) => key, maxLength: 3 }), { nil: undefined }),
      async (list, metadata) => {
        const valuesOf = (shape: number[], dtype: keyof typeof SAFE_BYTES, seed: number): Uint8Array =>
          Uint8Array.from({ length: shape.reduce((a, b) => a * b, SAFE_BYTES[dtype]) }, (__, i) => seed + i)
        const whole = await encode(
          list.map(({ name, dtype, shape, seed }) => ({ name, dtype, shape, data: () => valuesOf(shape, dtype, seed) })),
          metadata,
        )
        const file = await open(whole)
        expect([...file.metadata]).toEqual(metadata ?? [])
        expect(file.tensors.size).toBe(list.length)
        for (const { name, dtype, shape, seed } of list) {
          const found = file.tensors.get(name)!
          expect(found).toMatchObject({ name, dtype, shape })
          expect(found.offset % SAFE_BYTES[dtype]).toBe(0)
          expect(await found.read(0, found.bytes)).toEqual(valuesOf(shape, dtype, seed))
        }
      },
    )
    await fc.assert(property, { numRuns: 200 })
  })
})

const runs = join(dataFolder, 'training', 'lora-run')
const real = existsSync(runs)
  ? readdirSync(runs, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.safetensors'))
  : []
describe.skipIf(real.length === 0)(`files of other programs${real.length === 0 ? `: none in ${runs}` : ''}`, () => {
  test.each(real)('%s is read, and written the same', async (name) => {
    const bytes = new Uint8Array(await readFile(join(runs, name)))
    const { tensors, metadata } = await contents(bytes)
    expect(tensors.length).toBeGreaterThan(0)
    expect(Buffer.from(await encode(tensors, metadata.size === 0 ? undefined : metadata)).equals(bytes)).toBe(true)
  })
})
