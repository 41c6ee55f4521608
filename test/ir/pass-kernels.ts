// Kernels that between them use every feature of the language, with inputs: what the tests of the passes run before and after.

import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import type { Value } from '../../src/ir/value.ts'

export interface Sample {
  readonly kernel: Kernel
  readonly buffers: () => Readonly<Record<string, Uint8Array>>
  readonly uniforms?: Readonly<Record<string, number>>
  readonly grid: readonly [number, number, number]
  /** results may differ by this much, relatively; 0: not by a bit */
  readonly tolerance: number
  /** how the results are to be compared */
  readonly compare: 'f32' | 'u8'
}

function noise(count: number, seed = 1): number[] {
  let state = seed
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  })
}
const bytesOf = (array: { buffer: ArrayBufferLike }): Uint8Array => new Uint8Array(array.buffer)
const floats = (count: number, seed = 1): Uint8Array => bytesOf(Float32Array.from(noise(count, seed), (x) => 4 * x - 2))
const words = (count: number, seed = 1): Uint8Array => bytesOf(Uint32Array.from(noise(count, seed), (x) => x * 2 ** 32))
const octets = (count: number, seed = 1): Uint8Array => Uint8Array.from(noise(count, seed), (x) => x * 256)
/** finite f16 of moderate size */
const halves = (count: number, seed = 1): Uint8Array =>
  bytesOf(Uint16Array.from(noise(count, seed), (x, at) => 0x3000 + x * 0x1400 + (at % 2) * 0x8000))

const arithmetic = (): Sample => ({
  kernel: kernel(
    'arithmetic',
    {
      params: { a: buffer('u32', 'read'), x: buffer('f32', 'read'), out: buffer('u32', 'write'), n: uniform('u32') },
      workgroup: [8, 2],
    },
    ({ a, x, out, n }, k) => {
      const at = k.let('at', k.globalId.y.mul(8).add(k.globalId.x))
      k.when(at.lt(n), () => {
        const v = a.at(at)
        const signed = v.as('i32')
        const sum = k.var('sum', v.div(8).add(v.rem(16)).add(signed.div(7).as('u32')).add(signed.rem(5).as('u32')).add(v.popcount()))
        k.for({ from: at.rem(3), to: at.rem(7).add(2), step: 2 }, (i) => {
          k.when(
            i.and(1).eq(0),
            () => sum.set(sum.get().xor(i.mul(0x9e3779b9))),
            () => sum.set(sum.get().add(v.shr(i)).add(at.mul(n))),
          )
        })
        const left = k.var('left', v.rem(5))
        k.loop(() => {
          k.breakIf(left.get().eq(0))
          left.set(left.get().sub(1))
          sum.set(sum.get().mul(3).add(signed.shr(3).as('u32')))
        })
        const f = x.at(at)
        sum.set(sum.get().add(f.mul(100).rint().to('i32').as('u32')).add(f.floor().abs().max(f.ceil().abs()).to('u32')))
        out.set(
          at,
          f
            .lt(0)
            .select(sum.get(), sum.get().not())
            .add(k.table('u32', [3, 1, 4, 1, 5], at.rem(5))),
        )
      })
    },
  ),
  buffers: () => ({ a: words(48), x: floats(48, 7), out: new Uint8Array(4 * 48) }),
  uniforms: { n: 43 },
  grid: [1, 3, 1],
  tolerance: 0,
  compare: 'u8',
})

const functions = (): Sample => ({
  kernel: kernel('functions', { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') }, workgroup: [4] }, ({ x, y }, k) => {
    const at = k.globalId.x.mul(4)
    const v = x.load(at, 4)
    const w = v
      .exp()
      .add(v.abs().log())
      .add(v.tanh().mul(v.sin()))
      .add(v.cos().mul(0.5))
      .add(v.abs().add(0.1).pow(1.5))
      .add(v.mul(v).add(1).rsqrt())
    y.store(at, w.add(v.hsum()).add(w.hmax()))
  }),
  buffers: () => ({ x: floats(64), y: new Uint8Array(256) }),
  grid: [4, 1, 1],
  tolerance: 1e-5,
  compare: 'f32',
})

