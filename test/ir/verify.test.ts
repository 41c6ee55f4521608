import { expect, test } from 'vitest'
import type { DType } from '../../src/base/dtype.ts'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { Interner, type Node } from '../../src/ir/node.ts'
import type { Arg, OpName } from '../../src/ir/op.ts'
import { verify } from '../../src/ir/verify/verify.ts'
import { errorOf } from './run.ts'

type Make = (op: OpName, dtype: DType, src?: readonly Node[], arg?: Arg) => Node

/** A kernel from bare nodes, as a faulty pass could leave it. */
function raw(write: (make: Make, u: (value: number) => Node) => readonly Node[], part: Partial<Kernel> = {}): Kernel {
  const interner = new Interner()
  const make: Make = (op, dtype, src, arg) => interner.make(op, dtype, src, arg)
  const body = make(
    'block',
    'void',
    write(make, (value) => make('const', 'u32', [], value)),
  )
  return {
    name: 'raw',
    workgroup: [8, 1, 1],
    subgroup: 0,
    interner,
    body,
    params: [
      { kind: 'buffer', name: 'x', storage: 'f32', role: 'read', atomic: false },
      { kind: 'buffer', name: 'y', storage: 'f32', role: 'write', atomic: false },
      { kind: 'buffer', name: 'c', storage: 'u32', role: 'readwrite', atomic: true },
      { kind: 'buffer', name: 'h', storage: 'f16', role: 'readwrite', atomic: false },
      { kind: 'buffer', name: 'v', storage: 'f32x4', role: 'readwrite', atomic: false },
      { kind: 'uniform', name: 'n', dtype: 'u32' },
    ],
    shared: [],
    ...part,
  }
}
const complaint = (write: Parameters<typeof raw>[0], part?: Partial<Kernel>): string => errorOf(() => verify(raw(write, part))).message

test('types and arguments of nodes', () => {
  const value = (write: (make: Make, u: (value: number) => Node) => Node): string =>
    complaint((make, u) => [make('let', 'void', [write(make, u)], { id: 0, name: 'a' })])
  expect(value((make, u) => make('add', 'u32', [u(1)]))).toBe('raw: add(1): wrong number of operands, got 1, wanted 2')
  expect(value((make, u) => make('add', 'f32', [u(1), u(2)]))).toBe('raw: 1 + 2: wrong type, got f32, wanted u32')
  expect(value((make, u) => make('add', 'u32', [u(1), make('const', 'f32', [], 0.5)]))).toMatch(
    /^raw: 1 \+ 0\.5: operands must have one type, got u32 and f32/,
  )
  expect(value((make) => make('const', 'u32', [], -1))).toMatch(/constant does not fit its type, got -1, wanted u32/)
  expect(value((make) => make('index', 'u32', [], 'lane.w'))).toMatch(/unknown index, got lane.w/)
  expect(value((make) => make('index', 'u32', [], 'sublane'))).toMatch(/states no subgroup size/)
  expect(value((make) => make('uniform', 'u32', [], 'm'))).toMatch(/no such uniform, got m/)
  expect(value((make) => make('uniform', 'f32', [], 'n'))).toMatch(/wrong type of a uniform, got f32, wanted u32/)
  expect(value((make, u) => make('table', 'f32', [u(0)], []))).toMatch(/a table needs numbers/)
  expect(value((make, u) => make('lookup16', 'u32', [u(0)], [1, 2]))).toMatch(/bad table, got \[1,2\], wanted 16 bytes/)
  expect(value((make, u) => make('dotI8', 'i32', [u(0), u(0), u(0)]))).toMatch(/wants two packed u32 operands and an i32 sum/)
  expect(value((make, u) => make('slice', 'u32x2', [make('splat', 'u32x4', [u(0)])], 3))).toMatch(
    /slice past the end, got 3, wanted at most 2/,
  )
  expect(value((make, u) => make('load', 'u32', [u(0)], { mem: 'x' }))).toMatch(/x holds f32, got u32, wanted f32/)
  expect(value((make, u) => make('load', 'f32', [u(0)], { mem: 'z' }))).toMatch(/no such memory, got z, wanted x, y/)
  expect(value((make, u) => make('load', 'f32', [u(0)], { mem: 'y' }))).toMatch(/y is only for writing/)
  expect(value((make, u) => make('load', 'f32x8', [u(0)], { mem: 'v', width: 2 }))).toMatch(/a width works on memory of scalars, got f32x4/)
  expect(value((make) => make('load', 'f32', [make('const', 'i32', [], 0)], { mem: 'x' }))).toMatch(/index must be u32, got i32/)
  expect(value((make, u) => make('atomic', 'f32', [u(0), make('const', 'f32', [], 1)], { mem: 'h', kind: 'add' }))).toMatch(
    /atomics work on i32 and u32 memory, got f16/,
  )
  expect(value((make, u) => make('atomic', 'u32', [u(0), u(1)], { mem: 'c', kind: 'mul' }))).toMatch(/unknown atomic, got mul/)
  verify(raw((make, u) => [make('let', 'void', [make('load', 'f32', [u(0)], { mem: 'h' })], { id: 0, name: 'a' })]))
})

