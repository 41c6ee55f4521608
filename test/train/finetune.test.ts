// Whole runs of training on small models: what they tell and write, going on from checkpoints, stopping, and what can go wrong.

import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import type { Device } from '../../src/device/device.ts'
import { layersOf, rankOf } from '../../src/llm/adapter/adapter.ts'
import { readAdapterGguf } from '../../src/llm/adapter/gguf.ts'
import { LossError, type StartEvent, type StepEvent, type TrainEvent } from '../../src/train/event.ts'
import { estimateFinetune, finetune } from '../../src/train/finetune.ts'
import { describeMemory } from '../../src/train/memory.ts'
import type { FinetuneOptions } from '../../src/train/options.ts'
import { openGguf, readTensor } from '../../src/weights/gguf/gguf.ts'
import { tinyBytes } from '../llm/tiny-model.ts'
import { makeTinyPlace } from './tiny-place.ts'

const tiny = makeTinyPlace()
const { at, model: MODEL } = tiny

const TEXTS = ['abcd ab', 'dd ca ab', 'cab dab', 'aaaa bc', 'bcd abc d', 'a b c d'].map((text) => ({ text }))

/** Few layers: planning takes most of the time here. */
const LORA = { rank: 2, targets: ['attn_q', 'ffn_down'] }

function options(more: Partial<FinetuneOptions> = {}): FinetuneOptions {
  return { model: MODEL, data: TEXTS, device: tiny.device, context: 16, batch: 2, steps: 4, rate: 0.01, lora: LORA, ...more }
}

/** Options without some, which then have their defaults. */
function without(given: FinetuneOptions, ...names: readonly (keyof FinetuneOptions)[]): FinetuneOptions {
  const rest = Object.entries(given).filter(([name]) => !names.some((each) => each === name))
  return { model: given.model, data: given.data, ...Object.fromEntries(rest) }
}

/** All events of a run. */
async function follow(given: FinetuneOptions, onEvent?: (event: TrainEvent, stop: () => void) => void): Promise<TrainEvent[]> {
  const events: TrainEvent[] = []
  const run = finetune(given)
  for await (const event of run) {
    events.push(event)
    onEvent?.(event, () => run.stop())
  }
  return events
}
const stepsOf = (events: readonly TrainEvent[]): StepEvent[] => events.filter((event) => event.kind === 'step')

