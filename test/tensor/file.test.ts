// Tensors to files and back, by the functions that users call: every type, odd shapes and names, what is there stays, nothing is left.

import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ELEMENT_BYTES, ELEMENT_TYPES, type ElementType, encodeElements } from '../../src/base/element.ts'
import { isIngotError } from '../../src/base/error.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { fromBytes, loadNpy, loadSafetensors, openFile, openSafetensors, saveNpy, saveSafetensors } from '../../src/index.ts'
import { Storage } from '../../src/tensor/storage.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { FOREIGN_NPY_FILES, NPY_FILES } from '../weights/npy-files.ts'
import { REFERENCE_FILE } from '../weights/safetensors-file.ts'

let dir = ''
beforeEach(async () => void (dir = await mkdtemp(join(tmpdir(), 'tensors-'))))
afterEach(() => rm(dir, { recursive: true }))
const at = (name: string): string => join(dir, name)

/** A tensor of these bytes, whatever numbers they are. */
const over = (dtype: ElementType, shape: readonly number[], bytes: Uint8Array): Tensor => Tensor.onto(Storage.onHost(bytes), shape, dtype)
/** Bytes that no number survives a detour with: NaNs of every kind among halves and doubles, whole ones past 2^53. */
const pattern = (dtype: ElementType, count: number): Uint8Array =>
  Uint8Array.from({ length: count * ELEMENT_BYTES[dtype] }, (_, i) => (dtype === 'bool' ? i % 2 : 255 - ((i * 7) % 16)))

const SHAPES = [[], [1], [5], [2, 3], [1, 1, 3], [3, 1, 2, 1, 2]]
const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1)

