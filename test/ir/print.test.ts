import { expect, test } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { hashKernel, hashText } from '../../src/ir/hash.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { printKernel } from '../../src/ir/print.ts'
import { analyseUniformity } from '../../src/ir/verify/uniform.ts'

/** Rows of 8-bit weights with one f16 scale per 32, one row per subgroup. */
const matvec = (rows = 2): Kernel =>
  kernel(
    'matvec',
    {
      params: {
        w: buffer('u32', 'read'),
        scale: buffer('f16', 'read'),
        x: buffer('f32', 'read'),
        y: buffer('f32', 'write'),
        columns: uniform('u32'),
      },
      workgroup: [32, rows],
      subgroup: 32,
    },
    ({ w, scale, x, y, columns }, k) => {
      const row = k.let('row', k.workgroupId.x.mul(rows).add(k.subgroupId))
      const sum = k.var('sum', k.const('f32', 0))
      k.for({ name: 'block', from: k.sublane, to: columns.div(32), step: 32 }, (block, k) => {
        const at = row.mul(columns.div(32)).add(block)
        const part = k.var('part', k.const('f32', 0))
        k.for({ name: 'word', to: 8, unroll: true }, (word) => {
          const q = w.at(at.mul(8).add(word)).unpackI8().to('f32')
          part.set(
            q
              .mul(x.load(block.mul(32).add(word.mul(4)), 4))
              .hsum()
              .add(part.get()),
          )
        })
        sum.set(scale.at(at).to('f32').fma(part.get(), sum.get()))
      })
      const total = k.subSum(sum.get())
      k.when(k.sublane.eq(0), () => y.set(row, total))
    },
  )

test('a kernel reads like code', () => {
  expect(printKernel(matvec())).toMatchInlineSnapshot(`
    "kernel matvec(w: read u32, scale: read f16, x: read f32, y: write f32, columns: uniform u32) workgroup 32x2 subgroup 32 {
      let row: u32 = workgroup.x * 2 + subgroup
      var sum: f32 = 0.0
      for block = sublane..columns / 32 step 32 {
        var part: f32 = 0.0
        for word = 0..8 step 1 unroll true {
          let w1: u32 = w[(row * (columns / 32) + block) * 8 + word]
          let x1: f32x4 = x[block * 32 + word * 4..+4]
          let part1: f32 = part
          part = hsum(f32x4(unpackI8(w1)) * x1) + part1
        }
        let scale1: f16 = scale[row * (columns / 32) + block]
        let part2: f32 = part
        let sum1: f32 = sum
        sum = fma(f32(scale1), part2, sum1)
      }
      let sum2: f32 = sum
      let sum3: f32 = subSum(sum2)
      if (sublane == 0) {
        y[row] = sum3
      }
    }
    "
  `)
})

test('parentheses only where needed, constants by type, everything else a call', () => {
  const odd = kernel(
    'odd',
    {
      params: { y: buffer('i32', 'readwrite'), f: buffer('f16', 'write'), c: buffer('u32', 'readwrite'), t: uniform('i32') },
      workgroup: [4, 1, 2],
    },
    ({ y, f, c, t }, k) => {
      const s = k.shared('s', 'u8', 16)
      const a = y.at(0)
      y.set(1, a.sub(t.sub(a)).sub(3).mul(a.add(-1)).neg())
      y.set(2, a.lt(t).and(a.eq(1).not()).select(a.shl(2).or(t), a.max(t)))
      f.set(k.lane, k.lane.to('f32').mul(0.5).to('f16').add(2))
      s.set(k.lane, k.table('u32', [1, 2, 3, 4, 5, 6, 7, 8], k.lane))
      k.barrier()
      k.when(
        t.gt(0),
        () => c.atomic('max', 0, s.load(0, 4).lane(2)),
        () => y.store(0, k.vec(a, a).add(a)),
      )
      const turn = k.var('turn', k.const('u32', 0))
      k.loop(() => {
        k.breakIf(turn.get().ge(4))
        turn.set(turn.get().add(1))
      })
    },
  )
  expect(printKernel(odd)).toMatchInlineSnapshot(`
    "kernel odd(y: readwrite i32, f: write f16, c: readwrite atomic u32, t: uniform i32) workgroup 4x1x2 {
      shared s: u8[16]
      let y1: i32 = y[0]
      y[1] = -((y1 - (t - y1) - 3i) * (y1 + -1i))
      y[2] = y1 < t && !(y1 == 1i) ? y1 << 2i | t : max(y1, t)
      f[lane] = f16(f32(lane) * 0.5) + 2.0h
      s[lane] = u32[1, 2, 3, 4, 5, 6, 7, 8][lane]
      barrier workgroup
      if (t > 0i) {
        let s1: u32x4 = s[0..+4]
        let old: u32 = atomic max c[0], s1[2]
      } else {
        y[0..+2] = i32x2(y1, y1) + splat2(y1)
      }
      var turn: u32 = 0
      loop {
        let turn1: u32 = turn
        break if turn1 >= 4
        let turn2: u32 = turn
        turn = turn2 + 1
      }
    }
    "
  `)
})

