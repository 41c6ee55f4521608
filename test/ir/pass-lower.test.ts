// What single passes promise of the kernels they make, what they refuse, and how long they take.
import { expect, test } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { type Kernel, lanesOf, memoryOf, uses } from '../../src/ir/kernel.ts'
import { widthOf } from '../../src/base/dtype.ts'
import { PASSES, lower } from '../../src/ir/pass/index.ts'
import { narrow } from '../../src/ir/pass/narrow.ts'
import { serialize } from '../../src/ir/pass/serialize.ts'
import { simplify } from '../../src/ir/pass/simplify.ts'
import { tile } from '../../src/ir/pass/tile.ts'
import { printKernel } from '../../src/ir/print.ts'
import type { Value } from '../../src/ir/value.ts'
import { SAMPLES } from './pass-kernels.ts'
import { errorOf, run } from './run.ts'
import { LOOPS, POOR, RICH, TARGETS, WORDS } from './target.ts'

test('there are at most eight passes, each named once', () => {
  expect(new Set(PASSES.map(([name]) => name)).size).toBe(PASSES.length)
  expect(PASSES.length).toBeLessThanOrEqual(8)
})

test.each(TARGETS.map((target) => [target.name, target] as const))('on %s nothing is left that the target lacks', (_, target) => {
  for (const make of Object.values(SAMPLES)) {
    const lowered = lower(make().kernel, target)
    const has = (test: (op: string, dtype: string) => boolean): boolean => uses(lowered, ({ op, dtype }) => test(op, dtype))
    if (!target.lanes) {
      expect([lanesOf(lowered), lowered.subgroup]).toEqual([1, 0])
      expect(has((op) => op === 'barrier' || (op.startsWith('sub') && op !== 'sub') || op.startsWith('tile'))).toBe(false)
    }
    if (!target.tiles) expect(has((op) => op.startsWith('tile'))).toBe(false)
    if (!target.half) expect(has((_op, dtype) => dtype.startsWith('f16'))).toBe(false)
    expect(uses(lowered, ({ dtype }) => widthOf(dtype) > target.width)).toBe(false)
    if (!target.narrow) {
      const storages = [...lowered.params, ...lowered.shared].flatMap((each) => ('storage' in each ? [each.storage] : []))
      expect(storages.filter((storage) => /^(u8|i8|u16|i16|f16)/.test(storage))).toEqual([])
      expect(uses(lowered, ({ op, arg }) => (op === 'load' || op === 'store') && (arg as { width?: number }).width !== undefined)).toBe(
        false,
      )
    }
  }
})

test('a kernel without waiting is one loop over its lanes', () => {
  const written = kernel('scale', { params: { x: buffer('f32', 'readwrite'), n: uniform('u32') }, workgroup: [64] }, ({ x, n }, k) => {
    k.when(k.globalId.x.lt(n), () => x.set(k.globalId.x, x.at(k.globalId.x).mul(2)))
  })
  expect(printKernel(lower(written, LOOPS))).toMatchInlineSnapshot(`
    "kernel scale(x: readwrite f32, n: uniform u32) workgroup 1 {
      for lane1 = 0..64 step 1 {
        let at: u32 = workgroup.x * 64 + lane1
        if (at < n) {
          x[at] = x[at] * 2.0
        }
      }
    }
    "
  `)
})

test('a kernel of one lane stays as it is', () => {
  const written = kernel('one', { params: { x: buffer('f32', 'readwrite') } }, ({ x }) => x.set(0, x.at(1)))
  expect(serialize(written, POOR)).toBe(written)
})

const storing = (write: (out: { set(at: number, v: number): void }) => void): Kernel =>
  kernel('storing', { params: { out: buffer('u8', 'write') } }, ({ out }) => write(out))

test('only stores of parts of words make memory atomic', () => {
  const whole = kernel('whole', { params: { x: buffer('u8', 'read'), out: buffer('u8', 'write') }, workgroup: [8] }, ({ x, out }, k) => {
    k.for({ from: 0, to: 64, step: 4 }, (i) => out.store(k.lane.mul(64).add(i), x.load(i, 4)))
  })
  expect(memoryOf(narrow(whole, WORDS), 'out')).toMatchObject({ storage: 'u32', atomic: false })
  const parts = storing((out) => out.set(1, 2))
  expect(memoryOf(narrow(parts, WORDS), 'out')).toMatchObject({ storage: 'u32', atomic: true })
  expect(printKernel(narrow(parts, WORDS))).toMatchInlineSnapshot(`
    "kernel storing(out: write atomic u32) workgroup 1 {
      let old: u32 = atomic and out[0], 4294902015
      let old1: u32 = atomic or out[0], 512
    }
    "
  `)
})

