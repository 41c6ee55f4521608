// 64-bit floats as WebAssembly and as C, against the interpreter: exactly where arithmetic is exact, within a few units in the last place
// for the elementary functions, which are JavaScript's in WebAssembly and libm's in C.

import { describe, expect, it } from 'vitest'
import type { Storage, Width } from '../../src/base/dtype.ts'
import { IngotError } from '../../src/base/error.ts'
import { emitC } from '../../src/emit/c.ts'
import { emitMsl } from '../../src/emit/msl.ts'
import { printWat } from '../../src/emit/wasm/emit.ts'
import { emitWgsl } from '../../src/emit/wgsl.ts'
import { buffer, kernel } from '../../src/ir/author.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import type { Value } from '../../src/ir/value.ts'
import { COMPILERS, MARCHES, build, canRun } from './c-build.ts'
import { VARIANTS, runWasm } from './wasm-run.ts'

type F64 = Value<'f64x2'>
type Op = (a: F64, b: F64) => F64
type Arrays = Readonly<Record<string, Float64Array>>
const WIDTHS = [1, 2, 4, 8, 16] as const

/** Numbers that are ties or whole, limits of other types, and what is no number; many that no f32 holds. */
const PLAIN = [0, -0, 1, -1, 1 / 3, -Math.PI, 0.5, 1.5, 2.5, -0.5, -2.5, 1e300, -1e-300, 2 ** 52 - 0.5, 2 ** 53 - 1, -(2 ** 52) - 1]
const LIMITS = [2 ** 31 - 0.25, 2 ** 31, -(2 ** 31) - 0.75, -(2 ** 31) + 0.5, 2 ** 32 - 0.5, 2 ** 32, -0.75, 65519.99, 65520]
const ENDLESS = [Number.MAX_VALUE, 2 ** -1022, Infinity, -Infinity, NaN]
const SPECIAL = [...PLAIN, ...LIMITS, 1 + 2 ** -11 + 2 ** -40, 1 + 2 ** -24 + 2 ** -50, ...ENDLESS]
const PAIRS = SPECIAL.flatMap((a) => SPECIAL.map((b) => [a, b] as const))

/** Every element of a and b through every op: result number `op` of element i is at op * n + i. */
function applied(name: string, width: 1 | Width, ops: readonly Op[], n: number): Kernel {
  const params = { a: buffer('f64', 'read'), b: buffer('f64', 'read'), out: buffer('f64', 'write') }
  return kernel(`${name}${width}`, { params }, (p, k) => {
    const at = k.workgroupId.x.mul(width)
    ops.forEach((op, index) => {
      const to = at.add(index * n)
      if (width === 1) p.out.set(to, op(p.a.at(at) as never, p.b.at(at) as never) as never)
      else p.out.store(to, op(p.a.load(at, width) as never, p.b.load(at, width) as never))
    })
  })
}

const EXACT: Readonly<Record<string, Op>> = {
  add: (a, b) => a.add(b),
  sub: (a, b) => a.sub(b),
  mul: (a, b) => a.mul(b),
  div: (a, b) => a.div(b),
  min: (a, b) => a.min(b),
  max: (a, b) => a.max(b),
  neg: (a) => a.neg(),
  abs: (a) => a.abs(),
  sqrt: (a) => a.sqrt(),
  rsqrt: (a) => a.rsqrt(),
  floor: (a) => a.floor(),
  ceil: (a) => a.ceil(),
  trunc: (a) => a.trunc(),
  rint: (a) => a.rint(),
  lt: (a, b) => a.lt(b).select(a, b),
  le: (a, b) => a.le(b).select(a, b),
  gt: (a, b) => a.gt(b).select(a, b),
  ge: (a, b) => a.ge(b).not().select(a, b),
  eq: (a, b) => a.eq(b).select(a, b),
  ne: (a, b) => a.ne(b).or(a.lt(0)).select(a, b),
  f32: (a) => a.to('f32').to('f64'),
  'f32 and back': (a) => a.to('f32').add(1).to('f64'),
  f16: (a) => a.to('f16').to('f64'),
  i32: (a) => a.to('i32').to('f64'),
  u32: (a) => a.to('u32').to('f64'),
  bool: (a) => a.to('bool').to('f64'),
  'bool of both': (a, b) => a.lt(b).to('f64').add(b.to('bool').to('f64')),
  constants: (a) => a.mul(1 / 3).add(0.1),
  // exact products, so that it does not matter whether they are rounded
  fma: (a) => a.to('i32').to('f64').fma(3, 0.5),
}
/** Targets may differ in the sign of a zero that they round to. */
const UNSIGNED = new Set(['rint', 'i32'])

