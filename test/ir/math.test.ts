// The elementary functions as formulas: how far they are from the true values, and what they make of the odd ones.
import { describe, expect, it } from 'vitest'
import { buffer, kernel } from '../../src/ir/author.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { HALVES } from '../../src/base/half-table.ts'
import { encodeHalf } from '../../src/base/half.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { decompose } from '../../src/ir/pass/decompose.ts'
import { expBelowZero } from '../../src/ir/math.ts'
import type { Value } from '../../src/ir/value.ts'
import { POOR } from './target.ts'

type F32 = Value<'f32'>
const LANES = 64

function compile(name: string, formula: (x: F32, y: F32) => F32): Kernel {
  const written = kernel(
    name,
    {
      params: { x: buffer('f32', 'read'), y: buffer('f32', 'read'), out: buffer('f32', 'write') },
      workgroup: [LANES],
    },
    ({ x, y, out }, k) => out.set(k.globalId.x, formula(x.at(k.globalId.x), y.at(k.globalId.x))),
  )
  return decompose(written, POOR)
}

function run(compiled: Kernel, xs: readonly number[], ys: readonly number[] = xs): Float32Array {
  const count = Math.ceil(xs.length / LANES) * LANES
  const bytes = (values: readonly number[]): Uint8Array => {
    const array = new Float32Array(count)
    array.set(values)
    return new Uint8Array(array.buffer)
  }
  const out = new Float32Array(count)
  interpret(
    compiled,
    { buffers: { x: bytes(xs), y: bytes(ys), out: new Uint8Array(out.buffer) }, grid: [count / LANES, 1, 1] },
    { check: false },
  )
  return out.slice(0, xs.length)
}

/** The distance between neighbouring f32 around a value; not below that of `floor`. */
function ulp(value: number, floor = 2 ** -126): number {
  return 2 ** (Math.floor(Math.log2(Math.max(Math.abs(value), floor))) - 23)
}

function range(from: number, to: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => Math.fround(from + ((to - from) * (at + 0.37)) / count))
}
/** Both signs, evenly over the magnitudes. */
function magnitudes(from: number, to: number, count: number): number[] {
  return range(Math.log(from), Math.log(to), count).flatMap((exponent) => [
    Math.fround(Math.exp(exponent)),
    Math.fround(-Math.exp(exponent)),
  ])
}

function worst(results: Float32Array, truth: readonly number[], floor?: number): number {
  return results.reduce((most, result, at) => {
    const exact = Math.fround(truth[at] as number)
    if (Object.is(exact, result) || (Number.isNaN(exact) && Number.isNaN(result)) || exact === result) return most
    const error = Math.abs(result - (truth[at] as number)) / ulp(exact, floor)
    return Math.max(most, Number.isNaN(error) ? Infinity : error)
  }, 0)
}

const positive = magnitudes(1e-44, 3e38, 4000).filter((x) => x > 0)
/** Results below the smallest normal number are zero. */
const flushed =
  (truth: (x: number) => number) =>
  (x: number): number => {
    const result = truth(x)
    return result < 2 ** -126 ? 0 : result
  }

const cases: readonly [
  name: string,
  formula: (x: F32) => F32,
  truth: (x: number) => number,
  inputs: readonly number[],
  limit: number,
  floor?: number,
][] = [
  ['exp', (x) => x.exp(), flushed(Math.exp), [...range(-104, 89.5, 8000), ...magnitudes(1e-8, 1, 500)], 2],
  ['exp2', (x) => x.exp2(), flushed((x) => 2 ** x), [...range(-151, 129, 8000), ...magnitudes(1e-8, 1, 500)], 2],
  ['log', (x) => x.log(), Math.log, [...positive, ...range(0.5, 2, 4000)], 2],
  ['log2', (x) => x.log2(), Math.log2, [...positive, ...range(0.5, 2, 4000)], 3],
  ['sin', (x) => x.sin(), Math.sin, [...range(-1e5, 1e5, 8000), ...magnitudes(1e-10, 10, 2000)], 4, 2 ** -4],
  ['cos', (x) => x.cos(), Math.cos, [...range(-1e5, 1e5, 8000), ...magnitudes(1e-10, 10, 2000)], 4, 2 ** -4],
  ['tan', (x) => x.tan(), Math.tan, range(-1.5, 1.5, 4000), 5],
  ['asin', (x) => x.asin(), Math.asin, [...range(-1, 1, 4000), ...magnitudes(1e-10, 1, 500)], 3],
  ['acos', (x) => x.acos(), Math.acos, [...range(-1, 1, 4000), ...range(0.999, 1, 200)], 3],
  ['atan', (x) => x.atan(), Math.atan, magnitudes(1e-20, 1e20, 4000), 3],
  ['tanh', (x) => x.tanh(), Math.tanh, [...magnitudes(1e-10, 100, 4000), ...range(-2, 2, 2000)], 3],
  ['rsqrt', (x) => x.rsqrt(), (x) => 1 / Math.sqrt(x), positive, 2],
]

