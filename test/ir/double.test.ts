// 64-bit floats in the language itself: what the interpreter computes, what the verifier refuses, what the passes make of them.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeElements } from '../../src/base/element.ts'
import { roundHalf } from '../../src/base/half.ts'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { type Kernel, memoryOf } from '../../src/ir/kernel.ts'
import { lower } from '../../src/ir/pass/index.ts'
import { widen } from '../../src/ir/pass/widen.ts'
import { printKernel } from '../../src/ir/print.ts'
import { errorOf, run } from './run.ts'
import { LOOPS, POOR, RICH, WIDE, WORDS } from './target.ts'

describe('the interpreter', () => {
  test('keeps all bits, at every step', () => {
    const sums = kernel(
      'sums',
      { params: { x: buffer('f64', 'read'), y: buffer('f64', 'write') }, workgroup: [4], subgroup: 4 },
      (p, k) => {
        const x = p.x.at(k.lane)
        p.y.set(k.lane, x.add(0.2).mul(3).exp())
        p.y.set(k.lane.add(4), k.subSum(x))
        p.y.set(k.lane.add(8), p.x.load(0, 4).hsum())
        p.y.set(k.lane.add(12), x.to('f32').to('f64'))
      },
    )
    const x = Float64Array.of(0.1, 1 / 3, 1e-20, 1e20)
    const y = new Float64Array(16)
    run(sums, { x, y })
    const sum = x.reduce((a, b) => a + b)
    expect([...y]).toEqual([...x.map((value) => Math.exp((value + 0.2) * 3)), ...new Float64Array(8).fill(sum), ...x.map(Math.fround)])
  })

  test('converts as the other types do: to nearest even, towards zero, saturating', () => {
    const params = { x: buffer('f64', 'read'), i: buffer('i32', 'write'), u: buffer('u32', 'write'), h: buffer('f16', 'write') }
    const casts = kernel('casts', { params, workgroup: [6] }, (p, k) => {
      const x = p.x.at(k.lane)
      p.i.set(k.lane, x.to('i32'))
      p.u.set(k.lane, x.to('u32'))
      p.h.set(k.lane, x.to('f16'))
    })
    const out = { i: new Int32Array(6), u: new Uint32Array(6), h: new Uint16Array(6) }
    run(casts, { x: Float64Array.of(-2.75, 2 ** 31 - 0.5, 2 ** 32 - 0.5, NaN, -Infinity, 1 + 2 ** -11 + 2 ** -40), ...out })
    expect([...out.i]).toEqual([-2, 2 ** 31 - 1, 2 ** 31 - 1, 0, -(2 ** 31), 1])
    expect([...out.u]).toEqual([0, 2 ** 31 - 1, 2 ** 32 - 1, 0, 0, 1])
    // 1 and half a step and a little more: an f32 on the way would make it a tie, and that goes to 1
    expect(out.h[5]).toBe(0x3c01)
  })

  test('reads and writes them wherever they lie', () => {
    const twice = kernel('twice', { params: { x: buffer('f64', 'readwrite') }, workgroup: [3] }, ({ x }, k) =>
      x.set(k.lane, x.at(k.lane).mul(2)),
    )
    const bytes = new Uint8Array(28)
    bytes.set(encodeElements('f64', [0.1, -1e300, 7]), 4)
    interpret(twice, { buffers: { x: bytes.subarray(4) }, grid: [1, 1, 1] })
    expect([...new Float64Array(bytes.slice(4).buffer)]).toEqual([0.2, -2e300, 14])
  })
})

