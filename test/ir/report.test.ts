// Every fault the interpreter reports, planted. Kernels that the verifier would refuse are built from nodes.
import { expect, test } from 'vitest'
import { type Scope, buffer, kernel } from '../../src/ir/author.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { Interner, type Node } from '../../src/ir/node.ts'
import { errorOf, run } from './run.ts'

const y = (): Uint32Array => new Uint32Array(8)
const shared8 = (name: string, subgroup: number, write: (k: Scope) => void): Kernel =>
  kernel(name, { params: {}, workgroup: [8], subgroup }, (_, k) => write(k))

test('access past the end of a buffer, with lane, workgroup and index', () => {
  const past = kernel('past', { params: { y: buffer('u32', 'write') }, workgroup: [4] }, ({ y }, k) => y.set(k.globalId.x.mul(2), 1))
  const error = errorOf(() => run(past, { y: y() }, [2, 1, 1]))
  expect(error.code).toBe('out-of-range')
  expect(error.message).toBe('past: access out of range: y[8] (lane 0 of workgroup [1,0,0]), got 8, wanted an index below 8')
  expect(errorOf(() => interpret(past, { buffers: { y: new Uint8Array(32) }, grid: [2, 1, 1] }, { check: false })).code).toBe(
    'out-of-range',
  )
})

test('vector accesses, atomics, shared memory and tiles are in range', () => {
  const cases = [
    kernel('wide', { params: { y: buffer('u32', 'readwrite') } }, ({ y }) => y.load(5, 4)),
    kernel('wideStore', { params: { y: buffer('u32', 'readwrite') } }, ({ y }, k) => y.store(7, k.const('u32', 1).splat(2))),
    kernel('counter', { params: { y: buffer('u32', 'readwrite') } }, ({ y }) => y.atomic('add', 8, 1)),
    kernel('shared', { params: { y: buffer('u32', 'readwrite') } }, (_, k) => k.shared('s', 'f32', 4).set(4, 1)),
    kernel('tile', { params: { y: buffer('u32', 'readwrite') }, workgroup: [4], subgroup: 4 }, (_, k) =>
      k.shared('s', 'f32', 63).setTile(0, 8, k.tileFill('f32', 1)),
    ),
  ]
  expect(cases.map((kernel) => errorOf(() => run(kernel, { y: y() })).code)).toEqual(cases.map(() => 'out-of-range'))
})

test('table, lookup and dot operands', () => {
  const params = { y: buffer('u32', 'readwrite') } as const
  const cases = [
    kernel('table', { params }, ({ y }, k) => y.set(0, k.table('u32', [1, 2], y.at(1)))),
    kernel('lookup', { params }, ({ y }) => y.set(0, y.at(1).lookup16(Array.from({ length: 16 }, () => 0)))),
    kernel('dot', { params }, ({ y }, k) => y.set(0, y.at(2).dotU7I8(y.at(1), k.const('i32', 0)).as('u32'))),
  ]
  expect(cases.map((kernel) => errorOf(() => run(kernel, { y: Uint32Array.of(0, 16, 128) })).message)).toEqual([
    'table: index past the end of a table (lane 0 of workgroup [0,0,0]), got 16, wanted below 2',
    'lookup: lookup16 of a byte above 15 (lane 0 of workgroup [0,0,0]), got 0x10, wanted bytes from 0 to 15',
    'dot: dotU7I8 of a byte above 127 (lane 0 of workgroup [0,0,0]), got 0x80, wanted bytes from 0 to 127',
  ])
})

test('what only inactive lanes would do is no fault', () => {
  const guarded = kernel('guarded', { params: { y: buffer('u32', 'readwrite') }, workgroup: [8] }, ({ y }, k) => {
    k.when(k.lane.lt(2), () => y.set(k.lane, k.table('u32', [5, 6], k.lane)))
  })
  const out = y()
  run(guarded, { y: out })
  expect([...out]).toEqual([5, 6, 0, 0, 0, 0, 0, 0])
})

