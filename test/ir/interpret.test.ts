// The interpreter is the specification; these are its fixed points, computed by hand or by plain JavaScript.
import { expect, test } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { run } from './run.ts'

const MIN = -(2 ** 31)

test('axpy over several workgroups', () => {
  const axpy = kernel(
    'axpy',
    { params: { x: buffer('f32', 'read'), y: buffer('f32', 'readwrite'), n: uniform('u32'), a: uniform('f32') }, workgroup: [8] },
    ({ x, y, n, a }, k) => {
      const i = k.globalId.x
      k.when(i.lt(n), () => y.set(i, x.at(i).mul(a).add(y.at(i))))
    },
  )
  const x = Float32Array.from({ length: 19 }, (_, i) => i / 3)
  const y = Float32Array.from({ length: 20 }, (_, i) => i)
  run(axpy, { x, y }, [3, 1, 1], { n: 19, a: 0.1 })
  const expected = Array.from({ length: 20 }, (_, i) => (i < 19 ? Math.fround(Math.fround(x[i]! * Math.fround(0.1)) + i) : 19))
  expect([...y]).toEqual(expected)
  run(axpy, { x, y }, [3, 1, 1], { n: 1, a: 0 })
  expect([...y]).toEqual(expected)
})

test('integers wrap, shifts count modulo 32, division is defined everywhere', () => {
  const ops = ['add', 'sub', 'mul', 'div', 'rem', 'shl', 'shr', 'min', 'max', 'and', 'or', 'xor'] as const
  const work = kernel(
    'integers',
    {
      params: { a: buffer('i32', 'read'), b: buffer('i32', 'read'), s: buffer('i32', 'write'), u: buffer('u32', 'write') },
      workgroup: [6],
    },
    ({ a, b, s, u }, k) => {
      const x = a.at(k.lane)
      const y = b.at(k.lane)
      ops.forEach((op, at) => {
        s.set(k.lane.mul(ops.length + 2).add(at), x[op](y))
        u.set(k.lane.mul(ops.length).add(at), x.as('u32')[op](y.as('u32')))
      })
      s.set(k.lane.mul(ops.length + 2).add(ops.length), x.neg())
      s.set(k.lane.mul(ops.length + 2).add(ops.length + 1), x.abs())
    },
  )
  const a = Int32Array.of(MIN, MIN, 7, -7, 2 ** 31 - 1, 123456789)
  const b = Int32Array.of(-1, 0, -2, 33, 1, 987654321)
  const s = new Int32Array(6 * 14)
  const u = new Uint32Array(6 * 12)
  run(work, { a, b, s, u })
  const row = (lane: number): number[] => [...s.subarray(lane * 14, lane * 14 + 14)]
  expect(row(0)).toEqual([2 ** 31 - 1, MIN + 1, MIN, MIN, 0, 0, -1, MIN, -1, MIN, -1, 2 ** 31 - 1, MIN, MIN])
  expect(row(1)).toEqual([MIN, MIN, 0, MIN, 0, MIN, MIN, MIN, 0, 0, MIN, MIN, MIN, MIN])
  expect(row(2).slice(3, 5)).toEqual([-3, 1])
  expect(row(3).slice(3, 7)).toEqual([0, -7, -14, -4])
  expect(row(4)[0]).toBe(MIN)
  expect(row(5)[2]).toBe(Math.imul(123456789, 987654321))
  expect([...u.subarray(0, 12)]).toEqual([
    2 ** 31 - 1,
    2 ** 31 + 1,
    2 ** 31,
    0,
    2 ** 31,
    0,
    1,
    2 ** 31,
    2 ** 32 - 1,
    2 ** 31,
    2 ** 32 - 1,
    2 ** 31 - 1,
  ])
})

test('casts truncate, saturate and round', () => {
  const cast = kernel(
    'casts',
    {
      params: {
        x: buffer('f32', 'read'),
        s: buffer('i32', 'write'),
        u: buffer('u32', 'write'),
        h: buffer('f16', 'write'),
        f: buffer('f32', 'write'),
      },
      workgroup: [8],
    },
    ({ x, s, u, h, f }, k) => {
      const value = x.at(k.lane)
      s.set(k.lane, value.to('i32'))
      u.set(k.lane, value.to('u32'))
      h.set(k.lane, value.to('f16'))
      f.set(k.lane, value.to('u32').to('f32').add(value.to('bool').to('f32')))
    },
  )
  const x = Float32Array.of(1.9, -1.9, 3e9, -3e9, NaN, Infinity, -0, 65520)
  const out = { s: new Int32Array(8), u: new Uint32Array(8), h: new Uint16Array(8), f: new Float32Array(8) }
  run(cast, { x, ...out })
  expect([...out.s]).toEqual([1, -1, 2 ** 31 - 1, MIN, 0, 2 ** 31 - 1, 0, 65520])
  expect([...out.u]).toEqual([1, 0, 3e9, 0, 0, 2 ** 32 - 1, 0, 65520])
  expect([...out.h]).toEqual([0x3f9a, 0xbf9a, 0x7c00, 0xfc00, 0x7e00, 0x7c00, 0x8000, 0x7c00])
  expect([...out.f]).toEqual([2, 1, 3e9, 1, 1, 2 ** 32, 0, 65521])
})