describe('a kernel', () => {
  const writing = (value: number, type: 'f32' | 'f64' = 'f64'): Kernel =>
    kernel('writing', { params: { y: buffer(type, 'write') } }, ({ y }, k) => y.set(0, k.const(type, value) as never))

  test('says its constants with all their bits, and tells them from those of other types', () => {
    expect(printKernel(writing(1 / 3))).toContain('y[0] = 0.3333333333333333d')
    expect(printKernel(writing(2))).toContain('y[0] = 2.0d')
    const hashes = [0, -0, 0.1, Math.fround(0.1), Infinity, NaN].map((value) => hashKernel(writing(value)))
    expect(new Set([...hashes, hashKernel(writing(0.1, 'f32'))]).size).toBe(7)
  })

  test.each<[string, () => Kernel, RegExp]>([
    [
      'atomics',
      () => kernel('k', { params: { x: buffer('f64', 'readwrite') } }, ({ x }) => void x.atomic('add', 0, 1)),
      /atomics work on i32 and u32 memory, got f64/,
    ],
    [
      'tiles',
      () => kernel('k', { params: { x: buffer('f64', 'read') }, workgroup: [32], subgroup: 32 }, ({ x }) => void x.tile(0, 8)),
      /tiles live in f32 and f16/,
    ],
    [
      'bits of other types',
      () => kernel('k', { params: { x: buffer('f64', 'read') } }, ({ x }) => void x.at(0).as('u32')),
      /cannot reinterpret f64 as u32/,
    ],
    [
      'sums with other floats',
      () =>
        kernel('k', { params: { x: buffer('f64', 'read'), y: buffer('f32', 'read') } }, ({ x, y }) => void x.at(0).add(y.at(0) as never)),
      /operands must have one type, got f64 and f32/,
    ],
    [
      'tables',
      () => kernel('k', { params: { x: buffer('f64', 'write') } }, ({ x }, k) => x.set(0, k.table('f64' as 'f32', [1], k.lane) as never)),
      /a table holds f32, i32 or u32/,
    ],
    ['uniforms', () => kernel('k', { params: { n: uniform('f64' as 'f32') } }, () => undefined), /a uniform is f32, i32 or u32, got f64/],
  ])('has no %s of them', (_what, write, message) => {
    const { code, message: text } = errorOf(write)
    expect(code).toBe('bad-kernel')
    expect(text).toMatch(message)
  })
})

