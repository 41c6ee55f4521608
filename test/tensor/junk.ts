// Calls with arguments that make no sense: every method of a tensor, and every function that makes or takes tensors. Each either gives
// tensors that can be computed, or is refused with an error of Ingot; nothing else, and not after a long time.

import * as fc from 'fast-check'
import { isIngotError } from '../../src/base/error.ts'
import type { Device } from '../../src/device/device.ts'
import * as ingot from '../../src/index.ts'
import { callMethod } from './method-call.ts'

const { Tensor } = ingot
type Call = (...args: readonly unknown[]) => unknown

/** What is protected, or serves those who build plans: no caller has these. */
const INTERNAL = new Set([
  'constructor',
  'apply',
  'checkOperands',
  'checkTensors',
  'elementType',
  'axisOf',
  'axesOf',
  'floats',
  'settle',
  'rebind',
])
const INTERNAL_STATIC = new Set(['length', 'name', 'prototype', 'leaf', 'over', 'cache', 'onto', 'holding', 'of'])

/** Methods by name, those of every class that tensors extend. */
export function methodNames(): string[] {
  const names = new Set<string>()
  for (let at: object = Tensor.prototype; at !== Object.prototype; at = Object.getPrototypeOf(at) as object)
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at)))
      if (typeof value === 'function' && !INTERNAL.has(name)) names.add(name)
  return [...names].sort()
}

/** Functions by name; what they give is called, too, with the arguments that follow. */
export function functions(): ReadonlyMap<string, Call> {
  const { random, dropout, grad, valueAndGrad, gradients, checkpoint, compile, scope, setDefaultDevice, assignment } = ingot
  const { buildPlan } = ingot
  const own = { dropout, grad, valueAndGrad, gradients, checkpoint, compile, scope, assignment, buildPlan }
  const choose: Call = (device) => {
    setDefaultDevice(device as never)
    setDefaultDevice('reference')
  }
  const statics = Object.getOwnPropertyNames(Tensor).filter((name) => !INTERNAL_STATIC.has(name))
  return new Map<string, Call>([
    ...statics.map((name): [string, Call] => [name, (...args) => callMethod(Tensor, name, args)]),
    ...Object.entries(random).map(([name, call]): [string, Call] => [`random.${name}`, call as Call]),
    ...Object.entries(own).map(([name, call]): [string, Call] => [name, call as Call]),
    ['setDefaultDevice', choose],
  ])
}

export interface Setting {
  readonly device: Device
  /** tensors of the device, and some that are not, or not any more */
  readonly tensors: Readonly<Record<string, ingot.Tensor>>
}

/** Tensors of many shapes and types, and those that must be refused. */
export async function makeSetting(device: Device, other: Device, closed: Device): Promise<Setting> {
  const of = (shape: readonly number[], dtype: 'f32' | 'f16' | 'i32' | 'u8' | 'bool' | 'u32' | 'i64' | 'f64' | 'bf16'): ingot.Tensor =>
    Tensor.from(new Float64Array(shape.reduce((a, b) => a * b, 1)).fill(1), { shape, dtype, device })
  const disposed = of([2, 3], 'f32')
  disposed[Symbol.dispose]()
  const gone = await Tensor.from([1, 2], { device: closed }).realize()
  await closed.close()
  return {
    device,
    tensors: {
      matrix: of([2, 3], 'f32'),
      square: of([3, 3], 'f32'),
      row: of([3], 'f32'),
      number: of([], 'f32'),
      image: of([1, 2, 4, 4], 'f32'),
      halves: of([2, 3], 'f16'),
      brain: of([3], 'bf16'),
      doubles: of([2, 3], 'f64'),
      integers: of([2, 3], 'i32'),
      ids: of([3], 'u32'),
      longs: of([3], 'i64'),
      bytes: of([4], 'u8'),
      bools: of([2, 3], 'bool'),
      nowhere: Tensor.from([1, 2, 3]),
      elsewhere: Tensor.from([1, 2, 3], { device: other }),
      disposed,
      gone,
    },
  }
}

/** Names of tensors, and everything else that somebody may pass by mistake. */
type Junk = { readonly tensor: string } | { readonly list: readonly Junk[] } | { readonly value: unknown }

