// Does a device compute what it should? A few real kernels, run on it and compared with what they mean. `open` trusts no
// device that fails. The one file of device/ that knows the kernel library.

import type { Caps } from '../base/caps.ts'
import { IngotError, isIngotError } from '../base/error.ts'
import { hashText } from '../ir/hash.ts'
import { encodeHalf, roundHalf } from '../ir/interpret/half.ts'
import { attention } from '../kernel/attention.ts'
import { dequantize } from '../kernel/dequantize.ts'
import { matmul } from '../kernel/matmul.ts'
import { matvec } from '../kernel/matvec.ts'
import { norm } from '../kernel/norm.ts'
import type { Arrays, BufferShape, KernelRecord, NumberArray } from '../kernel/record.ts'
import { softmax } from '../kernel/softmax.ts'
import { findDifference } from './compare.ts'
import type { Device } from './device.ts'
import { runRecord } from './run-record.ts'
import type { Verdict } from './verdict.ts'

export interface SelfTestCase {
  readonly record: KernelRecord
  readonly params: object
}

/** Small, real, and together touching what differs between devices. Add a line for every kernel a model cannot do without. */
export const SELF_TEST: readonly SelfTestCase[] = [
  { record: norm, params: norm.cases[0]! },
  { record: norm, params: norm.cases[3]! },
  { record: softmax, params: { rows: 2, cols: 67 } },
  { record: matvec, params: { format: 'q4_k', m: 19, k: 512, n: 1, bias: true } },
  { record: matmul, params: { format: 'q4_k', m: 19, k: 256, n: 9, bias: false } },
  { record: attention, params: { ...attention.cases[0]!, type: 'f16', rows: 3, heads: 2, kvHeads: 1, headDim: 16, capacity: 70 } },
]

/** Products of f32 matrices from small to large, which a device may leave to a library, by size: `ingot doctor` lets it choose. */
export const PRODUCTS: readonly SelfTestCase[] = [
  [16, 16, 16],
  [64, 64, 64],
  [256, 256, 256],
  [16, 1024, 1024],
].map(([n, k, m]) => ({ record: matmul, params: { format: 'f32', m, k, n, bias: false } }))

/** Runs all cases. Never throws: a device that fails in any way has failed its test. */
export async function selfTest(device: Device, cases: readonly SelfTestCase[] = SELF_TEST): Promise<Verdict> {
  const passed: string[] = []
  const failed: { name: string; error: string; lasting: boolean }[] = []
  for (const each of cases) {
    const name = nameOf(each)
    try {
      await runCase(device, each)
      passed.push(name)
    } catch (error) {
      failed.push({ name, error: error instanceof Error ? error.message : String(error), lasting: isLasting(error) })
    }
  }
  return { passed, failed }
}

/** Names what is tested: the cases and the capabilities their kernels are written for. The code's own identity is codeStamp's. */
export function selfTestKey(caps: Caps, cases: readonly SelfTestCase[] = SELF_TEST): string {
  return hashText(JSON.stringify([caps, cases.map(({ record, params }) => [record.name, params])]))
}

async function runCase(device: Device, { record, params }: SelfTestCase): Promise<void> {
  const values = await inputsOf(record, params)
  const got = await runRecord(device, record, params, values.device, { sentinels: true })
  const want = record.define(values.oracle, params)
  for (const [name, array] of Object.entries(want)) {
    const difference = findDifference(got[name], array, record.tolerance)
    if (difference !== undefined) throw new IngotError('wrong-result', `${name}: ${difference}`, { op: record.name })
  }
}

/** Inputs as the device gets them, and as the definition does: quantised weights are bytes for one and numbers for the other. */
async function inputsOf(record: KernelRecord, params: object): Promise<{ device: Arrays; oracle: Arrays }> {
  const random = randomNumbers(1)
  const given = record.inputs?.(params, () => (random() + 1) / 2) ?? {}
  const device: Record<string, NumberArray> = {}
  const oracle: Record<string, NumberArray> = {}
  for (const shape of record.buffers(params).filter(({ role }) => role !== 'out')) {
    const { name, type, elements } = shape
    const values = given[name] ?? (type === 'q4_k' ? randomQ4K(elements, random) : randomFloats(record.name, shape, random))
    device[name] = values
    oracle[name] = type === 'q4_k' ? await decode(type, elements, values) : values
  }
  return { device, oracle }
}

/** Numbers that the type of the buffer holds exactly. */
function randomFloats(op: string, { name, type, elements }: BufferShape, random: () => number): Float32Array {
  if (type !== 'f32' && type !== 'f16')
    throw new IngotError('bad-argument', `the self-test has no values of type ${type}`, { op, got: name })
  return Float32Array.from({ length: elements }, () => (type === 'f32' ? random() : roundHalf(random())))
}

/** Blocks of random scales and quants; the two halves that scale them all are small numbers and not NaN. */
function randomQ4K(elements: number, random: () => number): Uint8Array {
  const bytes = Uint8Array.from({ length: (elements / 256) * 144 }, () => random() * 128 + 128)
  const halves = new DataView(bytes.buffer)
  for (let block = 0; block < bytes.length; block += 144) {
    halves.setUint16(block, encodeHalf(random() * 0.01), true)
    halves.setUint16(block + 2, encodeHalf(random() * 0.01), true)
  }
  return bytes
}

/** What the bytes of a weight mean, by the oracle. */
async function decode(format: string, elements: number, w: NumberArray): Promise<NumberArray> {
  const { openReference } = await import('./reference/reference.ts') // only here: a device with a verdict needs no interpreter
  await using oracle = openReference({ check: false })
  const { y } = await runRecord(oracle, dequantize, { format, elements }, { w })
  return y!
}

/** The same numbers in [-1, 1) every time, for a seed that is not 0. */
export function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state / 2 ** 31
  }
}

/** `norm {"kind":"rms","rows":3}` */
function nameOf({ record, params }: SelfTestCase): string {
  return `${record.name} ${JSON.stringify(params)}`
}

/** False for troubles that may be gone tomorrow: another program took the memory, the driver was reset. */
function isLasting(error: unknown): boolean {
  return !isIngotError(error) || !['out-of-memory', 'device-lost', 'device-failed', 'closed'].includes(error.code)
}
