// Every method with every type, on the devices that have them all: it gives what doubles give, as near as the type can hold that, or it
// says at the call that it does not take the type. Which ones do not is listed here.

import { describe, expect, test } from 'vitest'
import { ELEMENT_TYPES, type ElementType, roundElements } from '../../src/base/element.ts'
import { isIngotError } from '../../src/base/error.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { openNull } from '../../src/device/null/null.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { setDefaultDevice } from '../../src/tensor/default-device.ts'
import { isFloatType } from '../../src/tensor/promote.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { onTensorWarning } from '../../src/tensor/warning.ts'
import { methodNames } from './junk.ts'
import { CALLS, type Make, type MethodCall, callMethod } from './method-call.ts'

const FLOATS = ['f32', 'f16', 'bf16', 'f64'] as const
const INTEGERS = ['i32', 'u32', 'i8', 'u8', 'bool', 'i64'] as const
const refusing = (names: readonly string[], types: readonly ElementType[]) => names.map((name) => [name, types] as const)

/** What methods do not take, by name. */
const REFUSED: ReadonlyMap<string, readonly ElementType[]> = new Map([
  ...refusing(['mean', 'variance', 'std', 'mse', 'softmax', 'logSoftmax', 'crossEntropy'], INTEGERS),
  ...refusing(['rmsNorm', 'layerNorm', 'standardize', 'instanceNorm', 'groupNorm'], INTEGERS),
  ...refusing(['fold', 'pool', 'maxPool2d', 'averagePool2d', 'l2Pool2d'], INTEGERS),
  ...refusing(['conv1d', 'conv2d', 'convTranspose1d', 'convTranspose2d', 'linear', 'linearTransposed', 'lora'], INTEGERS),
  ...refusing(['quotient', 'remainder', 'bitAnd', 'bitOr', 'bitXor', 'shiftLeft', 'shiftRight'], FLOATS),
  ...refusing(['cumsum', 'cumprod', 'scatterAdd'], ['bool']),
  // of language models, whose weights and caches have formats of their own
  ...refusing(['embedding', 'rope'], ['f64', ...INTEGERS]),
  ...refusing(['cacheWrite', 'cachedAttention'], ['bf16', 'f64', ...INTEGERS]),
  ...refusing(['candidates'], ['f16', 'bf16', 'f64', ...INTEGERS]),
])
/** Results that depend on the type by design, and those of methods that give no tensors. */
const NOT_COMPARED = new Set(['draw', 'candidates', 'cacheWrite', 'data', 'bytes', 'item', 'toArray', 'show', 'toString'])

/** What some methods mean, in plain numbers: the doubles that everything is held against are held against these. */
const PLAIN: Readonly<Record<string, (a: number, b: number) => number>> = {
  neg: (a) => -a,
  abs: Math.abs,
  square: (a) => a * a,
  sqrt: Math.sqrt,
  rsqrt: (a) => 1 / Math.sqrt(a),
  exp: Math.exp,
  log: Math.log,
  sin: Math.sin,
  tan: Math.tan,
  atan: Math.atan,
  tanh: Math.tanh,
  sigmoid: (a) => 1 / (1 + Math.exp(-a)),
  silu: (a) => a / (1 + Math.exp(-a)),
  softplus: (a) => Math.log1p(Math.exp(a)),
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  pow: (a, b) => a ** b,
  minimum: Math.min,
  maximum: Math.max,
  eq: (a, b) => Number(a === b),
  lt: (a, b) => Number(a < b),
  and: (a, b) => Number(a !== 0 && b !== 0),
  xor: (a, b) => Number((a !== 0) !== (b !== 0)),
}

/** Small whole numbers; truth values where `isBool`. */
const numberAt = (i: number, isBool: boolean): number => (isBool ? i % 2 : (i * 3) % 5)
const makeOn =
  (device: Device, type: ElementType, isBool: boolean): Make =>
  (shape, own = type) => {
    const size = shape.reduce((product, each) => product * each, 1)
    const numbers = Float64Array.from({ length: size }, (_, i) => numberAt(i, isBool || own === 'bool'))
    return Tensor.from(numbers, { shape, dtype: own, device })
  }

function tensorsOf(name: string, { on, args }: MethodCall, make: Make): Tensor[] {
  const x = on(make)
  const result = callMethod(x, name, args(make))
  const values: unknown[] = result instanceof Tensor ? [result] : typeof result === 'object' && result !== null ? Object.values(result) : []
  return values.filter((value) => value instanceof Tensor)
}