test('what cannot be done is refused by name', () => {
  const sample = kernel('tabled', { params: { x: buffer('u32', 'readwrite') } }, ({ x }, k) => x.set(0, k.table('u32', [1, 2], x.at(0))))
  const bare = { ...POOR, name: 'bare', spells: new Set([...POOR.spells].filter((op) => op !== 'table')) }
  expect(errorOf(() => lower(sample, bare)).message).toMatch(/tabled: bare has no table/)
  const tiled = kernel('tiled', { params: { x: buffer('f32', 'readwrite') }, workgroup: [128], subgroup: 128 }, ({ x }, k) => {
    x.setTile(0, 8, k.tileFill('f32', 1))
  })
  expect(errorOf(() => tile(tiled, WORDS)).code).toBe('unsupported')
})

test('simplified arithmetic has the same bits', () => {
  const steps: readonly ((v: Value<'u32'>, k: (value: number) => Value<'u32'>) => Value<'u32'>)[] = [
    (v) => v.shl(33).shl(3),
    (v) => v.shr(20).shr(20),
    (v) => v.shl(34).and(3),
    (v) => v.mul(4).add(3).shr(2),
    (v) => v.mul(8).add(5).and(7),
    (v) => v.as('i32').shr(k32(v, -1)).shr(k32(v, 5)).as('u32'),
    (v) =>
      v
        .as('i32')
        .add(7)
        .sub(9)
        .sub(2 ** 31 - 1)
        .as('u32'),
    (v) => v.add(5).sub(3),
    (v) => v.add(3).sub(5),
    (v) => v.sub(v).add(v.xor(v)),
    (v) => v.div(1).rem(1),
    (v) => v.div(0).add(v.rem(0)),
    (v) => v.as('i32').abs().neg().neg().as('u32'),
    (v) => v.or(0xf0).or(0xf).and(0xff).and(0x3c),
    (v) => v.mul(3).mul(0x55555556),
    (v) => v.min(0).max(0),
    (v) => v.lt(0).select(v, v.add(1)),
    (v) => v.eq(v).not().select(v, 3),
    (v) => v.to('f32').sub(0).mul(1).div(1).to('u32'),
    (v, k) => k(7).div(2).add(k(9).rem(4)).shl(k(3)).sub(v),
    (v) => v.splat(4).slice(1, 2).lane(0).add(v.splat(2).hsum()),
  ]
  const k32 = (v: Value<'u32'>, value: number): Value<'i32'> => v.sub(v).as('i32').add(value)
  const written = kernel('same', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'write') } }, ({ x, y }, k) => {
    k.for({ to: 6 }, (i) =>
      steps.forEach((step, at) =>
        y.set(
          i.mul(steps.length).add(at),
          step(x.at(i), (value) => k.const('u32', value)),
        ),
      ),
    )
  })
  const results = [written, simplify(written), lower(written, POOR)].map((each) => {
    const y = new Uint32Array(6 * steps.length)
    run(each, { x: Uint32Array.of(0, 1, 0xffffffff, 0x80000000, 0x12345678, 0xdeadbeef), y })
    return [...y]
  })
  expect(results[1]).toEqual(results[0])
  expect(results[2]).toEqual(results[0])
})

test('5,000 nodes are lowered quickly', () => {
  const big = kernel(
    'big',
    { params: { a: buffer('f32', 'read'), h: buffer('f16', 'read'), out: buffer('f32', 'write'), n: uniform('u32') }, workgroup: [64] },
    ({ a, h, out, n }, k) => {
      const at = k.globalId.x
      k.for({ to: n }, (i) => {
        let sum: Value<'f32'> = a.at(i)
        for (let j = 0; j < 420; j++) sum = sum.add(a.at(at.mul(n).add(i).add(j)).mul(h.at(at.add(j)).to('f32')))
        out.set(at, sum)
        k.barrier()
      })
    },
  )
  lower(big, RICH)
  const before = process.cpuUsage().user
  lower(big, RICH)
  // the limit is wide, for machines that are busy: it catches only work that grows with the square
  expect((process.cpuUsage().user - before) / 1000).toBeLessThan(1000)
})