const FUNCTIONS: Readonly<
  Record<string, { readonly op: Op; readonly from: number; readonly to: number; readonly js: (a: number) => number }>
> = {
  exp: { op: (a) => a.exp(), from: -700, to: 700, js: Math.exp },
  exp2: { op: (a) => a.exp2(), from: -1000, to: 1000, js: (a) => 2 ** a },
  log: { op: (a) => a.abs().log(), from: -1e9, to: 1e9, js: (a) => Math.log(Math.abs(a)) },
  log2: { op: (a) => a.abs().log2(), from: -2, to: 2, js: (a) => Math.log2(Math.abs(a)) },
  sin: { op: (a) => a.sin(), from: -1e5, to: 1e5, js: Math.sin },
  cos: { op: (a) => a.cos(), from: -1e5, to: 1e5, js: Math.cos },
  tan: { op: (a) => a.tan(), from: -10, to: 10, js: Math.tan },
  asin: { op: (a) => a.asin(), from: -1, to: 1, js: Math.asin },
  acos: { op: (a) => a.acos(), from: -1, to: 1, js: Math.acos },
  atan: { op: (a) => a.atan(), from: -30, to: 30, js: Math.atan },
  tanh: { op: (a) => a.tanh(), from: -20, to: 20, js: Math.tanh },
  pow: { op: (a) => a.abs().pow(a), from: -40, to: 40, js: (a) => Math.abs(a) ** a },
}
const POINTS = 64

type Run = (kernel: Kernel, arrays: Arrays, grid: number) => void

/** Everything that is to run: what it computes, and what is to be said about the results. */
interface Task {
  readonly kernel: Kernel
  readonly arrays: () => Arrays
  readonly grid: number
  /** what is wrong with the results */
  check(got: Arrays, wanted: Arrays, exact: boolean): string[]
}

const bytes = (arrays: Arrays): Record<string, Uint8Array> =>
  Object.fromEntries(Object.entries(arrays).map(([name, { buffer: memory }]) => [name, new Uint8Array(memory as ArrayBuffer)]))
const interpreted: Run = (each, arrays, grid) => interpret(each, { buffers: bytes(arrays), grid: [grid, 1, 1] })

/** What differs, by at most `most` parts of the wanted number; zeros of both signs are the same if they may be. */
function differences(what: string, got: Float64Array, wanted: Float64Array, most: number, unsigned = false): string[] {
  const at = wanted.findIndex((want, i) => {
    const have = got[i]!
    if (Object.is(have, want) || (unsigned && have === 0 && want === 0)) return false
    return most === 0 || !Number.isFinite(want) || !(Math.abs(have - want) <= Math.abs(want) * most)
  })
  return at < 0 ? [] : [`${what}[${at}] is ${got[at]}, wanted ${wanted[at]}`]
}

function exactTask(width: 1 | Width): Task {
  const names = Object.keys(EXACT)
  const n = PAIRS.length
  return {
    kernel: applied('exact', width, Object.values(EXACT), n),
    arrays: () => ({
      a: Float64Array.from(PAIRS, ([a]) => a),
      b: Float64Array.from(PAIRS, ([, b]) => b),
      out: new Float64Array(n * names.length),
    }),
    grid: n / width,
    check: (got, wanted) =>
      names.flatMap((name, op) => {
        const part = ({ out }: Arrays): Float64Array => out!.subarray(op * n, (op + 1) * n)
        return differences(name, part(got), part(wanted), 0, UNSIGNED.has(name))
      }),
  }
}