interface Result {
  readonly dtype: ElementType
  readonly values: ArrayLike<number>
}
/** The results of one call; undefined where it is refused, with an error of Ingot that names an operation. */
async function resultsOf(name: string, call: MethodCall, make: Make): Promise<readonly Result[] | undefined> {
  let tensors: Tensor[]
  try {
    tensors = tensorsOf(name, call, make)
  } catch (error) {
    if (isIngotError(error) && error.facts.op !== undefined && ['bad-argument', 'unsupported'].includes(error.code)) return undefined
    throw error
  }
  return Promise.all(tensors.map(async (tensor) => ({ dtype: tensor.dtype as ElementType, values: await tensor.data() })))
}

/** How far apart numbers may be, relative to the largest: several roundings on the way. */
const TOLERANCE: Partial<Record<ElementType, number>> = { f64: 1e-12, f32: 1e-5, f16: 2 ** -7, bf16: 2 ** -4 }

function difference({ dtype, values }: Result, want: ArrayLike<number>, input: ElementType): string | undefined {
  const isFloat = isFloatType(dtype)
  const rounded = isFloat ? want : roundElements(dtype, want)
  const tolerance = Math.max(TOLERANCE[dtype] ?? 0, TOLERANCE[input] ?? 0)
  const size = Array.from(rounded).reduce((most, each) => (Number.isFinite(each) ? Math.max(most, Math.abs(each)) : most), 1)
  const bad = Array.from(values).findIndex((got, i) => {
    const wanted = rounded[i]!
    return !(Object.is(got, wanted) || got === wanted || (isFloat && Math.abs(got - wanted) <= tolerance * size))
  })
  return bad < 0 ? undefined : `${dtype} ${String(values[bad])} instead of ${String(rounded[bad])} at ${bad}`
}

test('there is a call of every method', () => {
  expect(methodNames().filter((name) => CALLS[name] === undefined)).toEqual([])
})