test('what is shared is printed once, so that text does not grow with sharing', () => {
  const shared = kernel('doubling', { params: { y: buffer('u32', 'write') }, workgroup: [4] }, ({ y }, k) => {
    let value = k.lane.add(1)
    for (let step = 0; step < 60; step++) value = value.mul(value.add(step))
    y.set(k.lane, value)
    k.when(k.lane.lt(2), () => y.set(k.lane, value))
  })
  expect(printKernel(shared).length).toBeLessThan(6000)
})

test('the hash follows the text', () => {
  expect(hashKernel(matvec())).toBe(hashKernel(matvec()))
  expect(hashKernel(matvec())).not.toBe(hashKernel(matvec(4)))
  expect(hashText('')).toMatch(/^[0-9a-f]{32}$/)
  const texts = Array.from({ length: 20000 }, (_, at) => `kernel${at}`)
  for (let word = 0; word < 32; word += 8) {
    // A quarter of a hash has 32 bits: 20,000 texts should collide about 0.05 times.
    expect(new Set(texts.map((text) => hashText(text).slice(word, word + 8))).size).toBeGreaterThan(19997)
  }
})

test('uniformity of values', () => {
  const levels = (workgroup: readonly [number], subgroup: number): Record<string, string> => {
    const work = kernel(
      'levels',
      { params: { x: buffer('u32', 'read'), y: buffer('u32', 'readwrite'), n: uniform('u32') }, workgroup, subgroup },
      ({ x, y, n }, k) => {
        k.let('uniform', n.add(k.workgroupId.x))
        k.let('lane', k.lane.add(n))
        k.let('subgroup', k.subgroupId.mul(2))
        k.let('readUniform', x.at(n).add(1))
        k.let('readLane', x.at(k.lane).add(1))
        k.let('written', y.at(n).add(1))
        k.let('sum', k.subSum(k.lane).add(1))
        k.let('shuffled', k.subShuffleXor(n, 1).add(1))
        const parted = k.var('parted', n)
        k.when(k.lane.eq(0), () => parted.set(n))
        k.let('afterParted', parted.get().add(1))
      },
    )
    const uniformity = analyseUniformity(work)
    const found: Record<string, string> = {}
    uniformity.eachStatement(({ op, arg, src }) => {
      const { id, name } = (arg ?? {}) as { id: number; name: string }
      if (op === 'let' && (src[0]?.op === 'add' || name === 'subgroup')) found[name] = uniformity.ofId(id)
    })
    return found
  }
  const expected = {
    uniform: 'workgroup',
    lane: 'lane',
    subgroup: 'subgroup',
    readUniform: 'workgroup',
    readLane: 'lane',
    written: 'lane',
    sum: 'subgroup',
    shuffled: 'lane',
    afterParted: 'lane',
  }
  expect(levels([64], 32)).toEqual(expected)
  expect(levels([32], 32)).toEqual({ ...expected, subgroup: 'workgroup', sum: 'workgroup' })
})
