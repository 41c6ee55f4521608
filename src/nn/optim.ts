// Optimisers: how parameters change by their gradients. An update is written with tensors and `assign`, so that inside `compile` it is part
// of one submission, which changes parameters and state in place. Rates and counts are tensors: nothing is planned anew from step to step.
//
// Sums of small steps lose digits. So decay and step are added up before they are taken from a parameter, which is rounded once; and
// 1 - beta^t is -expm1(t ln beta), since near 1 the power alone has few digits of it in f32.
//
// Every tensor that changes is one kernel, in place: a parameter reads the state that was just computed, and gradients are made shorter
// where they are read.

import { isElementType } from '../base/element.ts'
import { IngotError } from '../base/error.ts'
import { isFloatType } from '../tensor/promote.ts'
import { Tensor } from '../tensor/tensor.ts'

/** Tensors by name: parameters, or gradients for them. */
export type Named = Readonly<Record<string, Tensor>>

/** Changes parameters. */
export interface Optimizer {
  /** what it remembers from step to step, by name: a checkpoint saves it, and assigns to it */
  readonly state: Named
  /**
   * Changes all parameters by their gradients, at a learning rate: a tensor of one number, where it changes in a compiled function. All
   * gradients count times `factor`, such as that of `clipFactor` (default 1).
   */
  update(gradients: Named, rate: Tensor | number, factor?: Tensor): void
}

/** How much of a parameter goes in each step, at a rate of 1: for all of them, or each. */
export type WeightDecay = number | ((name: string, parameter: Tensor) => number)

/** What `sgd` is told. */
export interface SgdOptions {
  /** how much of the last step is in the next (default 0) */
  readonly momentum?: number
  /** how much less than all of a gradient goes into the momentum; not of the first (default 0) */
  readonly dampening?: number
  /** looks ahead along the momentum */
  readonly nesterov?: boolean
  /** added to the gradient (default 0) */
  readonly weightDecay?: WeightDecay
}

/** What `adam` and `adamw` are told. */
export interface AdamOptions {
  /** how long means of gradients and of their squares last (default 0.9, 0.999) */
  readonly betas?: readonly [number, number]
  /** added to the root (default 1e-8) */
  readonly eps?: number
  /** default 0 */
  readonly weightDecay?: WeightDecay
}

/** What `lion` is told. */
export interface LionOptions {
  /** of the direction, and of the mean that is kept (default 0.9, 0.99) */
  readonly betas?: readonly [number, number]
  /** default 0 */
  readonly weightDecay?: WeightDecay
}

/** Gradient descent, with momentum. */
export function sgd(parameters: Named, options: SgdOptions = {}): Optimizer {
  const { momentum = 0, dampening = 0, nesterov = false, weightDecay = 0 } = options
  if (momentum === 0)
    return makeOptimizer('sgd', parameters, weightDecay, [], ({ p, g, decay }) => ({ step: decayed(g(), p, decay), state: {} }))
  return makeOptimizer('sgd', parameters, weightDecay, ['momentum'], ({ p, g, decay, count }, { momentum: old }) => {
    const slope = (): Tensor => decayed(g(), p, decay)
    const later = old.mul(momentum).add(slope().mul(1 - dampening))
    const next = dampening === 0 ? later : count.isFirst.where(slope(), later)
    return { step: nesterov ? slope().add(next.mul(momentum)) : next, state: { momentum: next } }
  })
}

/** Adam: weight decay is part of the gradient. */
export function adam(parameters: Named, options: AdamOptions = {}): Optimizer {
  return makeAdam('adam', parameters, options)
}

/** Adam with decoupled weight decay: parameters shrink by themselves. */
export function adamw(parameters: Named, options: AdamOptions = {}): Optimizer {
  return makeAdam('adamw', parameters, options)
}

function makeAdam(kind: 'adam' | 'adamw', parameters: Named, options: AdamOptions): Optimizer {
  const { betas = [0.9, 0.999], eps = 1e-8, weightDecay = 0 } = options
  const [beta1, beta2] = checkBetas(kind, betas)
  return makeOptimizer(kind, parameters, weightDecay, ['mean', 'square'], ({ p, g, decay, count }, { mean, square }) => {
    const slope = (): Tensor => (kind === 'adam' ? decayed(g(), p, decay) : g())
    const m = mix(mean, slope(), beta1)
    const v = mix(square, slope().square(), beta2)
    const root = v.div(count.weight(beta2)).sqrt()
    const step = m.div(count.weight(beta1)).div(root.add(eps))
    return { step: kind === 'adam' ? step : decayed(step, p, decay), state: { mean: m, square: v } }
  })
}

/** Lion: steps of one size, by the sign of the mean gradient; decay as in `adamw`. */
export function lion(parameters: Named, { betas = [0.9, 0.99], weightDecay = 0 }: LionOptions = {}): Optimizer {
  const [beta1, beta2] = checkBetas('lion', betas)
  return makeOptimizer('lion', parameters, weightDecay, ['mean'], ({ p, g, decay }, { mean }) => ({
    step: decayed(mix(mean, g(), beta1).sign(), p, decay),
    state: { mean: mix(mean, g(), beta2) },
  }))
}

/** The root of the sum of all squares. */
export function globalNorm(gradients: Named): Tensor {
  const squares = Object.values(gradients).map((gradient) => gradient.square().sum())
  if (squares.length === 0) throw new IngotError('bad-argument', 'there are no gradients', { op: 'globalNorm', got: 0 })
  // One after the other, a few in each kernel: a plan computes those of the last layers first, as gradients come, and holds little.
  return squares.reduce((sum, each) => sum.add(each)).sqrt()
}