test('shared memory that nobody wrote', () => {
  const hole = shared8('hole', 0, (k) => {
    const s = k.shared('s', 'f32', 9)
    s.set(k.lane, 1)
    k.barrier()
    s.at(k.lane.add(1))
  })
  expect(errorOf(() => run(hole, {})).message).toBe(
    'hole: reads s[8], which no lane has written (lane 7 of workgroup [0,0,0]); write workgroup memory first, then a barrier',
  )
  interpret(hole, { buffers: {}, grid: [1, 1, 1] }, { check: false })
  const stale = kernel('stale', { params: {} }, (_, k) => {
    const s = k.shared('s', 'f32', 1)
    k.when(k.workgroupId.x.eq(0), () => s.set(0, 1))
    s.at(0)
  })
  expect(errorOf(() => run(stale, {}, [2, 1, 1])).message).toMatch(/s\[0\], which no lane has written \(lane 0 of workgroup \[1,0,0\]\)/)
})

test('races between barriers', () => {
  const readAfterWrite = shared8('raw', 0, (k) => {
    const s = k.shared('s', 'u32', 8)
    s.set(k.lane, k.lane)
    s.at(k.const('u32', 7).sub(k.lane))
  })
  expect(errorOf(() => run(readAfterWrite, {})).message).toBe(
    'raw: data race: reads s[7], written by lane 7 since the last barrier (lane 0 of workgroup [0,0,0])',
  )
  const writeAfterRead = shared8('war', 0, (k) => {
    const s = k.shared('s', 'u32', 8)
    s.set(k.lane, k.lane)
    k.barrier()
    const other = s.at(k.const('u32', 7).sub(k.lane))
    s.set(k.lane, other)
  })
  expect(errorOf(() => run(writeAfterRead, {})).message).toMatch(/data race: writes s\[0\], read by lane 7 since the last barrier/)
  const manyReaders = shared8('readers', 0, (k) => {
    const s = k.shared('s', 'u32', 8)
    s.set(k.lane, k.lane)
    k.barrier()
    s.at(0)
    k.when(k.lane.eq(0), () => s.set(0, 1))
  })
  expect(errorOf(() => run(manyReaders, {})).message).toMatch(/writes s\[0\], read by other lanes/)
  const buffers = kernel('buffers', { params: { y: buffer('u32', 'readwrite') }, workgroup: [4] }, ({ y }, k) => {
    y.set(k.lane, k.lane)
    y.at(k.lane.xor(1))
  })
  expect(errorOf(() => run(buffers, { y: y() })).message).toMatch(/data race: reads y\[1\], written by lane 1/)
})

test('lanes of one store must agree', () => {
  const clash = kernel('clash', { params: { y: buffer('u32', 'write') }, workgroup: [4] }, ({ y }, k) => y.set(k.lane.shr(1), k.lane))
  expect(errorOf(() => run(clash, { y: y() })).message).toMatch(
    /data race: writes y\[0\], written with another value by lane \d .*lane 1 of/,
  )
  const same = kernel('same', { params: { y: buffer('u32', 'write') }, workgroup: [4] }, ({ y }, k) => y.set(0, k.workgroupId.x.add(3)))
  const out = y()
  run(same, { y: out })
  expect(out[0]).toBe(3)
})

test('a subgroup barrier orders its own subgroup only', () => {
  const exchange = (name: string, flip: number): Kernel =>
    shared8(name, 4, (k) => {
      const s = k.shared('s', 'u32', 8)
      s.set(k.lane, k.lane)
      k.subgroupBarrier()
      s.at(k.lane.xor(flip))
      k.subgroupBarrier()
      s.set(k.lane, 1)
    })
  run(exchange('within', 3), {})
  expect(errorOf(() => run(exchange('across', 4), {})).message).toMatch(/across: data race: reads s\[4\], written by lane 4/)
})

test('races between workgroups', () => {
  const params = { y: buffer('u32', 'readwrite') } as const
  const twoWriters = kernel('writers', { params }, ({ y }, k) => y.set(0, k.workgroupId.x))
  const readThenWrite = kernel('readWrite', { params }, ({ y }, k) => {
    const old = y.at(k.workgroupId.x.add(1))
    y.set(k.workgroupId.x, old)
  })
  const writeThenRead = kernel('writeRead', { params }, ({ y }, k) => {
    y.set(k.workgroupId.x.add(1), 1)
    y.at(k.workgroupId.x)
  })
  expect([twoWriters, readThenWrite, writeThenRead].map((kernel) => errorOf(() => run(kernel, { y: y() }, [3, 1, 1])).message)).toEqual([
    'writers: data race: writes y[0], written by another workgroup of this dispatch (lane 0 of workgroup [1,0,0]); workgroups run in any order; use an atomic or another dispatch',
    'readWrite: data race: writes y[1], read by another workgroup of this dispatch (lane 0 of workgroup [1,0,0]); workgroups run in any order; use an atomic or another dispatch',
    'writeRead: data race: reads y[1], written by another workgroup of this dispatch (lane 0 of workgroup [1,0,0]); workgroups run in any order; use an atomic or another dispatch',
  ])
  const counter = kernel('counter', { params, workgroup: [4] }, ({ y }) => y.atomic('add', 0, 1))
  const out = y()
  run(counter, { y: out }, [3, 1, 1])
  run(counter, { y: out }, [3, 1, 1])
  expect(out[0]).toBe(24)
})

