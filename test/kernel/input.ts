// Inputs for a family's parameters, as a device gets them and as the definition does: random numbers in [-1, 1), what the family or the
// test says instead, and random blocks for weights. The same on every run.

import { HALVES } from '../../src/base/half-table.ts'
import { encodeHalf } from '../../src/base/half.ts'
import type { Arrays, BufferShape, Family, NumberArray } from '../../src/kernel/family.ts'
import { repack } from '../../src/kernel/linear/repack.ts'
import { FORMATS } from '../../src/quant/index.ts'
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
  const format = FORMATS.find(({ name, element }) => name === type && element === undefined)
  if (format !== undefined) {
    const bytes = randomBlocks(format.name, elements, random)
    const oracle = decodePlain(format.name, bytes, elements)
    if (packedRows === undefined) return { device: bytes, oracle }
    return { device: repack.define({ w: bytes }, { format: format.name, m: packedRows, k: elements / packedRows })['y']!, oracle }
  }
  if (type === 'u32' || type === 'i32' || type === 'u8') {
    const values = chosen ?? Uint32Array.from({ length: elements }, () => Math.floor(random() * 2 ** 32))
    return { device: values, oracle: values }
  }
  const plain = chosen ?? Float32Array.from({ length: elements }, () => 2 * random() - 1)
  if (type === 'f32') return { device: plain, oracle: plain }
  if (type === 'f16') {
    const rounded = Float32Array.from(plain, (value) => HALVES[encodeHalf(value)]!)
    return { device: rounded, oracle: rounded }
  }
  // bf16: the upper halves of f32
  const words = new Uint32Array(Float32Array.from(plain).buffer)
  const bytes = new Uint8Array(Uint16Array.from(words, (bits) => bits >>> 16).buffer)
  return { device: bytes, oracle: new Float32Array(words.map((bits) => bits & 0xffff0000).buffer) }
}