function functionTask(width: 1 | Width): Task {
  const all = Object.entries(FUNCTIONS)
  const n = POINTS * all.length
  const points = all.flatMap(([, { from, to }]) => Array.from({ length: POINTS }, (_, i) => from + ((to - from) * (i + 0.37)) / POINTS))
  const params = { a: buffer('f64', 'read'), out: buffer('f64', 'write') }
  return {
    kernel: kernel(`functions${width}`, { params }, (p, k) => {
      all.forEach(([, { op }], index) => {
        const at = k.workgroupId.x.mul(width).add(index * POINTS)
        if (width === 1) p.out.set(at, op(p.a.at(at) as never, p.a.at(at) as never) as never)
        else p.out.store(at, op(p.a.load(at, width) as never, p.a.load(at, width) as never))
      })
    }),
    arrays: () => ({ a: Float64Array.from(points), out: new Float64Array(n) }),
    grid: POINTS / width,
    check: (got, wanted, exact) =>
      all.flatMap(([name, { js }], op) => {
        const part = ({ out }: Arrays): Float64Array => out!.subarray(op * POINTS, (op + 1) * POINTS)
        const own = Float64Array.from(points.slice(op * POINTS, (op + 1) * POINTS), js)
        return [
          ...differences(name, part(got), part(wanted), exact ? 0 : 2 ** -50),
          ...differences(`${name} in JavaScript`, part(wanted), own, 0),
        ]
      }),
  }
}

/** Ends of the functions: infinities, zeros, and where there is no number. */
const ENDS: Op = (a, b) => {
  const sum = (values: readonly F64[]): F64 => values.map((value) => value.min(1e6).max(-1e6)).reduce((x, y) => x.mul(4).add(y))
  return a.eq(0).select(sum([a.log(), a.log2(), a.exp()]), a.pow(b))
}
const ENDING = [0, 1, -1, 2, 0.5, Infinity, -Infinity, NaN].flatMap((a) =>
  [0, 1, -1, 3, 0.5, Infinity, -Infinity, NaN].map((b) => [a, b] as const),
)
const endTask: Task = {
  kernel: applied('ends', 4, [ENDS], ENDING.length),
  arrays: () => ({
    a: Float64Array.from(ENDING, ([a]) => a),
    b: Float64Array.from(ENDING, ([, b]) => b),
    out: new Float64Array(ENDING.length),
  }),
  grid: ENDING.length / 4,
  check: (got, wanted) => differences('ends', got['out']!, wanted['out']!, 2 ** -50),
}

/** Memory of every kind, at indices that are no multiples of anything; workgroup memory, variables, subgroups. */
function memoryTask(storage: Storage & ('f64' | 'f64x2' | 'f64x4'), count: number): Task {
  const params = { x: buffer(storage, 'read'), scalars: buffer('f64', 'read'), y: buffer(storage, 'write'), out: buffer('f64', 'write') }
  return {
    kernel: kernel(`memory_${storage}`, { params, workgroup: [8], subgroup: 4 }, (p, k) => {
      const kept = k.shared('kept', storage, 8)
      const line = k.shared('line', 'f64', 8 * 16)
      kept.set(k.lane, p.x.at(k.lane.add(1)))
      line.store(k.lane.mul(16), p.scalars.load(k.lane.add(3), 16).add(1))
      k.barrier()
      p.y.set(k.lane, kept.at(k.const('u32', 7).sub(k.lane)))
      const sum = k.var('sum', p.scalars.at(k.lane))
      k.for({ to: 3 }, (i) =>
        sum.set(
          sum
            .get()
            .mul(0.5)
            .add(p.scalars.at(i.mul(5))),
        ),
      )
      const at = k.lane.mul(16)
      const wide = k.var('wide', line.load(k.const('u32', 7).sub(k.lane).mul(16), 16))
      wide.set(wide.get().mul(p.scalars.at(2)))
      p.out.store(at.add(1), wide.get().slice(1, 8))
      p.out.set(at, k.subSum(sum.get()))
      p.out.set(at.add(9), k.subMax(sum.get()).sub(k.subMin(sum.get())))
      p.out.set(at.add(10), k.subShuffleXor(sum.get(), 3))
      p.out.store(at.add(11), k.subBroadcast(k.vec(sum.get(), p.scalars.at(4), sum.get().neg(), sum.get()), 1))
      p.out.set(at.add(15), wide.get().hsum().add(wide.get().hmax()).add(wide.get().slice(3, 2).hsum()))
    }),
    // sixteenths and a bit: sums are exact, and no f32
    arrays: () => ({
      x: Float64Array.from({ length: 9 * count }, (_, i) => i / 16 + 2 ** -30),
      scalars: Float64Array.from({ length: 32 }, (_, i) => (i % 7) / 16 + 2 ** -26),
      y: new Float64Array(8 * count),
      out: new Float64Array(128),
    }),
    grid: 1,
    check: (got, wanted) => ['y', 'out'].flatMap((name) => differences(name, got[name]!, wanted[name]!, 0)),
  }
}

