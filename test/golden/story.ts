// A published story, character for character, and the promises of the hot path: one submission per token and no allocation. Where the
// data folder is missing, a tiny model with random weights still holds the devices against each other.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { nmse } from '../../src/device/open/compare.ts'
import type { Device } from '../../src/device/device.ts'
import { open } from '../../src/device/open/open.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import type { GenerateOptions } from '../../src/llm/generation.ts'
import { type Model, load } from '../../src/llm/model.ts'
import { dataFolder } from '../data/folder.ts'
import { BOS, tinyModel } from '../llm/tiny-model.ts'

export interface GoldenDevice {
  readonly name: string
  /** largest error of logits against the oracle; matrix tiles take their inputs in f16 */
  readonly nmse: number
  readonly missing?: string | undefined
  /** only so many tokens of the story, where all would take too long */
  readonly mostTokens?: number
}

/** Milliseconds: software GPUs take long to compile kernels. */
const TIMEOUT = 180_000
const STORY = join(dataFolder, 'models', 'stories260K')
const noStory = existsSync(`${STORY}.f32.gguf`) ? undefined : 'stories260K is not in the data folder'
/** BOS, then 199 more positions: what the program that wrote the story calls 200 steps. */
const STORY_TOKENS = 200
/** long enough for the form of prefill */
const TINY_PROMPT = [BOS, ...Array.from({ length: 11 }, (_, i) => 3 + ((i * 37) % 270))]

export function testGolden({ name, nmse: allowed, missing, mostTokens = STORY_TOKENS }: GoldenDevice): void {
  describe.skipIf(missing !== undefined)(`on ${name}${missing === undefined ? '' : `: ${missing}`}`, () => {
    let device: Device
    beforeAll(async () => {
      ;({ device } = await open(name))
    })
    afterAll(() => device?.close())

    test.skipIf(noStory !== undefined)(
      `stories260K tells the published story${noStory === undefined ? '' : `: ${noStory}`}`,
      { timeout: TIMEOUT },
      async () => {
        const { expected_stdout: published } = JSON.parse(readFileSync(`${STORY}.expected-greedy.json`, 'utf8')) as {
          expected_stdout: string
        }
        await using model = await load(`${STORY}.f32.gguf`, { device })
        const { text, tokens, stats } = await model.generate('', { temperature: 0, maxTokens: mostTokens, ignoreEos: true })
        expect(tokens).toHaveLength(mostTokens)
        expect(stats.submissionsPerToken).toBe(1)
        if (mostTokens === STORY_TOKENS) expect(text).toBe(published)
        else expect(published.startsWith(text) && text.length > mostTokens).toBe(true)
      },
    )

    test('the tiny model computes the same as the oracle, prompt and single tokens', async () => {
      await using oracle = openReference({ caps: { tiles: false }, check: false })
      for (const type of ['f32', 'f16'] as const) {
        const [want, got] = [await logitsOf(await tinyModel({ type }), oracle), await logitsOf(await tinyModel({ type }), device)]
        expect(nmse(got.prompt, want.prompt)).toBeLessThan(allowed)
        expect(nmse(got.step, want.step)).toBeLessThan(allowed)
        expect(got.tokens).toEqual(want.tokens)
      }
    })

    test('a token is one submission, and allocates nothing', async () => {
      await using model = await load(await tinyModel(), { device })
      for (const sampling of [{ temperature: 0 }, { seed: 1, topK: 8 }, { seed: 1, repetitionPenalty: 1.1 }]) {
        // the last token of the prompt is one submission, and each token after the first one more
        expect(await countSteady(model, sampling)).toEqual({ repeated: true, submissions: 10, submissionsPerToken: 1, changed: [] })
      }
    })
  })
}

const UNTOUCHED = ['buffers', 'bytesLive', 'poolHits', 'poolMisses', 'compiles', 'compileHits'] as const

/** Generates 10 tokens twice: the second time everything is prepared, so that only what a token really needs is counted. */
async function countSteady(model: Model, sampling: GenerateOptions): Promise<object> {
  const options = { ...sampling, ignoreEos: true, maxTokens: 10 }
  const warm = await model.generate(TINY_PROMPT, options)
  const before = { ...model.device.stats }
  const {
    tokens,
    stats: { submissionsPerToken },
  } = await model.generate(TINY_PROMPT, options)
  const after = { ...model.device.stats }
  return {
    repeated: tokens.join() === warm.tokens.join(),
    submissions: after.submissions - before.submissions,
    submissionsPerToken,
    changed: UNTOUCHED.filter((key) => after[key] !== before[key]),
  }
}

async function logitsOf(
  file: Awaited<ReturnType<typeof tinyModel>>,
  device: Device,
): Promise<{ prompt: Float32Array; step: Float32Array; tokens: readonly number[] }> {
  // in f32, since a cache of halves would make a difference of a last bit one of a thousandth
  await using model = await load(file, { device, contextLength: 64, cacheType: 'f32' })
  const prompt = new Float32Array(TINY_PROMPT.length * model.vocabulary)
  await model.evaluate(TINY_PROMPT, (logits, from) => prompt.set(logits, from * model.vocabulary))
  const answer = await model.engine.step(9, 'logits')
  const { tokens } = await model.generate(TINY_PROMPT, { temperature: 0, ignoreEos: true, maxTokens: 5 })
  return { prompt, step: answer.kind === 'logits' ? answer.logits : new Float32Array(0), tokens }
}
