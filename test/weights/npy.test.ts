// NumPy files: what NumPy wrote is read, whatever its version and order; what is written has its form; what lies is refused.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ELEMENT_BYTES, ELEMENT_TYPES, type ElementType, decodeElements } from '../../src/base/element.ts'
import { IngotError } from '../../src/base/error.ts'
import { openNpy, writeNpy } from '../../src/weights/npy.ts'
import { type ByteSource, fromBytes } from '../../src/weights/source.ts'
import { FOREIGN_NPY_FILES, NPY_FILES } from './npy-files.ts'

const decode = (base64: readonly string[]): Uint8Array => Uint8Array.from(Buffer.from(base64.join(''), 'base64'))
const open = (bytes: Uint8Array) => openNpy(fromBytes(bytes, 'test.npy'))
const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1)

/** A file with this header and so much data. */
function file(header: string, data = 0, [major = 1, minor = 0]: readonly number[] = [], length?: number): Uint8Array {
  const text = new TextEncoder().encode(header)
  const prefix = major === 1 ? 10 : 12
  const bytes = new Uint8Array(prefix + text.length + data)
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, major, minor])
  const view = new DataView(bytes.buffer)
  if (major === 1) view.setUint16(8, length ?? text.length, true)
  else view.setUint32(8, length ?? text.length, true)
  bytes.set(text, prefix)
  return bytes
}

async function encode(dtype: ElementType, shape: readonly number[], data: Uint8Array): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  const written = await writeNpy({ write: async (bytes) => void parts.push(bytes.slice()) }, { dtype, shape, data: () => data })
  const whole = new Uint8Array(Buffer.concat(parts))
  expect(written).toBe(whole.length)
  return whole
}

describe('files that NumPy wrote', () => {
  test.each(NPY_FILES)('%s', async (_, dtype, shape, values, base64) => {
    const array = await open(decode(base64))
    expect({ dtype: array.dtype, shape: array.shape }).toEqual({ dtype, shape })
    expect(Array.from(decodeElements(dtype, await array.read(), values.length))).toEqual(values)
  })

  const rows = NPY_FILES.filter(([what]) => !/big|columns|version|^[iu]2|^u8/.test(what))
  test.each(rows)('%s is written the same, byte by byte', async (_, dtype, shape, __, base64) => {
    const whole = decode(base64)
    expect(await encode(dtype, shape, await (await open(whole)).read())).toEqual(whole)
  })

  test.each(FOREIGN_NPY_FILES.filter(([what]) => what !== 'no elements'))('%s are not supported', async (_, base64) => {
    await expect(open(decode(base64)).then((array) => array.read())).rejects.toMatchObject({ code: 'unsupported' })
  })
})

describe('writing', () => {
  test('begins the elements at a multiple of 64', async () => {
    for (let axes = 0; axes <= 64; axes++) {
      const shape = Array<number>(axes).fill(1)
      const whole = await encode('f32', shape, new Uint8Array(4))
      expect((whole.length - 4) % 64).toBe(0)
      expect(whole[whole.length - 5]).toBe(0x0a)
      expect((await open(whole)).shape).toEqual(shape)
    }
  })

  test('refuses what NumPy does not have, and data of another size', async () => {
    await expect(encode('bf16', [1], new Uint8Array(2))).rejects.toMatchObject({ code: 'unsupported' })
    await expect(encode('f32', Array<number>(65).fill(1), new Uint8Array(4))).rejects.toMatchObject({ code: 'unsupported' })
    await expect(encode('f32', [2], new Uint8Array(4))).rejects.toThrow(/wrong size, got 4, wanted 8/)
    await expect(encode('f32', [2], new Uint8Array(12))).rejects.toThrow(/wrong size, got 12, wanted 8/)
  })

  test('what is written is read again', async () => {
    const types = ELEMENT_TYPES.filter((type) => type !== 'bf16')
    const property = fc.asyncProperty(fc.constantFrom(...types), fc.array(fc.nat(4), { maxLength: 5 }), async (dtype, shape) => {
      const values = Uint8Array.from({ length: sizeOf(shape) * ELEMENT_BYTES[dtype] }, (_, i) => (dtype === 'bool' ? i % 2 : i))
      const array = await open(await encode(dtype, shape, values))
      expect({ dtype: array.dtype, shape: array.shape }).toEqual({ dtype, shape })
      expect(await array.read()).toEqual(values)
    })
    await fc.assert(property, { numRuns: 200 })
  })
})