describe('a run', () => {
  test('tells what happens, and writes an adapter', async () => {
    const events = await follow(without(options({ epochs: 4, validation: 2, out: at('a.gguf') }), 'steps'))
    expect(events.map(({ kind }) => kind).join(' ')).toMatch(
      /^data start (step )+validation (step )+validation (step )*validation (step )*validation end$/,
    )
    const [data, start] = events
    expect(data).toMatchObject({ records: 6, sequences: 6, dropped: [] })
    expect(start).toMatchObject({
      done: 0,
      epochs: 4,
      sequences: { train: 4, validation: 2 },
      settings: { rate: 0.01, lora: { rank: 2, alpha: 4 } },
    })
    const steps = stepsOf(events)
    expect(steps.map(({ step }) => step)).toEqual(Array.from({ length: steps.length }, (_, i) => i + 1))
    expect(steps.at(-1)!.loss).toBeLessThan(steps[0]!.loss)
    expect(steps[0]!.smooth).toBeCloseTo(steps[0]!.loss, 5)
    expect(steps.every(({ tokens, norm, ms, tokensPerSecond }) => tokens > 0 && norm > 0 && ms > 0 && tokensPerSecond > 0)).toBe(true)
    const end = events.at(-1)!
    expect(end).toMatchObject({ kind: 'end', reason: 'finished', out: at('a.gguf'), steps: steps.length })
    const set = await readAdapterGguf(at('a.gguf'), { device: tiny.device })
    expect([rankOf(set), set.alpha, layersOf(set).length]).toEqual([2, 4, 4])
  })

  test('can be awaited, and gives the same numbers for the same seed', async () => {
    const result = await finetune(options({ out: at('once.gguf') }))
    expect(result).toMatchObject({ reason: 'finished', steps: 4 })
    await finetune(options({ out: at('twice.gguf') }))
    await finetune(options({ out: at('other.gguf'), seed: 1 }))
    expect(readFileSync(at('twice.gguf'))).toEqual(readFileSync(at('once.gguf')))
    expect(readFileSync(at('other.gguf'))).not.toEqual(readFileSync(at('once.gguf')))
  })

  test('learns packed rows as it learns padded ones', async () => {
    // One batch of everything, so that only the layout differs.
    const [packed, padded] = [true, false].map((packing) => follow(options({ packing, batch: 8, steps: 3 })))
    const losses = stepsOf(await packed!).map(({ loss }) => loss)
    stepsOf(await padded!).forEach(({ loss }, i) => expect(loss).toBeCloseTo(losses[i]!, 4))
  })

  test('states what it will need, which is what it then has; computes layers again where that would be too much', async () => {
    const before = tiny.device.stats.bytesLive
    const events = await follow(options({ packing: false, validation: 1, lora: { rank: 2 } }))
    const { expected } = events.find((event) => event.kind === 'start')!
    const most = Math.max(...stepsOf(events).map(({ memory }) => memory)) - before
    expect(expected.recompute).toBe(false)
    expect(most).toBeLessThan(1.03 * expected.total)
    expect(most).toBeGreaterThan(0.9 * expected.total)
    const { expected: less } = (await follow(options({ memory: expected.total - 1, packing: false, lora: { rank: 2 } }))).find(({ kind }) => kind === 'start') as StartEvent // prettier-ignore
    expect(less).toMatchObject({ recompute: true, kept: expected.total, limit: expected.total - 1 })
    expect(describeMemory(less)).toMatch(/layers are computed again, since with all of them kept it would be [\d.]+ MB, and [\d.]+ MB is/)
    const estimate = await estimateFinetune(options({ packing: false, lora: { rank: 2 }, recompute: true }))
    expect(estimate).toMatchObject({ memory: less.total, expected: { recompute: true, total: less.total } })
    expect(describeMemory(estimate.expected)).toMatch(/step [\d.]+ MB\); layers are computed again$/)
  })

  test('accumulates batches into one update', async () => {
    const events = await follow(without(options({ batch: 1, accumulate: 2, packing: false, epochs: 1 }), 'steps'))
    expect(stepsOf(events)).toHaveLength(3)
  })

  test.for(['sgd', 'lion'] as const)('has %s, too', async (optimizer) => {
    const steps = stepsOf(await follow(options({ optimizer, steps: 6, rate: optimizer === 'sgd' ? 1 : 0.003, batch: 8 })))
    expect(steps.at(-1)!.loss).toBeLessThan(steps[0]!.loss)
  })

  test('writes a folder of PEFT, or a whole model', async () => {
    await finetune(options({ out: at('peft') }))
    expect(readdirSync(at('peft')).toSorted()).toEqual(['adapter_config.json', 'adapter_model.safetensors'])
    await expect(finetune(options({ out: at('peft') }))).rejects.toThrow('is not empty')
    const { lora: _, ...plain } = options({ full: true, out: at('full.gguf'), type: 'f32', rate: 0.001 })
    await finetune(plain)
    await using before = await openGguf(MODEL)
    await using after = await openGguf(at('full.gguf'))
    expect([...after.tensors.keys()]).toEqual([...before.tensors.keys()])
    for (const [name, tensor] of after.tensors) {
      const [old, now] = [await readTensor(before.tensors.get(name)!), await readTensor(tensor)]
      expect([name, now.length, now.every((byte, i) => byte === old[i])]).toEqual([name, old.length, false])
    }
    // What was trained is what is written: a run from there begins where the other one ended.
    const [last] = stepsOf(await follow(options({ model: at('full.gguf'), batch: 8, steps: 1 })))
    const [first] = stepsOf(await follow(options({ batch: 8, steps: 1 })))
    expect(last!.loss).toBeLessThan(first!.loss)
  })

  test('keeps weights when measurements get no better', async () => {
    const events = await follow(
      options({
        steps: 40,
        rate: 0.3,
        validation: 2,
        validateEvery: 1,
        earlyStop: { patience: 3 },
        out: at('early.gguf'),
      }),
    )
    const measured = events.filter((event) => event.kind === 'validation')
    const best = Math.min(...measured.map(({ loss }) => loss))
    expect(events.at(-1)).toMatchObject({ kind: 'end', reason: 'early-stop', validation: { best } })
    expect(measured.slice(-3).every(({ isBest }) => !isBest)).toBe(true)
    expect(measured.at(-4)!.isBest).toBe(true)
  })
})

