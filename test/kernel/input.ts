// Inputs for a family's parameters, as a device gets them and as the definition does: random numbers in [-1, 1), what the family or the
// test says instead, and random blocks for weights. The same on every run.

import { type ElementType, type NumberArray, isElementType, roundElements } from '../../src/base/element.ts'
import type { Arrays, BufferShape, Family } from '../../src/kernel/family.ts'
import { repack } from '../../src/kernel/linear/repack.ts'
import { formatOf } from '../../src/quant/index.ts'
import { decodePlain } from '../quant/plain.ts'
import { randomBlocks } from './block.ts'

/** Bytes of a quantised weight are numbers to the definition. */
export interface Inputs {
  readonly device: Arrays
  readonly oracle: Arrays
}

/** The same numbers in [0, 1) on every run. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

export function inputsOf<P extends object>(
  family: Family<P>,
  params: P,
  { given = {}, seed = 11 }: { given?: Arrays; seed?: number } = {},
): Inputs {
  const random = randomFrom(seed)
  const chosen: Arrays = { ...family.inputs?.(params, random), ...given }
  const both = family
    .buffers(params)
    .filter(({ role }) => role !== 'out')
    .map((shape) => [shape.name, inputOf(shape, chosen[shape.name], random)] as const)
  return {
    device: Object.fromEntries(both.map(([name, { device }]) => [name, device])),
    oracle: Object.fromEntries(both.map(([name, { oracle }]) => [name, oracle])),
  }
}

interface Input {
  readonly device: NumberArray
  readonly oracle: NumberArray
}

function inputOf({ type, elements, packedRows }: BufferShape, chosen: NumberArray | undefined, random: () => number): Input {
  if (isElementType(type)) {
    const values = roundElements(type, chosen ?? Float64Array.from({ length: elements }, () => RANDOM[type](random)))
    return { device: values, oracle: values }
  }
  const { name } = formatOf(type)
  const bytes = randomBlocks(name, elements, random)
  const oracle = decodePlain(name, bytes, elements)
  if (packedRows === undefined) return { device: bytes, oracle }
  return { device: repack.define({ w: bytes }, { format: name, m: packedRows, k: elements / packedRows })['y']!, oracle }
}

const fraction = (random: () => number): number => 2 * random() - 1
const word = (random: () => number): number => Math.floor(random() * 2 ** 32)

/** One value of each element type, where nobody says which: any integer of its width, but of i64 those that numbers hold exactly. */
const RANDOM: Readonly<Record<ElementType, (random: () => number) => number>> = {
  f32: fraction,
  f16: fraction,
  bf16: fraction,
  f64: fraction,
  i32: word,
  u32: word,
  i8: word,
  u8: word,
  bool: (random) => Math.floor(2 * random()),
  i64: (random) => word(random) * 2 ** 21 + (word(random) % 2 ** 21) - 2 ** 52,
}
