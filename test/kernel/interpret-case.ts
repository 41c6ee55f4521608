// Runs a kernel family through the interpreter and compares it with its meaning. Buffers stand between sentinels, which must come out
// untouched. Used by the tests beside it.

import { expect } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { ELEMENT_BYTES, type NumberArray, decodeElements, encodeElements, isElementType } from '../../src/base/element.ts'
import { findDifference } from '../../src/device/open/compare.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { buffersOf } from '../../src/ir/kernel.ts'
import { type Arrays, type Family, type Launch, boundBuffers } from '../../src/kernel/family.ts'
import { cpuCaps, gpuCaps } from './caps.ts'
import { inputsOf } from './input.ts'

const GPU = gpuCaps(32, { parallel: 8, bindingBytes: 2 ** 27 })
const CPU = cpuCaps(4, { parallel: 4, sharedBytes: 2 ** 20, bindingBytes: 2 ** 27, grid: 2 ** 31 })

/** Every kind of hardware that forms are written for. */
export const ALL_CAPS: Readonly<Record<string, Caps>> = {
  'subgroups of 32': GPU,
  'subgroups of 8': { ...GPU, subgroup: 8 },
  'subgroups of 4, a small grid': { ...GPU, subgroup: 4, grid: 40 },
  'no subgroups': { ...GPU, subgroup: 0 },
  'vectors of 4': CPU,
  'vectors of 4, in four streams': { ...CPU, parallel: 1, streams: 4 },
  'vectors of 8': { ...CPU, width: 8 },
  'vectors of 8, bytes in pairs': { ...CPU, width: 8, pairs: true },
  'vectors of 16': { ...CPU, width: 16, registers: 32 },
}

const SENTINEL = 64
const SENTINEL_BYTE = 0xc3
const POISON = 0xa5

/** What runs one dispatch; buffers by the names of the kernel's parameters, changed in place. */
export type Runner = (launch: Launch, buffers: Readonly<Record<string, Uint8Array>>) => void
const interpreted: Runner = ({ kernel, uniforms, grid }, buffers) =>
  interpret(kernel, { buffers, uniforms, grid: [...grid] }, { check: true })

export interface CaseOptions {
  readonly given?: Arrays
  readonly seed?: number
  readonly run?: Runner
}

/** Runs a case with the interpreter, or another runner; gives the results beside what they should be. */
export function runCase<P extends object>(
  family: Family<P>,
  params: P,
  caps: Caps,
  { given = {}, seed = 7, run = interpreted }: CaseOptions = {},
): { got: Arrays; wanted: Arrays } {
  const shapes = family.buffers(params)
  const inputs = inputsOf(family, params, { given, seed })
  const bytes = new Map<string, Uint8Array>()
  for (const { name, type, elements, role } of shapes) {
    const start = startOf(type, elements, role === 'out' ? undefined : inputs.device[name]!)
    const padded = Math.ceil(start.length / 4) * 4
    const whole = new Uint8Array(SENTINEL + padded + SENTINEL).fill(SENTINEL_BYTE)
    whole.set(start, SENTINEL)
    bytes.set(name, whole.subarray(SENTINEL, SENTINEL + padded))
  }
  const wanted = family.define(inputs.oracle, params)
  const { launches, scratch = {} } = family.work(caps, params)
  for (const [name, size] of Object.entries(scratch)) bytes.set(name, new Uint8Array(size).fill(POISON))
  for (const launch of launches) {
    expect(
      launch.grid.every((size) => size <= caps.grid),
      `grid ${launch.grid.join('x')}`,
    ).toBe(true)
    const bound = boundBuffers(launch)
    const entries = buffersOf(launch.kernel).map(({ name }, i): [string, Uint8Array] => {
      const found = bytes.get(bound[i]!)
      expect(found, `buffer ${name}`).toBeDefined()
      return [name, found!]
    })
    run(launch, Object.fromEntries(entries))
  }
  const got: Record<string, NumberArray> = {}
  for (const { name, role, type, elements } of shapes) {
    const own = bytes.get(name)!
    const whole = new Uint8Array(own.buffer)
    const outside = [...whole.subarray(0, own.byteOffset), ...whole.subarray(own.byteOffset + own.length)]
    expect(
      outside.every((byte) => byte === SENTINEL_BYTE),
      `sentinels around ${name}`,
    ).toBe(true)
    if (role !== 'in') got[name] = isElementType(type) ? decodeElements(type, own, elements) : own
  }
  return { got, wanted }
}

/** What a buffer starts with: numbers, the bytes of blocks, or what nobody may read. */
function startOf(type: string, elements: number, values: NumberArray | undefined): Uint8Array {
  if (!isElementType(type)) return new Uint8Array(values!.buffer, values!.byteOffset, values!.byteLength)
  return values === undefined ? new Uint8Array(elements * ELEMENT_BYTES[type]).fill(POISON) : encodeElements(type, values)
}

/** Runs a case; one line for every result that is not as near as the family promises. */
export function failuresOf<P extends object>(family: Family<P>, params: P, caps: Caps, options?: CaseOptions): string[] {
  const { got, wanted } = runCase(family, params, caps, options)
  const [ours, theirs] = [got, wanted].map((outputs) => family.meaning?.(outputs, params) ?? outputs) as [Arrays, Arrays]
  return Object.entries(theirs).flatMap(([name, values]) => {
    const difference = findDifference(ours[name], values, family.allowed(caps, params))
    return difference === undefined ? [] : [`${family.name} ${JSON.stringify(params)}: ${name}: ${difference}`]
  })
}

/** The cases of a family that a device with these caps has a form for. */
export function casesFor<P extends object>(family: Family<P>, caps: Caps): readonly P[] {
  return family.cases.filter((params) => family.form(caps, params) !== undefined)
}
