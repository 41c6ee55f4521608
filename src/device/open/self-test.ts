// Does a device compute what it should? A few real kernels, run on it and compared with what they mean. `open` trusts no
// device that fails. The one file of device/ that knows the kernel library.

import type { Caps } from '../../base/caps.ts'
import { type ElementType, type NumberArray, isElementType, roundElements } from '../../base/element.ts'
import { IngotError, isIngotError, messageOf } from '../../base/error.ts'
import { hashText } from '../../ir/hash.ts'
import type { Arrays, BufferShape, Family } from '../../kernel/family.ts'
import { FAMILIES } from '../../kernel/index.ts'
import { dequantize } from '../../kernel/linear/dequantize.ts'
import { linear } from '../../kernel/linear/linear.ts'
import { repack } from '../../kernel/linear/repack.ts'
import { formatOf } from '../../quant/index.ts'
import type { Device } from '../device.ts'
import { checkFamily, runFamily } from './run-family.ts'
import type { Verdict } from './verdict.ts'

export interface SelfTestCase {
  readonly family: Family
  readonly params: object
}

/** What a device with these caps must get right: the proofs of every family that has a form for it. */
export function selfTestCases(caps: Caps): readonly SelfTestCase[] {
  return FAMILIES.flatMap((family) => (family.proofs ?? []).map((params) => ({ family, params }))).filter(
    ({ family, params }) => family.form(caps, params) !== undefined,
  )
}

/** Products of f32 matrices from small to large, which a device may leave to a library, by size: `ingot doctor` lets it choose. */
export const PRODUCTS: readonly SelfTestCase[] = [
  [16, 16, 16],
  [64, 64, 64],
  [256, 256, 256],
  [16, 1024, 1024],
].map(([n, k, m]) => ({ family: linear, params: { format: 'f32', m, k, n, bias: false } }))

/** Runs all cases. Never throws: a device that fails in any way has failed its test. */
export async function selfTest(device: Device, cases: readonly SelfTestCase[] = selfTestCases(device.caps)): Promise<Verdict> {
  const passed: string[] = []
  const failed: { name: string; error: string; lasting: boolean }[] = []
  for (const each of cases) {
    const name = nameOf(each)
    try {
      await runCase(device, each)
      passed.push(name)
    } catch (error) {
      failed.push({ name, error: messageOf(error), lasting: isLasting(error) })
    }
  }
  return { passed, failed }
}

/** Names what is tested: the cases and the capabilities their kernels are written for. The code's own identity is hashRunningCode's. */
export function selfTestKey(caps: Caps, cases: readonly SelfTestCase[] = selfTestCases(caps)): string {
  return hashText(JSON.stringify([caps, cases.map(({ family, params }) => [family.name, params])]))
}

async function runCase(device: Device, { family, params }: SelfTestCase): Promise<void> {
  const [difference] = await checkFamily(device, family, params, await inputsOf(family, params))
  if (difference !== undefined) throw new IngotError('wrong-result', difference, { op: family.name })
}

/** Inputs as the device gets them, and as the definition does: quantised weights are bytes for one and numbers for the other. */
async function inputsOf(family: Family, params: object): Promise<{ device: Arrays; oracle: Arrays }> {
  const random = randomNumbers(1)
  const given = family.inputs?.(params, () => (random() + 1) / 2) ?? {}
  const device: Record<string, NumberArray> = {}
  const oracle: Record<string, NumberArray> = {}
  for (const shape of family.buffers(params).filter(({ role }) => role !== 'out')) {
    const { name, type, elements } = shape
    const values = given[name] ?? Float32Array.from({ length: elements }, random)
    const input = isElementType(type) ? held(type, values) : await weightOf(family.name, shape, values)
    device[name] = input.bytes
    oracle[name] = input.values
  }
  return { device, oracle }
}

interface Input {
  /** as the device gets it: numbers, or the bytes of blocks */
  readonly bytes: NumberArray
  /** as the definition does */
  readonly values: NumberArray
}

/** Numbers that the type of the buffer holds exactly. */
function held(type: ElementType, numbers: NumberArray): Input {
  const values = roundElements(type, numbers)
  return { bytes: values, values }
}

/** A weight of these values, roughly: its bytes as the device reads them, and what they mean, by the oracle. */
async function weightOf(op: string, { name, type, elements, packedRows }: BufferShape, values: NumberArray): Promise<Input> {
  const { encode, name: format } = formatOf(type)
  if (encode === undefined) throw new IngotError('bad-argument', `the self-test cannot write ${type}`, { op, got: name })
  const bytes = encode(Float32Array.from(values))
  const { openReference } = await import('../reference/reference.ts') // only here: a device with a verdict needs no interpreter
  await using oracle = openReference({ check: false, caps: { lanes: 1, subgroup: 0 } })
  const { y: decoded = values } = await runFamily(oracle, dequantize, { format, elements }, { w: bytes })
  if (packedRows === undefined) return { bytes, values: decoded }
  const { y: packed = bytes } = await runFamily(oracle, repack, { format, m: packedRows, k: elements / packedRows }, { w: bytes })
  return { bytes: packed, values: decoded }
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
function nameOf({ family, params }: SelfTestCase): string {
  return `${family.name} ${JSON.stringify(params)}`
}

/** False for troubles that may be gone tomorrow: another program took the memory, the driver was reset. */
function isLasting(error: unknown): boolean {
  return !isIngotError(error) || !['out-of-memory', 'device-lost', 'device-failed', 'closed'].includes(error.code)
}
