// What every instruction set must give to the last bit, at every width of vectors: half precision to and from memory, and dot products
// of bytes at the ends of their range. Native levels are forced one by one, WebAssembly with and without relaxed SIMD.

import { describe, expect, it } from 'vitest'
import type { Width } from '../../src/base/dtype.ts'
import { decodeHalf, encodeHalf } from '../../src/base/half.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { detectWasm } from '../../src/emit/wasm/features.ts'
import { buffer, kernel } from '../../src/ir/author.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { NATIVE_LEVELS, buildTestLibrary } from './native-library.ts'

const WIDTHS: readonly Width[] = [2, 4, 8, 16]
const HALVES = 65536
const EDGES = [0, 1, 2, 63, 64, 127, 128, 129, 191, 254, 255]

/** f[i] = h[i] */
const widen = (width: Width) =>
  kernel(`widen${width}`, { params: { h: buffer('f16', 'read'), f: buffer('f32', 'write') } }, (p, k) => {
    k.for({ to: HALVES, step: width }, (i) => p.f.store(i, p.h.load(i, width).to('f32')))
  })
const widenOne = kernel('widen', { params: { h: buffer('f16', 'read'), f: buffer('f32', 'write') } }, (p, k) => {
  k.for({ to: HALVES }, (i) => p.f.set(i, p.h.at(i).to('f32')))
})
/** h[i] = f[i] */
const narrow = (width: Width) =>
  kernel(`narrow${width}`, { params: { f: buffer('f32', 'read'), h: buffer('f16', 'write') } }, (p, k) => {
    k.for({ to: HALVES, step: width }, (i) => p.h.store(i, p.f.load(i, width).to('f16')))
  })
const narrowOne = kernel('narrow', { params: { f: buffer('f32', 'read'), h: buffer('f16', 'write') } }, (p, k) => {
  k.for({ to: HALVES }, (i) => p.h.set(i, p.f.at(i).to('f16')))
})

const PAIRS = EDGES.flatMap((a) => EDGES.map((b) => [a, b] as const))
const WORDS = Math.ceil(PAIRS.length / 16) * 16
const FACTORS = [-32768, 32767] as const
/** c[i] = 7 + the dot product of the four bytes in a[i] and in b[i]; then the same with other ideas of what a byte is */
const dots = (width: Width) =>
  kernel(`dots${width}`, { params: { a: buffer('u32', 'read'), b: buffer('u32', 'read'), c: buffer('i32', 'write') } }, (p, k) => {
    k.for({ to: WORDS, step: width }, (i) => {
      const [a, b] = [k.let('a', p.a.load(i, width)), k.let('b', p.b.load(i, width))]
      p.c.store(i, a.dotI8(b, k.const(`i32x${width}`, 7)))
      p.c.store(i.add(WORDS), a.dotU8I8(b, k.const(`i32x${width}`, 7)))
      p.c.store(i.add(2 * WORDS), a.and(0x7f7f7f7f).dotU7I8(b, k.const(`i32x${width}`, 7)))
      // the two sums of a lane, each with a factor of its own
      const above = a.or(a.shr(7).and(0x01010101)) // -128
      const pairs = [a.and(0x7f7f7f7f).pairsU7I8(b), above.pairsI8(b)]
      const factors = k.const(`u32x${width}`, ((FACTORS[1] << 16) | (FACTORS[0] & 0xffff)) >>> 0)
      pairs.forEach((pair, at) => p.c.store(i.add((3 + at) * WORDS), pair.dotI16(factors, k.const(`i32x${width}`, 7))))
      p.c.store(i.add(5 * WORDS), a.addPairs(b).as('i32'))
    })
  })

const KERNELS = { widen: [widenOne, ...WIDTHS.map(widen)], narrow: [narrowOne, ...WIDTHS.map(narrow)], dots: WIDTHS.map(dots) }

/** Halves, and what lies between them and around their ends. */
const FLOATS = Float32Array.from({ length: HALVES }, (_, i) => {
  const [here, next] = [decodeHalf(i), decodeHalf(i + 1)]
  if (i % 4 === 0 || !Number.isFinite(here) || !Number.isFinite(next)) return here
  return i % 4 === 1 ? (here + next) / 2 : here + ((next - here) * (i % 4 === 2 ? 127 : 129)) / 256
})
  .fill(65519.996, 10, 11)
  .fill(-65520, 11, 12)
  .fill(1e-40, 12, 13)
  .fill(1e30, 13, 14)

const repeat = (byte: number, other: number): number => (byte | (other << 8) | (byte << 16) | (other << 24)) >>> 0
/** The bytes of a pair beside those of the pair across from it. */
const words = (side: 0 | 1) =>
  Uint32Array.from({ length: WORDS }, (_, i) => repeat(PAIRS[i % PAIRS.length]![side], PAIRS[(i * 7 + 3) % PAIRS.length]![side]))