/** What gradients of this length together are multiplied with so that none are longer than `most`. */
export function clipFactor(norm: Tensor, most: number): Tensor {
  if (!(most > 0)) throw new IngotError('bad-argument', 'no such norm', { op: 'clipByNorm', got: most, wanted: 'a number above 0' })
  return Tensor.full([], most)
    .div(norm.add(1e-6)) // as PyTorch does
    .minimum(1)
}

/** The same gradients, all times one factor where together they are longer than `most`. */
export function clipByNorm(gradients: Named, most: number, norm: Tensor = globalNorm(gradients)): Record<string, Tensor> {
  const factor = clipFactor(norm, most)
  return Object.fromEntries(Object.entries(gradients).map(([name, gradient]) => [name, gradient.mul(factor)]))
}

/** What a rule is told about a parameter: in f32 at least. */
interface Situation {
  readonly p: Tensor
  /** The gradient, written down anew: what all of several kernels read would be a kernel of its own. */
  g(): Tensor
  readonly decay: number
  readonly count: Count
}
/** Which update it is: computed once for all parameters. */
interface Count {
  readonly isFirst: Tensor
  /** how much of a mean that began at 0 is values: 1 - beta^count */
  weight(beta: number): Tensor | number
}
/** What to take from a parameter, times the rate, and what to remember. */
interface Change<S extends string> {
  readonly step: Tensor
  readonly state: Readonly<Record<S, Tensor>>
}

/** An optimiser by its rule for one parameter, which has `slots` tensors of its shape as state. */
function makeOptimizer<S extends string>(
  op: string,
  parameters: Named,
  weightDecay: WeightDecay,
  slots: readonly S[],
  rule: (situation: Situation, state: Readonly<Record<S, Tensor>>) => Change<S>,
): Optimizer {
  const entries = Object.entries(parameters).map(([name, parameter]) => {
    const { dtype, device, shape } = parameter
    if (!isElementType(dtype) || !isFloatType(dtype))
      throw new IngotError('bad-argument', `${name} cannot be optimised`, { op, got: dtype, wanted: 'f32, f16, bf16 or f64' })
    const type: 'f32' | 'f64' = dtype === 'f64' ? 'f64' : 'f32'
    const zeros = (): Tensor => Tensor.zeros(shape, { dtype: type, ...(device === undefined ? {} : { device }) })
    const state = Object.fromEntries(slots.map((slot) => [slot, zeros()])) as Record<S, Tensor> // one for each
    const decay = typeof weightDecay === 'number' ? weightDecay : weightDecay(name, parameter)
    if (!(decay >= 0)) throw new IngotError('bad-argument', `no such weight decay of ${name}`, { op, got: decay, wanted: '0 or more' })
    return { name, parameter, dtype, type, state, decay }
  })
  if (entries.length === 0) throw new IngotError('bad-argument', 'there is nothing to optimise', { op, got: 'no parameters' })
  const types = [...new Set(entries.map(({ type }) => type))]
  const place = entries.find(({ parameter }) => parameter.device !== undefined)?.parameter.device
  const count = Tensor.from(0, { dtype: 'u32', ...(place === undefined ? {} : { device: place }) })
  return {
    state: Object.fromEntries([
      ['count', count],
      ...entries.flatMap(({ name, state }) => slots.map((slot) => [`${name}.${slot}`, state[slot]] as const)),
    ]),
    update: (gradients, rate, factor) => {
      count.assign(count.add(1))
      const counts = new Map(types.map((type) => [type, countOf(count.to(type))] as const))
      for (const { name, parameter, dtype, type, state, decay } of entries) {
        const gradient = gradients[name]
        if (gradient === undefined)
          throw new IngotError('bad-argument', `there is no gradient for ${name}`, { op, got: Object.keys(gradients).join(', ') })
        const p = parameter.to(type)
        const g = (): Tensor => (factor === undefined ? gradient.to(type) : gradient.to(type).mul(factor.to(type)))
        const change = rule({ p, g, decay, count: counts.get(type) ?? countOf(count.to(type)) }, state)
        parameter.assign(p.sub(change.step.mul(rate)).to(dtype))
        for (const slot of slots) state[slot].assign(change.state[slot])
      }
    },
  }
}

/** x, and as much of p as decays */
function decayed(x: Tensor, p: Tensor, decay: number): Tensor {
  return decay === 0 ? x : x.add(p.mul(decay))
}

/** A mean that moves. */
function mix(mean: Tensor, value: Tensor, beta: number): Tensor {
  return mean.mul(beta).add(value.mul(1 - beta))
}

function countOf(count: Tensor): Count {
  const weights = new Map<number, Tensor | number>()
  return {
    isFirst: count.eq(1),
    weight: (beta) => {
      const weight = weights.get(beta) ?? (beta === 0 ? 1 : count.mul(Math.log(beta)).expm1().neg())
      weights.set(beta, weight)
      return weight
    },
  }
}

function checkBetas(op: string, betas: readonly [number, number]): readonly [number, number] {
  if (betas.every((beta) => beta >= 0 && beta < 1)) return betas
  throw new IngotError('bad-argument', 'no such betas', { op, got: betas.join(', '), wanted: 'numbers from 0 to below 1' })
}
