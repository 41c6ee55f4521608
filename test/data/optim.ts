// Optimisers against PyTorch's, on a device: every trajectory of the data folder. Knows no device; the files that import it name theirs.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { type Optimizer, adam, adamw, clipFactor, globalNorm, sgd } from '../../src/nn/optim.ts'
import { type Schedule, rateAt } from '../../src/nn/schedule.ts'
import { compile } from '../../src/tensor/compile.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { dataFolder } from './folder.ts'

interface Values {
  readonly shape: readonly number[]
  readonly data: readonly number[]
}
/** A schedule as the files of the data folder have it. */
export interface StoredSchedule {
  readonly kind: 'constant' | 'warmup_constant' | 'warmup_linear' | 'warmup_cosine' | 'step'
  readonly warmup?: number
  readonly warmup_offset?: 0 | 1
  readonly total?: number
  readonly floor?: number
  readonly step_size?: number
  readonly gamma?: number
}
interface Hyper {
  readonly lr: number
  readonly weight_decay: number
  readonly momentum?: number
  readonly dampening?: number
  readonly nesterov?: boolean
  readonly betas?: readonly [number, number]
  readonly eps?: number
}
interface Run {
  readonly id: string
  readonly optimizer: 'sgd' | 'adam' | 'adamw'
  readonly hyper: Hyper
  readonly schedule: StoredSchedule
  readonly clip_norm: number | null
  readonly params: readonly Values[]
  readonly steps: readonly {
    readonly lr: number
    readonly grads: readonly Values[]
    readonly grad_norm: number
    readonly params_after: readonly Values[]
  }[]
  readonly state_after: readonly Readonly<Record<string, Values | number | null>>[]
}
interface Stored {
  readonly schedules: readonly { readonly schedule: StoredSchedule; readonly lr: number; readonly lrs: readonly number[] }[]
  readonly runs: readonly Run[]
}
export interface OptimDevice {
  readonly name: string
  readonly open: () => Promise<Device>
  /** largest error of a tensor's elements, relative to the largest of them; of sums that may cancel, relative to 1 at least */
  readonly tolerance: number
}

const path = join(dataFolder, 'training', 'optim.json')
const stored = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Stored) : { schedules: [], runs: [] }
const missing = stored.runs.length === 0 ? ': no optim.json in the data folder' : ''
/** what PyTorch calls our state */
const STATE: Readonly<Record<string, string>> = { momentum_buffer: 'momentum', exp_avg: 'mean', exp_avg_sq: 'square' }

/** The same schedule as ours. */
export function scheduleOf(from: StoredSchedule): Schedule {
  const { kind, warmup = 0, warmup_offset: warmupOffset = 0, total = 0, floor = 0, step_size: size = 1, gamma = 1 } = from
  if (kind === 'step') return { kind, size, gamma }
  if (kind === 'constant' || kind === 'warmup_constant') return { kind: 'constant', warmup, warmupOffset }
  return { kind: kind === 'warmup_linear' ? 'linear' : 'cosine', warmup, warmupOffset, total, floor }
}

export function testSchedules(): void {
  describe.skipIf(missing !== '')(`schedules of PyTorch${missing}`, () => {
    test.for(stored.schedules.map((each) => [JSON.stringify(each.schedule), each] as const))('%s', ([, { schedule, lr, lrs }]) => {
      const got = lrs.map((_, t) => rateAt(scheduleOf(schedule), lr, t))
      expect(furthest(got, lrs, 0)).toBeLessThan(1e-12)
    })
  })
}

export function testOptimizers({ name, open, tolerance }: OptimDevice): void {
  describe.skipIf(missing !== '')(`optimisers of PyTorch on ${name}${missing}`, () => {
    let device: Device
    beforeAll(async () => {
      device = await open()
    })
    afterAll(() => device?.close())
    test.for(stored.runs.map((run) => [run.id, run] as const))('%s', async ([, run]) => {
      expect(await compare(device, run, tolerance)).toEqual([])
    })
  })
}

/** What is further from PyTorch's than it may be. */
async function compare(device: Device, run: Run, tolerance: number): Promise<string[]> {
  const named = (list: readonly Values[]): Record<string, Tensor> =>
    Object.fromEntries(list.map(({ shape, data }, i) => [`p${i}`, Tensor.from([...data], { shape: [...shape], device })]))
  const parameters = named(run.params)
  const optimizer = makeOptimizer(run, parameters)
  using step = compile((gradients: Record<string, Tensor>, rate: Tensor) => {
    const norm = globalNorm(gradients)
    optimizer.update(gradients, rate, run.clip_norm === null ? undefined : clipFactor(norm, run.clip_norm))
    return norm
  })
  const lines: string[] = []
  const check = async (what: string, tensor: Tensor | undefined, want: Values, least = 1): Promise<void> => {
    const off = furthest(Array.from((await tensor?.data()) ?? []), want.data, least)
    if (!(off <= tolerance)) lines.push(`${what} is off by ${off.toExponential(1)}`)
  }
  for (const [t, { lr, grads, grad_norm: wanted, params_after: after }] of run.steps.entries()) {
    const rate = rateAt(scheduleOf(run.schedule), run.hyper.lr, t)
    expect(Math.abs(rate - lr)).toBeLessThanOrEqual(1e-12 * lr)
    const norm = await step(named(grads), Tensor.from(rate, { device }))
    await check(`the norm of step ${t}`, norm, { shape: [], data: [wanted] }, 0)
    for (const [i, want] of after.entries()) await check(`p${i} after step ${t}`, parameters[`p${i}`], want)
  }
  for (const [i, state] of run.state_after.entries())
    for (const [key, want] of Object.entries(state))
      if (typeof want === 'object' && want !== null)
        await check(`${key} of p${i}`, optimizer.state[`p${i}.${STATE[key]}`], want, key === 'exp_avg_sq' ? 0 : 1)
  expect(await optimizer.state['count']?.item()).toBe(run.steps.length)
  return lines
}

function makeOptimizer({ optimizer, hyper }: Run, parameters: Record<string, Tensor>): Optimizer {
  const { momentum = 0, dampening = 0, nesterov = false, betas = [0.9, 0.999], eps = 1e-8, weight_decay: weightDecay } = hyper
  if (optimizer === 'sgd') return sgd(parameters, { momentum, dampening, nesterov, weightDecay })
  return (optimizer === 'adam' ? adam : adamw)(parameters, { betas, eps, weightDecay })
}

/** The largest error, relative to the largest number that is wanted, or `least`. */
function furthest(got: readonly number[], want: readonly number[], least: number): number {
  const size = Math.max(...want.map(Math.abs), least, Number.MIN_VALUE)
  return want.reduce((most, value, i) => Math.max(most, Math.abs((got[i] ?? Number.NaN) - value) / size), 0)
}