const wide = (): Sample => ({
  kernel: kernel(
    'wide',
    {
      params: { w: buffer('u32', 'read'), x: buffer('u32', 'read'), s: buffer('f32', 'read'), out: buffer('f32', 'write') },
      workgroup: [4],
    },
    ({ w, x, s, out }, k) => {
      const at = k.globalId.x.mul(16)
      const packed = w.load(at, 16)
      const sum = k.var('sum', k.const('i32x16', 0))
      k.for({ to: 2 }, () => {
        const low = packed.and(0x0f0f0f0f)
        sum.set(low.dotU7I8(x.load(at, 16), sum.get()))
        sum.set(packed.dotI8(x.load(at, 16), sum.get()))
        sum.set(low.lookup16([...Array(16).keys()].map((i) => i * 7 - 50)).dotI8(packed, sum.get()))
      })
      const f = sum.get().to('f32').mul(s.load(at, 16))
      const big = f.gt(0).select(f, f.mul(0.5))
      out.store(at, big.slice(8, 8).join(big.slice(0, 8)) as Value<'f32x16'>)
      out.set(at.add(3), big.slice(3, 4).hsum().add(big.hmax()))
    },
  ),
  buffers: () => ({ w: words(64), x: words(64, 3), s: floats(64, 5), out: new Uint8Array(256) }),
  grid: [1, 1, 1],
  tolerance: 1e-6,
  compare: 'f32',
})

const bytes = (): Sample => ({
  kernel: kernel(
    'bytes',
    {
      params: {
        a: buffer('u8', 'read'),
        b: buffer('i8', 'read'),
        c: buffer('i16', 'read'),
        out: buffer('u8', 'readwrite'),
        whole: buffer('u16', 'write'),
      },
      workgroup: [8],
    },
    ({ a, b, c, out, whole }, k) => {
      const at = k.globalId.x
      const shared = k.shared('part', 'i8', 8)
      const four = b.load(at.mul(4), 4).hsum()
      shared.set(k.lane, four.add(c.at(at)))
      k.barrier()
      const two = a.load(at.add(1), 2)
      out.set(
        at,
        a
          .at(at)
          .add(shared.at(k.lane.xor(1)).as('u32'))
          .add(two.hsum()),
      )
      whole.store(at.mul(2), a.load(at.mul(2), 2).mul(257))
    },
  ),
  buffers: () => ({ a: octets(64), b: octets(64, 2), c: octets(64, 3), out: octets(16, 4), whole: new Uint8Array(64) }),
  grid: [2, 1, 1],
  tolerance: 0,
  compare: 'u8',
})

const half = (): Sample => ({
  kernel: kernel(
    'half',
    {
      params: { a: buffer('f16', 'read'), b: buffer('f16x4', 'read'), out: buffer('f16', 'write'), y: buffer('f32', 'write') },
      workgroup: [8],
    },
    ({ a, b, out, y }, k) => {
      const at = k.globalId.x
      const [x, v] = [a.at(at), b.at(at)]
      const z = x.mul(x).add(x.div(3)).sub(1)
      const vector = a.load(at.mul(2), 4).mul(v).max(v).sub(x)
      const kept = k.var('kept', z)
      k.for({ to: 3 }, (i) => kept.set(kept.get().mul(0.9).add(i.to('f16'))))
      out.set(at, z.gt(0).select(vector.lane(1).abs().sqrt().add(kept.get()), vector.lane(2)))
      y.set(at, vector.lane(3).to('f32').add(x.to('f32')).add(kept.get().to('f32')))
    },
  ),
  buffers: () => ({ a: halves(64), b: halves(64, 9), out: new Uint8Array(32), y: new Uint8Array(64) }),
  grid: [2, 1, 1],
  tolerance: 0,
  compare: 'u8',
})

