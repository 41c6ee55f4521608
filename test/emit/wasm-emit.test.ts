// Values as WebAssembly against the interpreter: every op, in every variant of the engine's features.

import { describe, expect, it } from 'vitest'
import { printWat } from '../../src/emit/wasm/emit.ts'
import { buffer, kernel } from '../../src/ir/author.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import type { Value } from '../../src/ir/value.ts'
import { cases } from './sample-data.ts'
import { divisors } from './sample.ts'
import { differences } from './wasm-differ.ts'
import { VARIANTS } from './wasm-run.ts'

const floats = Float32Array.from([
  0,
  -0,
  1.5,
  -2.5,
  3.5,
  1e-40,
  -7.25,
  1e30,
  Infinity,
  -Infinity,
  NaN,
  0.5,
  2147483648,
  -2147483649,
  4294967296,
  65519,
])
const words = Int32Array.from([0, 1, -1, 2, -2147483648, 2147483647, 7, -7, 0x01020304, 0x7f7f7f7f, -2139062144, 31, 32, 33, 255, 65535])

/** out[i] = f(a[i], b[i]) with vectors of `width`, for all pairs of the given values. */
function pairs(type: 'f32' | 'i32' | 'u32', width: 1 | 2 | 4, f: (a: Value<never>, b: Value<never>) => Value<never>): Kernel {
  return kernel('pairs', { params: { a: buffer(type, 'read'), b: buffer(type, 'read'), out: buffer(type, 'write') } }, (p, k) => {
    const at = k.workgroupId.x.mul(width)
    if (width === 1) p.out.set(at, f(p.a.at(at) as never, p.b.at(at) as never))
    else p.out.store(at, f(p.a.load(at, width) as never, p.b.load(at, width) as never))
  })
}

type AnyValue = Value<'f32x4'>
const floatOps: Record<string, (a: AnyValue, b: AnyValue) => AnyValue> = {
  add: (a, b) => a.add(b),
  sub: (a, b) => a.sub(b),
  mul: (a, b) => a.mul(b),
  div: (a, b) => a.div(b),
  min: (a, b) => a.min(b),
  max: (a, b) => a.max(b),
  neg: (a) => a.neg(),
  abs: (a) => a.abs(),
  sqrt: (a) => a.sqrt(),
  floor: (a) => a.floor(),
  ceil: (a) => a.ceil(),
  trunc: (a) => a.trunc(),
  rint: (a) => a.rint(),
  lt: (a, b) => a.lt(b).select(a, b),
  le: (a, b) => a.le(b).select(a, b),
  gt: (a, b) => a.gt(b).select(a, b),
  ge: (a, b) => a.ge(b).not().select(a, b),
  eq: (a, b) => a.eq(b).select(a, b),
  ne: (a, b) => a.ne(b).select(a, b),
  toI32: (a) => a.to('i32').to('f32'),
  toU32: (a) => a.to('u32').to('f32'),
  bits: (a) => a.as('i32').add(1).as('f32'),
  bool: (a) => a.to('bool').to('f32'),
  logic: (a, b) => a.lt(b).and(a.gt(0)).or(b.eq(1.5)).xor(a.ge(b)).to('f32'),
}
const integerOps: Record<string, (a: AnyValue, b: AnyValue) => AnyValue> = {
  add: (a, b) => a.add(b),
  sub: (a, b) => a.sub(b),
  mul: (a, b) => a.mul(b),
  div: (a, b) => a.div(b),
  rem: (a, b) => a.rem(b),
  divBy: (a) => a.div(7),
  remBy: (a) => a.rem(3),
  min: (a, b) => a.min(b),
  max: (a, b) => a.max(b),
  neg: (a) => a.neg(),
  abs: (a) => a.abs(),
  not: (a) => a.not(),
  and: (a, b) => a.and(b),
  or: (a, b) => a.or(b),
  xor: (a, b) => a.xor(b),
  shl: (a, b) => a.shl(b),
  shr: (a, b) => a.shr(b),
  shlBy: (a) => a.shl(5),
  shrBy: (a) => a.shr(3),
  popcount: (a) => a.popcount(),
  lt: (a, b) => a.lt(b).select(a, b),
  le: (a, b) => a.le(b).select(a, b),
  gt: (a, b) => a.gt(b).select(a, b),
  ge: (a, b) => a.ge(b).select(a, b),
  eq: (a, b) => a.eq(b).select(a, b),
  ne: (a, b) => a.ne(b).select(a, b),
  bool: (a) => a.to('bool').to('i32').as('i32') as unknown as AnyValue,
}

