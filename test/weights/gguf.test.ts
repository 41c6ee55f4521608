import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import { GGML_TYPE_NAMES, GGML_TYPES, type GgmlType } from '../../src/quant/type.ts'
import { openGguf, readTensor } from '../../src/weights/gguf/gguf.ts'
import {
  metaArray,
  metaBool,
  metaNumber,
  metaNumbers,
  metaString,
  metaStrings,
  NUMBER_ARRAYS,
  type MetaArray,
  type Metadata,
  type MetaValue,
  type NumberType,
} from '../../src/weights/gguf/meta.ts'
import type { TensorToWrite } from '../../src/weights/gguf/write.ts'
import { encode, open, realFiles, smallFile } from './fixture.ts'

describe('a file built by hand', () => {
  test('reads as it was built', async () => {
    const gguf = await open(smallFile())
    expect(gguf.version).toBe(3)
    expect(gguf.alignment).toBe(64)
    expect(metaString(gguf, 'general.architecture')).toBe('llama')
    expect(metaStrings(gguf, 'tokens')).toEqual(['<s>', '\u0120the', '\ufeff'])
    expect(gguf.metadata.get('big')).toEqual({ type: 'u64', value: (1n << 63n) + 1n })
    expect(metaArray(gguf, 'nested').value).toEqual([
      { type: 'array', of: 'u8', value: Uint8Array.of(1, 2) },
      { type: 'array', of: 'bool', value: [true] },
    ])
    const b = gguf.tensors.get('b.weight')!
    expect(b).toMatchObject({ type: 'f32', dims: [3], elements: 3, bytes: 12 })
    expect(new Float32Array((await readTensor(b)).buffer)).toEqual(Float32Array.of(1, 2, 3))
    await gguf.close()
    await expect(readTensor(b)).rejects.toMatchObject({ code: 'closed' })
  })

  test('getters take a default, and say what they got and wanted', async () => {
    await using gguf = await open(smallFile())
    expect(metaNumber(gguf, 'absent', 7)).toBe(7)
    expect(metaBool(gguf, 'absent', false)).toBe(false)
    expect(() => metaNumber(gguf, 'absent')).toThrow(/absent.*wanted a number/)
    expect(() => metaNumber(gguf, 'tokens')).toThrow(/tokens.*got string\[\], wanted a number/)
    expect(() => metaNumber(gguf, 'big', 1)).toThrow(/big.*got u64, wanted an integer below 2\^53/)
    expect(() => metaString(gguf, 'general.alignment')).toThrow(/general.alignment.*got u32, wanted string/)
    expect(() => metaNumbers(gguf, 'nested')).toThrow(/nested.*got u8\[\]\[\]/)
    expect(() => metaBool(gguf, 'tokens')).toThrow(expect.objectContaining({ code: 'bad-file' }))
  })
})

const RANGE = {
  u8: [0, 255],
  i8: [-128, 127],
  u16: [0, 65535],
  i16: [-32768, 32767],
  u32: [0, 2 ** 32 - 1],
  i32: [-(2 ** 31), 2 ** 31 - 1],
} as const
const types = Object.keys(NUMBER_ARRAYS) as NumberType[]
const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.string({ maxLength: 8 }))
const shrinkBig = (big: bigint) => (Number.isSafeInteger(Number(big)) ? Number(big) : big)
const scalar: fc.Arbitrary<MetaValue> = fc.oneof(
  ...(['u8', 'i8', 'u16', 'i16', 'u32', 'i32'] as const).map((type) =>
    fc.integer({ min: RANGE[type][0], max: RANGE[type][1] }).map((value) => ({ type, value })),
  ),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((value) => ({ type: 'u64' as const, value: shrinkBig(value) })),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((value) => ({ type: 'i64' as const, value: shrinkBig(value) })),
  fc.float().map((value) => ({ type: 'f32' as const, value })),
  fc.double().map((value) => ({ type: 'f64' as const, value })),
  fc.boolean().map((value) => ({ type: 'bool' as const, value })),
  text.map((value) => ({ type: 'string' as const, value })),
)
const numbers = fc.tuple(fc.constantFrom(...types), fc.uint8Array({ maxLength: 80 })).map(([of, bytes]) => {
  const value = NUMBER_ARRAYS[of](Math.floor(bytes.length / 8))
  new Uint8Array(value.buffer).set(bytes.subarray(0, value.byteLength))
  return { type: 'array', of, value } as MetaArray
})
const flat: fc.Arbitrary<MetaArray> = fc.oneof(
  numbers,
  fc.array(fc.boolean()).map((value) => ({ type: 'array' as const, of: 'bool' as const, value })),
  fc.array(text).map((value) => ({ type: 'array' as const, of: 'string' as const, value })),
)
const nest = (inner: fc.Arbitrary<MetaArray>): fc.Arbitrary<MetaArray> =>
  fc.array(inner, { maxLength: 3 }).map((value) => ({ type: 'array' as const, of: 'array' as const, value }))