test('f16 arithmetic rounds once at every step', () => {
  const half = kernel('half', { params: { x: buffer('f16', 'read'), y: buffer('f16', 'write') } }, ({ x, y }) => {
    const [a, b] = [x.at(0), x.at(1)]
    y.set(0, a.add(b))
    y.set(1, a.mul(b))
    y.set(2, a.add(0.1))
    y.set(3, b.div(3))
  })
  const y = new Uint16Array(4)
  run(half, { x: Uint16Array.of(0x6800, 0x3c01), y }) // 2048 and 1 + 2^-10
  expect([...y]).toEqual([0x6801, 0x6801, 0x6800, 0x3557])
})

test('packed bytes and halves, dots, lookups, tables', () => {
  const packed = kernel(
    'packed',
    { params: { a: buffer('u32', 'read'), s: buffer('i32', 'write'), f: buffer('f32', 'write'), u: buffer('u32', 'write') } },
    ({ a, s, f, u }, k) => {
      const [x, y] = [a.at(0), a.at(1)]
      const sum = k.const('i32', 100)
      s.set(0, x.dotI8(y, sum))
      s.set(1, x.dotU8I8(y, sum))
      s.set(2, x.and(0x7f7f7f7f).dotU7I8(y, sum))
      s.store(4, x.unpackI8())
      u.store(0, x.unpackU8())
      u.set(4, x.unpackI8().packI8())
      u.set(5, x.unpackF16().packF16())
      u.set(6, x.and(0x0f0f0f0f).lookup16([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, -1, -2]))
      u.set(7, x.popcount())
      f.store(0, a.at(2).unpackF16())
      f.set(2, k.table('f32', [0.5, 0.25], k.const('u32', 1)))
    },
  )
  const a = Uint32Array.of(0x80ff027f, 0x7f80ff01, 0xc0003c00)
  const out = { s: new Int32Array(8), f: new Float32Array(3), u: new Uint32Array(8) }
  run(packed, { a, ...out })
  const signed = [127, 2, -1, -128]
  const other = [1, -1, -128, 127]
  const dot = (bytes: readonly number[]): number => bytes.reduce((sum, byte, at) => sum + byte * other[at]!, 100)
  expect([...out.s]).toEqual([dot(signed), dot([127, 2, 255, 128]), dot([127, 2, 127, 0]), 0, ...signed])
  expect([...out.u]).toEqual([127, 2, 255, 128, 0x80ff027f, 0x80ff027f, 0x00fe14fe, 1 + 8 + 1 + 7])
  expect([...out.f]).toEqual([1, -2, 0.25])
})

test('vectors of sixteen in one lane', () => {
  const wide = kernel(
    'wide',
    { params: { x: buffer('f32', 'read'), q: buffer('i8', 'read'), y: buffer('f32', 'write') } },
    ({ x, q, y }, k) => {
      const v = x.load(0, 16).mul(q.load(0, 16).to('f32'))
      y.set(0, v.hsum())
      y.set(1, v.hmax())
      y.store(2, v.slice(4, 4).join(v.slice(0, 4)))
      y.set(10, k.vec(v.lane(15), v.lane(0)).lane(0))
    },
  )
  const y = new Float32Array(11)
  run(wide, { x: Float32Array.from({ length: 16 }, (_, i) => i / 2), q: Int8Array.from({ length: 16 }, (_, i) => 8 - i), y })
  const v = Array.from({ length: 16 }, (_, i) => (i / 2) * (8 - i))
  expect([...y]).toEqual([v.reduce((a, b) => a + b), 8, ...v.slice(4, 8), ...v.slice(0, 4), v[15]])
})

