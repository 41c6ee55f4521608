// The programs in assets/atlas, held against their definitions in JavaScript, on sizes that fill no block.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Executor } from '../../src/atlas/executor.ts'
import { type Launch, linearLaunch, resolveLaunch } from '../../src/atlas/launch.ts'
import { classOfByte, turnClass } from '../../src/atlas/class.ts'
import { bufferNames, parseProgram } from '../../src/atlas/text.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { runCompiled } from './compiled.ts'

const FOLDER = join(import.meta.dirname, '../../assets/atlas')
const SIZES = [1, 96, 1023, 3072, 1_000_003]

const BINARY: Record<string, (x: number, y: number) => number> = {
  'vector-add': (x, y) => x + y,
  'vector-sub': (x, y) => x - y,
  'vector-mul': (x, y) => x * y,
  'vector-div': (x, y) => x / y,
  'vector-min': Math.min,
  'vector-max': Math.max,
}
const UNARY: Record<string, (x: number) => number> = {
  abs: Math.abs,
  neg: (x) => -x,
  relu: (x) => Math.max(x, 0),
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  tanh: Math.tanh,
  gelu: (x) => (x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))) / 2,
  exp: Math.exp,
  log: Math.log,
  sqrt: Math.sqrt,
  log2: Math.log2,
  log10: Math.log10,
  rsqrt: (x) => 1 / Math.sqrt(x),
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
}
/** Of one that is not negative, and in the middle of which nothing is infinite. */
const POSITIVE = ['log', 'log2', 'log10', 'sqrt', 'rsqrt']
const REDUCTIONS: Record<string, (x: Float32Array) => number> = {
  sum: (x) => x.reduce((a, b) => a + b),
  min: (x) => x.reduce((a, b) => Math.min(a, b)),
  max: (x) => x.reduce((a, b) => Math.max(a, b)),
}
const ONE_BLOCK = resolveLaunch({ block: [256], sharedBytes: 1024 })

let executor: Executor
beforeAll(async () => {
  executor = new Executor(await openCpu({ level: 'wasm', threads: 2 }))
})
afterAll(() => executor.close())

function values(count: number, step: number): Float32Array {
  const made = new Float32Array(count)
  for (let i = 0; i < count; i++) made[i] = (((i + 1) * step) % 7.25) - 3
  return made
}
const bytesOf = ({ buffer }: Float32Array | BigUint64Array): Uint8Array => new Uint8Array(buffer as ArrayBuffer)
const sizes = (...numbers: number[]): Uint8Array => bytesOf(BigUint64Array.from(numbers, BigInt))

/** What a program of the library leaves in the last buffer before the sizes. */
async function run(
  name: string,
  inputs: readonly Float32Array[],
  length: number,
  counts: Uint8Array,
  launch: Launch,
): Promise<Float32Array> {
  const program = parseProgram(readFileSync(join(FOLDER, `${name}.atlas`), 'utf8'))
  const buffers = [...inputs.map(bytesOf), new Uint8Array(4 * length), counts]
  const left = await runCompiled(executor, program, buffers, launch)
  return new Float32Array((left[inputs.length] ?? new Uint8Array()).slice().buffer)
}

/** Within a few steps of the last place, and of what a sum may lose. */
function expectNear(got: ArrayLike<number>, wanted: ArrayLike<number>, tolerance = 2e-6): void {
  expect(got.length).toBe(wanted.length)
  for (let i = 0; i < got.length; i++) {
    const [value, right] = [got[i] ?? NaN, Math.fround(wanted[i] ?? NaN)]
    if (value === right || Math.abs(value - right) <= tolerance * (1 + Math.abs(right))) continue
    throw new Error(`${i}: ${value}, not ${right}`)
  }
}

describe.each(Object.entries(BINARY))('%s', (name, define) => {
  it.each(SIZES)('of %s elements', async (count) => {
    const [x, y] = [values(count, 0.61), values(count, 1.37)]
    expectNear(
      await run(name, [x, y], count, sizes(count), linearLaunch(count)),
      x.map((each, i) => define(each, y[i] ?? 0)),
    )
  })
})

describe.each(Object.entries(UNARY))('%s', (name, define) => {
  it.each(SIZES)('of %s elements', async (count) => {
    const x = values(count, 0.61).map((each) => (POSITIVE.includes(name) ? Math.abs(each) + 1e-3 : each))
    // what the argument lost by rounding, the tangent has many times over near its poles
    expectNear(await run(name, [x], count, sizes(count), linearLaunch(count)), x.map(define), name === 'tan' ? 1e-4 : 2e-6)
  })
})

describe.each(Object.entries(REDUCTIONS))('%s', (name, define) => {
  it.each(SIZES)('of %s elements', async (count) => {
    const x = values(count, 0.61)
    expectNear(await run(name, [x], 1, sizes(count), ONE_BLOCK), [define(x)], 1e-3)
  })
})

it.each(SIZES)('dot of %s elements', async (count) => {
  const [x, y] = [values(count, 0.61), values(count, 1.37)]
  const wanted = x.reduce((sum, each, i) => sum + each * (y[i] ?? 0), 0)
  expectNear(await run('dot', [x, y], 1, sizes(count), ONE_BLOCK), [wanted], 1e-4)
})