export const JUNK: readonly unknown[] = [
  null, undefined, Number.NaN, -1, 0, 1, 2, 1.5, 1e9, 2 ** 40, -Infinity, '', 'f32', 'abc', 'ij,jk->ik', true, 1n, -1n, Symbol('junk'),
  {}, [], [1], [0, 1], [-1], [Number.NaN], [1e9], [[1, 2], [3, 4]], [null], ['a'], new Float32Array([1, 2, 3]), new DataView(new ArrayBuffer(4)),
  new Date(0), { dtype: 'f99' }, { device: 'abc' }, { device: null }, { dtype: 'f64' }, { axis: 9 }, { keep: 1 }, { stride: 0 }, { padding: -1 },
  { padding: [[1]] }, { groups: 0 }, { kernel: [1], strides: [1], dilations: [1], padding: [[0, 0]], out: [1] }, { mode: 'none' }, { reduction: 'none' },
  { seed: -1 }, { seed: 'a' }, { argument: 'a' }, { argument: 7 }, { argument: [0, 'a'] }, { shape: [2] }, { activations: ['abs'] }, { weight: 1 },
  { heads: 1, dims: 2, magnitude: 1, style: 'half' }, { heads: 1, scale: 1, window: 0, softcap: 0 }, { reads: [1] }, { input: 0 }, { const: 1, type: 'f32' },
  { op: 'add', args: [] }, () => {}, (x: unknown) => x, () => { throw new ingot.IngotError('cancelled', 'on purpose') },
] // prettier-ignore

export function junk(tensors: readonly string[]): fc.Arbitrary<Junk> {
  const value = fc.constantFrom(...JUNK).map((each): Junk => ({ value: each }))
  const tensor = fc.constantFrom(...tensors).map((each): Junk => ({ tensor: each }))
  const one = fc.oneof(value, tensor)
  return fc.oneof({ weight: 8, arbitrary: one }, { weight: 1, arbitrary: fc.array(one, { maxLength: 3 }).map((list): Junk => ({ list })) })
}

export function resolve(each: Junk, tensors: Setting['tensors']): unknown {
  if ('tensor' in each) return tensors[each.tensor]
  return 'list' in each ? each.list.map((inner) => resolve(inner, tensors)) : each.value
}

/** What may be said when something is computed: there is no such device, or no such memory, or not any more. */
const LATE: readonly ingot.ErrorCode[] = ['unknown-name', 'too-large', 'out-of-memory', 'closed']

/** Arguments with one of them, or something inside of one, replaced. */
export function replaced(args: readonly unknown[], path: readonly number[], by: unknown): unknown[] {
  const [first = 0, ...rest] = path
  return args.map((arg, i) => {
    if (i !== first % args.length) return arg
    if (rest.length === 0) return by
    if (Array.isArray(arg) && arg.length > 0) return replaced(arg, rest, by)
    const isPlain = typeof arg === 'object' && arg !== null && Object.getPrototypeOf(arg) === Object.prototype
    if (!isPlain) return by
    const keys = Object.keys(arg)
    const values = replaced(Object.values(arg), rest, by)
    return Object.fromEntries(keys.map((key, at) => [key, values[at]]))
  })
}

/** Calls, computes what comes of it, and gives what went wrong, if anything did. */
export async function complaint(call: () => unknown, more: readonly unknown[] = []): Promise<string | undefined> {
  const begin = performance.now()
  let isCalled = false
  try {
    const result = await settle(call(), more)
    isCalled = true
    await Promise.all(result.map((tensor) => (tensor.dtype === 'i64' ? tensor.bytes() : tensor.data())))
  } catch (error) {
    // What is wrong with a call is said by the call; devices and their memory are known later.
    if (isCalled && isIngotError(error) && LATE.every((code) => code !== error.code)) return `not said at the call: ${error.stack}`
    if (!isIngotError(error)) return error instanceof Error ? `${error.stack?.split('\n').slice(0, 6).join('\n')}` : String(error)
  }
  const took = performance.now() - begin
  return took > 2000 ? `took ${Math.round(took)} ms` : undefined
}

/** The tensors of a result; functions are called for theirs. */
async function settle(result: unknown, more: readonly unknown[]): Promise<ingot.Tensor[]> {
  const value: unknown = await result
  if (value instanceof Tensor) return [value]
  if (typeof value === 'function') return settle((value as Call)(...more), [])
  if (Array.isArray(value)) return (await Promise.all(value.map((each: unknown) => settle(each, more)))).flat()
  const isPlain = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  return isPlain ? settle(Object.values(value), more) : []
}