describe('accuracy', () => {
  it.each(cases)('%s', (name, formula, truth, inputs, limit, floor) => {
    const results = run(compile(name, formula), inputs)
    expect(worst(results, inputs.map(truth), floor)).toBeLessThanOrEqual(limit)
  })

  it('pow', () => {
    const pairs = range(-20, 20, 120).flatMap((b) => range(-6, 6, 60).map((e) => [Math.fround(2 ** e), b] as const))
    const [xs, ys] = [pairs.map(([a]) => a), pairs.map(([, b]) => b)]
    const results = run(
      compile('pow', (x, y) => x.pow(y)),
      xs,
      ys,
    )
    expect(
      worst(
        results,
        pairs.map(([a, b]) => a ** b),
      ),
    ).toBeLessThanOrEqual(4)
  })
})

describe('the odd values', () => {
  const ODD = [0, -0, 1, -1, Infinity, -Infinity, NaN, 1e-45, 1e-40, -3, 2.5, 0.5, -0.5, 200, -200, 3e38]
  const floats: Readonly<Record<string, readonly [(x: F32) => F32, (x: number) => number]>> = {
    exp: [(x) => x.exp(), Math.exp],
    exp2: [(x) => x.exp2(), (x) => 2 ** x],
    log: [(x) => x.log(), Math.log],
    log2: [(x) => x.log2(), Math.log2],
    tanh: [(x) => x.tanh(), Math.tanh],
    asin: [(x) => x.asin(), Math.asin],
    acos: [(x) => x.acos(), Math.acos],
    atan: [(x) => x.atan(), Math.atan],
    floor: [(x) => x.floor(), Math.floor],
    ceil: [(x) => x.ceil(), Math.ceil],
    trunc: [(x) => x.trunc(), Math.trunc],
    abs: [(x) => x.abs(), Math.abs],
    neg: [(x) => x.neg(), (x) => -x],
  }
  it.each(Object.entries(floats))('%s', (name, [formula, truth]) => {
    const results = run(compile(name, formula), ODD)
    ODD.forEach((x, at) => {
      const [got, wanted] = [results[at] as number, Math.fround(truth(Math.fround(x)))]
      if (Number.isFinite(wanted) && wanted !== 0) expect(Math.abs(got - wanted) / ulp(wanted), `${name}(${x})`).toBeLessThanOrEqual(3)
      else expect(got, `${name}(${x})`).toBe(wanted)
    })
  })

  it('rint takes halves to even', () => {
    const xs = [0.5, 1.5, 2.5, -0.5, -1.5, 8388609, 4194303.5, 4194304.5, Infinity, -0]
    expect([
      ...run(
        compile('rint', (x) => x.rint()),
        xs,
      ),
    ]).toEqual([0, 2, 2, -0, -2, 8388609, 4194304, 4194304, Infinity, -0])
  })

  it('pow', () => {
    const pairs = [
      [2, 10],
      [-2, 3],
      [-2, 2],
      [-2, 0.5],
      [0, 0],
      [0, 2],
      [0, -1],
      [-0, 3],
      [-0, -3],
      [5, 0],
      [NaN, 0],
      [NaN, 1],
      [2, NaN],
      [Infinity, 2],
      [Infinity, 0.5],
      [Infinity, -1],
      [-Infinity, 3],
      [2, Infinity],
      [0.5, Infinity],
      [2, -Infinity],
      [2, 200],
      [2, -200],
      [10, 38],
      [1e-40, 0.5],
      [1, 7],
    ] as const
    const results = run(
      compile('pow', (x, y) => x.pow(y)),
      pairs.map(([a]) => a),
      pairs.map(([, b]) => b),
    )
    pairs.forEach(([a, b], at) => {
      const [got, wanted] = [results[at] as number, Math.fround(Math.fround(a) ** b)]
      if (Number.isFinite(wanted) && wanted !== 0) expect(Math.abs(got - wanted) / ulp(wanted), `${a}**${b}`).toBeLessThanOrEqual(4)
      else expect(got, `${a}**${b}`).toBe(wanted)
    })
  })
})