const reduce = (): Sample => ({
  kernel: kernel(
    'reduce',
    { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write'), n: uniform('u32') }, workgroup: [16] },
    ({ x, y, n }, k) => {
      const part = k.shared('part', 'f32', 16)
      const total = k.var('total', k.const('f32', 0))
      k.for({ from: 0, to: n, step: 16 }, (start) => {
        const at = start.add(k.lane)
        const mine = k.var('mine', k.const('f32', 0))
        k.when(at.lt(n), () => mine.set(x.at(at)))
        part.set(k.lane, mine.get())
        k.barrier()
        for (let step = 8; step > 0; step >>= 1) {
          k.when(k.lane.lt(step), () => part.set(k.lane, part.at(k.lane).add(part.at(k.lane.add(step)))))
          k.barrier()
        }
        total.set(total.get().add(part.at(0)))
        k.barrier()
      })
      y.set(k.globalId.x, total.get().mul(k.lane.to('f32')))
    },
  ),
  buffers: () => ({ x: floats(40), y: new Uint8Array(128) }),
  uniforms: { n: 37 },
  grid: [2, 1, 1],
  tolerance: 0,
  compare: 'f32',
})

const subgroups = (): Sample => ({
  kernel: kernel(
    'subgroups',
    {
      params: { x: buffer('f32', 'read'), i: buffer('u32', 'read'), y: buffer('f32', 'write'), j: buffer('u32', 'write') },
      workgroup: [16],
      subgroup: 4,
    },
    ({ x, i, y, j }, k) => {
      const at = k.globalId.x
      const [v, w] = [x.at(at), i.at(at)]
      const out = k.var('out', k.const('f32', 0))
      const count = k.var('count', k.const('u32', 0))
      k.when(
        k.subgroupId.rem(2).eq(0),
        () => {
          out.set(k.subSum(v).add(k.subMax(v)))
          count.set(k.subAny(w.lt(1000)).select(k.subMin(w), 5))
        },
        () => {
          out.set(k.subShuffle(v, k.sublane.mul(3).rem(4)).sub(k.subBroadcast(v, 2)))
          k.for({ to: k.subgroupId }, (r) =>
            count.set(
              count
                .get()
                .add(k.subSum(r.add(k.lane)))
                .add(k.subShuffleXor(w, 1)),
            ),
          )
        },
      )
      const steps = k.var('steps', k.subgroupId.add(1))
      k.loop(() => {
        const left = steps.get()
        k.breakIf(k.subMax(left).eq(0))
        steps.set(left.sub(1))
        k.when(k.subgroupId.eq(2), () => k.breakIf(k.subAll(left.lt(3))))
        out.set(out.get().add(k.subSum(out.get())).mul(0.25))
      })
      y.set(at, out.get())
      j.set(at, count.get().add(k.sublane.lt(3).select(k.subShuffleDown(w, 1), 0)))
    },
  ),
  buffers: () => ({ x: floats(32), i: words(32), y: new Uint8Array(128), j: new Uint8Array(128) }),
  grid: [2, 1, 1],
  tolerance: 1e-6,
  compare: 'f32',
})

const tiles = (lanes: number) => (): Sample => ({
  kernel: kernel(
    `tiles${lanes}`,
    { params: { a: buffer('f16', 'read'), b: buffer('f32', 'read'), c: buffer('f32', 'write') }, workgroup: [2 * lanes], subgroup: lanes },
    ({ a, b, c }, k) => {
      const column = k.subgroupId.mul(8)
      const acc = k.var('acc', k.tileFill('f32', 0.5))
      k.for({ to: 16, step: 8 }, (i) => {
        acc.set(k.tileMma(a.tile(i, 16), b.tile(column.mul(16).add(i), 16, { transposed: true }), acc.get()))
      })
      c.setTile(column, 16, acc.get())
    },
  ),
  buffers: () => ({ a: halves(128), b: floats(256), c: new Uint8Array(512) }),
  grid: [1, 1, 1],
  tolerance: 1e-5,
  compare: 'f32',
})

const atomics = (): Sample => ({
  kernel: kernel(
    'atomics',
    { params: { x: buffer('u32', 'read'), bins: buffer('u32', 'readwrite'), out: buffer('u32', 'write') }, workgroup: [8] },
    ({ x, bins, out }, k) => {
      const v = x.at(k.globalId.x)
      bins.atomic('add', v.rem(4), v.rem(100))
      bins.atomic('max', 4, v)
      const flag = k.var('flag', v.gt(2 ** 31))
      k.barrier()
      out.set(k.globalId.x, flag.get().select(v, 7))
    },
  ),
  buffers: () => ({ x: words(16), bins: new Uint8Array(32), out: new Uint8Array(64) }),
  grid: [2, 1, 1],
  tolerance: 0,
  compare: 'u8',
})

export const SAMPLES: Readonly<Record<string, () => Sample>> = {
  arithmetic,
  functions,
  wide,
  bytes,
  half,
  reduce,
  subgroups,
  tiles4: tiles(4),
  tiles8: tiles(8),
  tiles32: tiles(32),
  atomics,
}