test('lanes part and meet again: if, for, loop with breakIf inside an if', () => {
  const collatz = kernel('collatz', { params: { y: buffer('u32', 'write') }, workgroup: [16] }, ({ y }, k) => {
    const n = k.var('n', k.lane.add(1))
    const steps = k.var('steps', k.const('u32', 0))
    k.loop(() => {
      const now = n.get()
      k.when(now.lt(5), () => {
        k.breakIf(now.eq(1))
        steps.set(steps.get().add(0))
      })
      k.when(
        now.and(1).eq(0),
        () => n.set(now.shr(1)),
        () => n.set(now.mul(3).add(1)),
      )
      steps.set(steps.get().add(1))
    })
    const extra = k.var('extra', k.const('u32', 0))
    k.for({ from: k.lane, to: 10, step: 3 }, (i) => extra.set(extra.get().add(i)))
    y.set(k.lane.mul(2), steps.get())
    y.set(k.lane.mul(2).add(1), extra.get())
  })
  const y = new Uint32Array(32)
  run(collatz, { y })
  const expected = Array.from({ length: 16 }, (_, lane) => {
    let steps = 0
    for (let n = lane + 1; n !== 1; n = n % 2 === 0 ? n / 2 : 3 * n + 1) steps++
    let extra = 0
    for (let i = lane; i < 10; i += 3) extra += i
    return [steps, extra]
  })
  expect([...y]).toEqual(expected.flat())
})

test('subgroups, shared memory and atomics', () => {
  const work = kernel(
    'groups',
    { params: { y: buffer('u32', 'write'), total: buffer('u32', 'readwrite') }, workgroup: [8], subgroup: 4 },
    ({ y, total }, k) => {
      const tile = k.shared('tile', 'u32', 8)
      tile.set(k.lane, k.lane.mul(k.lane))
      k.barrier()
      const mirrored = tile.at(k.const('u32', 7).sub(k.lane))
      const values = [
        mirrored,
        k.subSum(k.lane),
        k.subMax(k.lane),
        k.subMin(k.lane),
        k.subBroadcast(k.lane, 2),
        k.subShuffleXor(k.lane, 1),
        k.subShuffleDown(k.lane, 1),
        k.subShuffle(k.lane, k.const('u32', 3).sub(k.sublane)),
        k.subAny(k.lane.eq(5)).to('u32'),
        k.subAll(k.lane.lt(4)).to('u32'),
      ]
      values.forEach((value, at) => y.set(k.lane.mul(values.length).add(at), value))
      total.atomic('add', 0, k.lane)
      total.atomic('max', 1, k.lane)
    },
  )
  const y = new Uint32Array(80)
  const total = new Uint32Array(2)
  run(work, { y, total })
  const column = (at: number): number[] => Array.from({ length: 8 }, (_, lane) => y[lane * 10 + at]!)
  expect(column(0)).toEqual([49, 36, 25, 16, 9, 4, 1, 0])
  expect(column(1)).toEqual([6, 6, 6, 6, 22, 22, 22, 22])
  expect(column(2)).toEqual([3, 3, 3, 3, 7, 7, 7, 7])
  expect(column(3)).toEqual([0, 0, 0, 0, 4, 4, 4, 4])
  expect(column(4)).toEqual([2, 2, 2, 2, 6, 6, 6, 6])
  expect(column(5)).toEqual([1, 0, 3, 2, 5, 4, 7, 6])
  expect(column(6)).toEqual([1, 2, 3, 0, 5, 6, 7, 0])
  expect(column(7)).toEqual([3, 2, 1, 0, 7, 6, 5, 4])
  expect(column(8)).toEqual([0, 0, 0, 0, 1, 1, 1, 1])
  expect(column(9)).toEqual([1, 1, 1, 1, 0, 0, 0, 0])
  expect([...total]).toEqual([28, 7])
})

test('tiles multiply', () => {
  const product = kernel(
    'tiles',
    { params: { a: buffer('f16', 'read'), b: buffer('f32', 'read'), c: buffer('f32', 'write') }, workgroup: [8], subgroup: 4 },
    ({ a, b, c }, k) => {
      const sum = k.var('sum', k.tileFill('f32', 1))
      sum.set(k.tileMma(a.tile(0, 8), b.tile(0, 8, { transposed: true }), sum.get()))
      c.setTile(k.subgroupId.mul(64), 8, sum.get())
    },
  )
  const b = Float32Array.from({ length: 64 }, (_, i) => i % 7)
  const c = new Float32Array(128)
  run(product, { a: new Uint16Array(64).fill(0x4000), b, c })
  const expected = Array.from(
    { length: 64 },
    (_, i) => 1 + 2 * Array.from({ length: 8 }, (_, k) => b[(i % 8) * 8 + k]!).reduce((x, y) => x + y),
  )
  expect([...c]).toEqual([...expected, ...expected])
})

test('an unaligned view is read and written in place', () => {
  const bytes = new Uint8Array(17)
  const copy = kernel('unaligned', { params: { y: buffer('u32', 'write') }, workgroup: [4] }, ({ y }, k) =>
    y.set(k.lane, k.lane.add(0x01020300)),
  )
  run(copy, { y: bytes.subarray(1) })
  expect([...bytes]).toEqual([0, 0, 3, 2, 1, 1, 3, 2, 1, 2, 3, 2, 1, 3, 3, 2, 1])
})
