// One step of training: forward, loss, backward, clipping and the optimiser, over one batch or several whose gradients are averaged. It is
// planned once for each form of the batches, and then one submission for each batch; the last one changes parameters and the optimiser's
// state in place.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { type Named, type Optimizer, clipFactor, globalNorm } from '../nn/optim.ts'
import { type Compiled, compile } from '../tensor/compile.ts'
import { gradients } from '../tensor/grad.ts'
import { bytesOf } from '../tensor/node.ts'
import { Slots, joinSlots } from '../tensor/slots.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { Batch } from './batch.ts'
import { lossOf } from './loss.ts'
import type { StepMemory } from './memory.ts'
import type { Trainable } from './trainable.ts'

/** What a batch costs: a number, of which gradients are taken. */
export type BatchLoss = typeof lossOf

export interface StepOptions {
  readonly optimizer: Optimizer
  /** default: `lossOf` */
  readonly loss?: BatchLoss
  /** gradients that are longer together are made this long */
  readonly clipNorm?: number
  /** layers are computed again for gradients: less memory for more time (default `auto`: where a step would need more than `memory`) */
  readonly recompute?: boolean | 'auto'
  /** bytes that everything together may take (default: three quarters of what a CPU has; of GPUs nobody knows) */
  readonly memory?: number
}

/** What a step gives, as it was before its update. */
export interface StepResult {
  /** the mean of the losses */
  readonly loss: number
  /** of each batch: the mean over its targets that count */
  readonly losses: readonly number[]
  /** of all gradients together, before clipping */
  readonly norm: number
}

/** Runs steps. Dispose of it to give back the memory of its plans. */
export interface Trainer extends Disposable {
  /** Updates the parameters at a rate, by the mean of the gradients of the batches. */
  step(batches: readonly Batch[], rate: number): Promise<StepResult>
  /** The loss of a batch, without learning. */
  evaluate(batch: Batch): Promise<number>
  /** What a step over such batches will need, known before it runs. */
  memory(batches: readonly Batch[]): Promise<StepMemory>
}

/** Of the memory of a machine: some is for others. */
const SHARE = 0.75

export function createTrainer(trainable: Trainable, options: StepOptions): Trainer {
  const { device, parameters, weightBytes } = trainable
  const { optimizer, recompute = 'auto', memory: most = SHARE * capacityOf(device.caps) } = options
  // They have memory once a step has several batches.
  const sums = mapNamed(parameters, ({ shape }) => Tensor.zeros(shape, { device }))
  // One plan runs after the other, whatever shapes its batches have: together they need what the largest does.
  const slots = new Slots(device)
  const plansWith = (again: boolean): Plans => makePlans(trainable, options, { sums, slots, recompute: again })
  const all = { kept: plansWith(false), again: plansWith(true) }
  const number = (value: number): Tensor => Tensor.from(value, { device })

  const memoryWith = async (batches: readonly Batch[], recomputes: boolean): Promise<StepMemory> => {
    const plans = recomputes ? all.again : all.kept
    const [isMany, last] = [batches.length > 1, batches.at(-1)]
    // Each form of a batch has a plan.
    const before = new Map(batches.slice(0, -1).map((batch) => [batch.tokens.shape.join(), batch]))
    const adding = [...before.values()].map((batch) => plans.add.memoryFor(batch, number(1), number(0)))
    const ending = last && (isMany ? plans.last.memoryFor(last, number(1), number(0)) : plans.whole.memoryFor(last, number(0)))
    const learning = bytesOfAll(parameters)
    const held = { weights: weightBytes, parameters: (isMany ? 2 : 1) * learning, state: bytesOfAll(optimizer.state) }
    const calls = await Promise.all([...adding, ...(ending === undefined ? [] : [ending])])
    const shared = joinSlots(calls.map((call) => call.slots))
    const step = [...calls.map(({ own }) => own), ...shared].reduce((sum, bytes) => sum + bytes, 0)
    const total = held.weights + held.parameters + held.state + step
    return { ...held, step, total, recompute: recomputes, ...(most < Infinity ? { limit: most } : {}) }
  }
  const decide = async (batches: readonly Batch[]): Promise<StepMemory> => {
    if (recompute !== 'auto') return memoryWith(batches, recompute)
    const kept = await memoryWith(batches, false)
    return kept.total <= most ? kept : { ...(await memoryWith(batches, true)), kept: kept.total }
  }
  /** What was decided for batches of these shapes. */
  const known = new Map<string, Promise<StepMemory>>()
  const memory = (batches: readonly Batch[]): Promise<StepMemory> => {
    const key = batches.map(({ tokens }) => tokens.shape.join()).join(' ')
    const found = known.get(key) ?? decide(batches)
    known.set(key, found)
    found.catch(() => known.delete(key))
    return found
  }
  const plansFor = async (batches: readonly Batch[]): Promise<Plans> => {
    const again = recompute === 'auto' ? most < Infinity && (await memory(batches)).recompute : recompute
    return again ? all.again : all.kept
  }
  return {
    memory,
    step: async (batches, rate) => {
      const last = batches.at(-1)
      if (last === undefined) throw new IngotError('bad-argument', 'there is nothing to learn from', { op: 'step', got: 'no batches' })
      const plans = await plansFor(batches)
      const share = number(1 / batches.length)
      const losses: number[] = []
      for (const [i, batch] of batches.slice(0, -1).entries())
        losses.push(await (await plans.add(batch, share, number(i === 0 ? 0 : 1))).item())
      const { loss, norm } = await (batches.length === 1 ? plans.whole(last, number(rate)) : plans.last(last, share, number(rate)))
      losses.push(await loss.item())
      return { loss: losses.reduce((sum, each) => sum + each, 0) / losses.length, losses, norm: await norm.item() }
    },
    evaluate: async (batch) => (await all.kept.look(batch)).item(),
    [Symbol.dispose]: () => {
      for (const plans of [all.kept, all.again]) for (const each of Object.values(plans)) each[Symbol.dispose]()
    },
  }
}

