// What one token costs on Metal, counted from below: command buffers, encoders, messages, objects.

import { beforeEach, describe, expect, it } from 'vitest'
import { MESSAGES } from '../../src/device/metal/metal-backend.ts'
import { load } from '../../src/llm/model.ts'
import { BOS, tinyModel } from '../llm/tiny-model.ts'
import { findSoft } from './metal-soft.ts'

const { soft: found, missing } = await findSoft()
const soft = found!
const WARM = 4
const TOKENS = 12

describe('a token on metal', () => {
  beforeEach(({ skip }) => {
    if (missing !== undefined) skip(missing)
  })

  /** Greedy decoding: what each token after the first few took, and the tokens. */
  const measure = async (changes: Parameters<typeof soft.open>[0]): Promise<{ tokens: number[]; per: Record<string, number> }> => {
    soft.reset()
    const device = await soft.open(changes)
    const model = await load(await tinyModel(), { device, contextLength: 64 })
    const tokens: number[] = []
    for await (const token of model.engine.decode(BOS, 'argmax', WARM)) tokens.push(token)
    const [before, messages] = [soft.counters(), device.stats.extras[MESSAGES]!]
    for await (const token of model.engine.decode(tokens.at(-1)!, 'argmax', TOKENS)) tokens.push(token)
    const [after, own] = [soft.counters(), device.stats.extras[MESSAGES]! - messages]
    await model.close()
    await device.close()
    expect(soft.report()).toEqual({ live: {}, overReleases: {}, misuse: [] })
    const per = Object.fromEntries(
      (['commandBuffers', 'encoders', 'dispatches'] as const).map((key) => [key, (after[key] - before[key]) / TOKENS]),
    )
    return { tokens, per: { ...per, messages: own / TOKENS } }
  }

  it('is one command buffer and few messages, with indirect replay and without, and is the same token', async () => {
    const replayed = await measure({})
    expect(replayed.per).toMatchObject({ commandBuffers: 1, encoders: 1 })
    expect(replayed.per.messages).toBeLessThan(60)
    const encoded = await measure({ indirect: false })
    expect(encoded.per).toMatchObject({ commandBuffers: 1, encoders: 1, dispatches: replayed.per.dispatches })
    expect(encoded.per.messages).toBeLessThan(10 * encoded.per.dispatches!)
    const plain = await measure({ indirect: false, concurrent: false, residency: false })
    expect(plain.per).toMatchObject({ commandBuffers: 1, encoders: 1 })
    expect(encoded.tokens).toEqual(replayed.tokens)
    expect(plain.tokens).toEqual(replayed.tokens)
  })
})