it.each(SIZES)('softmax of %s elements, also of large ones', async (count) => {
  const x = values(count, 0.61).map((each) => 30 * each + 1000)
  const most = x.reduce((a, b) => Math.max(a, b))
  const parts = Float64Array.from(x, (each) => Math.exp(each - most))
  const sum = parts.reduce((a, b) => a + b)
  const got = await run('softmax', [x], count, sizes(count), ONE_BLOCK)
  expectNear(
    got,
    parts.map((each) => each / sum),
  )
  expect(got.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 4)
  expect(Math.abs((got[x.indexOf(most)] ?? 0) * sum - 1)).toBeLessThan(1e-4)
})

it.each([
  [1, 1],
  [96, 33],
  [257, 129],
  [1023, 1],
  [1, 3072],
  [1_000_003, 1],
  [1, 1_000_003],
])('gemv of %s x %s', async (rows, columns) => {
  const [a, x] = [values(rows * columns, 0.61), values(columns, 1.37)]
  const wanted = Array.from({ length: rows }, (_, i) => x.reduce((sum, each, j) => sum + each * (a[i * columns + j] ?? 0), 0))
  expectNear(await run('gemv', [a, x], rows, sizes(rows, columns), linearLaunch(rows, 64)), wanted, 1e-4)
})

it.each([
  [1, 1, 1],
  [8, 16, 24],
  [33, 19, 21],
  [1, 3072, 1],
  [1023, 1, 96],
  [1, 1_000_003, 1],
])('gemm of %s x %s by %s', async (rows, inner, columns) => {
  const [a, b] = [values(rows * inner, 0.61), values(inner * columns, 1.37)]
  const wanted = Array.from({ length: rows * columns }, (_, at) => {
    const [i, j] = [Math.floor(at / columns), at % columns]
    return Array.from({ length: inner }, (_each, l) => (a[i * inner + l] ?? 0) * (b[l * columns + j] ?? 0)).reduce((x, y) => x + y)
  })
  const launch = resolveLaunch({ grid: [Math.ceil(rows / 8) * Math.ceil(columns / 8)], block: [64], sharedBytes: 512 })
  expectNear(await run('gemm', [a, b], rows * columns, sizes(rows, inner, columns), launch), wanted, 1e-4)
})

/** What a generator leaves in all its buffers, given those that it reads. */
const GENERATORS: Record<string, (x: number, y: number) => readonly number[]> = {
  mark: (x) => [x, x ^ 128],
  copy: (x) => [x, x, x],
  swap: (x, y) => [y, x],
  merge: (x, y) => [x, y, (x + y) % 256],
  split: (x, y) => [x, y, (x - y + 256) % 256],
  quote: (x) => [x, 256 + x],
  evaluate: (x) => [256 + x, x],
}

describe.each(Object.entries(GENERATORS))('%s', (name, define) => {
  it.each(SIZES)('of %s bytes', async (count) => {
    const bytes = (step: number): Uint8Array => Uint8Array.from({ length: count }, (_, i) => (i * step + (i >> 8) + 200) & 255)
    const [x, y] = [bytes(7), bytes(45)]
    const wide = Uint16Array.from(x, (each) => 256 + each)
    const given = name === 'evaluate' ? [wide, new Uint8Array(count)] : [x, name === 'quote' ? new Uint16Array(count) : y]
    const third = name === 'copy' || name === 'merge' || name === 'split' ? [new Uint8Array(count)] : []
    const buffers = [...given, ...third].map((each) => new Uint8Array(each.buffer.slice(0)))
    const program = parseProgram(readFileSync(join(FOLDER, `${name}.atlas`), 'utf8'))
    const left = await runCompiled(executor, program, [...buffers, sizes(count)], linearLaunch(count))
    const wanted = [...given, ...third].map((each) => each.slice())
    for (let i = 0; i < count; i++) define(x[i] ?? 0, y[i] ?? 0).forEach((value, at) => wanted[at]?.set([value], i))
    expect(left.slice(0, wanted.length).map((each, at) => Buffer.compare(each, new Uint8Array(wanted[at]?.buffer ?? [])))).toEqual(
      wanted.map(() => 0),
    )
  })
})

it('mark moves the quadrant of every byte by two, and nothing else', () => {
  for (let byte = 0; byte < 256; byte++) expect(classOfByte(byte ^ 128)).toBe(turnClass(classOfByte(byte), { quadrants: 2 }))
})

it('every program is tried, and says what it means and which buffers it has', () => {
  const files = readdirSync(FOLDER)
  const names = [...Object.keys({ ...BINARY, ...UNARY, ...REDUCTIONS, ...GENERATORS }), 'softmax', 'dot', 'gemv', 'gemm']
  expect(files.map((name) => name.replace('.atlas', '')).toSorted()).toEqual(names.toSorted())
  for (const file of files) {
    const text = readFileSync(join(FOLDER, file), 'utf8')
    const used = new Set(text.match(/(?<=buf|movimm.u64 r\d+, )[1-4](?=\b)/g)?.map(Number))
    const named = [...bufferNames(text).values()]
    expect({ file, named }).toEqual({ file, named: named.map((_, i) => i + 1) })
    expect(named.every((handle) => used.has(handle))).toBe(true)
  }
})