/** y [n, m] = x [n, k] times w [m, k] transposed: numbers whose sums are exact in f64 and in nothing less. */
const [M, K, N] = [5, 24, 3]
const productTask: Task = {
  kernel: kernel('product', { params: { x: buffer('f64', 'read'), w: buffer('f64', 'read'), y: buffer('f64', 'write') } }, (p, k) => {
    const [row, column] = [k.workgroupId.x.div(M), k.workgroupId.x.rem(M)]
    const sum = k.var('sum', k.const('f64x4', 0))
    k.for({ to: K, step: 4 }, (i) => {
      sum.set(p.x.load(row.mul(K).add(i), 4).fma(p.w.load(column.mul(K).add(i), 4), sum.get()))
    })
    p.y.set(k.workgroupId.x, sum.get().hsum())
  }),
  arrays: () => ({
    x: Float64Array.from({ length: N * K }, (_, i) => ((i * 7919) % 1023) / 1024 + 2 ** -22),
    w: Float64Array.from({ length: M * K }, (_, i) => ((i * 104729) % 1021) / 1024 - 2 ** -22),
    y: new Float64Array(N * M),
  }),
  grid: N * M,
  check: (got, { x, w, y }) => {
    const dot = (at: number): number => {
      let sum = 0
      for (let i = 0; i < K; i++) sum += x![Math.floor(at / M) * K + i]! * w![(at % M) * K + i]!
      return sum
    }
    return [
      ...differences('y', got['y']!, y!, 0),
      ...differences(
        'y',
        y!,
        Float64Array.from(y!, (_, at) => dot(at)),
        0,
      ),
    ]
  },
}

/** As many bits as a constant has, alone and among others. */
const CONSTANTS = [
  0.1,
  1 / 3,
  -Math.E,
  2 ** 53 - 1,
  2 ** -1022,
  Number.MAX_VALUE,
  -0,
  Infinity,
  -Infinity,
  NaN,
  1e22,
  -1e-5,
  123456789.125,
  5e-9,
]
const constantTask: Task = {
  kernel: kernel('constants', { params: { y: buffer('f64', 'write') } }, (p, k) => {
    CONSTANTS.forEach((value, i) => {
      p.y.set(3 * i, k.const('f64', value))
      p.y.store(3 * i + 1, k.vec(k.const('f64', value), k.const('f64', 1)))
    })
    p.y.store(3 * CONSTANTS.length, k.const('f64x8', -0.1))
  }),
  arrays: () => ({ y: new Float64Array(3 * CONSTANTS.length + 8) }),
  grid: 1,
  check: ({ y: got }, { y: wanted }) => [
    ...differences('y', got!, wanted!, 0),
    ...differences(
      'y',
      wanted!,
      Float64Array.from([...CONSTANTS.flatMap((value) => [value, value, 1]), ...Array.from({ length: 8 }, () => -0.1)]),
      0,
    ),
  ],
}