describe('f16 in words', () => {
  const unpack = decompose(
    kernel('unpack', { params: { x: buffer('u32', 'read'), out: buffer('f32', 'write') }, workgroup: [LANES] }, ({ x, out }, k) => {
      const pair = x.at(k.globalId.x).unpackF16()
      out.set(k.globalId.x.mul(2), pair.lane(0))
      out.set(k.globalId.x.mul(2).add(1), pair.lane(1))
    }),
    POOR,
  )
  const pack = decompose(
    kernel('pack', { params: { x: buffer('f32', 'read'), out: buffer('u32', 'write') }, workgroup: [LANES] }, ({ x, out }, k) => {
      out.set(k.globalId.x, x.load(k.globalId.x.mul(2), 2).packF16())
    }),
    POOR,
  )

  it('every f16 is read', () => {
    const [x, out] = [Uint16Array.from({ length: 65536 }, (_, bits) => bits), new Float32Array(65536)]
    interpret(
      unpack,
      { buffers: { x: new Uint8Array(x.buffer), out: new Uint8Array(out.buffer) }, grid: [32768 / LANES, 1, 1] },
      { check: false },
    )
    expect(out.every((value, bits) => Object.is(value, HALVES[bits]))).toBe(true)
  })

  it('every f16, and what lies between two, is written to the nearest', () => {
    const between = Array.from({ length: 0x7c00 }, (_, bits) => {
      const [low, high] = [HALVES[bits] as number, bits === 0x7bff ? 65536 : (HALVES[bits + 1] as number)]
      const middle = Math.fround((low + high) / 2)
      return [low, middle, -middle, Math.fround(middle * (1 + 2 ** -23)), Math.fround(middle * (1 - 2 ** -23)), -low]
    }).flat()
    const inputs = Float32Array.from([...between, Infinity, -Infinity, NaN, 1e-45, 1e30, -1e30])
    const count = Math.ceil(inputs.length / 2 / LANES) * LANES
    const x = new Float32Array(2 * count)
    x.set(inputs)
    const out = new Uint16Array(2 * count)
    interpret(
      pack,
      { buffers: { x: new Uint8Array(x.buffer), out: new Uint8Array(out.buffer) }, grid: [count / LANES, 1, 1] },
      { check: false },
    )
    const wrong = [...inputs].filter((value, at) =>
      Number.isNaN(value) ? ((out[at] as number) & 0x7fff) <= 0x7c00 : out[at] !== encodeHalf(value),
    )
    expect(wrong).toEqual([])
  })
})

describe('the exponential of a softmax', () => {
  const below = compile('expBelowZero', (x) => expBelowZero(x.splat(4)).lane(0))

  it('is within two units of the true one below zero, and flushes what would be subnormal', () => {
    const xs = [0, -0, ...range(-87.3, 0, 5000), ...magnitudes(1e-30, 80, 500).filter((x) => x <= 0)]
    const truth = xs.map(Math.exp)
    expect(worst(run(below, xs), truth)).toBeLessThan(2)
    expect([...run(below, [-87.4, -100, -1e30, -Infinity])]).toEqual([0, 0, 0, 0])
  })

  it('keeps NaN, whatever its bits are', () => {
    const odd = new Float32Array(Uint32Array.of(0x7fc00000, 0x7fc00001, 0xffc12345).buffer)
    expect([...run(below, [...odd])].every(Number.isNaN)).toBe(true)
  })
})