const value = fc.oneof(scalar, flat, nest(fc.oneof(flat, nest(flat))))
const metadata = fc
  .array(fc.tuple(text, value), { maxLength: 6 })
  .map((pairs): Metadata => new Map(pairs))
  .filter((map) => !map.has('general.alignment'))
const dims = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 4 })
const tensor = fc.tuple(fc.constantFrom(...GGML_TYPE_NAMES), dims)
const plan = fc.record({
  version: fc.constantFrom(2 as const, 3 as const),
  metadata,
  alignment: fc.option(fc.constantFrom(1, 8, 32, 256)),
  tensors: fc.array(tensor, { maxLength: 5 }),
})

/** A tensor of that type with bytes that depend on the index. */
function made([type, [row = 1, ...rest]]: [GgmlType, number[]], index: number): TensorToWrite & { bytes: Uint8Array } {
  const { block, bytes: per } = GGML_TYPES[type]
  const bytes = new Uint8Array(rest.reduce((product, dim) => product * dim, row) * per).fill(index + 1)
  const data = () => [bytes.subarray(0, 5), bytes.subarray(5)]
  return { name: `t${index}`, type, dims: [row * block, ...rest], bytes, data }
}

test('what is written is read back, any metadata and tensors, both versions', async () => {
  await fc.assert(
    fc.asyncProperty(plan, async ({ version, metadata: given, alignment, tensors }) => {
      const all = new Map(given)
      if (alignment !== null) all.set('general.alignment', { type: 'u32', value: alignment })
      const written = tensors.map(made)
      await using gguf = await open(await encode({ version, metadata: all, tensors: written }))
      expect(gguf.version).toBe(version)
      expect(gguf.alignment).toBe(alignment ?? 32)
      expect([...gguf.metadata]).toEqual([...all])
      expect([...gguf.tensors.keys()]).toEqual(written.map(({ name }) => name))
      for (const { name, type, dims, bytes } of written) {
        const read = gguf.tensors.get(name)!
        expect(read).toMatchObject({ type, dims, bytes: bytes.length })
        expect(read.offset % gguf.alignment).toBe(0)
        expect(await readTensor(read)).toEqual(bytes)
      }
    }),
    { numRuns: 150 },
  )
})

describe.skipIf(realFiles().length === 0)('real files (skipped without the data folder)', () => {
  test.each(realFiles().map((path) => [basename(path), path]))('%s parses', async (name, path) => {
    await using gguf = await openGguf(path)
    if (!name.includes('.results.')) expect(metaString(gguf, 'general.architecture')).toMatch(/\w/)
    else expect([...gguf.tensors.keys()]).toEqual(expect.arrayContaining(['tokens', 'logits']))
    for (const item of gguf.tensors.values()) expect((await readTensor(item)).length).toBe(item.bytes)
  })

  const vocabulary = realFiles().find((path) => path.endsWith('ggml-vocab-llama-bpe.gguf'))
  test.skipIf(vocabulary === undefined)('a vocabulary of 128k tokens and 280k merges opens fast', async () => {
    const start = performance.now()
    await using gguf = await openGguf(vocabulary!)
    const took = performance.now() - start
    const tokens = metaStrings(gguf, 'tokenizer.ggml.tokens')
    expect(tokens.length).toBe(128256)
    expect(metaStrings(gguf, 'tokenizer.ggml.merges').length).toBe(280147)
    expect(metaNumbers(gguf, 'tokenizer.ggml.token_type').length).toBe(128256)
    expect(tokens[220]).toBe('\u0120')
    expect(took).toBeLessThan(1000)
  })
})

