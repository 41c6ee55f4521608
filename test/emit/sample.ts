// Kernels that show what emission must handle, shared by the tests of all languages.

import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import type { Value } from '../../src/ir/value.ts'

/** Elementwise with a bounds check. */
export const axpy = kernel(
  'axpy',
  {
    params: { x: buffer('f32', 'read'), y: buffer('f32', 'readwrite'), a: uniform('f32'), n: uniform('u32') },
    workgroup: [64],
  },
  ({ x, y, a, n }, k) => {
    const i = k.let('i', k.globalId.x)
    k.when(i.lt(n), () => y.set(i, x.at(i).mul(a).add(y.at(i))))
  },
)

/** One output row per subgroup: y = W x, four columns at a time. */
export const matvec = (subgroup: number) =>
  kernel(
    'matvec',
    {
      params: {
        w: buffer('f32', 'read'),
        x: buffer('f32', 'read'),
        y: buffer('f32', 'write'),
        rows: uniform('u32'),
        columns: uniform('u32'),
      },
      workgroup: [2 * subgroup],
      subgroup,
    },
    ({ w, x, y, rows, columns }, k) => {
      const row = k.let('row', k.workgroupId.x.mul(2).add(k.subgroupId))
      k.when(row.lt(rows), () => {
        const acc = k.var('acc', k.const('f32x4', 0))
        k.for({ name: 'c', from: k.sublane.mul(4), to: columns, step: 4 * subgroup }, (c) => {
          acc.set(acc.get().add(w.load(row.mul(columns).add(c), 4).mul(x.load(c, 4))))
        })
        const sum = k.subSum(acc.get().hsum())
        k.when(k.sublane.eq(0), () => y.set(row, sum))
      })
    },
  )

/** Sum of 64 values per workgroup through shared memory. */
export const reduce = kernel(
  'reduce',
  {
    params: { x: buffer('f32', 'read'), y: buffer('f32', 'write'), n: uniform('u32') },
    workgroup: [64],
  },
  ({ x, y, n }, k) => {
    const partial = k.shared('partial', 'f32', 64)
    const { lane } = k
    const i = k.let('i', k.globalId.x)
    partial.set(lane, 0)
    k.when(i.lt(n), () => partial.set(lane, x.at(i)))
    k.barrier()
    for (let step = 32; step > 0; step >>= 1) {
      k.when(lane.lt(step), () => partial.set(lane, partial.at(lane).add(partial.at(lane.add(step)))))
      k.barrier()
    }
    k.when(lane.eq(0), () => y.set(k.workgroupId.x, partial.at(0)))
  },
)

/** C = A B for one 8x8 tile per subgroup. */
export const tileMatmul = (subgroup: number) =>
  kernel(
    'tileMatmul',
    {
      params: { a: buffer('f16', 'read'), b: buffer('f16', 'read'), c: buffer('f32', 'write'), n: uniform('u32'), depth: uniform('u32') },
      workgroup: [subgroup],
      subgroup,
    },
    ({ a, b, c, n, depth }, k) => {
      const row = k.let('row', k.workgroupId.y.mul(8))
      const column = k.let('column', k.workgroupId.x.mul(8))
      const acc = k.var('acc', k.tileFill('f32', 0))
      k.for({ name: 'd', to: depth, step: 8 }, (d) => {
        const left = k.let('left', a.tile(row.mul(depth).add(d), depth))
        const right = k.let('right', b.tile(column.mul(depth).add(d), depth, { transposed: true }))
        acc.set(k.tileMma(left, right, acc.get()))
      })
      c.setTile(row.mul(n).add(column), n, acc.get())
    },
  )

/** f16 and bytes in memory, f32 in registers, f16 arithmetic on the way. */
export const convert = kernel(
  'convert',
  {
    params: { h: buffer('f16', 'read'), q: buffer('u8', 'read'), out: buffer('f16', 'write'), n: uniform('u32') },
    workgroup: [64],
  },
  ({ h, q, out, n }, k) => {
    const i = k.let('i', k.globalId.x.mul(4))
    k.when(i.lt(n), () => {
      const scaled = h.load(i, 4).to('f32').mul(0.0625).add(q.load(i, 4).and(15).to('f32'))
      out.store(i, scaled.to('f16').mul(2))
    })
  },
)

/** A histogram: counts with atomics, in shared memory first. */
export const histogram = kernel(
  'histogram',
  {
    params: { x: buffer('u32', 'read'), counts: buffer('u32', 'readwrite'), n: uniform('u32') },
    workgroup: [16],
  },
  ({ x, counts, n }, k) => {
    const local = k.shared('local', 'u32', 16)
    local.set(k.lane, 0)
    k.barrier()
    const i = k.globalId.x
    k.when(i.lt(n), () => {
      local.atomic('add', x.at(i).and(15), 1)
    })
    k.barrier()
    counts.atomic('add', k.lane, local.at(k.lane))
  },
)

/** One row of unsigned 7-bit times signed 8-bit weights, 64 products per step. */
export const dotRow = kernel(
  'dotRow',
  {
    params: {
      a: buffer('u32', 'read'),
      b: buffer('u32', 'read'),
      scale: buffer('f32', 'read'),
      out: buffer('f32', 'write'),
      words: uniform('u32'),
    },
  },
  ({ a, b, scale, out, words }, k) => {
    const row = k.workgroupId.x
    const acc = k.var('acc', k.const('i32x16', 0))
    k.for({ name: 'w', to: words, step: 16 }, (w) => {
      acc.set(a.load(row.mul(words).add(w), 16).dotU7I8(b.load(w, 16), acc.get()))
    })
    out.set(row, acc.get().hsum().to('f32').mul(scale.at(row)))
  },
)

