// The mat-vec that decoding spends its time in: Q4_K weights, one vector, subgroups. Eight lanes share a block of 256 weights, so a
// subgroup of 32 has four blocks in flight; each takes two rows and keeps its 32 activations in registers for both. Quants are masked
// where they lie and never shifted: the activations carry the missing powers of two. No shared memory, no barrier.

import type { Caps } from '../base/caps.ts'
import { buffer, kernel, uniform } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { flatGrid, flatGroup } from './lanes.ts'
import type { LinearParams } from './linear-params.ts'
import type { Work } from './record.ts'

const ROWS = 2
const BLOCK_WORDS = 144 / 4
const LOW = [0x0000000f, 0x00000f00, 0x000f0000, 0x0f000000] as const
const HIGH = [0x000000f0, 0x0000f000, 0x00f00000, 0xf0000000] as const

export function matvecQ4K(caps: Caps, { m, k: inner, bias }: LinearParams): Work {
  const groups = Math.max(1, 64 / caps.subgroup)
  const inFlight = caps.subgroup / 8
  const written = kernel('matvec_q4_k', {
    params: {
      x: buffer('f32x4', 'read'), w: buffer('u32', 'read'),
      ...(bias ? { bias: buffer('f32', 'read') } : {}),
      y: buffer('f32', 'write'), m: uniform('u32'), k: uniform('u32'),
    },
    workgroup: [groups * caps.subgroup],
    subgroup: caps.subgroup,
  }, (p, k) => {
    const blocks = k.let('blocks', p.k.shr(8))
    const first = k.let('first', flatGroup(k).mul(groups).add(k.subgroupId).mul(ROWS))
    // Lane plan: `side` says which 64 of a 128-weight half, `quarter` which 8 of each 32; all four sub-blocks of that place are ours.
    const part = k.let('part', k.sublane.and(7))
    const side = k.let('side', part.shr(2))
    const place = k.let('place', side.mul(16).add(part.and(3).mul(2))) // in vectors of four activations
    const word = k.let('word', side.mul(8).add(part.and(3).mul(2))) // in words of quants
    const sums = Array.from({ length: ROWS }, () => k.var('sum', k.const('f32', 0)))
    const constant = (values: readonly number[]): Value<'u32x4'> => k.vec(...values.map((value) => k.const('u32', value))) as Value<'u32x4'>
    const scaled = (powers: readonly number[]): Value<'f32x4'> => k.vec(...powers.map((power) => k.const('f32', 2 ** -power))) as Value<'f32x4'>
    const [low, high] = [constant(LOW), constant(HIGH)]
    const [lowScale, highScale] = [scaled([0, 8, 16, 24]), scaled([4, 12, 20, 28])]

    k.for({ name: 'b', from: k.sublane.shr(3), to: blocks, step: inFlight }, (b) => {
      // Sub-blocks 2*side, 2*side + 1 and, half a block further, 2*side + 4, 2*side + 5: eight activations of each.
      const at = k.let('at', b.mul(64).add(place))
      const activations = [0, 8, 32, 40].map((offset) => [0, 1].map((i) => p.x.at(at.add(offset + i))))
      const totals = activations.map((pair) => k.let('total', pair[0]!.add(pair[1]!).hsum()))
      const ready = activations.map((pair, sub) => pair.map((four) => k.let('ready', four.mul(sub % 2 === 0 ? lowScale : highScale))))

      sums.forEach((sum, r) => {
        const row = first.add(r).min(p.m.sub(1))
        const block = k.let('block', row.mul(blocks).add(b).mul(BLOCK_WORDS))
        const d = p.w.at(block).unpackF16()
        const quants = [0, 16].map((half) => [0, 1].map((i) => p.w.at(block.add(4 + half + i).add(word))))
        const dots = ready.map((pair, sub) => pair.map((four, i) => {
          const masked = quants[sub >> 1]![i]!.splat(4).and(sub % 2 === 0 ? low : high)
          return masked.to('f32').mul(four)
        }).reduce((a, c) => a.add(c)).hsum())

        // Bytes of scales and minimums for this side: two 6-bit pairs for the first half, two split 4+2-bit pairs for the second.
        const shift = side.mul(16)
        const [s0, s1, s2] = [1, 2, 3].map((i) => p.w.at(block.add(i)).shr(shift)) as [Value<'u32'>, Value<'u32'>, Value<'u32'>]
        const scales = k.let('scales', s0.and(0x3f3f).or(s2.and(0x0f0f).or(s0.and(0xc0c0).shr(2)).shl(16)).unpackU8().to('f32'))
        const mins = k.let('mins', s1.and(0x3f3f).or(s2.shr(4).and(0x0f0f).or(s1.and(0xc0c0).shr(2)).shl(16)).unpackU8().to('f32'))
        const scaledDots = scales.mul(k.vec(...dots) as Value<'f32x4'>).hsum()
        const offsets = mins.mul(k.vec(...totals) as Value<'f32x4'>).hsum()
        sum.set(sum.get().add(d.lane(0).mul(scaledDots).sub(d.lane(1).mul(offsets))))
      })
    })

    sums.forEach((sum, r) => {
      const row = first.add(r)
      const result = k.subSum(sum.get())
      k.when(k.sublane.eq(0).and(row.lt(p.m)), () => p.y.set(row, p.bias === undefined ? result : result.add(p.bias.at(row))))
    })
  })
  return { launches: [{ kernel: written, uniforms: { m, k: inner }, grid: flatGrid(caps, Math.ceil(m / (groups * ROWS))) }] }
}
