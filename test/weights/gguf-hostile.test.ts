import { mkdtemp, open as openHandle, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import { openGguf, readTensor } from '../../src/weights/gguf/gguf.ts'
import { fromBytes, prepareRead, type ByteSource } from '../../src/weights/source.ts'
import { Hand, open, realFiles, smallFile } from './fixture.ts'

const tensors = (...list: [string, (number | bigint)[], number, number | bigint][]) => {
  const hand = new Hand().head(list.length, 0)
  for (const [name, dims, type, offset] of list) hand.tensor(name, dims, type, offset)
  return hand.pad(32).zeros(256).done()
}
const key = (name = 'k') => new Hand().head(0, 1).text(name)
const nested = (depth: number) => {
  const hand = key().u32(9)
  for (let level = 0; level < depth; level++) hand.u32(9).u64(1)
  return hand.zeros(64).done()
}
const HUGE = (1n << 63n) - 1n

const CASES: [what: string, bytes: Uint8Array, message: RegExp][] = [
  ['an empty file', new Uint8Array(0), /ends early \(byte 0/],
  ['a bad magic', new Hand().u32(0x12345678).zeros(60).done(), /not a GGUF file \(byte 0/],
  ['version 1', new Hand().head(0, 0, 1).done(), /version 1, wanted version 2 or 3/],
  ['version 4', new Hand().head(0, 0, 4).done(), /version 4/],
  ['a big-endian file', new Hand().head(0, 0, 0x03000000).done(), /big-endian/],
  ['an absurd count of tensors', new Hand().head(HUGE, 0).zeros(64).done(), /absurd count of tensors \(byte 8/],
  ['an absurd count of keys', new Hand().head(0, HUGE).zeros(64).done(), /absurd count of keys \(byte 16/],
  ['a count of tensors past the end', new Hand().head(1000, 0).zeros(64).done(), /tensors runs past the end/],
  ['a count of keys past the end', new Hand().head(0, 1000).zeros(64).done(), /keys runs past the end/],
  ['a key longer than the file', new Hand().head(0, 1).u64(60000).zeros(64).done(), /length of key 0 runs past the end.*\(byte 24/],
  ['a key of an absurd length', new Hand().head(0, 1).u64(HUGE).zeros(64).done(), /absurd length of key 0/],
  ['a text longer than the file', key().u32(8).u64(99999).zeros(64).done(), /the text of "k" runs past the end/],
  ['a text of an absurd length', key().u32(8).u64(-1n).zeros(64).done(), /absurd length of the text of "k"/],
  [
    'an array longer than the file',
    key()
      .u32(9, 6)
      .u64(1 << 23)
      .zeros(64)
      .done(),
    /count of "k" runs past the end/,
  ],
  ['an array of an absurd count', key().u32(9, 0).u64(HUGE).zeros(64).done(), /absurd count of "k"/],
  ['strings of an absurd length', key().u32(9, 8).u64(2).u64(HUGE).zeros(64).done(), /absurd length of a text of "k"/],
  [
    'too many nested arrays',
    key()
      .u32(9, 9)
      .u64(1 << 20)
      .zeros(64)
      .done(),
    /absurd count of "k"/,
  ],
  ['arrays nested too deep', nested(2000), /nests arrays too deep/],
  ['an unknown value type', key().u32(13).zeros(64).done(), /"k" has an unknown value type \(byte 33.*got 13/],
  ['an unknown element type', key().u32(9, 99).u64(0).done(), /unknown value type.*got 99/],
  ['a bad bool', key().u32(7).u8(2).done(), /bad bool/],
  ['a key twice', new Hand().head(0, 2).text('k').u32(0).u8(1).text('k').u32(0).u8(1).done(), /"k" appears twice \(byte 38/],
  ['an alignment of 0', key('general.alignment').u32(4, 0).done(), /general.alignment is wrong.*got u32 0/],
  ['an alignment of 48', key('general.alignment').u32(4, 48).done(), /power of two/],
  ['an alignment that is text', key('general.alignment').u32(8).text('32').done(), /got string 32/],
  ['a tensor twice', tensors(['t', [1], 0, 0], ['t', [1], 0, 32]), /"t" appears twice/],
  ['no dimension', tensors(['t', [], 0, 0]), /bad number of dimensions \(byte 33.*got 0, wanted 1 to 4/],
  ['five dimensions', tensors(['t', [1, 1, 1, 1, 1], 0, 0]), /got 5, wanted 1 to 4/],
  ['a dimension of 0', tensors(['t', [0], 0, 0]), /bad dimension/],
  ['a negative dimension', tensors(['t', [-1n], 0, 0]), /bad dimension.*got -1/],
  ['a dimension past 2^53', tensors(['t', [HUGE], 0, 0]), /bad dimension/],
  ['dimensions that overflow', tensors(['t', [1n << 32n, 1n << 32n], 0, 0]), /impossible dimensions.*2\^53/],
  ['bytes that overflow', tensors(['t', [1n << 52n], 28, 0]), /impossible dimensions/],
  ['a row that is no whole block', tensors(['t', [33], 2, 0]), /"t" \(q4_0\) has impossible dimensions.*multiple of 32/],
  ['an unknown tensor type', tensors(['blk.0', [1], 777, 0]), /"blk.0" has an unknown type.*got id 777/],
  ['a removed tensor type', tensors(['t', [32], 4, 0]), /unknown type.*id 4/],
  ['an unaligned offset', tensors(['t', [1], 0, 4]), /not aligned.*got 4, wanted a multiple of 32/],
  ['an offset past the end', tensors(['t', [1], 0, 1 << 20]), /"t" runs past the end of the file/],
  ['an offset past 2^53', tensors(['t', [1], 0, -32n]), /lies outside the file/],
  ['a tensor longer than the data', tensors(['t', [65], 0, 0]), /runs past the end of the file/],
  ['tensors that overlap', tensors(['a', [16], 0, 0], ['b', [1], 0, 32]), /"a" and "b" overlap/],
  ['tensors at one place', tensors(['a', [1], 0, 0], ['b', [1], 0, 0]), /overlap/],
  ['a control character in a name', tensors(['t\n\u001b[31m', [0], 0, 0]), /"t\\n\\u001b\[31m"/],
]

/** Opens, and gives the error if there is one; fails on any error that is not ours. */
async function attempt(bytes: Uint8Array): Promise<IngotError | undefined> {
  const start = performance.now()
  try {
    await open(bytes)
    return undefined
  } catch (error) {
    if (!(error instanceof IngotError)) throw error
    return error
  } finally {
    // Real attempts take well under a millisecond; the bound leaves room for a busy machine.
    expect(performance.now() - start).toBeLessThan(500)
  }
}

/** How it ends: a file either parses or is refused with one of two codes. */
const ending = async (bytes: Uint8Array): Promise<string> => (await attempt(bytes))?.code ?? 'parsed'
const ENDINGS = ['parsed', 'bad-file', 'unsupported']

describe('hostile files', () => {
  test.each(CASES)('%s', async (_, bytes, message) => {
    const error = await attempt(bytes)
    expect(error?.message).toMatch(message)
    expect(error?.message).toMatch(/byte \d+ of test\.gguf|of test\.gguf\)/)
    expect(['bad-file', 'unsupported']).toContain(error?.code)
  })

  test('a file cut anywhere', async () => {
    const whole = smallFile()
    for (let length = 0; length < whole.length; length++) {
      expect((await attempt(whole.subarray(0, length)))?.code, `cut at ${length}`).toBe('bad-file')
    }
    expect(await attempt(whole)).toBeUndefined()
  })

  test('every byte of a small file changed in turn', async () => {
    const whole = smallFile()
    for (let at = 0; at < whole.length; at++) {
      for (const mask of [0x01, 0x80, 0xff]) {
        const changed = whole.slice()
        changed[at] = (changed[at] ?? 0) ^ mask
        expect(ENDINGS).toContain(await ending(changed))
      }
    }
  })

  const flip = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 0, max: 255 }))
  const flips = fc.array(flip, { minLength: 1, maxLength: 8 })
  const flipped = (whole: Uint8Array, changes: [number, number][], span: number) => {
    const changed = whole.slice()
    for (const [where, byte] of changes) changed[Math.floor(where * (span - 1))] = byte
    return changed
  }

  test('bytes of a small file changed at random', async () => {
    const whole = smallFile()
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        expect(ENDINGS).toContain(await ending(flipped(whole, changes, whole.length)))
      }),
      { numRuns: 1000 },
    )
  })

  const real = realFiles().find((path) => path.endsWith('stories260K.Q4_0.gguf'))
  test.skipIf(real === undefined)('bytes of a real file changed at random (skipped without the data folder)', async () => {
    const whole = new Uint8Array(await readFile(real!))
    const header = Math.min(...[...(await open(whole)).tensors.values()].map((tensor) => tensor.offset))
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        expect(ENDINGS).toContain(await ending(flipped(whole, changes, header)))
      }),
      { numRuns: 300 },
    )
    for (let cut = 0; cut < header; cut += 97) expect((await attempt(whole.subarray(0, cut)))?.code).toBe('bad-file')
  })

  test('random bytes after a good start', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), fc.nat(5), fc.nat(5), async (bytes, t, k) => {
        expect(ENDINGS).toContain(
          await ending(
            new Hand()
              .head(t, k)
              .u8(...bytes)
              .done(),
          ),
        )
      }),
      { numRuns: 500 },
    )
  })
})

