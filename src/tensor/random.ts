// Random tensors. A seed is all there is to them: the same one gives the same numbers on every device. Without one, each call has a seed
// of its own, drawn when the program starts; in a function that is compiled, each call of that function.

import { describeKind } from '../base/argument.ts'
import { IngotError } from '../base/error.ts'
import type { DeviceChoice } from './default-device.ts'
import { makeNode } from './make-node.ts'
import type { NodeOf, RandomAttrs } from './node.ts'
import { Storage } from './storage.ts'
import { checkFinite, fail, optionsOf } from './operand.ts'
import { Tensor } from './tensor.ts'
import { currentTrace } from './trace.ts'

/** What random numbers depend on. */
export interface RandomOptions {
  /** a number, or two u32 words in a tensor, which may differ from call to call of a compiled function */
  readonly seed?: number | Tensor
  readonly device?: DeviceChoice
}

/** words of the seeds that calls without one have: the first is drawn once, the second counts */
const [start = 0] = crypto.getRandomValues(new Uint32Array(1))
let calls = 0

/** The key of a call without a seed. */
export function nextKey(): RandomAttrs['key'] {
  return [start, calls++]
}

/** A key that every run of what is being compiled brings; undefined: nothing is. */
function tracedKey(device: DeviceChoice | undefined): Tensor | undefined {
  const trace = currentTrace()
  if (trace === undefined) return undefined
  const leaf: NodeOf<'leaf'> = { op: 'leaf', shape: [2], dtype: 'u32', src: [], attrs: { storage: new Storage(), layout: 'plain' } }
  trace.keys.push(leaf)
  return new Tensor(leaf, device)
}

function keyOf(seed: number | undefined): RandomAttrs['key'] {
  if (seed === undefined) return nextKey()
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new IngotError('bad-argument', 'no such seed', { op: 'random', got: seed, wanted: 'a whole number from 0 on' })
  return [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0]
}

function make(kind: RandomAttrs['kind'], shape: readonly number[], { seed, device }: RandomOptions): Tensor {
  if (seed !== undefined && typeof seed !== 'number' && !(seed instanceof Tensor))
    fail('random', 'the seed is no number', describeKind(seed), 'a whole number from 0 on, or a tensor of two words')
  const given = seed instanceof Tensor ? seed : seed === undefined ? tracedKey(device) : undefined
  const key = keyOf(typeof seed === 'number' ? seed : given ? 0 : undefined)
  return Tensor.of(makeNode('random', given ? [given.node] : [], { kind, shape, key }), given?.device ?? device)
}

/** Tensors of random numbers. */
export const random = {
  /** From `low` to below `high`, evenly. */
  uniform(shape: readonly number[], given: RandomOptions & { low?: number; high?: number } = {}): Tensor {
    const { low = 0, high = 1, ...options } = optionsOf('random', given)
    for (const bound of [low, high]) checkFinite('random', 'a bound', bound)
    const unit = make('uniform', shape, options)
    return low === 0 && high === 1 ? unit : unit.mul(high - low).add(low)
  },
  /** Normally distributed around `mean`. */
  normal(shape: readonly number[], given: RandomOptions & { mean?: number; deviation?: number } = {}): Tensor {
    const { mean = 0, deviation = 1, ...options } = optionsOf('random', given)
    for (const number of [mean, deviation]) checkFinite('random', 'the mean or the deviation', number)
    const unit = make('normal', shape, options)
    return mean === 0 && deviation === 1 ? unit : unit.mul(deviation).add(mean)
  },
  /** 32 random bits each, as u32. */
  bits(shape: readonly number[], options: RandomOptions = {}): Tensor {
    return make('bits', shape, optionsOf('random', options))
  },
}

/** With each element 0 by a chance of `p`, and the others larger by as much as that takes on average. */
export function dropout(x: Tensor, p: number, options: RandomOptions = {}): Tensor {
  if (!(x instanceof Tensor)) return fail('dropout', 'operand 0 is no tensor', describeKind(x), 'a tensor')
  checkFinite('dropout', 'the chance', p, 0)
  if (p >= 1) fail('dropout', 'the chance is out of range', p, 'from 0 to below 1')
  if (p === 0) return x
  const { device } = x
  const kept = random.uniform(x.shape, { ...(device !== undefined && { device }), ...optionsOf('dropout', options) }).ge(p)
  return kept.where(x.mul(1 / (1 - p)), 0)
}