describe('split files', () => {
  let dir = ''
  const part = (no: number, count: number, total: number, names: readonly string[]) =>
    encode({
      metadata: new Map<string, MetaValue>([
        ...(no === 0 ? [['general.name', { type: 'string', value: 'whole' }] as const] : []),
        ['split.no', { type: 'u16', value: no }],
        ['split.count', { type: 'u16', value: count }],
        ['split.tensors.count', { type: 'i32', value: total }],
      ]),
      tensors: names.map((name) => ({ name, type: 'f32', dims: [2], data: () => new Uint8Array(8).fill(no) })),
    })
  const at = (name: string, no: number, count: number) => join(dir, `${name}-0000${no}-of-0000${count}.gguf`)
  const put = async (name: string, parts: Promise<Uint8Array>[]) => {
    for (const [index, bytes] of parts.entries()) await writeFile(at(name, index + 1, parts.length), await bytes)
  }
  beforeAll(async () => void (dir = await mkdtemp(join(tmpdir(), 'gguf-'))))
  afterAll(() => rm(dir, { recursive: true }))

  test('any part opens all', async () => {
    await put('good', [part(0, 3, 4, ['a', 'b']), part(1, 3, 4, ['c']), part(2, 3, 4, ['d'])])
    for (const no of [1, 2, 3]) {
      await using gguf = await openGguf(at('good', no, 3))
      expect([...gguf.tensors.keys()]).toEqual(['a', 'b', 'c', 'd'])
      expect(metaString(gguf, 'general.name')).toBe('whole')
      expect(gguf.files.map((file) => file.path)).toEqual([1, 2, 3].map((n) => at('good', n, 3)))
      expect(await readTensor(gguf.tensors.get('d')!)).toEqual(new Uint8Array(8).fill(2))
    }
    await using given = await openGguf([3, 1, 2].map((no) => at('good', no, 3)))
    expect(given.tensors.size).toBe(4)
    await using alone = await openGguf(at('good', 2, 3), { single: true })
    expect([...alone.tensors.keys()]).toEqual(['c'])
  })

  test.each([
    [
      'a missing part',
      async () => {
        await put('x', [part(0, 2, 2, ['a']), part(1, 2, 2, ['b'])])
        await rm(at('x', 2, 2))
      },
      /cannot open/,
    ],
    ['a wrong count in one part', () => put('x', [part(0, 2, 2, ['a']), part(1, 3, 2, ['b'])]), /split.count is wrong/],
    ['the same number twice', () => put('x', [part(0, 2, 2, ['a']), part(0, 2, 2, ['b'])]), /split.no 0 is also/],
    ['a number past the count', () => put('x', [part(0, 2, 2, ['a']), part(2, 2, 2, ['b'])]), /split.no is wrong/],
    ['missing tensors', () => put('x', [part(0, 2, 3, ['a']), part(1, 2, 3, ['b'])]), /do not hold all tensors/],
    ['a tensor in two parts', () => put('x', [part(0, 2, 2, ['a']), part(1, 2, 2, ['a'])]), /also in/],
    ['a name that disagrees', () => put('x', [part(0, 9, 2, ['a']), part(1, 9, 2, ['b'])]), /disagree/],
  ])('refuses %s', async (_, prepare, message) => {
    await prepare()
    const error: unknown = await openGguf(at('x', 1, 2)).catch((caught: unknown) => caught)
    expect(isIngotError(error, 'bad-file')).toBe(true)
    expect(String(error)).toMatch(message)
  })

  test('a part that is renamed or in memory says how to open it', async () => {
    await put('y', [part(0, 2, 2, ['a']), part(1, 2, 2, ['b'])])
    await copyFile(at('y', 1, 2), join(dir, 'renamed.gguf'))
    await expect(openGguf(join(dir, 'renamed.gguf'))).rejects.toThrow(/name-00001-of-00002\.gguf/)
    await expect(open(await part(0, 2, 2, ['a']))).rejects.toThrow(/open all parts together/)
  })
})