test('statements', () => {
  expect(complaint((make, u) => [make('store', 'void', [u(0), make('const', 'f32', [], 1)], { mem: 'x' })])).toMatch(
    /^raw: x\[0\] = 1\.0: x is only for reading/,
  )
  expect(complaint((make, u) => [make('store', 'void', [u(0), u(1)], { mem: 'y' })])).toMatch(/y holds f32, got u32, wanted f32/)
  expect(complaint((make, u) => [make('add', 'u32', [u(1), u(2)])])).toMatch(/a block lists statements, got add/)
  expect(complaint((make, u) => [make('if', 'void', [u(1), make('block', 'void')])])).toMatch(
    /wrong type of a condition, got u32, wanted bool/,
  )
  expect(complaint((make, u) => [make('for', 'void', [u(0), u(1), u(0), make('block', 'void')], { id: 0, name: 'i' })])).toMatch(
    /step must be above 0/,
  )
  expect(complaint((make) => [make('loop', 'void', [make('block', 'void')])])).toMatch(/never ends/)
  expect(complaint((make) => [make('breakIf', 'void', [make('const', 'bool', [], true)])])).toMatch(/breakIf outside of a loop/)
  expect(
    complaint((make, u) => {
      const stop = make('breakIf', 'void', [make('const', 'bool', [], true)])
      const inner = make('for', 'void', [u(0), u(1), u(1), make('block', 'void', [stop])], { id: 0, name: 'i' })
      return [make('loop', 'void', [make('block', 'void', [inner, stop])])]
    }),
  ).toMatch(/breakIf outside of a loop/)
})

test('scopes', () => {
  const local = (make: Make): Node => make('local', 'u32', [], 7)
  const use = (make: Make, u: (value: number) => Node): Node =>
    make('store', 'void', [u(0), make('add', 'u32', [local(make), u(1)])], { mem: 'c' })
  const bind = (make: Make, u: (value: number) => Node): Node => make('let', 'void', [u(1)], { id: 7, name: 'a' })
  expect(complaint((make, u) => [use(make, u), bind(make, u)])).toMatch(/^raw: a: not declared here, got id 7/)
  expect(
    complaint((make, u) => [
      make('if', 'void', [make('const', 'bool', [], true), make('block', 'void', [bind(make, u), use(make, u)])]),
      use(make, u),
    ]),
  ).toMatch(/not declared here/)
  expect(complaint((make, u) => [bind(make, u), bind(make, u)])).toMatch(/id is declared twice, got 7/)
  expect(complaint((make, u) => [bind(make, u), make('set', 'void', [u(1)], 7)])).toMatch(/not declared here/)
  expect(
    complaint((make, u) => [make('var', 'void', [u(1)], { id: 7, name: 'a' }), make('set', 'void', [make('const', 'f32', [], 1)], 7)]),
  ).toMatch(/wrong type, got f32, wanted u32/)
})

test('effects stand in a let, unless a pass has put them elsewhere', () => {
  const inlined = raw((make, u) => [
    make('store', 'void', [u(0), make('neg', 'f32', [make('load', 'f32', [u(0)], { mem: 'x' })])], { mem: 'y' }),
  ])
  expect(errorOf(() => verify(inlined)).message).toMatch(/^raw: x\[0\]: load must be bound by a let/)
  verify(inlined, { inlined: true })
})