interface Result {
  readonly loss: Tensor
  readonly norm: Tensor
}

/** What a trainer runs, each one submission. */
interface Plans {
  /** a step of one batch */
  readonly whole: Compiled<[batch: Batch, rate: Tensor], Result>
  /** adds a share of the gradients to `keep` times what was added up before */
  readonly add: Compiled<[batch: Batch, share: Tensor, keep: Tensor], Tensor>
  /** adds the last share, and updates */
  readonly last: Compiled<[batch: Batch, share: Tensor, rate: Tensor], Result>
  readonly look: Compiled<[batch: Batch], Tensor>
}

interface PlanParts {
  /** gradients that are added up */
  readonly sums: Named
  readonly slots: Slots
  readonly recompute: boolean
}

function makePlans({ model, parameters }: Trainable, options: StepOptions, { sums, slots, recompute }: PlanParts): Plans {
  const { optimizer, clipNorm, loss: lossBy = lossOf } = options
  const make = <A extends readonly unknown[], R>(f: (...args: A) => R): Compiled<A, R> => compile(f, { slots })
  const find = (batch: Batch): { loss: Tensor; by: Named } => {
    const loss = lossBy(model, batch, { recompute })
    const found = gradients(loss, Object.values(parameters))
    return { loss, by: mapNamed(parameters, (_, name, i) => found[i] ?? missing(name)) }
  }
  const update = (loss: Tensor, by: Named, rate: Tensor): Result => {
    const norm = globalNorm(by)
    optimizer.update(by, rate, clipNorm === undefined ? undefined : clipFactor(norm, clipNorm))
    return { loss, norm }
  }
  return {
    whole: make((batch: Batch, rate: Tensor) => {
      const { loss, by } = find(batch)
      return update(loss, by, rate)
    }),
    add: make((batch: Batch, share: Tensor, keep: Tensor) => {
      const { loss, by } = find(batch)
      for (const [name, sum] of Object.entries(sums)) sum.assign(sum.mul(keep).add((by[name] ?? missing(name)).mul(share)))
      return loss
    }),
    last: make((batch: Batch, share: Tensor, rate: Tensor) => {
      const { loss, by } = find(batch)
      const sum = mapNamed(by, (gradient, name) => (sums[name] ?? missing(name)).add(gradient.mul(share)))
      return update(loss, sum, rate)
    }),
    look: make((batch: Batch) => lossBy(model, batch)),
  }
}

function mapNamed(tensors: Named, f: (tensor: Tensor, name: string, index: number) => Tensor): Named {
  return Object.fromEntries(Object.entries(tensors).map(([name, tensor], i) => [name, f(tensor, name, i)]))
}

function missing(name: string): never {
  throw new IngotError('bad-argument', `there is no gradient for ${name}`, { op: 'step', got: name })
}

/** What a device has at most: the largest buffer of a CPU is all of its memory; of GPUs nobody knows. */
export function capacityOf({ lanes, bufferBytes }: Caps): number {
  return lanes === 1 ? bufferBytes : Infinity
}

function bytesOfAll(tensors: Readonly<Record<string, Tensor>>): number {
  return Object.values(tensors).reduce((sum, { node }) => sum + bytesOf(node), 0)
}
