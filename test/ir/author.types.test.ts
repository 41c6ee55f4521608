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
  expect(axpy.params).toHaveLength(5)
})

test('mistakes do not compile', () => {
  const write = () =>
    kernel('wrong', spec, ({ x, i, y, out, n }, k) => {
      const at = k.globalId.x
      // @ts-expect-error f32 + u32
      x.at(at).add(i.at(at))
      // @ts-expect-error a read-only buffer has no set
      x.set(at, 1)
      // @ts-expect-error a write-only buffer has no at
      out.at(at)
      // @ts-expect-error u32 stored into f32
      y.set(at, i.at(at))
      // @ts-expect-error a float is no index
      x.at(x.at(at))
      // @ts-expect-error no barrier where lanes may part
      k.when(at.lt(n), (inner) => inner.barrier())
      // @ts-expect-error no barrier in a loop whose end differs between lanes
      k.for({ to: at }, (_, inner) => inner.barrier())
    })
  expect(write).toThrow()
})