const TASKS: readonly Task[] = [
  ...WIDTHS.map(exactTask),
  ...WIDTHS.map(functionTask),
  endTask,
  memoryTask('f64', 1),
  memoryTask('f64x2', 2),
  memoryTask('f64x4', 4),
  productTask,
  constantTask,
]

const faults = (run: Run, exact: boolean): string[] =>
  TASKS.flatMap(({ kernel: each, arrays, grid, check }) => {
    const [wanted, got] = [arrays(), arrays()]
    interpreted(each, wanted, grid)
    run(each, got, grid)
    return check(got, wanted, exact).map((fault) => `${each.name}: ${fault}`)
  })

describe('64-bit floats as WebAssembly', () => {
  it.each(VARIANTS)('%s', (_name, features) => {
    expect(
      faults((each, arrays, grid) => {
        const buffers = bytes(arrays)
        runWasm(each, { buffers, grid: [grid, 1, 1] }, features)
      }, true),
    ).toEqual([])
  })

  it('promises no more alignment than elements have, and takes what vectors in memory give', () => {
    const text = (storage: 'f64' | 'f64x2'): string => {
      const move = kernel('move', { params: { x: buffer(storage, 'read'), y: buffer(storage, 'write') } }, ({ x, y }, k) => {
        const at = k.workgroupId.x
        if (storage === 'f64x2') y.set(at, x.at(at))
        else (y as unknown as { store(i: unknown, v: unknown): void }).store(at, x.load(at, 2))
      })
      return printWat(move, VARIANTS[0]![1])
    }
    expect(text('f64')).toMatch(/v128\.load align=8[\s\S]*v128\.store align=8/)
    expect(text('f64x2')).toMatch(/v128\.load\n[\s\S]*v128\.store\n/)
  })

  it('imports the functions that it calls, and no others', () => {
    const imports = (op: (x: Value<'f64'>) => Value<'f64'>): string[] => {
      const one = kernel('one', { params: { x: buffer('f64', 'readwrite') } }, ({ x }) => x.set(0, op(x.at(0))))
      return [...printWat(one, VARIANTS[0]![1]).matchAll(/import "math" "(\w+)"/g)].map(([, name]) => name!)
    }
    expect(imports((x) => x.sqrt().add(1))).toEqual([])
    expect(imports((x) => x.exp().add(x.exp2()).mul(x.mul(2).exp()))).toEqual(['exp', 'pow'])
  })
})

describe.skipIf(COMPILERS.length === 0).each(COMPILERS)(
  '64-bit floats in C by %s (skipped where no C compiler is installed)',
  (compiler) => {
    const source = emitC(TASKS.map(({ kernel: each }) => each))
    it.each(MARCHES.filter(canRun))('%s', (march) => {
      using library = build(source, compiler, march, ['-O1'], ['-lm'])
      expect(faults((each, arrays, grid) => library.run(each, { buffers: bytes(arrays), grid: [grid, 1, 1] }), false)).toEqual([])
    })
  },
)

describe('languages without 64-bit floats', () => {
  const kernels: Readonly<Record<string, Kernel>> = {
    memory: kernel('memory', { params: { x: buffer('f64', 'read'), y: buffer('f32', 'write') } }, ({ y }) => y.set(0, 1)),
    'workgroup memory': kernel('kept', { params: { y: buffer('f32', 'write') } }, ({ y }, k) => {
      k.shared('line', 'f64x2', 4)
      y.set(0, 1)
    }),
    values: kernel('values', { params: { x: buffer('f32', 'readwrite') } }, ({ x }) => x.set(0, x.at(0).to('f64').mul(0.1).to('f32'))),
  }
  const caps = { subgroup: 32, f16: true, tiles: true }
  it.each(Object.keys(kernels))('refuse a kernel with %s of them', (name) => {
    const each = kernels[name]!
    for (const [target, emit] of [
      ['msl', () => emitMsl(each, caps)],
      ['wgsl', () => emitWgsl(each, caps)],
    ] as const) {
      expect(emit).toThrow(IngotError)
      expect(emit).toThrow(`${each.name}: ${target} has no 64-bit floats, got f64`)
    }
    expect(emitC(each).text).toContain(each.name)
  })
})
