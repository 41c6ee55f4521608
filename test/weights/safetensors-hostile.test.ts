// Safetensors files that lie: every one is either read right or refused by name, at once, and without memory for what it claims.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import { SAFE_BYTES } from '../../src/weights/safetensors/dtype.ts'
import { openSafetensors } from '../../src/weights/safetensors/safetensors.ts'
import { type ByteSource, fromBytes } from '../../src/weights/source.ts'
import { REFERENCE_FILE } from './safetensors-file.ts'

const open = (bytes: Uint8Array) => openSafetensors(fromBytes(bytes, 'test.safetensors'))

/** A file of this header and so much data; `length` is what it claims its header has. */
function file(header: string | Uint8Array, data = 0, length?: number | bigint): Uint8Array {
  const text = typeof header === 'string' ? new TextEncoder().encode(header) : header
  const bytes = new Uint8Array(8 + text.length + data)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length ?? text.length), true)
  bytes.set(text, 8)
  return bytes
}

const info = (begin: number, end: number, shape: unknown = [end - begin], dtype = 'U8'): string =>
  JSON.stringify({ dtype, shape, data_offsets: [begin, end] })
const one = (value: string): string => `{"t":${value}}`
const nested = (depth: number): string => `{"t":{"x":${'['.repeat(depth)}${']'.repeat(depth)},${info(0, 1).slice(1)}}`
const HUGE = (1n << 64n) - 1n