describe('checkpoints', () => {
  const long = { steps: 10, validation: 2, validateEvery: 3, earlyStop: { patience: 9 } }

  test('a run that goes on is one that never stopped, to the bit', async () => {
    const straight = await follow(options({ ...long, out: at('straight.gguf') }))
    const file = at('run.checkpoint')
    const first = await follow(options({ ...long, checkpoint: file, out: at('never.gguf') }), (event, stop) => {
      if (event.kind === 'step' && event.step === 5) stop()
    })
    expect(first.at(-1)).toMatchObject({ kind: 'end', reason: 'stopped', checkpoint: file })
    const { step } = first.findLast((event) => event.kind === 'checkpoint')!
    expect(existsSync(at('never.gguf'))).toBe(false)
    const again = options({ earlyStop: { patience: 9 }, validateEvery: 3, resume: file, out: at('resumed.gguf') })
    const rest = await follow(without(again, 'steps', 'context', 'lora', 'rate', 'batch'))
    expect(rest.find((event) => event.kind === 'start')).toMatchObject({ done: step, steps: 10 })
    const numbers = (events: readonly TrainEvent[]): unknown[] =>
      events.flatMap((event) => (event.kind === 'step' ? [[event.step, event.loss, event.smooth, event.rate, event.norm]] : event.kind === 'validation' ? [[event.loss, event.isBest]] : [])) // prettier-ignore
    expect([...numbers(first), ...numbers(rest)]).toEqual(numbers(straight))
    expect(readFileSync(at('resumed.gguf'))).toEqual(readFileSync(at('straight.gguf')))
  })

  test('are refused where settings, data or the model are others', async () => {
    const file = at('refused.checkpoint')
    await follow(options({ checkpoint: { path: file, every: 2 } }))
    const resumed = (more: Partial<FinetuneOptions>): Promise<unknown> => Promise.resolve(finetune(options({ resume: file, ...more })))
    await expect(resumed({ rate: 0.02 })).rejects.toThrow('another rate, got 0.02, wanted 0.01')
    await expect(resumed({ lora: { rank: 4 } })).rejects.toThrow('another lora')
    await expect(resumed({ data: TEXTS.slice(1) })).rejects.toThrow('other data')
    await expect(resumed({ resume: MODEL })).rejects.toThrow()
    writeFileSync(at('other-tiny.gguf'), await tinyBytes({ heads: 8 }))
    await expect(resumed({ model: at('other-tiny.gguf') })).rejects.toThrow('made with another model')
  })

  test('a disk that is full loses nothing that was there', async () => {
    const warnings: string[] = []
    const result = await finetune(
      options({ checkpoint: { path: '/dev/full', every: 2 }, onWarning: (line) => warnings.push(line), out: at('kept.gguf') }),
    )
    expect(result.reason).toBe('finished')
    expect(warnings.join('\n')).toMatch(/no checkpoint after step 2: .*ENOSPC/)
    await expect(finetune(options({ out: '/dev/full', format: 'gguf' }))).rejects.toThrow('ENOSPC')
  })
})

