// Does a device compute what it should? A few real kernels, run on it and compared with what they mean. `open` trusts no
// device that fails. The one file of device/ that knows the kernel library.

import type { Caps } from '../base/caps.ts'
import { IngotError, isIngotError } from '../base/error.ts'
import { emitC } from '../emit/c.ts'
import { emitMsl } from '../emit/msl.ts'
import { emitWgsl } from '../emit/wgsl.ts'
import { hashText } from '../ir/hash.ts'
import { printKernel } from '../ir/print.ts'
import { norm } from '../kernel/norm.ts'
import type { Arrays, KernelRecord } from '../kernel/record.ts'
import { findDifference } from './compare.ts'
import type { Device } from './device.ts'
import { runRecord } from './run-record.ts'
import type { Verdict } from './verdict.ts'

export interface SelfTestCase {
  readonly record: KernelRecord
  readonly params: object
  /** Values as the device gets them and as the definition does; without it, random numbers for f32 and f16 buffers. */
  readonly inputs?: () => { readonly device: Arrays; readonly oracle: Arrays }
}

/** Small, real, and together touching what differs between devices. Add a line for every kernel a model cannot do without. */
export const SELF_TEST: readonly SelfTestCase[] = [
  { record: norm, params: norm.cases[0]! },
  { record: norm, params: norm.cases[3]! },
]

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

/** Names what the self-test would compile for these caps; another kernel or emitter gives another name. */
export function selfTestKey(caps: Caps, cases: readonly SelfTestCase[] = SELF_TEST): string {
  const texts = cases.flatMap(({ record, params }) => record.work(caps, params).launches.flatMap(({ kernel, uniforms, grid }) => {
    const sources = [emitWgsl, emitMsl, emitC].map((emit) => emit(kernel, caps).text)
    return [printKernel(kernel), JSON.stringify([uniforms, grid]), ...sources]
  }))
  return hashText(texts.join('\n'))
}

async function runCase(device: Device, { record, params, inputs }: SelfTestCase): Promise<void> {
  const values = inputs?.() ?? randomInputs(record, params)
  const got = await runRecord(device, record, params, values.device, { sentinels: true })
  const want = record.define(values.oracle, params)
  for (const [name, array] of Object.entries(want)) {
    const difference = findDifference(got[name], array, record.tolerance)
    if (difference !== undefined) throw new IngotError('wrong-result', `${name}: ${difference}`, { op: record.name })
  }
}

function randomInputs(record: KernelRecord, params: object): { device: Arrays; oracle: Arrays } {
  const random = randomNumbers(1)
  const inputs = record.buffers(params).filter(({ role }) => role !== 'out').map(({ name, type, elements }) => {
    if (type !== 'f32') throw new IngotError('bad-argument', `the self-test must be given values of type ${type}`, { op: record.name, got: name })
    return [name, Float32Array.from({ length: elements }, random)] as const
  })
  const arrays = Object.fromEntries(inputs)
  return { device: arrays, oracle: arrays }
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