describe.each([
  ['reference', async () => openReference({ check: false })],
  ['cpu', () => openCpu()],
] as const)('on %s', (_device, open) => {
  test('every method takes every type, or says that it does not', { timeout: 120_000 }, async () => {
    await using device = await open()
    await using reference = openReference({ check: false })
    const check = async ([name, call]: readonly [string, MethodCall]): Promise<string[]> => {
      // Where doubles are refused, 32-bit integers or floats say what is right.
      const exact = async (isBool: boolean): Promise<readonly Result[] | undefined> =>
        (await resultsOf(name, call, makeOn(reference, 'f64', isBool))) ??
        (await resultsOf(name, call, makeOn(reference, 'i32', isBool))) ??
        resultsOf(name, call, makeOn(reference, 'f32', isBool))
      const [numbers, bools] = [await exact(false), await exact(true)]
      const each = ELEMENT_TYPES.map(async (type): Promise<string[]> => {
        const got = await resultsOf(name, call, makeOn(device, type, type === 'bool'))
        const isRefused = REFUSED.get(name)?.includes(type) === true
        if ((got === undefined) !== isRefused) return [`${name} of ${type} is ${got === undefined ? 'refused' : 'taken'}`]
        if (got === undefined || NOT_COMPARED.has(name)) return []
        const want = type === 'bool' ? bools : numbers
        return got.flatMap((result, i) => {
          const error = difference(result, want?.[i]?.values ?? [], type)
          return error === undefined ? [] : [`${name} of ${type}: ${error}`]
        })
      })
      return (await Promise.all(each)).flat()
    }
    expect((await Promise.all(Object.entries(CALLS).map(check))).flat()).toEqual([])
  })

  test('doubles are what plain numbers are', async () => {
    await using device = await open()
    const [a, b] = [[0.5, 1, 2.25, -0.75], [1.5, -2, 0.25, 3]] // prettier-ignore
    const [x, y] = [a, b].map((list) => Tensor.from(list, { dtype: 'f64', device })) as [Tensor, Tensor]
    const check = async ([name, plain]: readonly [string, (a: number, b: number) => number]): Promise<string[]> => {
      const got = await (callMethod(x, name, plain.length === 2 ? [y] : []) as Tensor).data()
      const want = a.map((value, i) => plain(value, b[i]!))
      const error = difference({ dtype: 'f64', values: got }, want, 'f64')
      return error === undefined ? [] : [`${name}: ${error}`]
    }
    expect((await Promise.all(Object.entries(PLAIN).map(check))).flat()).toEqual([])
  })

  test('products of integers are exact, and wrap as their type does', async () => {
    await using device = await open()
    const of = (list: number[][], dtype: ElementType): Tensor => Tensor.from(list, { dtype, device })
    const large = of([[16_777_217, 3]], 'i32').matmul(of([[1], [65_536]], 'i32'))
    expect(await large.toArray()).toEqual([[16_777_217 + 3 * 65_536]])
    expect(await of([[2 ** 31 + 1]], 'u32').matmul(of([[3]], 'u32')).item()).toBe((3 * (2 ** 31 + 1)) % 2 ** 32) // prettier-ignore
    expect(await of([[100, 100]], 'i8').matmul(of([[1], [1]], 'i8')).item()).toBe(200 - 256) // prettier-ignore
  })

  test('the largest of doubles that are one as floats, or as integers', async () => {
    await using device = await open()
    const near = Tensor.from([1, 1 + 2 ** -50, 1 - 2 ** -50, 1], { dtype: 'f64', device })
    const x = near.reshape(2, 2)
    const found = [near.argmax(), near.argmin(), x.argmax(0), x.argmin(1), near.add(-3).argmax()]
    expect(await Promise.all(found.map((each) => each.toArray()))).toEqual([1, 2, [0, 0], [0, 0], 1])
    const long = Tensor.arange(0, 5000, 1, { dtype: 'f64', device }).mul(2 ** -40)
    expect(await Promise.all([long.argmax().item(), long.neg().argmax().item()])).toEqual([4999, 0])
  })

  test.each(['f16', 'bf16'] as const)('%s is rounded between operations that are joined as memory would round it', async (dtype) => {
    await using device = await open()
    const numbers = Float64Array.from({ length: 64 }, (_, i) => Math.sin(i + 1))
    const x = Tensor.from(numbers, { dtype, device })
    const joined = x.mul(x).add(x)
    const [product, scaled] = [x.mul(x), x.mul(3)]
    await Promise.all([product.realize(), scaled.realize()])
    expect(await joined.data()).toEqual(await product.add(x).data())
    expect(await x.mul(3).sum().item()).toBe(await scaled.sum().item())
  })

  test.each(['f16', 'bf16'] as const)('%s of one element, which take less than a word, can be multiplied', async (dtype) => {
    await using device = await open()
    const x = Tensor.from([[2]], { dtype, device }).add(1)
    expect(await x.matmul(x).to('f32').toArray()).toEqual([[9]])
  })

  test('doubles are sorted, NaN last', async () => {
    await using device = await open()
    const x = Tensor.from([2, Number.NaN, 1 + 2 ** -50, 1, 2], { dtype: 'f64', device })
    expect(await x.argsort().toArray()).toEqual([3, 2, 0, 4, 1])
    expect(await x.argsort(-1, { descending: true }).toArray()).toEqual([0, 4, 2, 3, 1])
    expect(await x.topK(3).values.toArray()).toEqual([2, 2, 1 + 2 ** -50])
  })
})

test('what is computed in a wider type is said once, to whoever listens', async () => {
  await using device = openReference({ check: false })
  const lines: string[] = []
  onTensorWarning((line) => lines.push(line))
  try {
    const [x, w] = [Tensor.ones([2, 4], { dtype: 'bf16', device }), Tensor.ones([3, 4], { device })]
    for (const rows of [1, 2]) expect(await x.slice([0, rows]).linear(w).sum().item()).toBe(12 * rows)
    expect(lines).toEqual(['linear: bf16 is computed in f32'])
  } finally {
    onTensorWarning(undefined)
  }
})

test('64-bit floats are refused at once where a device is known to have none, and else before anything is computed', async () => {
  await using device = openNull({ f64: false })
  const message = /null has no 64-bit floats, got .*f64; make it with dtype 'f32', or on the device 'cpu'/
  expect(() => Tensor.from([1], { dtype: 'f64', device })).toThrow(expect.objectContaining({ code: 'unsupported' }))
  expect(() => Tensor.from([1], { device }).to('f64')).toThrow(message)
  setDefaultDevice(device)
  try {
    await expect(Tensor.from([1], { dtype: 'f64' }).add(1).data()).rejects.toThrow(message)
    await expect(Tensor.from([1]).add(1).data()).resolves.toHaveLength(1)
  } finally {
    setDefaultDevice('auto')
  }
})