/** Odd corners: guarded division, saturating conversion, shifts by variables, tables, loops with a way out, constants. */
export const corners = kernel(
  'corners',
  {
    params: { x: buffer('f32', 'read'), i: buffer('i32', 'read'), u: buffer('u32', 'readwrite'), out: buffer('i32', 'write') },
    workgroup: [1],
  },
  ({ x, i, u, out }, k) => {
    const at = k.workgroupId.x
    const a = k.let('a', i.at(at))
    const b = k.let('b', i.at(at.add(1)))
    const f = k.let('max', x.at(at))
    out.set(at.mul(8), a.div(b))
    out.set(at.mul(8).add(1), a.rem(b))
    out.set(at.mul(8).add(2), f.to('i32'))
    out.set(at.mul(8).add(3), a.shl(b).xor(a.shr(3)))
    out.set(at.mul(8).add(4), k.table('i32', [3, -1, 4, -(2 ** 31)], at.and(3)))
    out.set(
      at.mul(8).add(5),
      f
        .lt(Infinity)
        .and(f.gt(-3.5e20))
        .or(a.eq(-(2 ** 31)))
        .select(a, 7),
    )
    out.set(at.mul(8).add(6), f.to('u32').as('i32'))
    const steps = k.var('steps', k.const('i32', 0))
    const rest = k.var('rest', u.at(at))
    k.loop(() => {
      k.breakIf(rest.get().eq(0))
      rest.set(rest.get().and(rest.get().sub(1)))
      steps.set(steps.get().add(1))
    })
    out.set(at.mul(8).add(7), steps.get())
    u.set(at, u.at(at).mul(3))
  },
)

/** Division by constants, which targets may say without a guard where that is safe: it is not for 0 and -1. */
export const divisors = kernel(
  'divisors',
  { params: { i: buffer('i32', 'read'), u: buffer('u32', 'read'), out: buffer('i32', 'write') }, workgroup: [1] },
  ({ i, u, out }, k) => {
    const at = k.workgroupId.x
    const [a, b] = [k.let('a', i.at(at)), k.let('b', u.at(at))]
    const four = k.let('four', i.load(at, 4))
    const results = [-1, 0, 1, 7].flatMap((by) => [a.div(by), a.rem(by), four.div(by).lane(0), four.rem(by).lane(1)])
    const unsigned = [0, 1, 7, 8].flatMap((by) => [b.div(by), b.rem(by)]).map((value) => value.as('i32'))
    ;[...results, ...unsigned].forEach((value, n) => out.set(at.mul(24).add(n), value))
  },
)

/** Every vector operation C has: selects, roundings, conversions, lookups, packing, 2 to 16 lanes. */
export const vectors = kernel(
  'vectors',
  {
    params: { x: buffer('f32', 'read'), u: buffer('u32', 'read'), out: buffer('f32', 'write'), bits: buffer('u32', 'write') },
  },
  ({ x, u, out, bits }, k) => {
    const group = k.let('group', k.workgroupId.y.mul(k.gridSize.x).add(k.workgroupId.x))
    const at = k.let('at', group.mul(64))
    const f = k.let('f', x.load(group.mul(16), 16))
    const w = k.let('w', u.load(group.mul(16), 16))
    const positive = k.let('positive', f.gt(0.25))
    out.store(at, positive.select(f.floor(), f.ceil().add(0.5)).max(f.neg().abs().sqrt()))
    out.store(at.add(16), f.trunc().sub(f.mul(1.5).rint()).fma(0.5, f).min(3))
    const turned = f.slice(4, 8).join(f.slice(0, 8)) as Value<'f32x16'>
    out.store(at.add(32), turned.to('i32').to('f32').add(w.shr(28).to('f32')))
    const pair = k.let('pair', u.at(group).and(0x3bff3bff).unpackF16())
    out.store(at.add(48), pair)
    out.set(at.add(50), f.hmax().add(f.slice(8, 4).hsum()))
    bits.store(at, w.and(0x0f0f0f0f).lookup16([0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225]))
    bits.store(at.add(16), w.shl(3).xor(w.shr(w)).add(w.popcount()).div(w.and(3)).rem(1000))
    bits.store(at.add(32), w.dotI8(w.shr(1), k.const('i32x16', 7)).as('u32').slice(0, 8))
    bits.store(at.add(40), w.dotU8I8(w, k.const('i32x16', -9)).as('u32').slice(8, 8))
    bits.set(at.add(48), u.at(group).unpackI8().mul(3).packI8())
    bits.set(at.add(49), u.at(group).unpackU8().hmax())
    bits.set(at.add(50), pair.mul(1.75).packF16())
    bits.set(at.add(51), f.mul(1e9).to('u32').hsum().add(f.mul(1e9).to('i32').as('u32').hmax()))
    bits.set(at.add(52), positive.lane(3).or(positive.not().lane(5)).select(k.const('u32', 1), 2))
    bits.store(at.add(53), positive.and(f.lt(2)).slice(2, 2).to('u32'))
  },
)
