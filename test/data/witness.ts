// Models against the logits that llama.cpp gave for them: every model of the data folder that has a `results` file beside it. Knows
// no device; the files that import it name theirs.

import { existsSync, readdirSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import { nmse } from '../../src/device/open/compare.ts'
import type { Device } from '../../src/device/device.ts'
import { open } from '../../src/device/open/open.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { openGguf, readTensor } from '../../src/weights/gguf/gguf.ts'
import { agreement, describeDisagreement } from './agreement.ts'
import { dataFolder } from './folder.ts'

export interface WitnessDevice {
  readonly name: string
  /** largest error of all logits, for models with float weights */
  readonly nmse: number
  /** why it cannot be tested here */
  readonly missing?: string | undefined
  /** bytes of the largest file to try, where more would take too long */
  readonly mostBytes?: number
  /** how many tokens to try on a file of this many bytes, where all would take too long */
  readonly mostTokens?: (bytes: number) => number
}

/** Of quantised models: llama.cpp rounds activations to 8 bits, others need not, so near ties say nothing (agreement.ts). */
const QUANTISED = { nmse: 5e-3, sameArgmax: 0.95 }
const FLOATS: ReadonlySet<string> = new Set(['f32', 'f16', 'bf16'])
/** Milliseconds: software GPUs take long to compile the kernels of a format. */
const TIMEOUT = 180_000
const RESULTS = '.results.gguf'

const folder = join(dataFolder, 'models')
/** Paths of the models that have results, without the ending. */
const models = existsSync(folder)
  ? readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith(RESULTS) && existsSync(join(folder, path.replace(RESULTS, '.gguf'))))
      .map((path) => join(folder, path.slice(0, -RESULTS.length)))
      .sort()
  : []

export function testModels({ name, missing, ...limits }: WitnessDevice): void {
  const reason = missing ?? (models.length === 0 ? 'no models with results in the data folder' : undefined)
  describe.skipIf(reason !== undefined)(`models of the data folder on ${name}${reason === undefined ? '' : `: ${reason}`}`, () => {
    let device: Device
    beforeAll(async () => {
      ;({ device } = await open(name))
    })
    afterAll(() => device?.close())

    const fitting = models.filter((path) => statSync(`${path}.gguf`).size <= (limits.mostBytes ?? Infinity))
    test.for(fitting.map((path) => [relative(folder, path), path] as const))('%s', { timeout: TIMEOUT }, async ([, path], { skip }) => {
      const quantised = await isQuantised(`${path}.gguf`)
      const { tokens, logits } = await readResults(path, limits.mostTokens?.(statSync(`${path}.gguf`).size))
      const model = await load(`${path}.gguf`, { device }).catch((error: unknown) => {
        if (isIngotError(error, 'unsupported') || isIngotError(error, 'unknown-name')) return error.message
        throw error
      })
      if (typeof model === 'string') return skip(model)
      const got = await evaluate(model, tokens).finally(() => model.close())
      expect(got).toHaveLength(logits.length)
      expect(nmse(got, logits)).toBeLessThan(quantised ? QUANTISED.nmse : limits.nmse)
      expect(got.every(Number.isFinite)).toBe(true)
      if (!quantised) return
      const found = agreement(got, logits, tokens.length, QUANTISED.nmse)
      expect(describeDisagreement(found, QUANTISED.sameArgmax)).toBeUndefined()
    })
  })
}

async function isQuantised(path: string): Promise<boolean> {
  await using gguf = await openGguf(path)
  return ![...gguf.tensors.values()].every(({ type }) => FLOATS.has(type))
}

/** Logits are [tokens][vocabulary], although the dims say the reverse. */
async function readResults(path: string, most = Infinity): Promise<{ tokens: number[]; logits: Float32Array }> {
  await using gguf = await openGguf(`${path}${RESULTS}`)
  const bytes = async (name: string): Promise<ArrayBuffer> => {
    const tensor = gguf.tensors.get(name)
    if (tensor === undefined) throw new Error(`${path}${RESULTS} has no tensor ${name}`)
    return (await readTensor(tensor)).slice().buffer
  }
  const all = Array.from(new Int32Array(await bytes('tokens')))
  const logits = new Float32Array(await bytes('logits'))
  const tokens = all.slice(0, most)
  return { tokens, logits: logits.subarray(0, (logits.length / all.length) * tokens.length) }
}

async function evaluate(model: Model, tokens: readonly number[]): Promise<Float32Array> {
  const all = new Float32Array(tokens.length * model.vocabulary)
  await model.evaluate(tokens, (logits, from) => all.set(logits, from * model.vocabulary))
  return all
}
