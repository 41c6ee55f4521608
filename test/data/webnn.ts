// The WebNN conformance cases on a device: every operator as Ingot has it, each result within what WebNN allows. Knows no device; the files
// that import it name theirs. What does not run is listed here with its reason.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { type Operator, TYPES, type WebnnCase, argumentsOf, numbersOf, webnnCases } from './webnn-case.ts'
import { type Args, OPERATORS } from './webnn-op.ts'
import { findError } from './webnn-tolerance.ts'

export interface WebnnDevice {
  readonly name: string
  readonly open: () => Promise<Device>
  /** why it cannot be tested here */
  readonly missing?: string | undefined
}

const BEYOND = 'i64 is a type for ids: numbers of more than 32 bits are moved, but not computed with'
/** Cases that do not run, by name, and why. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  'abs int64 4D tensor': BEYOND,
  'relu int64 4D tensor': BEYOND,
  'clamp int64 1D tensor with bigint max': BEYOND,
  'cast BigInt to int64': BEYOND,
  'cast BigInt to int64 overflow': BEYOND,
  'cast BigInt to int64 underflow': BEYOND,
  'cast BigInt to uint64': BEYOND,
  'cast BigInt to uint64 overflow': BEYOND,
  'cast float to integer': BEYOND,
  'pad int64 2D tensor with options.value as bigint': BEYOND,
  'maxPool2d float32 4D tensor options.outputShapeRounding=ceil and symmetric padding':
    'it wants 0 for a window of nothing but padding, which has no largest element',
  'batchNormalization options.axis=0 + gelu':
    'it wants -0.0359511785 where exact arithmetic, and Ingot, give -0.0359513043: 34 units off, of 24 that it allows',
}

/** Milliseconds: software GPUs take long to compile kernels. */
const TIMEOUT = 300_000

export function reasonToLeaveOut({ name }: WebnnCase): string | undefined {
  return LEFT_OUT[name]
}

export function testWebnn({ name, open, missing }: WebnnDevice): void {
  const reason = missing ?? (webnnCases.size === 0 ? 'no WebNN cases in the data folder' : undefined)
  describe.skipIf(reason !== undefined)(`WebNN cases on ${name}${reason === undefined ? '' : `: ${reason}`}`, () => {
    let device: Device
    beforeAll(async () => {
      device = await open()
    }, TIMEOUT)
    afterAll(() => device?.close())
    const groups = [...webnnCases].map(([op, cases]) => [op, cases.filter((each) => reasonToLeaveOut(each) === undefined)] as const)
    test.for(groups.filter(([, cases]) => cases.length > 0))('%s', { timeout: TIMEOUT }, async ([, cases]) => {
      expect(await failuresOf(device, cases)).toEqual([])
    })
  })
}

interface Built {
  readonly each: WebnnCase
  readonly tensors: ReadonlyMap<string, Tensor>
}

/** One line for each case that went wrong. All are asked for in one go: what can be compiled side by side is. */
async function failuresOf(device: Device, cases: readonly WebnnCase[]): Promise<string[]> {
  const results = await Promise.allSettled(cases.map(async (each) => check(build(device, each))))
  // What fails together may have failed because of another.
  return (
    await Promise.all(
      results.map(async (result, i): Promise<string[]> => {
        const each = cases[i]!
        if (result.status === 'fulfilled') return result.value.map((line) => `${each.name}: ${line}`)
        const alone = await Promise.resolve()
          .then(() => check(build(device, each)))
          .catch((error: unknown) => [String(error)])
        return alone.map((line) => `${each.name}: ${line}`)
      }),
    )
  ).flat()
}

function build(device: Device, each: WebnnCase): Built {
  const { inputs, operators } = each.graph
  const tensors = new Map<string, Tensor>()
  for (const [name, operand] of Object.entries(inputs)) {
    const { shape, dataType } = operand.descriptor
    tensors.set(name, Tensor.from(Float64Array.from(numbersOf(operand)), { shape: [...shape], dtype: TYPES[dataType]!, device }))
  }
  for (const operator of operators) {
    const result = OPERATORS[operator.name]!(argsOf(operator, tensors, each))
    const outputs = typeof operator.outputs === 'string' ? [operator.outputs] : operator.outputs
    const list = Array.isArray(result) ? result : [result]
    outputs.forEach((output, i) => tensors.set(output, list[i]!))
  }
  return { each, tensors }
}

function argsOf(operator: Operator, tensors: ReadonlyMap<string, Tensor>, { graph }: WebnnCase): Args {
  const args = argumentsOf(operator)
  const options = (args['options'] ?? {}) as Readonly<Record<string, unknown>>
  const named = (name: unknown): Tensor => {
    const found = tensors.get(String(name))
    if (found === undefined) throw new Error(`no tensor ${String(name)}`)
    return found
  }
  return {
    tensor: (name) => named(name.startsWith('=') ? name.slice(1) : args[name]),
    option: (name) => (options[name] === undefined ? undefined : typeof options[name] === 'string' ? named(options[name]) : undefined),
    value: <T>(name: string) =>
      (name === 'zeroPointType' ? graph.inputs[String(args['zeroPoint'])]?.descriptor.dataType : (args[name] ?? options[name])) as
        | T
        | undefined,
  }
}

async function check({ each, tensors }: Built): Promise<string[]> {
  const sizes = (name: unknown): readonly number[] => tensors.get(String(name))?.shape ?? []
  const outputs = Object.entries(each.graph.expectedOutputs)
  const lines = outputs.map(async ([name, operand]): Promise<string[]> => {
    const tensor = tensors.get(name)!
    const { shape, dataType } = operand.descriptor
    if (tensor.shape.join() !== shape.join()) return [`${name} is [${tensor.shape.join()}] instead of [${shape.join()}]`]
    if (tensor.dtype !== TYPES[dataType]) return [`${name} is ${tensor.dtype} instead of ${TYPES[dataType]}`]
    const error = findError(each, name, await tensor.data(), numbersOf(operand), sizes)
    return error === undefined ? [] : [`${name}: ${error}`]
  })
  return (await Promise.all(lines)).flat()
}