describe('bad input', () => {
  test.for([
    [{ rate: -1 }, 'no such rate'],
    [{ batch: 0 }, 'no such batch'],
    [{ lora: { rank: 0 } }, 'no such rank'],
    [{ lora: { dropout: 1 } }, 'no such dropout'],
    [{ full: true }, 'cannot be trained together'],
    [{ epochs: 2 }, 'both epochs and steps'],
    [{ optimizer: 'adamx' }, 'no such optimizer'],
    [{ schedule: 'up' }, 'no such schedule'],
    [{ data: 5 }, 'data is of the wrong kind'],
    [{ earlyStop: { patience: 0 } }, 'no such patience'],
    [{ recompute: 1 }, 'recompute is'],
    [{ memory: 0 }, 'no such memory'],
  ] as const)('%j', ([given, message]) => {
    expect(() => finetune({ ...options(), ...given } as never)).toThrow(message)
  })

  test('targets that match nothing list what there is', async () => {
    const run = finetune(options({ lora: { targets: ['attn_x'] } }))
    await expect(run).rejects.toThrow(/no linear layer has this name, got attn_x, wanted attn_q, attn_k, attn_v/)
  })

  test('a loss that is no number names the step, the lines and the checkpoint', async () => {
    const file = at('nan.checkpoint')
    const run = finetune(options({ lora: { rank: 2 }, steps: 30, rate: 1e30, clipNorm: 0, optimizer: 'sgd', schedule: { kind: 'constant', warmup: 0 }, checkpoint: { path: file, every: 1 } })) // prettier-ignore
    const error: unknown = await run.then(() => undefined, (thrown: unknown) => thrown) // prettier-ignore
    expect(error).toBeInstanceOf(LossError)
    const { step, origins, checkpoint, message } = error as LossError
    expect(step).toBeGreaterThan(1)
    expect(origins.length).toBeGreaterThan(0)
    expect(checkpoint).toBe(file)
    expect(message).toContain(`in step ${step}`)
    expect(message).toContain('from data line')
    expect(message).toContain(file)
  })

  test('what does not fit the memory says what needs less', async () => {
    const full = Object.create(tiny.device, {
      alloc: { value: () => { throw new IngotError('out-of-memory', 'no room for 123 bytes', { op: 'alloc' }) } }, // prettier-ignore
    }) as Device
    let isFull = false
    const run = finetune(options({ device: new Proxy(tiny.device, { get: (target, name) => {
      const value: unknown = Reflect.get(isFull && name === 'alloc' ? full : target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    } }) })) // prettier-ignore
    const done = (async () => {
      for await (const event of run) if (event.kind === 'start') isFull = true
    })()
    await expect(done).rejects.toThrow(/no room for 123 bytes, got [\d.]+ MB needed \(weights [\d.]+ MB, .*step [\d.]+ MB\)/)
    await expect(done).rejects.toThrow(
      'less is needed with batch 1 with accumulate 2, a context below 16, recompute, a rank below 2, fewer targets',
    )
  })

  test('what cannot fit is refused before the first step', async () => {
    const run = finetune(options({ memory: 1e5 }))
    await expect(run).rejects.toThrow(
      /an update will not fit the memory, got [\d.]+ MB needed \(.*\), wanted at most 0.1 MB; less is needed with batch 1/,
    )
    await expect(estimateFinetune(options({ memory: 1e5 }))).rejects.toThrow('an update will not fit the memory')
  })

  test('a signal stops the run and rejects with its reason, after the checkpoint', async () => {
    const controller = new AbortController()
    const run = finetune(options({ steps: 1000, signal: controller.signal, checkpoint: at('aborted.checkpoint') }))
    setTimeout(() => controller.abort(new Error('enough')), 300)
    await expect(run).rejects.toThrow('enough')
    expect(existsSync(at('aborted.checkpoint'))).toBe(true)
  })
  test('leaving the loop stops it', async () => {
    const run = finetune(options({ steps: 1000 }))
    for await (const event of run) if (event.kind === 'step') break
    expect((await run).reason).toBe('stopped')
  })
  test('what exists is not replaced unasked', async () => {
    writeFileSync(at('there.gguf'), 'x')
    await expect(finetune(options({ out: at('there.gguf') }))).rejects.toThrow('exists')
    await expect(finetune(options({ out: MODEL, force: true }))).rejects.toThrow('is the file to read')
    expect(readFileSync(at('there.gguf'), 'utf8')).toBe('x')
  })
})