const HEAD = `{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }`
const changed = (from: string | RegExp, to: string): Uint8Array => file(HEAD.replace(from, to), 8)
const withByte = (bytes: Uint8Array, at: number, value: number): Uint8Array => Uint8Array.from(bytes).with(at, value)

const CASES: [what: string, bytes: Uint8Array, message: RegExp][] = [
  ['an empty file', new Uint8Array(0), /no \.npy file/],
  ['nine bytes', file('').subarray(0, 9), /no \.npy file/],
  ['another file', new Uint8Array(100), /no \.npy file/],
  ['eleven bytes of version 2.0', file('', 0, [2, 0]).subarray(0, 11), /ends early/],
  ['a header past the end', file(HEAD, 0, [1, 0], 1000), /header is too long .*got 1000 bytes, wanted at most 57/],
  ['a header of gigabytes', file(HEAD, 0, [2, 0], 2 ** 32 - 1), /header is too long/],
  ['a header past the limit', file(`${HEAD}${' '.repeat(70_000)}`, 8, [2, 0]), /header is too long .*wanted at most 65535/],
  ['a header that is no text', withByte(file(HEAD, 8, [3, 0]), 12, 0xff), /no text/],
  ['no header', file(''), /wrong at character 0 .*wanted {/],
  ['a list', file('[1]'), /wanted {/],
  ['no end', file(HEAD.slice(0, -1), 8), /a key in quotes/],
  ['more than the dictionary', changed(/$/, 'x'), /wanted spaces only/],
  ['no comma', changed(`', 'fortran`, `' 'fortran`), /wanted }/],
  ['two commas', changed(', }', ',, }'), /a key in quotes/],
  ['no colon', changed(':', ''), /wanted :/],
  ['a key twice', changed('}', `'shape': (2,)}`), /appears twice .*got shape/],
  ['an unknown key', changed('descr', 'constructor'), /unknown key .*got "constructor"/],
  ['a missing key', changed(`'fortran_order': False, `, ''), /key is missing .*got \[descr,shape\]/],
  ['an order that is a number', changed('False', '0'), /True or False/],
  ['a shape that is a list', changed('(2,)', '[2]'), /wanted \(/],
  ['a shape that is a number', changed('(2,)', '2'), /wanted \(/],
  ['a shape that is no tuple', changed('(2,)', '(2)'), /no tuple .*got \(2\), wanted \(2,\)/],
  ['a size below 0', changed('(2,)', '(-2,)'), /whole number/],
  ['a size with a fraction', changed('(2,)', '(2.0,)'), /wrong at character/],
  ['a size in hexadecimal', changed('(2,)', '(0x2,)'), /wrong at character/],
  ['a size past 2^53', changed('(2,)', '(9007199254740992,)'), /whole number below 2\^53/],
  ['a size of many digits', changed('(2,)', `(${'9'.repeat(60_000)},)`), /whole number/],
  ['too many axes', changed('(2,)', `(${'1,'.repeat(65)})`), /too many axes/],
  ['sizes that overflow', changed('(2,)', `(${'9007199254740991,'.repeat(64)})`), /ends early .*wanted/],
  ['sizes that overflow before a 0', changed('(2,)', `(${'9007199254740991,'.repeat(63)}0)`), /ends early/],
  ['an escape', changed('<f4', '\\x3cf4'), /in quotes/],
  ['a type that is none', changed('<f4', 'float32'), /descr is wrong .*got "float32"/],
  ['too few elements', changed('(2,)', '(3,)'), /ends early .*got 8 bytes of elements, wanted 12 for \[3\]/],
  ['too many elements', changed('(2,)', '(1,)'), /something follows the array .*got 8 bytes of elements, wanted 4/],
  ['a bool that is none', withByte(file(HEAD.replace('<f4', '|b1'), 2), -1, 2), /bool is neither/],
]

/** Opens and reads; gives the error if there is one, and fails on any that is not ours. */
async function attempt(bytes: Uint8Array): Promise<IngotError | undefined> {
  try {
    const array = await open(bytes)
    expect((await array.read()).length).toBe(sizeOf(array.shape) * ELEMENT_BYTES[array.dtype])
    return undefined
  } catch (error) {
    if (!(error instanceof IngotError)) throw error
    return error
  }
}
const ending = async (bytes: Uint8Array): Promise<string> => (await attempt(bytes))?.code ?? 'read'
const ENDINGS = ['read', 'bad-file', 'unsupported']

describe('hostile files', () => {
  test.each(CASES)('%s', async (_, bytes, message) => {
    const error = await attempt(bytes)
    expect(error?.message).toMatch(message)
    expect(error?.message).toMatch(/\(in (the header of )?test\.npy\)/)
    expect(error?.code).toBe('bad-file')
  })

  test('versions that are not known', async () => {
    for (const version of [[0, 0], [4, 0], [1, 1], [255, 255]]) expect(await ending(file(HEAD, 8, version))).toBe('unsupported') // prettier-ignore
  })

  test('other spellings of the same', async () => {
    for (const header of [
      `{"shape":(2,),"fortran_order":False,"descr":"<f4"}`,
      ` { 'shape' : ( 2 , ) ,\n'fortran_order':True,'descr':'=f4' , } \n`,
      HEAD.replace('<f4', '|f4'),
    ]) {
      expect(await attempt(file(header, 8))).toBeUndefined()
    }
    expect((await open(file(HEAD.replace('(2,)', '(1, 2,)'), 8))).shape).toEqual([1, 2])
    expect((await open(file(HEAD.replace('(2,)', '()'), 4))).shape).toEqual([])
  })

  const wholes = NPY_FILES.map(([, , , , base64]) => decode(base64))

  test('a file cut anywhere', async () => {
    for (const whole of wholes) {
      for (let length = 0; length < whole.length; length++) expect(await ending(whole.subarray(0, length))).not.toBe('read')
    }
  })

  test('every byte of a file changed in turn', async () => {
    for (const whole of wholes.slice(0, 3)) {
      for (let at = 0; at < whole.length; at++) {
        for (const mask of [0x01, 0x10, 0x80]) expect(ENDINGS).toContain(await ending(whole.with(at, whole[at]! ^ mask)))
      }
    }
  })

  test('signs of the header changed, doubled and left out at random', async () => {
    const sign = fc.constantFrom(...`{}()[]:,'"\\0123456789.L- <>|=fiubcO\n\0`, `'shape'`, 'True', 'None', '(3, 4)', '18446744073709551616')
    const change = fc.tuple(fc.nat(HEAD.length - 1), fc.nat(3), fc.array(sign, { maxLength: 3 }))
    const property = fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), fc.nat(32), async (changes, data) => {
      let header = HEAD
      for (const [at, length, signs] of changes) header = header.slice(0, at) + signs.join('') + header.slice(at + length)
      expect(ENDINGS).toContain(await ending(file(header, data)))
    })
    await fc.assert(property, { numRuns: 3000 })
  })

  test('nothing is read for what a header claims', async () => {
    let total = 0
    const bytes = file(HEAD.replace('(2,)', '(1099511627776,)'))
    const source: ByteSource = {
      ...fromBytes(bytes),
      read: (offset, length, into) => {
        total += length
        return fromBytes(bytes).read(offset, length, into)
      },
    }
    await expect(openNpy(source)).rejects.toMatchObject({ code: 'bad-file' })
    expect(total).toBeLessThan(200)
    expect((await openNpy({ ...source, size: bytes.length + 2 ** 42 })).shape).toEqual([2 ** 40])
  })
})