const CASES: [what: string, bytes: Uint8Array, message: RegExp][] = [
  ['an empty file', new Uint8Array(0), /no safetensors file .*got 0 bytes, wanted at least 8/],
  ['seven bytes', new Uint8Array(7), /no safetensors file/],
  ['a header past the end', file('{}', 0, 3), /header is too long .*got 3 bytes, wanted at most 2/],
  ['a header past 2^63', file('{}', 0, HUGE), /header is too long .*got 18446744073709551615 bytes/],
  ['a header past the limit', file(' '.repeat(100_000_001)), /header is too long .*wanted at most 100000000/],
  ['no header', file(''), /no JSON object/],
  ['a header that is no UTF-8', file(Uint8Array.of(0x7b, 0xff, 0x7d)), /header is no text/],
  ['a mark of the byte order', file('\ufeff{}'), /no JSON object/],
  ['a space before the object', file(' {}'), /no JSON object/],
  ['a list', file('[]'), /no JSON object/],
  ['JSON that ends early', file('{"t":'), /"t" is wrong at character 5 of the header .*got the end, wanted an object/],
  ['text that ends early', file('{"t\\"'), /a text that ends/],
  ['more than the object', file('{} x'), /what follows the header is wrong .*got "x", wanted spaces only/],
  ['a comma too many', file(`{"t":${info(0, 1)},}`, 1), /a key of the header is wrong .*wanted a text/],
  ['no comma', file(`{"t":${info(0, 1)} "u":${info(1, 1)}}`, 1), /wanted a comma or }/],
  ['no colon', file('{"t" {}}'), /wanted a colon/],
  ['a key that is a number', file('{1:{}}'), /wanted a text/],
  ['a tensor twice', file(`{"t":${info(0, 1)},"t":${info(0, 1)}}`, 1), /the header has a key twice .*got "t"/],
  ['a name in two spellings', file(`{"t":${info(0, 1)},"\\u0074":${info(0, 1)}}`, 1), /key twice/],
  ['metadata twice', file('{"__metadata__":{},"__metadata__":{}}'), /key twice .*__metadata__/],
  ['a key of metadata twice', file('{"__metadata__":{"a":"","a":""}}'), /the metadata has a key twice .*got "a"/],
  ['a field twice', file(`{"t":{"dtype":"U8",${info(0, 1).slice(1)}}`, 1), /the tensor "t" has a key twice .*got "dtype"/],
  ['metadata that is text', file('{"__metadata__":"pt"}'), /the metadata is wrong .*wanted an object/],
  ['metadata that is a number', file('{"__metadata__":{"a":1}}'), /the metadata "a" is wrong .*got "1}}", wanted a text/],
  ['a lone surrogate', file('{"__metadata__":{"a":"\\ud800"}}'), /a text of Unicode/],
  ['a control character', file('{"a\n":{}}'), /a text of Unicode/],
  ['a tensor that is null', file(one('null')), /the tensor "t" is wrong .*wanted an object/],
  ['no dtype', file(one('{"shape":[],"data_offsets":[0,1]}'), 1), /"t" has no dtype/],
  ['no shape', file(one('{"dtype":"U8","data_offsets":[0,1]}'), 1), /"t" has no shape/],
  ['no offsets', file(one('{"dtype":"U8","shape":[]}'), 1), /"t" has no data_offsets/],
  ['a dtype that is a number', file(one('{"dtype":8}')), /the dtype of the tensor "t" is wrong/],
  ['an unknown dtype', file(one(info(0, 1, [1], 'F4')), 1), /"t" has an unknown dtype .*got "F4", wanted BOOL U8/],
  ['a dtype of objects', file(one(info(0, 1, [1], 'constructor')), 1), /unknown dtype/],
  ['a shape that is a number', file(one(info(0, 1, 1)), 1), /the shape of the tensor "t" is wrong .*wanted a list/],
  ['a size below 0', file(one(info(0, 1, [-1])), 1), /shape of the tensor "t" is wrong .*whole number/],
  ['a size with a fraction', file(one(info(0, 1, [1]).replace('[1]', '[1.0]')), 1), /whole number/],
  ['a size with an exponent', file(one(info(0, 1, [1]).replace('[1]', '[1e0]')), 1), /whole number/],
  ['a size with a zero before', file(one(info(0, 1, [1]).replace('[1]', '[01]')), 1), /whole number/],
  ['a size past 2^53', file(one(info(0, 1).replace('[1]', '[9007199254740992]')), 1), /whole number from 0 to 2\^53 - 1/],
  ['a size of many digits', file(one(info(0, 1).replace('[1]', `[${'9'.repeat(1e6)}]`)), 1), /whole number/],
  ['sizes that overflow', file(one(info(0, 1, [2 ** 30, 2 ** 30])), 1), /"t" is too large .*got U8 \[1073741824,1073741824\]/],
  ['sizes that overflow before a 0', file(one(info(0, 0, [2 ** 30, 2 ** 30, 0]))), /"t" is too large/],
  ['bytes that overflow', file(one(info(0, 1, [2 ** 50], 'F64')), 1), /"t" is too large/],
  ['too many axes', file(one(info(0, 1, Array(65).fill(1))), 1), /shape of the tensor "t" has too many numbers/],
  ['one offset', file(one(info(0, 1).replace('[0,1]', '[0]')), 1), /"t" has wrong data_offsets .*got \[0\]/],
  ['three offsets', file(one(info(0, 1).replace('[0,1]', '[0,1,2]')), 1), /data_offsets of the tensor "t" has too many/],
  ['an end before its begin', file(one(info(1, 0, [1])), 1), /"t" has wrong data_offsets .*got \[1,0\]/],
  ['offsets that do not fit the shape', file(one(info(0, 2, [3])), 2), /do not fit U8 \[3\] .*got 2 bytes, wanted 3/],
  ['a hole at the beginning', file(one(info(1, 2)), 2), /a hole before the tensor "t" .*got 1, wanted 0/],
  ['a hole between', file(`{"t":${info(0, 1)},"u":${info(2, 3)}}`, 3), /a hole before the tensor "u"/],
  ['a hole at the end', file(one(info(0, 1)), 2), /the end of the file belongs to no tensor .*got 2 bytes of data, wanted 1/],
  ['data without tensors', file('{}', 1), /belongs to no tensor/],
  ['tensors that overlap', file(`{"t":${info(0, 2)},"u":${info(1, 3)}}`, 3), /the tensors "t" and "u" overlap/],
  ['tensors at one place', file(`{"t":${info(0, 1)},"u":${info(0, 1)}}`, 1), /overlap/],
  ['an end past that of the file', file(one(info(0, 3)), 2), /"t" runs past the end of the file .*got \[0,3\], wanted at most 2/],
  ['a tensor of petabytes', file(one(info(0, 2 ** 50)), 2), /"t" runs past the end of the file/],
  ['lists nested too deep', file(nested(1000), 1), /nested too deep/],
  ['a field that is no value', file(one(`{"x":nul,${info(0, 1).slice(1)}`), 1), /"x" of the tensor "t" is wrong .*wanted a value/],
  ['a control character in a name', file('{"t\\n\\u001b[31m":{}}'), /"t\\n\\u001b\[31m" has no dtype/],
  ['a name without end', file(`{"${'x'.repeat(1e6)}":{}}`), /"x{80}\.\.\." has no dtype/],
]

/** Opens and reads all; gives the error if there is one, and fails on any that is not ours. */
async function attempt(bytes: Uint8Array): Promise<IngotError | undefined> {
  try {
    const { tensors } = await open(bytes)
    let total = 0
    for (const tensor of tensors.values()) {
      expect((await tensor.read(0, tensor.bytes)).length).toBe(tensor.elements * SAFE_BYTES[tensor.dtype])
      total += tensor.bytes
    }
    const header = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true))
    expect(total).toBe(bytes.length - 8 - header)
    return undefined
  } catch (error) {
    if (!(error instanceof IngotError)) throw error
    return error
  }
}
const ending = async (bytes: Uint8Array): Promise<string> => (await attempt(bytes))?.code ?? 'read'