const signed = (byte: number): number => (byte << 24) >> 24
function dot(a: number, b: number, byteOf: (byte: number) => number, factors: readonly [number, number] = [1, 1]): number {
  return [0, 8, 16, 24].reduce((sum, s) => sum + factors[s < 16 ? 0 : 1] * byteOf((a >>> s) & 255) * signed((b >>> s) & 255), 7) | 0
}
const addHalves = (a: number, b: number): number => ((a + b) & 0xffff) | ((((a >>> 16) + (b >>> 16)) & 0xffff) << 16)

async function run(device: Device, which: Kernel, inputs: readonly Uint8Array[], bytes: number): Promise<Uint8Array> {
  const ranges = inputs.map((input) => {
    const handle = device.alloc(input.length)
    device.write(handle, 0, input)
    return { buffer: handle }
  })
  const out = { buffer: device.alloc(bytes) }
  const command = {
    kind: 'dispatch',
    program: await device.compile(which),
    buffers: [...ranges, out],
    uniforms: new Uint8Array(0),
  } as const
  const [result] = await device.submit([
    { ...command, grid: [1, 1, 1] },
    { kind: 'read', from: out, bytes },
  ])
  for (const range of [...ranges, out]) device.free(range.buffer)
  return result as Uint8Array
}

const bytesOf = (array: Uint16Array | Uint32Array | Float32Array): Uint8Array => new Uint8Array(array.buffer)

function testExact(title: string, open: () => Promise<Device>, missing: string | undefined): void {
  describe(title, () => {
    it('reads every half', async ({ skip }) => {
      if (missing !== undefined) return skip(missing)
      await using device = await open()
      const want = Float32Array.from({ length: HALVES }, (_, i) => decodeHalf(i))
      for (const which of KERNELS.widen) {
        const got = new Float32Array((await run(device, which, [bytesOf(Uint16Array.from(want.keys()))], 4 * HALVES)).slice().buffer)
        expect(which.name + want.findIndex((value, i) => !Object.is(value, got[i]))).toBe(`${which.name}-1`)
      }
    })

    it('rounds to halves, ties to even', async ({ skip }) => {
      if (missing !== undefined) return skip(missing)
      await using device = await open()
      for (const which of KERNELS.narrow) {
        const got = new Uint16Array((await run(device, which, [bytesOf(FLOATS)], 2 * HALVES)).slice().buffer)
        const wrong = FLOATS.findIndex((x, i) => (Number.isNaN(x) ? !Number.isNaN(decodeHalf(got[i]!)) : encodeHalf(x) !== got[i]))
        expect(which.name + wrong).toBe(`${which.name}-1`)
      }
    })

    it('multiplies bytes without losing a bit', async ({ skip }) => {
      if (missing !== undefined) return skip(missing)
      await using device = await open()
      const [a, b] = [words(0), words(1)]
      const want = [signed, (byte: number) => byte, (byte: number) => byte & 127].flatMap((byteOf) =>
        [...a].map((word, i) => dot(word, b[i]!, byteOf)),
      )
      for (const byteOf of [(byte: number) => byte & 127, (byte: number) => signed(byte | (byte >> 7))])
        want.push(...[...a].map((word, i) => dot(word, b[i]!, byteOf, FACTORS)))
      want.push(...[...a].map((word, i) => addHalves(word, b[i]!)))
      for (const which of KERNELS.dots) {
        const got = new Int32Array((await run(device, which, [bytesOf(a), bytesOf(b)], 24 * WORDS)).slice().buffer)
        expect({ kernel: which.name, got: [...got] }).toEqual({ kernel: which.name, got: want })
      }
    })
  })
}

for (const level of NATIVE_LEVELS) {
  const { folder, missing } = await buildTestLibrary('exact', level, Object.values(KERNELS).flat())
  testExact(`native ${level.title}`, () => openCpu({ threads: 2, level: level.name, libraries: folder }), missing)
}

const features = await detectWasm()
const plain = { ...features, relaxed: false, relaxedDot: false, pairs: false }
testExact('WebAssembly without relaxed SIMD', () => openCpu({ threads: 2, features: plain }), undefined)
const none = features.relaxed ? undefined : 'the engine has no relaxed SIMD'
testExact('WebAssembly with relaxed SIMD', () => openCpu({ threads: 2, features }), none)
const noDot = { ...features, relaxedDot: false }
testExact('WebAssembly with relaxed SIMD, sums apart', () => openCpu({ threads: 2, features: noDot }), none)