describe('bytes', () => {
  test.each(ELEMENT_TYPES)('of %s are those of memory, on the host and on a device', async (dtype) => {
    await using device = openReference()
    const bytes = pattern(dtype, 5)
    const tensor = Tensor.onto(Storage.onHost(bytes), [5], dtype, device)
    const given = await tensor.bytes()
    expect(given).toEqual(bytes)
    given.fill(0) // it is the caller's
    expect(await tensor.bytes()).toEqual(bytes)
    await tensor.reshape(5, 1).realize() // brings it to the device
    expect(await tensor.bytes()).toEqual(bytes)
  })

  test('of what is computed', async () => {
    await using device = openReference()
    const sum = Tensor.from([1, 2, 3], { device, dtype: 'f16' }).add(1)
    expect(await sum.bytes()).toEqual(encodeElements('f16', [2, 3, 4]))
  })

  test('of a weight, and of a tensor that is gone, are refused', async () => {
    await expect(Tensor.leaf(new Storage(), [1, 32], 'q4_0').bytes()).rejects.toThrow(/bytes: a weight has no single elements/)
    const tensor = Tensor.from([1])
    tensor[Symbol.dispose]()
    await expect(tensor.bytes()).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('safetensors', () => {
  test('keep every type and shape, bit by bit', async () => {
    const tensors = Object.fromEntries(
      ELEMENT_TYPES.flatMap((dtype) =>
        SHAPES.map((shape) => [`${dtype} ${shape.join('x')}`, over(dtype, shape, pattern(dtype, sizeOf(shape)))]),
      ),
    )
    await saveSafetensors(at('a.safetensors'), tensors)
    const loaded = await loadSafetensors(at('a.safetensors'))
    expect(Object.keys(loaded).toSorted()).toEqual(Object.keys(tensors).toSorted())
    for (const [name, tensor] of Object.entries(tensors)) {
      expect({ dtype: loaded[name]?.dtype, shape: loaded[name]?.shape }).toEqual({ dtype: tensor.dtype, shape: tensor.shape })
      expect(await loaded[name]?.bytes()).toEqual(await tensor.bytes())
    }
    expect(await readdir(dir)).toEqual(['a.safetensors'])
  })

  test('are computed with after they are loaded, on the device that was asked for', async () => {
    await using device = openReference()
    await saveSafetensors(at('a'), { x: Tensor.from([[1, 2], [3, 4]], { device }).mul(2) }) // prettier-ignore
    const { x } = await loadSafetensors(at('a'), { device })
    expect(x?.device).toBe(device)
    expect(await x?.add(1).toArray()).toEqual([[3, 5], [7, 9]]) // prettier-ignore
  })

  test('compute all that is saved together', async () => {
    await using device = openReference()
    const x = Tensor.from([1, 2, 3], { device })
    const before = device.stats.submissions
    await saveSafetensors(at('a'), { a: x.exp(), b: x.sum() })
    // one that computes, and one that reads each
    expect(device.stats.submissions - before).toBe(3)
  })

  test('have any names, and metadata', async () => {
    const names = ['', '__proto__', 'constructor', 'a.b', '\u{1f600}', '"\n', '0', 'toString']
    const tensors = Object.fromEntries(names.map((name, i) => [name, Tensor.from([i])]))
    const metadata = Object.fromEntries(names.map((name) => [name, `${name}!`]))
    await saveSafetensors(at('a'), tensors, { metadata })
    const loaded = await loadSafetensors(at('a'))
    expect(Object.getPrototypeOf(loaded)).toBeNull()
    expect(Object.keys(loaded).toSorted()).toEqual(names.toSorted())
    for (const [i, name] of names.entries()) expect(await loaded[name]?.item()).toBe(i)
    await using file = await openSafetensors(at('a'))
    expect(Object.fromEntries(file.metadata)).toEqual(metadata)
  })

  test('can be loaded by name; what is not asked for may be of any type', async () => {
    const bytes = Uint8Array.from(Buffer.from(REFERENCE_FILE, 'base64'))
    const source = fromBytes(bytes, 'reference')
    const loaded = await loadSafetensors(source, { names: ['__proto__', 'f', 'l', 'd'] })
    expect(Object.keys(loaded)).toEqual(['__proto__', 'f', 'l', 'd'])
    expect(await loaded['f']?.toArray()).toEqual([[1, 2], [3, 4.5]]) // prettier-ignore
    expect(await loaded['d']?.item()).toBe(0.1)
    expect(new BigInt64Array(((await loaded['l']?.bytes()) ?? new Uint8Array()).slice().buffer)).toEqual(BigInt64Array.of(-(2n ** 62n)))
    expect(await loadSafetensors(source, { names: [] })).toEqual(Object.create(null))
    await expect(loadSafetensors(source)).rejects.toMatchObject({ code: 'unsupported' })
    for (const [name, got] of [
      ['x', 'F8_E4M3'],
      ['w', 'U16'],
      ['q', 'U64'],
      ['y', 'no elements'],
    ])
      // prettier-ignore
      await expect(loadSafetensors(source, { names: ['f', name!] })).rejects.toThrow(new RegExp(`the tensor "${name}" .*${got}`))
    await expect(loadSafetensors(source, { names: ['nobody'] })).rejects.toThrow(
      /loadSafetensors: no such tensor in reference, got "nobody", wanted one of 19: "q", "l",/,
    )
    expect((await source.read(0, 1)).length).toBe(1) // a source stays open
  })

  test('with bools that are none are refused', async () => {
    await saveSafetensors(at('a'), { good: Tensor.from([true, false]), bad: over('bool', [2], Uint8Array.of(1, 2)) })
    await expect(loadSafetensors(at('a'))).rejects.toThrow(/a bool of the tensor "bad" is neither 0 nor 1/)
    expect(Object.keys(await loadSafetensors(at('a'), { names: ['good'] }))).toEqual(['good'])
  })
})

describe('npy', () => {
  test.each(ELEMENT_TYPES.filter((dtype) => dtype !== 'bf16'))('keeps %s in every shape, bit by bit', async (dtype) => {
    for (const shape of SHAPES) {
      const tensor = over(dtype, shape, pattern(dtype, sizeOf(shape)))
      await saveNpy(at('a.npy'), tensor, { force: true })
      const loaded = await loadNpy(at('a.npy'))
      expect({ dtype: loaded.dtype, shape: loaded.shape }).toEqual({ dtype, shape })
      expect(await loaded.bytes()).toEqual(await tensor.bytes())
    }
    expect(await readdir(dir)).toEqual(['a.npy'])
  })

  test.each(NPY_FILES)('of NumPy is loaded: %s', async (_, dtype, shape, values, base64) => {
    const tensor = await loadNpy(fromBytes(Buffer.from(base64.join(''), 'base64')))
    expect({ dtype: tensor.dtype, shape: tensor.shape }).toEqual({ dtype, shape })
    expect(Array.from(await tensor.data())).toEqual(values)
  })

  test.each(FOREIGN_NPY_FILES)('of NumPy is refused: %s', async (_, base64) => {
    await expect(loadNpy(fromBytes(Buffer.from(base64.join(''), 'base64')))).rejects.toMatchObject({ code: 'unsupported' })
  })

  test('has no bf16, and says what to do', async () => {
    await expect(saveNpy(at('a'), Tensor.from([1], { dtype: 'bf16' }))).rejects.toThrow(/NumPy has no bf16; \.to\('f32'\) is exact/)
    expect(await readdir(dir)).toEqual([])
  })

  test('is computed where it was asked for', async () => {
    await using device = openReference()
    await saveNpy(at('a'), Tensor.from([1, 2], { device }).add(1))
    expect(await (await loadNpy(at('a'), { device })).mul(10).toArray()).toEqual([20, 30])
  })
})

/** Both ways to save, to one path. */
const SAVERS: [string, (path: string, tensor: Tensor, options?: { force?: boolean }) => Promise<void>][] = [
  ['saveSafetensors', (path, x, options) => saveSafetensors(path, { x }, options)],
  ['saveNpy', (path, x, options) => saveNpy(path, x, options)],
]
describe.each(SAVERS)('%s', (op, save) => {
  test('keeps a file without force, and replaces it with it', async () => {
    await writeFile(at('a'), 'mine')
    const lazy = Tensor.from([1]).add(1)
    await expect(save(at('a'), lazy)).rejects.toMatchObject({
      code: 'bad-argument',
      message: `${op}: ${at('a')} exists; force: true replaces it`,
    })
    expect(lazy.node.op).toBe('map') // nothing was computed for it
    expect(await readFile(at('a'), 'utf8')).toBe('mine')
    await symlink(at('nowhere'), at('dangling'))
    await expect(save(at('dangling'), lazy)).rejects.toThrow(/exists/)
    await save(at('a'), Tensor.from([1]), { force: true })
    expect((await readFile(at('a'))).length).toBeGreaterThan(50)
    expect((await readdir(dir)).toSorted()).toEqual(['a', 'dangling'])
  })

  test('refuses folders, and files in none', async () => {
    await expect(save(dir, Tensor.from([1]), { force: true })).rejects.toThrow(`${op}: not a file: ${dir}`)
    await expect(save(at('none/a'), Tensor.from([1]))).rejects.toThrow(`${op}: no such folder: ${at('none')}`)
  })

  test('leaves nothing, and what was there, when the values cannot be had', async () => {
    const device = openReference()
    const tensor = await Tensor.from([1, 2], { device }).add(1).realize()
    await device.close()
    await writeFile(at('a'), 'mine')
    await expect(save(at('a'), tensor, { force: true })).rejects.toMatchObject({ code: 'closed' })
    await expect(save(at('b'), tensor)).rejects.toMatchObject({ code: 'closed' })
    expect([await readdir(dir), await readFile(at('a'), 'utf8')]).toEqual([['a'], 'mine'])
  })

  test('refuses what is no tensor, and weights', async () => {
    const weight = Tensor.leaf(new Storage(), [1, 32], 'q4_0')
    await expect(save(at('a'), weight)).rejects.toMatchObject({ code: 'unsupported' })
    for (const wrong of [null, [1], 'x', {}]) await expect(save(at('a'), wrong as Tensor)).rejects.toMatchObject({ code: 'bad-argument' })
    for (const wrong of [null, 'x', { force: 1 }])
      await expect(save(at('a'), Tensor.from([1]), wrong as object)).rejects.toMatchObject({ code: 'bad-argument' })
    await expect(save(7 as unknown as string, Tensor.from([1]))).rejects.toMatchObject({ code: 'bad-argument' })
    expect(await readdir(dir)).toEqual([])
  })
})

test('arguments of the wrong kind are named', async () => {
  const tensors = new Map([['x', Tensor.from([1])]]) as unknown as Record<string, Tensor>
  await expect(saveSafetensors(at('a'), tensors)).rejects.toThrow(/the tensors is of the wrong kind/)
  await expect(saveSafetensors(at('a'), {}, { metadata: { a: 1 as unknown as string } })).rejects.toThrow(/texts, got 1/)
  await expect(saveSafetensors(at('a'), {}, { metadata: [] as unknown as Record<string, string> })).rejects.toThrow(/metadata/)
  for (const load of [loadSafetensors, loadNpy]) {
    await expect(load(7 as unknown as string)).rejects.toMatchObject({ code: 'bad-argument' })
    await expect(load(at('none'))).rejects.toMatchObject({ code: 'bad-file' })
    await expect(load(dir)).rejects.toMatchObject({ code: 'bad-file' })
  }
  await expect(loadSafetensors(at('a'), { names: 'x' as unknown as string[] })).rejects.toThrow(/names/)
  expect(await readdir(dir)).toEqual([])
})

test('a path is closed when it was read, and when it was refused', async () => {
  // More than a process may have open, if they stayed open.
  await saveNpy(at('a'), Tensor.from([1]))
  const handles = async (): Promise<number> => (await readdir('/proc/self/fd').catch(() => [])).length
  const before = await handles()
  for (let i = 0; i < 50; i++) {
    await loadNpy(at('a'))
    await expect(loadSafetensors(at('a'))).rejects.toMatchObject({ code: 'bad-file' })
  }
  expect(await handles()).toBeLessThan(before + 40)
  const file = await openFile(at('a'))
  expect(await (await loadNpy(file)).item()).toBe(1)
  await file.close()
})

test('changed files are loaded right, or refused with a code that files have', async () => {
  await saveSafetensors(at('a'), { x: Tensor.from([1, 2]), y: Tensor.from([true]), z: Tensor.from(3, { dtype: 'i64' }) })
  await saveNpy(at('b'), Tensor.from([[1, 2, 3]], { dtype: 'f16' }))
  const [a, b] = await Promise.all([readFile(at('a')), readFile(at('b'))])
  const change = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(255))
  const property = fc.asyncProperty(
    fc.array(change, { minLength: 1, maxLength: 4 }),
    fc.boolean(),
    fc.nat(3),
    async (changes, isNpy, cut) => {
      const bytes = Uint8Array.from(isNpy ? b : a)
      for (const [where, byte] of changes) bytes[Math.floor(where * (bytes.length - 1))] = byte
      const source = fromBytes(bytes.subarray(0, bytes.length - (cut === 3 ? 2 : 0)))
      try {
        const loaded = isNpy ? [await loadNpy(source)] : Object.values(await loadSafetensors(source))
        for (const tensor of loaded) {
          expect((await tensor.bytes()).length).toBe(tensor.size * ELEMENT_BYTES[tensor.dtype as ElementType])
          expect(tensor.size).toBeGreaterThan(0)
        }
      } catch (error) {
        if (!isIngotError(error, 'bad-file') && !isIngotError(error, 'unsupported')) throw error
      }
    },
  )
  await fc.assert(property, { numRuns: 2000 })
})
