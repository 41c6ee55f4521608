// Whole models on the native libraries that set-up builds, at every instruction set that this CPU has, with one, two and three threads:
// the same logits each time for the same number of threads, close to WebAssembly's, and every kernel in the library. Once more with a
// BLAS library, where there is one.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { nmse } from '../../src/device/open/compare.ts'
import { findBlas } from '../../src/device/cpu/blas/library.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { findNative } from '../../src/device/cpu/native/library.ts'
import type { Device } from '../../src/device/device.ts'
import { load } from '../../src/llm/model.ts'
import type { ByteSource } from '../../src/weights/source.ts'
import { dataFolder } from '../data/folder.ts'
import { EMULATED } from '../emulated.ts'
import { tinyModel } from '../llm/tiny-model.ts'
import { NATIVE_LEVELS } from './native-library.ts'

const models = join(dataFolder, 'models')
/** Activations are rounded to 8 bits: a last bit that differs before grows on the way through six layers. */
const ROUNDED = 5e-3
/** Paths come with sources that are mapped; the tiny model is in memory. */
const FILES: readonly (readonly [name: string, open: () => Promise<string | ByteSource>, nmse: number])[] = [
  ['a tiny model', () => tinyModel({ type: 'f32' }), 1e-8],
  ...Object.entries({ 'stories260K.f32': 1e-8, 'stories260K.Q8_0': 1e-5, 'stories260K.Q4_0': 1e-5, 'stories15M.Q4_K_M': ROUNDED })
    .filter(([name]) => existsSync(join(models, `${name}.gguf`)) && !(EMULATED && name.includes('15M')))
    .map(([name, allowed]) => [name, async () => join(models, `${name}.gguf`), allowed] as const),
]
const THREADS = EMULATED ? [2] : [1, 2, 3]
const PROMPT = [1, ...Array.from({ length: 18 }, (_, i) => 3 + ((i * 37) % 250))]

interface Told {
  readonly prompt: Float32Array
  readonly step: Float32Array
  readonly tokens: readonly number[]
}

async function tell(file: string | ByteSource, device: Device): Promise<Told> {
  await using model = await load(file, { device, contextLength: 64 })
  const prompt = new Float32Array(PROMPT.length * model.vocabulary)
  await model.evaluate(PROMPT, (logits, from) => prompt.set(logits, from * model.vocabulary))
  const answer = await model.engine.step(9, 'logits')
  const { tokens } = await model.generate(PROMPT, { temperature: 0, ignoreEos: true, maxTokens: 12 })
  return { prompt, step: answer.kind === 'logits' ? answer.logits : new Float32Array(0), tokens }
}

function expectNear(got: Told, want: Told, allowed: number): void {
  expect(nmse(got.prompt, want.prompt)).toBeLessThan(allowed)
  expect(nmse(got.step, want.step)).toBeLessThan(allowed)
}

const missing = new Map(
  await Promise.all(NATIVE_LEVELS.map(async ({ name }) => [name, (await findNative({ level: name })).reason?.evidence] as const)),
)

const best = NATIVE_LEVELS.find(({ name }) => missing.get(name) === undefined)?.name
const blas = await findBlas('')

describe.each(FILES)('%s', (_name, file, allowed) => {
  let want: Told
  beforeAll(async () => {
    await using wasm = await openCpu({ level: 'wasm', threads: 2 })
    want = await tell(await file(), wasm)
  }, 60_000)

  for (const { name, title } of NATIVE_LEVELS) {
    const reason = missing.get(name)
    it.for(THREADS)(`${title} on %i threads`, { timeout: 60_000 }, async (threads, { skip }) => {
      if (reason !== undefined) return skip(reason)
      const told: Told[] = []
      for (let time = 0; time < 2; time++) {
        await using device = await openCpu({ level: name, threads })
        told.push(await tell(await file(), device))
        expect(device.detail, 'every kernel is in the library; if not: node scripts/setup.js').not.toMatch(/WebAssembly/)
      }
      const [first, second] = told as [Told, Told]
      expect(second).toEqual(first)
      expectNear(first, want, allowed)
    })
  }

  const none = best === undefined ? 'no native kernels' : blas.reason?.evidence
  it('a BLAS library multiplies', async ({ skip }) => {
    if (none !== undefined) return skip(none)
    await using device = await openCpu({ level: best ?? '', threads: 2, blas: { library: '', always: true } })
    expectNear(await tell(await file(), device), want, allowed)
  })
})