describe('memory', () => {
  /** A source that claims to be huge and counts what is read of it. */
  const claim = (bytes: Uint8Array, size: number): ByteSource & { total(): number } => {
    let total = 0
    return {
      size,
      name: 'huge.gguf',
      total: () => total,
      async read(offset, length, into) {
        total += length
        const out = into?.subarray(0, length) ?? new Uint8Array(length)
        out.fill(0)
        if (offset < bytes.length) out.set(bytes.subarray(offset, offset + length))
        return out
      },
      async close() {},
    }
  }

  test('the header of a file of terabytes costs one window', async () => {
    const hand = new Hand()
      .head(1, 0)
      .tensor('t', [1n << 40n], 24, 0)
      .pad(32)
      .done()
    const file = claim(hand, 2 ** 41)
    const gguf = await openGguf(file)
    expect(gguf.tensors.get('t')?.bytes).toBe(2 ** 40)
    expect(file.total()).toBeLessThan(4 << 20)
  })

  test.each([
    ['keys', new Hand().head(0, 1n << 40n)],
    ['tensors', new Hand().head(1n << 36n, 0)],
    [
      'a text',
      key()
        .u32(8)
        .u64(1n << 40n),
    ],
    [
      'an array',
      key()
        .u32(9, 4)
        .u64(1n << 36n),
    ],
    [
      'strings',
      key()
        .u32(9, 8)
        .u64(1n << 36n),
    ],
  ])('a file of terabytes with absurd %s is refused before anything is read for them', async (_, hand) => {
    const file = claim(hand.done(), 2 ** 45)
    await expect(openGguf(file)).rejects.toMatchObject({ code: 'bad-file' })
    expect(file.total()).toBeLessThan(4 << 20)
  })

  test('a long array crosses windows', async () => {
    const count = 1_000_003
    const bytes = new Uint8Array(new Hand().head(0, 1).text('k').u32(9, 4).u64(count).done().length + count * 4)
    bytes.set(new Hand().head(0, 1).text('k').u32(9, 4).u64(count).done())
    new DataView(bytes.buffer).setUint32(bytes.length - 4, 123456, true)
    const gguf = await openGguf(fromBytes(bytes))
    const meta = gguf.metadata.get('k')
    expect(meta?.type === 'array' && meta.of === 'u32' && meta.value.length === count && meta.value[count - 1]).toBe(123456)
  })

  test('a range longer than any array is a typed error', () => {
    expect(() => prepareRead({ size: 2 ** 52, name: 'huge' }, 0, 2 ** 52)).toThrow(/no room/)
  })

  test('a sparse file of 8 GB on disk, read beyond 4 GB', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'gguf-'))
    const path = join(dir, 'sparse.gguf')
    const handle = await openHandle(path, 'w')
    const header = new Hand()
      .head(2, 0)
      .tensor('t', [1n << 32n], 24, 0)
      .tensor('u', [4], 24, 1n << 32n)
      .pad(32)
      .done()
    await handle.write(header)
    await handle.write(Uint8Array.of(1, 2, 3, 4), 0, 4, header.length + 2 ** 32)
    await handle.truncate(2 ** 33)
    await handle.close()
    await using gguf = await openGguf(path)
    expect(gguf.tensors.get('t')?.bytes).toBe(2 ** 32)
    expect(await readTensor(gguf.tensors.get('u')!)).toEqual(Uint8Array.of(1, 2, 3, 4))
    await rm(dir, { recursive: true })
  })
})