describe('hostile files', () => {
  test.each(CASES)('%s', async (_, bytes, message) => {
    const error = await attempt(bytes)
    expect(error?.message).toMatch(message)
    expect(error?.message).toContain('(in test.safetensors)')
    expect(error?.message.length).toBeLessThan(500)
    expect(error?.code).toBe('bad-file')
  })

  test('what others write and nobody reads is passed by', async () => {
    const odd = `{ "__metadata__" : null ,\t"t": {"x":{"y":[1.5e3,"z",true,null,{}],"y":-0},"dtype":"U8","shape":[ 1 ],"data_offsets":[0 , 1]} }\n `
    const { tensors, metadata } = await open(file(odd, 1))
    expect([metadata.size, tensors.get('t')?.shape]).toEqual([0, [1]])
    expect(await ending(file(`{"t":${info(0, 1)},"e":${info(0, 0)},"f":${info(1, 1)}}`, 1))).toBe('read')
  })

  const whole = Uint8Array.from(Buffer.from(REFERENCE_FILE, 'base64'))

  test('a file cut anywhere', async () => {
    for (let length = 0; length < whole.length; length++) {
      expect((await attempt(whole.subarray(0, length)))?.code, `cut at ${length}`).toBe('bad-file')
    }
    expect(await attempt(whole)).toBeUndefined()
  })

  test('every byte of the header changed in turn', async () => {
    for (let at = 0; at < whole.length; at++) {
      for (const mask of [0x01, 0x10, 0x80]) {
        const changed = whole.slice()
        changed[at] = (changed[at] ?? 0) ^ mask
        expect(['read', 'bad-file']).toContain(await ending(changed))
      }
    }
  })

  test('signs of the header changed, doubled and left out at random', async () => {
    const text = new TextDecoder().decode(whole.subarray(8, 8 + Number(new DataView(whole.buffer).getBigUint64(0, true))))
    const sign = fc.constantFrom(
      ...'{}[]:,"\\0123456789.eE- abtrufnsxDF8_\0\ud83d',
      '"shape"',
      '"dtype"',
      'null',
      '9007199254740993',
      '[[[[',
    )
    const change = fc.tuple(fc.nat(text.length - 1), fc.nat(3), fc.array(sign, { maxLength: 3 }))
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), fc.integer({ min: 0, max: 80 }), async (changes, data) => {
        let header = text
        for (const [at, length, signs] of changes) header = header.slice(0, at) + signs.join('') + header.slice(at + length)
        expect(['read', 'bad-file']).toContain(await ending(file(header, data)))
      }),
      { numRuns: 3000 },
    )
  })

  test('numbers of the header changed at random', async () => {
    const numbers = fc.array(fc.oneof(fc.nat(9), fc.nat(), fc.maxSafeNat()), { maxLength: 3 })
    const tensor = fc.tuple(numbers, numbers, fc.constantFrom('U8', 'F16', 'F64', 'I64'))
    await fc.assert(
      fc.asyncProperty(fc.array(tensor, { maxLength: 3 }), fc.nat(32), async (tensors, data) => {
        const fields = tensors.map(([shape, offsets, dtype], i) => `"${i}":${JSON.stringify({ dtype, shape, data_offsets: offsets })}`)
        expect(['read', 'bad-file']).toContain(await ending(file(`{${fields.join(',')}}`, data)))
      }),
      { numRuns: 1000 },
    )
  })
})

describe('memory', () => {
  /** A source that claims to be huge and counts what is read of it. */
  const claim = (bytes: Uint8Array, size: number): ByteSource & { total(): number } => {
    let total = 0
    return {
      ...fromBytes(bytes, 'huge.safetensors'),
      size,
      total: () => total,
      read: (offset, length, into) => {
        total += length
        return fromBytes(bytes).read(offset, length, into)
      },
    }
  }

  test('the header of a file of terabytes costs its own size', async () => {
    const header = file(one(info(0, 2 ** 41)))
    const source = claim(header, header.length + 2 ** 41)
    const { tensors } = await openSafetensors(source)
    expect(tensors.get('t')).toMatchObject({ bytes: 2 ** 41, offset: header.length })
    expect(source.total()).toBe(header.length)
  })

  test('a header of gigabytes is refused before anything is read for it', async () => {
    const source = claim(file('{}', 0, 2 ** 32), 2 ** 41)
    await expect(openSafetensors(source)).rejects.toMatchObject({ code: 'bad-file' })
    expect(source.total()).toBe(8)
  })

  test('long headers of every kind take seconds at most', { timeout: 120_000 }, async () => {
    const size = 20_000_000
    const fill = (front: string, each: string, back: string): Uint8Array =>
      file(`${front}${each.repeat(Math.floor((size - front.length - back.length) / each.length))}${back}`)
    const started = performance.now()
    for (const bytes of [
      fill('{', ' ', '}'),
      fill('{"', 'x', '":{}}'),
      fill('{"', '\\\\', '":{}}'),
      fill('{"', '\\"', '":{}}'),
      fill('{"', '\\"', ''),
      fill('{"t":{"x":', '[', ''),
      fill('{"t":{"x":', '1', '}}'),
      fill('{"t":{"x":[', '1,', '1]}}'),
      fill('{"t":{"shape":[', '1,', '1]}}'),
      fill('{"t":{"x":{', '"":0,', '"":0}}}'),
      fill('{"__metadata__":{"a":"', '\\u0061', '"}}'),
    ]) {
      expect(['read', 'bad-file']).toContain(await ending(bytes))
    }
    expect(performance.now() - started).toBeLessThan(60_000)
  })
})
