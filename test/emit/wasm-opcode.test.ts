// Every instruction of the table, in a module of its own, must be accepted by the engine and printed by its name.

import { describe, expect, it } from 'vitest'
import type { FunctionBody, Label } from '../../src/emit/wasm/body.ts'
import { detectWasm } from '../../src/emit/wasm/features.ts'
import { WasmModule } from '../../src/emit/wasm/module.ts'
import { isRelaxed, opcodes, type Immediate, type Opcode, type ValType } from '../../src/emit/wasm/opcode.ts'
import { printModule } from '../../src/emit/wasm/print.ts'

const features = await detectWasm()

const pushes: Record<ValType, (f: FunctionBody) => unknown> = {
  i32: (f) => f.i32Const(0),
  i64: (f) => f.i64Const(0n),
  f32: (f) => f.f32Const(0),
  f64: (f) => f.f64Const(0),
  v128: (f) => f.v128Const('i32x4', [0, 0, 0, 0]),
}

const samples: Partial<Record<Immediate, readonly unknown[]>> = {
  segment: [0],
  mem: [{ offset: 300 }],
  lane: [1],
  memlane: [1, { offset: 16, align: 1 }],
  shuffle: [[0, 31, 1, 30, 2, 29, 3, 28, 4, 27, 5, 26, 6, 25, 7, 24]],
  'const.i32': [-5],
  'const.i64': [-(2n ** 63n)],
  'const.f32': [1.5],
  'const.f64': [-1e300],
  'const.v128': [Uint8Array.from({ length: 16 }, (_, i) => i)],
}

/** Instructions whose operands the table cannot say. Local 0 and global 0 are i32; function 0 takes nothing. */
const specials: Record<string, (f: FunctionBody) => unknown> = {
  unreachable: (f) => f.emit('unreachable').emit('i32.add').emit('drop'),
  nop: (f) => f.emit('nop'),
  else: (f) =>
    f.i32Const(1).if(
      () => {},
      () => {},
    ),
  end: (f) => f.block(() => {}),
  return: (f) => f.emit('return'),
  drop: (f) => f.v128Const('f32x4', [0, 0, 0, 0]).emit('drop'),
  select: (f) => f.f32Const(1).f32Const(2).i32Const(0).emit('select').emit('drop'),
  block: (f) => f.block(() => f.f64Const(1), 'f64').emit('drop'),
  loop: (f) => f.loop(() => f.i64Const(1n), 'i64').emit('drop'),
  if: (f) => f.i32Const(1).if(() => {}),
  br: (f) => f.block((out) => f.i32Const(3).br(out), 'i32').emit('drop'),
  br_if: (f) => f.block((out) => f.i32Const(3).i32Const(1).brIf(out), 'i32').emit('drop'),
  br_table: (f) => f.block((a) => f.block((b) => f.i32Const(1).brTable([a, b], a))),
  call: (f) => f.emit('call', 0),
  call_indirect: (f) => f.i32Const(0).emit('call_indirect', 0),
  'local.get': (f) => f.localGet(0).emit('drop'),
  'local.set': (f) => f.i32Const(1).localSet(0),
  'local.tee': (f) => f.i32Const(1).localTee(0).emit('drop'),
  'global.get': (f) => f.emit('global.get', 0).emit('drop'),
  'global.set': (f) => f.i32Const(1).emit('global.set', 0),
}

function emitLoosely(f: FunctionBody, op: Opcode): void {
  for (const type of op.pops) pushes[type](f)
  const emit = f.emit as (name: string, ...args: readonly unknown[]) => unknown
  emit.call(f, op.name, ...(samples[op.immediate] ?? []))
  for (const _ of op.pushes) f.emit('drop')
}

function moduleWith(op: Opcode): WasmModule {
  const module = new WasmModule()
  module.memory({ min: 1, max: 1, shared: true })
  module.global('i32', 7)
  module.data(new Uint8Array([1, 2, 3]))
  const empty = module.function('empty', {}, () => {})
  module.table([empty])
  module.function('probe', {}, (f) => {
    f.local('i32')
    const special = specials[op.name]
    if (op.special && special !== undefined) special(f)
    else emitLoosely(f, op)
  })
  return module
}

describe('opcodes', () => {
  const all: readonly Opcode[] = Object.values(opcodes)

  it('have a code of their own each', () => {
    expect(new Set(all.map((op) => `${op.prefix ?? 0}:${op.code}`)).size).toBe(all.length)
    expect(
      all
        .filter((op) => op.special)
        .map((op) => op.name)
        .sort(),
    ).toEqual(Object.keys(specials).sort())
  })

  it('are complete', () => {
    const count = (prefix: number | undefined): number => all.filter((op) => op.prefix === prefix).length
    expect(count(undefined)).toBe(172 + 5) // MVP, sign extension
    expect(count(0xfc)).toBe(8 + 7) // saturating truncation, bulk memory
    expect(count(0xfd)).toBe(236 + 20) // SIMD, relaxed SIMD
    expect(count(0xfe)).toBe(67) // threads
  })

  it.for(all.map((op) => [op.name, op] as const))('%s is valid', ([name, op], { skip }) => {
    if (isRelaxed(op)) skip(!features.relaxed, 'engine has no relaxed SIMD')
    const module = moduleWith(op)
    const bytes = module.encode()
    expect(() => new WebAssembly.Module(bytes)).not.toThrow() // unlike validate, it would say why
    const text = printModule(module)
    expect(text.split('\n').some((line) => line.trim().split(' ')[0] === name)).toBe(true)
  })
})

describe('labels', () => {
  it('of a closed block are refused', () => {
    const module = new WasmModule()
    let stale: Label | undefined
    const write = (f: FunctionBody): unknown => {
      f.block((label) => void (stale = label))
      return f.block(() => stale === undefined || f.br(stale))
    }
    expect(() => module.function('k', {}, write)).toThrow(/k: br: its label is of a block that is closed/)
  })
})