test('the head of a kernel', () => {
  const nothing = (): readonly Node[] => []
  expect(complaint(nothing, { workgroup: [64, 32, 1] })).toMatch(
    /bad workgroup, got \[64,32,1\], wanted sizes from 1, together at most 1024 lanes/,
  )
  expect(complaint(nothing, { workgroup: [0, 1, 1] })).toMatch(/bad workgroup/)
  expect(complaint(nothing, { subgroup: 24 })).toMatch(/bad subgroup, got 24/)
  expect(complaint(nothing, { shared: [{ name: 'x', storage: 'f32', length: 1, atomic: false }] })).toMatch(/name is used twice, got x/)
  expect(complaint(nothing, { shared: [{ name: 's', storage: 'f32', length: 0, atomic: false }] })).toMatch(/bad length of s, got 0/)
})

const params = { x: buffer('u32', 'read'), y: buffer('u32', 'readwrite'), n: uniform('u32') }

test('barriers need uniform control flow', () => {
  const flow = (write: Parameters<typeof kernel<typeof params>>[2]) => () => kernel('flow', { params, workgroup: [8], subgroup: 4 }, write)
  flow(({ x, n }, k) => {
    k.when(x.at(n).eq(0), () => k.barrier())
    k.for({ to: n }, (i) => k.when(i.eq(0), () => k.barrier()))
    const turns = k.var('turns', n)
    k.loop(() => {
      k.barrier()
      const left = turns.get()
      k.breakIf(left.eq(0))
      turns.set(left.sub(1))
    })
    k.when(k.subgroupId.eq(0), () => k.subSum(k.lane))
    k.when(k.subAny(k.lane.eq(0)), () => k.subgroupBarrier())
  })()
  const refused = [
    flow((_, k) => k.when(k.lane.lt(3), () => k.barrier())),
    flow(({ y }, k) => k.when(y.at(0).eq(0), () => k.barrier())),
    flow((_, k) => k.when(k.subgroupId.eq(0), () => k.barrier())),
    flow((_, k) => k.for({ to: k.lane }, () => k.barrier())),
    flow((_, k) => {
      const turns = k.var('turns', k.const('u32', 4))
      k.loop(() => {
        k.barrier()
        const left = turns.get()
        k.breakIf(left.eq(k.lane))
      })
    }),
    flow(({ n }, k) => {
      const flag = k.var('flag', k.const('u32', 0))
      k.for({ to: n }, () => {
        k.when(flag.get().eq(1), () => k.barrier())
        k.when(k.lane.eq(1), () => flag.set(1))
      })
    }),
  ]
  for (const write of refused)
    expect(errorOf(write).message).toMatch(
      /^flow: barrier workgroup: a barrier that some lanes may not reach, got .*, wanted uniform per workgroup; move it/,
    )
  expect(errorOf(flow((_, k) => k.when(k.lane.lt(3), () => k.subSum(k.lane)))).message).toMatch(
    /subSum that some lanes of a subgroup may not reach/,
  )
  expect(errorOf(flow((_, k) => k.when(k.lane.lt(3), () => k.subgroupBarrier()))).message).toMatch(
    /barrier that some lanes of a subgroup may not reach/,
  )
  expect(errorOf(flow((_, k) => void k.shared('s', 'f32', 64).tile(k.lane, 8))).message).toMatch(
    /a tile needs one place for the whole subgroup/,
  )
})

test('subgroups need a size that divides the lanes', () => {
  const make = (lanes: number, subgroup: number) => () =>
    kernel('sub', { params: {}, workgroup: [lanes], subgroup }, (_, k) => void k.subSum(k.lane))
  expect(errorOf(make(8, 0)).message).toMatch(/the kernel states no subgroup size; give kernel\(\) a `subgroup`/)
  expect(errorOf(make(12, 8)).message).toMatch(/lanes do not fill whole subgroups, got 12, wanted a multiple of 8/)
  make(16, 8)()
})
