// What `simplify` and `place` make of kernels, as text.
import { expect, test } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { lower } from '../../src/ir/pass/index.ts'
import { place } from '../../src/ir/pass/place.ts'
import { simplify } from '../../src/ir/pass/simplify.ts'
import { printKernel } from '../../src/ir/print.ts'
import { RICH } from './target.ts'

test('a matrix-vector product reads as if written by hand', () => {
  const written = kernel(
    'matvec',
    {
      params: {
        w: buffer('f32', 'read'),
        x: buffer('f32', 'read'),
        y: buffer('f32', 'write'),
        rows: uniform('u32'),
        columns: uniform('u32'),
      },
      workgroup: [64],
    },
    ({ w, x, y, rows, columns }, k) => {
      const row = k.let('row', k.globalId.x)
      k.when(row.lt(rows), () => {
        const sum = k.var('sum', k.const('f32', 0))
        k.for({ to: columns.div(2), name: 'c' }, (c) => {
          for (let j = 0; j < 2; j++) sum.set(w.at(row.mul(columns).add(c.mul(2)).add(j)).fma(x.at(c.mul(2).add(j)), sum.get()))
        })
        y.set(row, sum.get().mul(1))
      })
    },
  )
  expect(printKernel(lower(written, RICH))).toMatchInlineSnapshot(`
    "kernel matvec(w: read f32, x: read f32, y: write f32, rows: uniform u32, columns: uniform u32) workgroup 64 {
      let row: u32 = workgroup.x * 64 + lane.x
      if (row < rows) {
        var sum: f32 = 0.0
        let t: u32 = columns >> 1
        let t1: u32 = row * columns
        for c = 0..t step 1 {
          let at: u32 = c * 2
          let at1: u32 = t1 + at
          sum = fma(w[at1], x[at], sum)
          sum = fma(w[at1 + 1], x[at + 1], sum)
        }
        y[row] = sum
      }
    }
    "
  `)
})

test('simplify decides what is known', () => {
  const written = kernel('known', { params: { x: buffer('u32', 'readwrite'), n: uniform('u32') } }, ({ x, n }, k) => {
    const dead = k.var('dead', n)
    k.when(
      k.const('u32', 3).lt(4),
      () => x.set(0, n.add(0).mul(1).shl(0)),
      () => x.set(1, n),
    )
    k.when(n.lt(0), () => x.set(2, n))
    k.for({ to: 0 }, (i) => x.set(i, n))
    k.for({ from: 5, to: 6 }, (i) => x.set(i, n.div(8).add(n.rem(8))))
    k.when(n.gt(1), () => dead.set(x.at(9)))
    x.at(3)
    x.atomic('add', 4, 1)
    x.set(n.mul(4).add(3).add(5).mul(2), n.as('i32').to('u32').add(k.const('u32', 7).mul(6)))
    x.set(6, k.vec(n, n.add(1)).lane(1).add(n.splat(4).lane(2)))
    x.set(7, n.gt(2).select(n, n).and(0xffffffff).or(0))
  })
  expect(printKernel(simplify(written))).toMatchInlineSnapshot(`
    "kernel known(x: readwrite atomic u32, n: uniform u32) workgroup 1 {
      x[0] = n
      x[5] = (n >> 3) + (n & 7)
      let old: u32 = atomic add x[4], 1
      x[(n * 4 + 8) * 2] = n + 42
      x[6] = n + 1 + n
      x[7] = n
    }
    "
  `)
})

test('floats keep their zeros', () => {
  const written = kernel('zeros', { params: { x: buffer('f32', 'readwrite') } }, ({ x }) => {
    const v = x.at(0)
    x.set(0, v.add(0))
    x.set(1, v.mul(0))
    x.set(2, v.sub(0).div(1))
    x.set(3, v.sub(v))
  })
  expect(printKernel(place(simplify(written)))).toMatchInlineSnapshot(`
    "kernel zeros(x: readwrite f32) workgroup 1 {
      let x1: f32 = x[0]
      x[0] = x1 + 0.0
      x[1] = x1 * 0.0
      x[2] = x1
      x[3] = x1 - x1
    }
    "
  `)
})

test('a load stays before what may change it, and outside of loops it stood before', () => {
  const written = kernel(
    'order',
    { params: { x: buffer('f32', 'readwrite'), y: buffer('f32', 'write'), r: buffer('f32', 'read') }, workgroup: [4] },
    ({ x, y, r }, k) => {
      const part = k.shared('part', 'f32', 4)
      const [a, b, c] = [x.at(0), r.at(1), x.at(2)]
      x.set(0, 1)
      y.set(0, a)
      y.set(1, b)
      part.set(k.lane, c)
      const d = part.at(k.lane)
      k.barrier()
      y.set(2, d)
      const e = r.at(5)
      k.for({ to: 3 }, (i) => y.set(i, e))
    },
  )
  expect(printKernel(place(simplify(written)))).toMatchInlineSnapshot(`
    "kernel order(x: readwrite f32, y: write f32, r: read f32) workgroup 4 {
      shared part: f32[4]
      let x1: f32 = x[0]
      let x2: f32 = x[2]
      x[0] = 1.0
      y[0] = x1
      y[1] = r[1]
      part[lane] = x2
      let part1: f32 = part[lane]
      barrier workgroup
      y[2] = part1
      let r1: f32 = r[5]
      for i = 0..3 step 1 {
        y[i] = r1
      }
    }
    "
  `)
})

test('invariant work leaves loops but not branches, and shared work is named where it is needed', () => {
  const written = kernel(
    'hoist',
    { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write'), n: uniform('u32'), s: uniform('f32') } },
    ({ x, y, n, s }, k) => {
      k.for({ to: n, name: 'i' }, (i) => {
        k.for({ to: n, name: 'j' }, (j) => {
          y.set(i.mul(n).add(j), x.at(j).mul(s.sqrt()))
          k.when(j.gt(2), () => y.set(i, s.exp().add(s.exp().mul(x.at(j.mul(n))))))
        })
      })
    },
  )
  expect(printKernel(place(simplify(written)))).toMatchInlineSnapshot(`
    "kernel hoist(x: read f32, y: write f32, n: uniform u32, s: uniform f32) workgroup 1 {
      let t: f32 = sqrt(s)
      for i = 0..n step 1 {
        let t1: u32 = i * n
        for j = 0..n step 1 {
          y[t1 + j] = x[j] * t
          if (j > 2) {
            let t2: f32 = exp(s)
            y[i] = t2 + t2 * x[j * n]
          }
        }
      }
    }
    "
  `)
})

test('very deep expressions are cut', () => {
  const written = kernel('deep', { params: { x: buffer('f32', 'readwrite') } }, ({ x }) => {
    let v = x.at(0)
    for (let i = 0; i < 100; i++) v = v.add(i + 0.5)
    x.set(0, v)
  })
  const deepest = Math.max(
    ...printKernel(place(simplify(written)))
      .split('\n')
      .map((line) => line.split('+').length),
  )
  expect(deepest).toBeLessThan(30)
})

test('lowering twice gives the same text', () => {
  const write = () =>
    kernel('twice', { params: { x: buffer('f16', 'readwrite') }, workgroup: [8] }, ({ x }, k) => x.set(k.lane, x.at(k.lane).mul(2)))
  expect(printKernel(lower(write(), RICH))).toBe(printKernel(lower(write(), RICH)))
})