function crossed<T extends Float32Array | Int32Array | Uint32Array>(values: T): { a: T; b: T; out: T } {
  const Type = values.constructor as new (list: number[]) => T
  const list = Array.from(values)
  const a = new Type(list.flatMap((x) => list.map(() => x)))
  const b = new Type(list.flatMap(() => list))
  return { a, b, out: new Type(list.flatMap(() => list.map(() => 0))) }
}

describe.each([1, 2, 4] as const)('values of width %i', (width) => {
  it.each(Object.keys(floatOps))('f32 %s', (name) => {
    const arrays = crossed(floats)
    const f = floatOps[name] as never
    expect(differences(pairs('f32', width, f), arrays, { grid: [arrays.a.length / width, 1, 1] })).toEqual([])
  })

  it.each(Object.keys(integerOps))('i32 and u32 %s', (name) => {
    const f = integerOps[name] as (a: AnyValue, b: AnyValue) => AnyValue
    const signed = crossed(words)
    expect(
      differences(pairs('i32', width, ((a: AnyValue, b: AnyValue) => f(a, b).to('i32')) as never), signed, {
        grid: [signed.a.length / width, 1, 1],
      }),
    ).toEqual([])
    const unsigned = crossed(Uint32Array.from(words))
    expect(
      differences(pairs('u32', width, ((a: AnyValue, b: AnyValue) => f(a, b).to('u32')) as never), unsigned, {
        grid: [unsigned.a.length / width, 1, 1],
      }),
    ).toEqual([])
  })
})

describe('vectors', () => {
  it('are made, joined, sliced and summed', () => {
    expect(
      differences(
        kernel('shape', { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') } }, (p, k) => {
          const v = p.x.load(0, 4)
          const low = v.slice(0, 2)
          const middle = v.slice(1, 2)
          const high = v.slice(2, 2)
          p.y.store(0, high.join(low) as unknown as Value<'f32x4'>)
          p.y.store(4, middle)
          p.y.store(6, high)
          p.y.store(8, k.vec(v.lane(3), k.const('f32', 9), v.lane(1), v.lane(0)))
          p.y.set(12, v.hsum())
          p.y.set(13, v.hmax())
          p.y.set(14, high.hsum())
          p.y.set(15, middle.hmax())
        }),
        { x: Float32Array.from([1e8, 3.25, -1e8, 7]), y: new Float32Array(16) },
      ),
    ).toEqual([])
  })

  it.each([2, 4, 8, 16] as const)('of %i are zipped', (width) => {
    expect(
      differences(
        kernel('zip', { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') } }, (p) => {
          const [low, high] = p.x.load(0, width).zip(p.x.load(width, width))
          p.y.store(0, low)
          p.y.store(width, high)
        }),
        { x: Float32Array.from({ length: 32 }, (_, i) => i), y: new Float32Array(2 * width) },
      ),
    ).toEqual([])
  })

  it.each([2, 4, 8] as const)('of %i doubles are zipped', (width) => {
    expect(
      differences(
        kernel('zip', { params: { x: buffer('f64', 'read'), y: buffer('f64', 'write') } }, (p) => {
          const [low, high] = p.x.load(0, width).zip(p.x.load(width, width))
          p.y.store(0, low)
          p.y.store(width, high)
        }),
        { x: Float64Array.from({ length: 16 }, (_, i) => i + 1 / 3), y: new Float64Array(2 * width) },
      ),
    ).toEqual([])
  })

  it('hold booleans', () => {
    expect(
      differences(
        kernel('masks', { params: { x: buffer('i32', 'read'), y: buffer('i32', 'write') } }, (p, k) => {
          const v = p.x.load(0, 4)
          const mask = v.gt(k.vec(p.x.at(4), p.x.at(5), p.x.at(6), p.x.at(7)))
          p.y.store(0, mask.to('i32'))
          p.y.set(4, mask.lane(0).to('i32'))
          p.y.set(5, mask.lane(1).and(mask.lane(2)).to('i32'))
          const made = k.vec(mask.lane(1), mask.lane(0), mask.lane(3), mask.lane(2))
          p.y.store(6, made.select(v, v.neg()))
          p.y.store(10, mask.lane(0).splat(4).select(v, v.not()))
        }),
        { x: Int32Array.from([1, -2, 3, -4, 0, 0, 9, -9]), y: new Int32Array(14) },
      ),
    ).toEqual([])
  })

  it('shift each lane by its own count', () => {
    expect(
      differences(
        kernel('shifts', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'write') } }, (p, k) => {
          const counts = k.vec(k.const('u32', 0), k.const('u32', 4), k.const('u32', 8), k.const('u32', 4))
          p.y.store(0, p.x.load(0, 4).shr(counts))
          p.y.store(4, p.x.load(4, 4).shl(counts))
          p.y.store(8, p.x.load(8, 4).shr(p.x.load(12, 4)))
        }),
        { x: Uint32Array.from(words), y: new Uint32Array(12) },
      ),
    ).toEqual([])
  })
})

