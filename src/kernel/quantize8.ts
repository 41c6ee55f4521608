// Activations as int8 for the packed layouts: blocks of 32 with one scale, and the scaled sum of each 16. One buffer holds, for n
// rows of k: n * k / 4 words of bytes, then n * k / 32 scales, then n * k / 16 sums.

import type { Caps } from '../base/caps.ts'
import { buffer, kernel, uniform } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { ACTIVATION_BLOCK } from '../quant/packed.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'

export interface Quantize8Params { readonly n: number; readonly k: number }

/** blocks of one workgroup */
const BLOCKS = 32

export const quantize8: KernelRecord<Quantize8Params> = {
  name: 'quantize8',
  about: 'activations as int8 in blocks of 32, with scales and sums',
  tolerance: 1e-6,
  cases: [{ n: 1, k: 256 }, { n: 3, k: 96 }, { n: 2, k: 2048 }],
  buffers: ({ n, k }) => [
    { name: 'x', role: 'in', type: 'f32', elements: n * k },
    { name: 'y', role: 'out', type: 'u32', elements: quantizedWords(n, k) },
  ],
  work,
  define,
}

/** Words of the buffer that holds n quantised rows of k. */
export function quantizedWords(n: number, k: number): number {
  return (n * k) / 4 + (n * k) / 32 + (n * k) / 16
}

function work(_caps: Caps, { n, k: inner }: Quantize8Params): Work {
  const blocks = (n * inner) / ACTIVATION_BLOCK
  const written = kernel('quantize8', {
    params: { x: buffer('f32', 'read'), y: buffer('u32', 'write'), blocks: uniform('u32') },
  }, (p, k) => {
    const first = k.let('first', k.workgroupId.x.mul(BLOCKS))
    k.for({ name: 'b', from: first, to: first.add(BLOCKS).min(p.blocks) }, (b) => {
      const values = Array.from({ length: 8 }, (_, i) => p.x.load(b.mul(32).add(4 * i), 4))
      const top = k.let('top', values.map((four) => four.abs()).reduce((a, c) => a.max(c)).hmax())
      const scale = k.let('scale', top.div(127))
      const inverse = k.let('inverse', top.gt(0).select(k.const('f32', 127).div(top), k.const('f32', 0)))
      const quants = values.map((four) => k.let('quants', four.mul(inverse).rint().to('i32')))
      quants.forEach((four, i) => p.y.set(b.mul(8).add(i), four.packI8()))
      const scales = p.blocks.mul(8)
      p.y.set(scales.add(b), scale.as('u32'))
      const sums = scales.add(p.blocks)
      const sumOf = (fours: readonly Value<'i32x4'>[]): Value<'f32'> => fours.reduce((a, c) => a.add(c)).hsum().to('f32').mul(scale)
      ;[0, 1].forEach((half) => p.y.set(sums.add(b.mul(2)).add(half), sumOf(quants.slice(4 * half, 4 * half + 4)).as('u32')))
    })
  })
  return { launches: [{ kernel: written, uniforms: { blocks }, grid: [Math.ceil(blocks / BLOCKS), 1, 1] }] }
}

function define({ x }: Arrays, { n, k }: Quantize8Params): Arrays {
  const words = new Uint32Array(quantizedWords(n, k))
  const [bytes, floats] = [new Int8Array(words.buffer), new Float32Array(words.buffer)]
  const blocks = (n * k) / 32
  for (let b = 0; b < blocks; b++) {
    const values = x!.subarray(32 * b, 32 * b + 32) as Float32Array
    const top = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    const scale = Math.fround(top / 127)
    values.forEach((value, i) => { bytes[32 * b + i] = top > 0 ? roundEven(Math.fround(value * Math.fround(127 / top))) : 0 })
    floats[8 * blocks + b] = scale
    for (const half of [0, 1]) {
      const sum = bytes.subarray(32 * b + 16 * half, 32 * b + 16 * half + 16).reduce((total, q) => total + q, 0)
      floats[9 * blocks + 2 * b + half] = sum * scale
    }
  }
  return { y: words }
}

function roundEven(value: number): number {
  const near = Math.round(value)
  return Math.abs(near - value) === 0.5 && near % 2 !== 0 ? near - 1 : near
}
