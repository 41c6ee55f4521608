// The programs in assets/atlas, held against their definitions in JavaScript, on sizes that fill no block.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Executor } from '../../src/atlas/executor.ts'
import { type Launch, linearLaunch, resolveLaunch } from '../../src/atlas/launch.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { runCompiled } from './compiled.ts'

const FOLDER = join(import.meta.dirname, '../../assets/atlas')
const SIZES = [1, 96, 1023, 3072]
const LARGE = 1_000_003

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
}
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

const values = (count: number, step: number): Float32Array => Float32Array.from({ length: count }, (_, i) => (((i + 1) * step) % 7.25) - 3)
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
  const worst = Array.from(got).findIndex((value, i) => {
    const right = Math.fround(wanted[i] ?? 0)
    return !Object.is(value, right) && value !== right && !(Math.abs(value - right) <= tolerance * (1 + Math.abs(right)))
  })
  expect(worst < 0 ? 'all are near' : `${worst}: ${got[worst]}, not ${wanted[worst]}`).toBe('all are near')
}

describe.each(Object.entries(BINARY))('%s', (name, define) => {
  it.each(name === 'vector-add' ? [...SIZES, LARGE] : SIZES)('of %s elements', async (count) => {
    const [x, y] = [values(count, 0.61), values(count, 1.37)]
    expectNear(
      await run(name, [x, y], count, sizes(count), linearLaunch(count)),
      x.map((each, i) => define(each, y[i] ?? 0)),
    )
  })
})

describe.each(Object.entries(UNARY))('%s', (name, define) => {
  it.each(SIZES)('of %s elements', async (count) => {
    const x = values(count, 0.61).map((each) => (name === 'log' || name === 'sqrt' ? Math.abs(each) : each))
    expectNear(await run(name, [x], count, sizes(count), linearLaunch(count)), x.map(define))
  })
})

describe.each(Object.entries(REDUCTIONS))('%s', (name, define) => {
  it.each(name === 'sum' ? [...SIZES, LARGE] : SIZES)('of %s elements', async (count) => {
    const x = values(count, 0.61)
    expectNear(await run(name, [x], 1, sizes(count), ONE_BLOCK), [define(x)], 1e-3)
  })
})

it.each(SIZES)('dot of %s elements', async (count) => {
  const [x, y] = [values(count, 0.61), values(count, 1.37)]
  const wanted = x.reduce((sum, each, i) => sum + each * (y[i] ?? 0), 0)
  expectNear(await run('dot', [x, y], 1, sizes(count), ONE_BLOCK), [wanted], 1e-4)
})

it.each([
  [1, 1],
  [96, 33],
  [257, 129],
])('gemv of %s x %s', async (rows, columns) => {
  const [a, x] = [values(rows * columns, 0.61), values(columns, 1.37)]
  const wanted = Array.from({ length: rows }, (_, i) => x.reduce((sum, each, j) => sum + each * (a[i * columns + j] ?? 0), 0))
  expectNear(await run('gemv', [a, x], rows, sizes(rows, columns), linearLaunch(rows, 64)), wanted, 1e-4)
})

it.each([
  [1, 1, 1],
  [8, 16, 24],
  [33, 19, 21],
  [70, 48, 67],
])('gemm of %s x %s by %s', async (rows, inner, columns) => {
  const [a, b] = [values(rows * inner, 0.61), values(inner * columns, 1.37)]
  const wanted = Array.from({ length: rows * columns }, (_, at) => {
    const [i, j] = [Math.floor(at / columns), at % columns]
    return Array.from({ length: inner }, (_each, l) => (a[i * inner + l] ?? 0) * (b[l * columns + j] ?? 0)).reduce((x, y) => x + y)
  })
  const launch = resolveLaunch({ grid: [Math.ceil(rows / 32) * Math.ceil(columns / 32)], block: [256], sharedBytes: 4096 })
  expectNear(await run('gemm', [a, b], rows * columns, sizes(rows, inner, columns), launch), wanted, 1e-4)
})

it('every program is tried', () => {
  const names = readdirSync(FOLDER).map((name) => name.replace('.atlas', ''))
  expect(names.toSorted()).toEqual([...Object.keys({ ...BINARY, ...UNARY, ...REDUCTIONS }), 'dot', 'gemv', 'gemm'].toSorted())
})