describe('packed values', () => {
  const random = (count: number, mask = 0xffffffff): Uint32Array =>
    Uint32Array.from({ length: count }, (_, i) => (Math.imul(i + 1, 0x9e3779b1) ^ Math.imul(i, 0x85ebca77)) & mask)

  it.each(['dotI8', 'dotU8I8', 'dotU7I8'] as const)('%s of words and vectors', (name) => {
    const mask = name === 'dotU7I8' ? 0x7f7f7f7f : 0xffffffff
    expect(
      differences(
        kernel('dots', { params: { a: buffer('u32', 'read'), b: buffer('u32', 'read'), sum: buffer('i32', 'readwrite') } }, (p, k) => {
          k.for({ to: 4 }, (i) => p.sum.set(i, p.a.at(i)[name](p.b.at(i), p.sum.at(i))))
          k.for({ from: 4, to: 12, step: 4 }, (i) => {
            const sum = k.var('sum', p.sum.load(i, 4))
            k.for({ to: 3 }, () => sum.set(p.a.load(i, 4)[name](p.b.load(i, 4), sum.get())))
            p.sum.store(i, sum.get())
          })
          p.sum.store(12, p.a.load(12, 2)[name](p.b.load(12, 2), p.sum.load(12, 2)))
        }),
        { a: random(14, mask), b: random(28).slice(14), sum: Int32Array.from(words.slice(0, 14)) },
      ),
    ).toEqual([])
  })

  it('sums of small products, alone, through a loop and times a factor', () => {
    const params = { a: buffer('u32', 'read'), b: buffer('u32', 'read'), y: buffer('i32', 'write') } as const
    // the largest quants of 4 bits, eight of which fit 16 bits, and of 6 bits, of which two do
    for (const [mask, words] of [
      [0x0f0f0f0f, 8],
      [0x0f0f0f0f, 16],
      [0x3f3f3f3f, 4],
    ] as const) {
      const written = kernel('pairs', { params }, (p, k) => {
        const [sum, other] = [k.var('sum', k.const('i32', 0).splat(4)), k.var('other', k.const('i32', 0).splat(4))]
        k.for({ to: words }, (word) => {
          const a = p.a.load(word.mul(4), 4)
          sum.set(a.and(mask).dotU7I8(p.b.load(word.mul(4), 4), sum.get()))
          other.set(
            a
              .shr(1)
              .and(mask)
              .dotU7I8(p.b.load(word.mul(4), 4), other.get()),
          )
        })
        const factors = p.a.load(0, 4)
        for (let group = 0; group < 4; group++) p.y.store(4 * group, sum.get().mul(factors.lane(group).unpackU8().as('i32')))
        p.y.store(16, other.get())
        p.y.store(20, other.get().mul(factors.and(0x7fff).as('i32')))
        let chain = p.a.load(0, 4).as('i32')
        for (let word = 0; word < 6; word++)
          chain = p.a
            .load(4 * word, 4)
            .and(mask)
            .dotU7I8(p.b.load(4 * word, 4), chain)
        p.y.store(24, chain)
      })
      for (const b of [0x80808080, 0x7f7f7f7f]) {
        expect(
          differences(written, { a: new Uint32Array(64).fill(0xffffffff), b: new Uint32Array(64).fill(b), y: new Int32Array(28) }),
        ).toEqual([])
      }
      expect(differences(written, { a: random(64), b: random(128).slice(64), y: new Int32Array(28) })).toEqual([])
    }
  })

  it('sums of chains of products times bytes of a word, signed and not, with a lane of a vector for all', () => {
    const params = { a: buffer('u32', 'read'), b: buffer('u32', 'read'), scales: buffer('u32', 'read'), y: buffer('i32', 'write') } as const
    // quants of 4, 6 and 7 bits: eight, two and one of their products fit 16 bits
    for (const mask of [0x0f0f0f0f, 0x3f3f3f3f, 0x7f7f7f7f]) {
      const written = kernel('chains', { params }, (p, k) => {
        const zero = k.const('i32', 0).splat(4)
        const scales = p.scales.load(0, 4)
        const [total, whole] = [k.var('total', p.a.load(0, 4).as('i32')), k.var('whole', zero)]
        for (let first = 0; first < 8; first += 4) {
          const lanes = k.let('lanes', p.b.load(first, 4))
          const chain = (shift: number): typeof zero =>
            [0, 1, 2, 3].reduce(
              (sum, i) =>
                p.a
                  .load(4 * (first + i), 4)
                  .shr(shift)
                  .and(mask)
                  .dotU7I8(lanes.lane(i).splat(4), sum),
              zero,
            )
          const place = first / 4
          const unsigned = scales
            .shr(8 * place)
            .and(255)
            .as('i32')
          const signed = scales
            .shl(8 * place)
            .as('i32')
            .shr(24)
          total.set(total.get().add(chain(0).mul(unsigned)).add(chain(1).mul(signed)))
          whole.set(p.a.load(4 * first, 4).dotU8I8(lanes.lane(3).splat(4), whole.get()))
        }
        p.y.store(0, total.get())
        p.y.store(4, whole.get())
        p.y.store(8, whole.get().mul(scales.as('i32').shr(16)))
      })
      const y = new Int32Array(12)
      for (const b of [0x80808080, 0x7f7f7f7f]) {
        const extremes = { a: new Uint32Array(32).fill(0xffffffff), b: new Uint32Array(8).fill(b) }
        for (const scale of [0x80ff7f81, 0x7f80ff00]) {
          expect(differences(written, { ...extremes, scales: new Uint32Array(4).fill(scale), y })).toEqual([])
        }
      }
      expect(differences(written, { a: random(32), b: random(40).slice(32), scales: random(44).slice(40), y })).toEqual([])
    }
  })

  it('an element goes to all lanes from any memory', () => {
    const params = { x: buffer('f32', 'read'), i: buffer('i8', 'read'), h: buffer('f16', 'read'), y: buffer('f32', 'write') } as const
    expect(
      differences(
        kernel('splats', { params }, (p) => {
          p.y.store(0, p.x.at(1).splat(4).add(p.x.load(4, 4)))
          p.y.store(4, p.i.at(3).splat(4).to('f32').mul(p.x.load(4, 4)))
          p.y.store(8, p.h.at(2).to('f32').splat(4).mul(p.x.load(4, 4)))
        }),
        {
          x: Float32Array.from({ length: 8 }, (_, at) => at / 2),
          i: Int8Array.from([1, 2, 3, -4]),
          h: Uint16Array.from([0, 1, 0x3c00, 3]),
          y: new Float32Array(12),
        },
      ),
    ).toEqual([])
  })

  it('dot products reach the largest sums', () => {
    expect(
      differences(
        kernel('edges', { params: { a: buffer('u32', 'read'), b: buffer('u32', 'read'), sum: buffer('i32', 'readwrite') } }, (p) => {
          p.sum.store(0, p.a.load(0, 4).dotI8(p.b.load(0, 4), p.sum.load(0, 4)))
          p.sum.store(4, p.a.load(4, 4).dotU8I8(p.b.load(4, 4), p.sum.load(4, 4)))
          p.sum.store(8, p.a.load(8, 4).dotU7I8(p.b.load(8, 4), p.sum.load(8, 4)))
        }),
        {
          a: Uint32Array.from([0x80808080, 0x80808080, 0x7f7f7f7f, 0, 0xffffffff, 0xffffffff, 0x80808080, 0, 0x7f7f7f7f, 0x7f7f7f7f, 0, 1]),
          b: Uint32Array.from([0x80808080, 0x7f7f7f7f, 0x7f7f7f7f, 0, 0x80808080, 0x7f7f7f7f, 0x80808080, 0, 0x80808080, 0x7f7f7f7f, 0, 1]),
          sum: new Int32Array(12),
        },
      ),
    ).toEqual([])
  })

  it('bytes and halves are unpacked, packed and looked up', () => {
    const table = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113].map((each) => each & 255)
    expect(
      differences(
        kernel('packs', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'write') } }, (p, k) => {
          k.for({ to: 16 }, (i) => {
            const word = p.x.at(i)
            const at = i.mul(20)
            p.y.store(at, word.unpackU8())
            p.y.store(at.add(4), word.unpackI8().as('u32'))
            p.y.set(at.add(8), word.unpackI8().mul(3).packI8())
            p.y.set(at.add(9), word.unpackF16().packF16())
            p.y.set(at.add(10), word.and(0x0f0f0f0f).lookup16(table))
            p.y.store(at.add(11), p.x.load(0, 4).and(0x0f0f0f0f).lookup16(table))
            p.y.set(at.add(15), k.table('u32', [5, 6, 7], i.rem(3)))
            p.y.set(at.add(16), k.table('f32', [0.5, -1, 3, 4, 5], i.rem(5)).as('u32'))
          })
        }),
        { x: Uint32Array.from(words), y: new Uint32Array(320) },
      ),
    ).toEqual([])
  })

  it('every f16 is decoded, and f32 are rounded to even', () => {
    const written = kernel('halves', { params: { h: buffer('f16', 'read'), f: buffer('f32', 'write') } }, (p, k) => {
      k.for({ to: 65536, step: 4 }, (i) => p.f.store(i, p.h.load(i, 4).to('f32')))
    })
    expect(differences(written, { h: Uint16Array.from({ length: 65536 }, (_, i) => i), f: new Float32Array(65536) })).toEqual([])
    const f = Float32Array.from({ length: 4096 }, (_, i) => (i - 2048) * 1.7 ** ((i % 61) - 40))
    f.set([
      65504,
      65519.99,
      65520,
      65535,
      65536,
      1e10,
      -Infinity,
      NaN,
      2 ** -24,
      2 ** -25,
      2 ** -25 * 1.0001,
      2 ** -14,
      2 ** -14 - 2 ** -26,
      -0,
      1 + 2 ** -11,
      1 + 3 * 2 ** -11,
    ])
    expect(
      differences(
        kernel('round', { params: { f: buffer('f32', 'read'), h: buffer('f16', 'write'), g: buffer('f16', 'write') } }, (p, k) => {
          k.for({ to: 4096, step: 4 }, (i) => p.h.store(i, p.f.load(i, 4).to('f16')))
          k.for({ to: 4096 }, (i) => p.g.set(i, p.f.at(i).to('f16')))
        }),
        { f, h: new Uint16Array(4096), g: new Uint16Array(4096) },
      ),
    ).toEqual([])
  })
})

it('division by constants', () => {
  const { data, grid } = cases(4).find(({ kernel: sample }) => sample === divisors)!
  expect(differences(divisors, data, { grid: [...grid] })).toEqual([])
})

it('shifts of several vectors by one variable count, all lanes at once', () => {
  const shifts = kernel('shifts', { params: { a: buffer('u32', 'read'), out: buffer('u32', 'write') } }, (p, k) => {
    k.for({ name: 'i', to: 8 }, (i) => {
      const count = i.mul(5).add(p.a.at(0)).splat(4)
      p.out.store(i.mul(8), p.a.load(0, 4).shr(count))
      p.out.store(i.mul(8).add(4), p.a.load(4, 4).shl(count))
    })
  })
  expect(printWat(shifts, VARIANTS[0]![1])).not.toContain('replace_lane')
  expect(differences(shifts, { a: Uint32Array.from({ length: 8 }, (_, i) => 0x87654321 + i), out: new Uint32Array(64) })).toEqual([])
})
