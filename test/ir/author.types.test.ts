// What TypeScript itself refuses. Each `@ts-expect-error` is a mistake that must not compile.
import { expect, test } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'

const spec = {
  params: {
    x: buffer('f32', 'read'),
    i: buffer('u32', 'read'),
    y: buffer('f32', 'readwrite'),
    out: buffer('f32', 'write'),
    n: uniform('u32'),
    d: buffer('f64', 'readwrite'),
  },
  workgroup: [64],
} as const

test('a legal kernel compiles', () => {
  const axpy = kernel('axpy', spec, ({ x, y, n }, k) => {
    const i = k.globalId.x
    k.when(i.lt(n), () => y.set(i, x.at(i).mul(2).add(y.at(i))))
    k.when(n.gt(3), (inner) => inner.barrier())
    k.for({ to: n }, (j, inner) => {
      inner.barrier()
      out(j)
    })
    function out(_j: unknown): void {}
  })
  expect(axpy.params).toHaveLength(6)
})

test('casts make types meet', () => {
  const mixed = kernel('mixed', spec, ({ x, d }, k) => {
    d.set(k.lane, d.at(k.lane).add(x.at(k.lane).to('f64')))
    d.store(k.lane, x.load(k.lane, 4).to('f64').mul(d.load(k.lane, 4)))
  })
  expect(mixed.params).toHaveLength(6)
})

test('mistakes do not compile', () => {
  const write = () =>
    kernel('wrong', spec, ({ x, i, y, out, n, d }, k) => {
      const at = k.globalId.x
      // @ts-expect-error f32 + u32
      x.at(at).add(i.at(at))
      // @ts-expect-error a read-only buffer has no set
      x.set(at, 1)
      // @ts-expect-error a write-only buffer has no at
      out.at(at)
      // @ts-expect-error u32 stored into f32
      y.set(at, i.at(at))
      // @ts-expect-error f64 + f32
      d.at(at).add(x.at(at))
      // @ts-expect-error f32 + f64
      x.load(at, 4).mul(d.load(at, 4))
      // @ts-expect-error f32 stored into f64
      d.set(at, x.at(at))
      // @ts-expect-error f64 stored into f32
      y.store(at, d.load(at, 2))
      // @ts-expect-error a choice between f32 and f64
      at.lt(n).select(x.at(at), d.at(at))
      // @ts-expect-error an f64 has no bits of 32
      d.at(at).as('f64')
      // @ts-expect-error uniforms are fields of four bytes
      uniform('f64')
      // @ts-expect-error a float is no index
      x.at(x.at(at))
      // @ts-expect-error no barrier where lanes may part
      k.when(at.lt(n), (inner) => inner.barrier())
      // @ts-expect-error no barrier in a loop whose end differs between lanes
      k.for({ to: at }, (_, inner) => inner.barrier())
    })
  expect(write).toThrow()
})