test('an atomic and a plain write', () => {
  const mixed = kernel('mixed', { params: { y: buffer('u32', 'readwrite') }, workgroup: [4] }, ({ y }, k) => {
    y.atomic('add', 0, 1)
    k.when(k.lane.eq(0), () => y.set(0, 0))
  })
  expect(errorOf(() => run(mixed, { y: y() })).message).toMatch(/data race: writes y\[0\], read by other lanes/)
})

/** `if (lane < 2) { what }`, unverified. */
function divergent(what: (interner: Interner) => Node): Kernel {
  const interner = new Interner()
  const lane = interner.make('index', 'u32', [], 'lane')
  const two = interner.make('const', 'u32', [], 2)
  const block = interner.make('block', 'void', [what(interner)])
  const body = interner.make('block', 'void', [interner.make('if', 'void', [interner.make('lt', 'bool', [lane, two]), block])])
  return { name: 'divergent', params: [], workgroup: [8, 1, 1], subgroup: 4, shared: [], body, interner }
}

test('barriers and subgroup operations that not all lanes reach', () => {
  const barrier = (scope: string): Kernel => divergent((interner) => interner.make('barrier', 'void', [], scope))
  expect(errorOf(() => run(barrier('workgroup'), {})).message).toBe(
    'divergent: divergent barrier: not all lanes of the workgroup are here (lane 2 of workgroup [0,0,0]), got 2 lanes, wanted 8',
  )
  expect(errorOf(() => run(barrier('subgroup'), {})).message).toBe(
    'divergent: divergent subgroup barrier: only some lanes of subgroup 0 are here (workgroup [0,0,0]), got 2, wanted 4',
  )
  const sum = divergent((interner) =>
    interner.make('let', 'void', [interner.make('subSum', 'u32', [interner.make('index', 'u32', [], 'lane')])], { id: 0, name: 's' }),
  )
  expect(errorOf(() => run(sum, {})).message).toMatch(/divergent subSum: only some lanes of subgroup 0/)
})

test('arguments that are missing', () => {
  const copy = kernel('copy', { params: { y: buffer('u32', 'write') } }, ({ y }) => y.set(0, 1))
  expect(errorOf(() => run(copy, {})).code).toBe('bad-argument')
  expect(errorOf(() => run(copy, { y: y() }, [1.5, 1, 1])).code).toBe('bad-argument')
})

test('two names for the same bytes, one of them written', () => {
  const copy = kernel('copy', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'write') }, workgroup: [4] }, ({ x, y }, k) =>
    y.set(k.lane, x.at(k.lane)),
  )
  const bytes = new Uint32Array(8)
  expect(errorOf(() => run(copy, { x: bytes.subarray(0, 5), y: bytes.subarray(4) })).message).toBe(
    "copy: y is written and shares bytes with x; use one 'readwrite' buffer",
  )
  run(copy, { x: bytes.subarray(0, 4), y: bytes.subarray(4) })
})

test('a for whose step is zero', () => {
  const stuck = kernel('stuck', { params: { y: buffer('u32', 'read') } }, ({ y }, k) => k.for({ to: 4, step: y.at(0) }, () => undefined))
  expect(errorOf(() => run(stuck, { y: y() })).message).toMatch(/step 0/)
})

test('an index whose last addition wraps', () => {
  const wrapping = kernel('wrapping', { params: { x: buffer('f32', 'readwrite') } }, ({ x }, k) => {
    const base = k.var('base', k.const('u32', 0xffffffff))
    x.set(base.get().add(2), 1)
  })
  expect(() => interpret(wrapping, { buffers: { x: new Uint8Array(16) }, grid: [1, 1, 1] })).toThrow(/wraps/)
})
