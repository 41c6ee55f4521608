// Batches of sequences as tensors: ids, what comes after each of them, and positions.

import { IngotError } from '../base/error.ts'
import type { Device } from '../device/device.ts'

import { Tensor } from '../tensor/tensor.ts'

/** A target that does not count. */
export const IGNORED = -100

/** Rows of sequences of one length: each tensor is [sequences, length]. */
export interface Batch {
  /** u32 ids */
  readonly tokens: Tensor
  /** i32 ids that should come next, or `IGNORED` */
  readonly targets: Tensor
  /** u32 places in their sequence, counted from 0; another 0 within a row begins another sequence */
  readonly positions: Tensor
  /** two u32 words: what dropout leaves out; without them nothing is */
  readonly noise?: Tensor
}

/** A sequence of ids, of which each is to be predicted from those before it. */
export interface Sequence {
  readonly ids: readonly number[]
  /** the first so many ids are given: predicting them does not count (default: the first one) */
  readonly prompt?: number
}

/** Sequences side by side; what is shorter than the longest is filled up with ids that do not count. */
export function makeBatch(device: Device, sequences: readonly Sequence[]): Batch {
  const length = Math.max(0, ...sequences.map(({ ids }) => ids.length - 1))
  if (length < 1) throw bad('there is nothing to predict', `${sequences.length} sequences`, 'sequences of two ids or more')
  const rows = (of: (sequence: Sequence, at: number) => number): number[][] =>
    sequences.map((sequence) => Array.from({ length }, (_, at) => of(sequence, at)))
  const targets = rows(({ ids, prompt = 1 }, at) => (at + 1 < prompt ? IGNORED : (ids[at + 1] ?? IGNORED)))
  if (targets.flat().every((id) => id === IGNORED)) throw bad('no target counts', 'prompts as long as their sequences', 'shorter prompts')
  return {
    tokens: Tensor.from(
      rows(({ ids }, at) => ids[at] ?? 0),
      { dtype: 'u32', device },
    ),
    targets: Tensor.from(targets, { dtype: 'i32', device }),
    positions: Tensor.from(
      rows((_, at) => at),
      { dtype: 'u32', device },
    ),
  }
}

/** A batch of this shape with nothing in it, for those who ask what it would cost. */
export function emptyBatch(device: Device, shape: readonly [rows: number, length: number], hasNoise: boolean): Batch {
  const zeros = (dtype: 'u32' | 'i32', ...sizes: readonly number[]): Tensor => Tensor.zeros(sizes, { dtype, device })
  const [tokens, targets, positions] = [zeros('u32', ...shape), zeros('i32', ...shape), zeros('u32', ...shape)]
  return { tokens, targets, positions, ...(hasNoise ? { noise: zeros('u32', 2) } : {}) }
}

function bad(what: string, got: unknown, wanted: unknown): IngotError {
  return new IngotError('bad-argument', what, { op: 'makeBatch', got, wanted })
}
