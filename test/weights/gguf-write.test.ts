import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import type { GgmlType } from '../../src/quant/type.ts'
import { openGguf, readTensor } from '../../src/weights/gguf/gguf.ts'
import type { MetaValue } from '../../src/weights/gguf/meta.ts'
import { writeGguf, type GgufToWrite, type TensorToWrite, type WriteProgress } from '../../src/weights/gguf/write.ts'
import { encode, open, realFiles } from './fixture.ts'

let dir = ''
beforeEach(async () => void (dir = await mkdtemp(join(tmpdir(), 'gguf-'))))
afterEach(() => rm(dir, { recursive: true }))

const tensor = (name: string, data: TensorToWrite['data']): TensorToWrite => ({ name, type: 'f32', dims: [4, 2], data })
const name: MetaValue = { type: 'string', value: 'x' }
const model = (...tensors: TensorToWrite[]): GgufToWrite => ({ metadata: [['general.name', name]], tensors })
const keys = (...metadata: [string, MetaValue][]): GgufToWrite => ({ metadata, tensors: [] })
const shaped = (type: GgmlType, ...dims: number[]): GgufToWrite => model({ name: 't', type, dims, data: () => [] })

test('streams the data in order, one piece at a time, and tells the progress', async () => {
  const path = join(dir, 'out.gguf')
  const log: WriteProgress[] = []
  let waiting = 0
  async function* pull(): AsyncGenerator<Uint8Array> {
    const shared = new Uint8Array(8)
    for (let piece = 0; piece < 4; piece++) {
      expect(++waiting).toBe(1)
      yield shared.fill(piece)
      waiting--
    }
  }
  const plan = model(
    tensor('a', pull),
    tensor('b', () => Promise.resolve(new Uint8Array(32).fill(9))),
  )
  const total = await writeGguf(path, plan, { onProgress: (progress) => log.push(progress) })
  expect((await readFile(path)).length).toBe(total)
  expect(log.at(-1)).toEqual({ written: total, total, tensor: 'b' })
  await using gguf = await openGguf(path)
  expect((await readTensor(gguf.tensors.get('a')!))[31]).toBe(3)
  expect((await readTensor(gguf.tensors.get('b')!))[0]).toBe(9)
  expect(await readdir(dir)).toEqual(['out.gguf'])
})

test.each<[string, TensorToWrite['data'], RegExp]>([
  [
    'a producer that throws',
    () => {
      throw new Error('no weights')
    },
    /no weights/,
  ],
  [
    'a producer that throws midway',
    async function* () {
      yield new Uint8Array(8)
      throw new Error('midway')
    },
    /midway/,
  ],
  ['too few bytes', () => new Uint8Array(31), /b \(f32 \[4,2\]\) has the wrong size, got 31 bytes, wanted 32/],
  ['too many bytes', () => [new Uint8Array(32), new Uint8Array(1)], /wrong size, got 33 bytes or more/],
])('%s leaves nothing, and an older file as it was', async (_, data, message) => {
  const path = join(dir, 'out.gguf')
  await writeFile(path, 'older')
  await expect(
    writeGguf(
      path,
      model(
        tensor('a', () => new Uint8Array(32)),
        tensor('b', data),
      ),
    ),
  ).rejects.toThrow(message)
  expect(await readdir(dir)).toEqual(['out.gguf'])
  expect(await readFile(path, 'utf8')).toBe('older')
})

test('a cancelled write leaves nothing', async () => {
  const stop = new AbortController()
  const data = async function* (): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(16)
    stop.abort()
    yield new Uint8Array(16)
  }
  const writing = writeGguf(join(dir, 'out.gguf'), model(tensor('a', data)), { signal: stop.signal })
  await expect(writing).rejects.toMatchObject({ code: 'cancelled' })
  expect(await readdir(dir)).toEqual([])
})

test('a target that cannot be made is a typed error', async () => {
  const failed = await writeGguf(join(dir, 'no', 'out.gguf'), model()).catch((error: unknown) => error)
  expect(isIngotError(failed, 'bad-file')).toBe(true)
  expect(String(failed)).toMatch(/cannot create/)
})

test('a target that is a folder leaves no temporary file', async () => {
  const failed = await writeGguf(dir, model()).catch((error: unknown) => error)
  expect(isIngotError(failed, 'bad-file')).toBe(true)
  expect((await readdir(join(dir, '..'))).filter((name) => join(dir, '..', name).startsWith(`${dir}.`))).toEqual([])
})

test.each<[string, GgufToWrite, RegExp]>([
  ['a key twice', keys(['k', { type: 'u8', value: 1 }], ['k', { type: 'u8', value: 1 }]), /key k appears twice/],
  [
    'a tensor twice',
    model(
      tensor('a', () => []),
      tensor('a', () => []),
    ),
    /tensor a appears twice/,
  ],
  ['a value out of range', keys(['k', { type: 'u8', value: 256 }]), /k does not fit its type, got 256, wanted a u8/],
  ['a fraction for an integer', keys(['k', { type: 'i64', value: 0.5 }]), /does not fit/],
  ['a bad alignment', keys(['general.alignment', { type: 'u32', value: 3 }]), /general.alignment/],
  ['a partial block', shaped('q4_0', 31), /whole blocks/],
  ['five dimensions', shaped('f32', 1, 1, 1, 1, 1), /too many dimensions/],
])('refuses %s before it makes a file', async (_, wrong, message) => {
  const failed = await writeGguf(join(dir, 'out.gguf'), wrong).catch((error: unknown) => error)
  expect(isIngotError(failed, 'bad-argument')).toBe(true)
  expect(String(failed)).toMatch(message)
  expect(await readdir(dir)).toEqual([])
})

test('an array that is a view of a larger one is written as the view', async () => {
  const value = new Uint16Array([1, 2, 3, 4]).subarray(1, 3)
  const meta: MetaValue = { type: 'array', of: 'u16', value }
  await using gguf = await open(await encode({ metadata: [['k', meta]], tensors: [] }))
  expect(gguf.metadata.get('k')).toEqual({ type: 'array', of: 'u16', value: Uint16Array.of(2, 3) })
})

const real = realFiles().find((path) => path.endsWith('stories260K.Q4_0.gguf'))
test.skipIf(real === undefined)('a real file copied is the same bytes (skipped without the data folder)', async () => {
  await using gguf = await openGguf(real!)
  const copy = join(dir, 'copy.gguf')
  await writeGguf(copy, {
    version: gguf.version,
    metadata: gguf.metadata,
    tensors: [...gguf.tensors.values()].map((item) => ({ ...item, data: () => readTensor(item) })),
  })
  expect(Buffer.compare(await readFile(copy), await readFile(real!))).toBe(0)
})