describe('passes', () => {
  const outputs = (written: Kernel, x: Float64Array, y: Float64Array): number[] => {
    run(written, { x, y })
    return [...y]
  }

  test('a cast to f16 rounds once, also where f16 is made of f32', () => {
    const params = { x: buffer('f64', 'read'), y: buffer('f64', 'write') }
    const written = [1, 2, 8].map((width) =>
      kernel(`round${width}`, { params, workgroup: [8 / width] }, (p, k) => {
        const at = k.lane.mul(width)
        if (width === 1) p.y.set(at, p.x.at(at).to('f16').to('f64'))
        else
          p.y.store(
            at,
            p.x
              .load(at, width as 2)
              .to('f16')
              .to('f64'),
          )
      }),
    )
    const lowered = written.flatMap((each) => [each, lower(each, LOOPS), lower(each, WIDE)])
    const half = fc
      .integer({ min: 0, max: 0x7bff })
      .map((bits) => ((bits & 0x3ff) + (bits < 0x400 ? 0 : 1024)) * 2 ** (Math.max(bits >> 10, 1) - 25))
    const step = fc.constantFrom(0, 2 ** -30, -(2 ** -30), 2 ** -45, -(2 ** -45))
    const near = fc.tuple(half, fc.constantFrom(0.5, 0.25, 0), step).map(([at, part, more]) => at * (1 + part * 2 ** -10) * (1 + more))
    const any = fc.oneof(
      near,
      near.map((value) => -value),
      fc.double({ noDefaultInfinity: true }),
      fc.constantFrom(65520, 65519.999, 1e300, NaN),
    )
    const agrees = fc.property(fc.array(any, { minLength: 8, maxLength: 8 }), (values) => {
      for (const each of lowered) expect(outputs(each, Float64Array.from(values), new Float64Array(8))).toEqual(values.map(roundHalf))
    })
    fc.assert(agrees, { numRuns: 300 })
  })

  test('casts to and fro vanish only where nothing is lost', () => {
    const params = { x: buffer('f32', 'readwrite'), u: buffer('u32', 'read'), i: buffer('i32', 'write') }
    const written = kernel('casts', { params }, ({ x, u, i }) => {
      x.set(0, x.at(0).to('f64').to('f32'))
      i.set(0, u.at(0).to('f64').to('i32')) // saturates, which a cast of integers does not
      x.set(1, x.at(1).to('f64').to('i32').to('f64').to('f32'))
    })
    const text = printKernel(lower(written, RICH))
    expect(text).toContain('x[0] = x[0]\n')
    expect(text).toContain('i[0] = i32(f64(u[0]))')
    const [x, i] = [Float32Array.of(0.1, 2.75), new Int32Array(1)]
    run(lower(written, RICH), { x, u: Uint32Array.of(2 ** 32 - 1), i })
    expect([...x, ...i]).toEqual([Math.fround(0.1), 2, 2 ** 31 - 1])
  })

  test('vectors of two where registers hold no more: masks are joined, and memory of fours is memory of ones', () => {
    const params = { x: buffer('f64x4', 'read'), y: buffer('f64x4', 'write'), n: buffer('u32', 'write') }
    const written = kernel('fours', { params }, ({ x, y, n }, k) => {
      const at = k.workgroupId.x
      const small = k.let('small', x.at(at).lt(1))
      y.set(at, small.select(x.at(at).mul(2), x.at(at.add(1))))
      n.store(at.mul(4), small.to('u32'))
    })
    const narrowed = widen(written, LOOPS)
    expect(memoryOf(narrowed, 'x')).toMatchObject({ storage: 'f64', role: 'read' })
    expect(printKernel(narrowed)).toMatchInlineSnapshot(`
      "kernel fours(x: read f64, y: write f64, n: write u32) workgroup 1 {
        let x1: f64x2 = x[workgroup.x * 4..+2]
        let x2: f64x2 = x[workgroup.x * 4 + 2..+2]
        let small: boolx4 = join(x1 < splat2(1.0d), x2 < splat2(1.0d))
        let x3: f64x2 = x[workgroup.x * 4..+2]
        let x4: f64x2 = x[workgroup.x * 4 + 2..+2]
        let x5: f64x2 = x[(workgroup.x + 1) * 4..+2]
        let x6: f64x2 = x[(workgroup.x + 1) * 4 + 2..+2]
        y[workgroup.x * 4..+2] = small[0..+2] ? x3 * splat2(2.0d) : x5
        y[workgroup.x * 4 + 2..+2] = small[2..+2] ? x4 * splat2(2.0d) : x6
        n[workgroup.x * 4..+4] = u32x4(small)
      }
      "
    `)
    const results = [written, narrowed, lower(written, POOR)].map((each) => {
      const out = { y: new Float64Array(8), n: new Uint32Array(8) }
      run(each, { x: Float64Array.of(0.1, 2, -3, 1, 0, 5, 0.9, 7, 8, 9, 10, 11), ...out }, [2, 1, 1])
      return [...out.y, ...out.n]
    })
    expect(results[0]).toEqual([0.2, 5, -6, 7, 0, 9, 1.8, 11, 1, 0, 1, 0, 1, 0, 1, 0])
    expect(results.slice(1)).toEqual([results[0], results[0]])
  })

  test('what a target cannot do is refused by name', () => {
    const written = kernel('grow', { params: { x: buffer('f64', 'readwrite') } }, ({ x }) => x.set(0, x.at(0).exp()))
    expect(errorOf(() => lower(written, { ...POOR, name: 'bare', double: { width: 2, spells: new Set() } }))).toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('grow: bare has no exp, got f64') as string,
    })
    expect(errorOf(() => lower(written, WORDS))).toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/grow: words has no 64-bit floats, got f64; .*caps\.f64/) as string,
    })
  })
})
