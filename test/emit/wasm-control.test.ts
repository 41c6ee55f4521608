// Memory and control flow as WebAssembly against the interpreter: every storage, in every variant of the engine's features.

import { describe, expect, it } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { emitWasm, printWat } from '../../src/emit/wasm/emit.ts'
import { differences } from './wasm-differ.ts'
import { VARIANTS } from './wasm-run.ts'

describe('memory', () => {
  it.each(['u8', 'i8', 'u16', 'i16'] as const)('%s is widened and narrowed, in any width', (type) => {
    const Type = { u8: Uint8Array, i8: Int8Array, u16: Uint16Array, i16: Int16Array }[type]
    expect(
      differences(
        kernel(
          'narrow',
          { params: { x: buffer(type, 'read'), y: buffer(type, 'write'), z: buffer(type.startsWith('u') ? 'u32' : 'i32', 'write') } },
          (p, k) => {
            k.for({ to: 3 }, (i) => {
              p.y.set(i, p.x.at(i).add(1))
              p.z.set(i, p.x.at(i))
            })
            p.y.store(3, p.x.load(3, 4).mul(3))
            p.z.store(3, p.x.load(3, 4))
            p.y.store(7, p.x.load(7, 2).sub(1))
            p.z.store(7, p.x.load(7, 2))
            p.y.store(9, p.x.load(9, 8).add(2))
            p.z.store(9, p.x.load(9, 8))
          },
        ),
        {
          x: new Type(Array.from({ length: 20 }, (_, i) => i * 0x1357)),
          y: new Type(20),
          z: type.startsWith('u') ? new Uint32Array(20) : new Int32Array(20),
        },
      ),
    ).toEqual([])
  })

  it('holds vectors', () => {
    expect(
      differences(
        kernel(
          'vectors',
          { params: { x: buffer('f32x4', 'read'), y: buffer('f32x2', 'readwrite'), h: buffer('f16x4', 'readwrite') } },
          (p) => {
            const v = p.x.at(1)
            p.y.set(0, v.slice(2, 2))
            p.y.set(1, p.y.at(2).add(v.slice(0, 2)))
            p.h.set(1, p.h.at(0))
          },
        ),
        {
          x: Float32Array.from({ length: 8 }, (_, i) => i * 1.5),
          y: new Float32Array(6).fill(2),
          h: Uint16Array.from([1, 0x3c00, 0x7c00, 0x8001, 0, 0, 0, 0]),
        },
      ),
    ).toEqual([])
  })

  it.each(['i32', 'u32'] as const)('takes atomics of %s', (type) => {
    const Type = { i32: Int32Array, u32: Uint32Array }[type]
    expect(
      differences(
        kernel('atomics', { params: { x: buffer(type, 'readwrite'), old: buffer(type, 'write') } }, (p, k) => {
          for (const [i, kind] of (['add', 'min', 'max', 'and', 'or', 'xor', 'exchange'] as const).entries()) {
            p.old.set(k.workgroupId.x.mul(8).add(i), p.x.atomic(kind, i, k.workgroupId.x.add(5).to(type)))
          }
          p.old.set(k.workgroupId.x.mul(8).add(7), p.x.at(0))
        }),
        { x: Type.from([1, -2, -3, 12, 5, 6, 7]), old: new Type(24) },
        { grid: [3, 1, 1] },
      ),
    ).toEqual([])
  })
})

describe('control', () => {
  it('runs loops, conditions and breaks', () => {
    expect(
      differences(
        kernel(
          'control',
          { params: { x: buffer('i32', 'readwrite'), n: uniform('u32'), scale: uniform('f32'), shift: uniform('i32') } },
          (p, k) => {
            const sum = k.var('sum', k.const('i32', 0))
            k.for({ name: 'row', from: 2, to: p.n, step: 3 }, (i) => {
              k.when(
                i.rem(2).eq(0),
                () => sum.set(sum.get().add(p.x.at(i))),
                () => {
                  const round = k.var('round', k.const('u32', 0))
                  k.loop(() => {
                    k.breakIf(round.get().ge(i))
                    sum.set(sum.get().sub(1))
                    k.when(sum.get().lt(-20), () => k.breakIf(p.x.at(round.get()).gt(0)))
                    round.set(round.get().add(2))
                  })
                },
              )
            })
            p.x.set(0, sum.get().add(p.shift))
            p.x.set(1, sum.get().to('f32').mul(p.scale).to('i32'))
            k.for({ from: 5, to: 5 }, (i) => p.x.set(i, 1))
          },
        ),
        { x: Int32Array.from({ length: 32 }, (_, i) => i - 9) },
        { uniforms: { n: 31, scale: 0.5, shift: -3 } },
      ),
    ).toEqual([])
  })

  it('writes out loops that ask for it', () => {
    const written = kernel('unrolled', { params: { x: buffer('u32', 'readwrite') } }, (p, k) => {
      k.for({ from: 1, to: 12, step: 3, unroll: true }, (i) =>
        k.for({ to: i, unroll: true }, (j) => {
          const at = k.let('at', i.add(j))
          p.x.set(at, p.x.at(at).add(i))
        }),
      )
      k.for({ to: 100, unroll: true }, (i) => p.x.set(i.rem(5), i))
      k.for({ to: 0, unroll: true }, (i) => p.x.set(i, 99))
    })
    expect(differences(written, { x: new Uint32Array(32) })).toEqual([])
    expect(printWat(written, VARIANTS[0]![1]).match(/ loop /g)).toHaveLength(6) // workgroups, the inner loop four times, the long one
  })

  it('finds its place in a grid of three axes', () => {
    expect(
      differences(
        kernel('places', { params: { y: buffer('u32', 'write') } }, (p, k) => {
          const { x, y, z } = k.workgroupId
          const at = z.mul(k.gridSize.y).add(y).mul(k.gridSize.x).add(x)
          p.y.set(at, x.add(y.mul(100)).add(z.mul(10000)).add(k.gridSize.z))
        }),
        { y: new Uint32Array(60) },
        { grid: [3, 4, 5] },
      ),
    ).toEqual([])
  })

  it('is deterministic, and prints as text', () => {
    const written = kernel('scale', { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write'), by: uniform('f32') } }, (p, k) => {
      const at = k.let('at', k.workgroupId.x.mul(4))
      p.y.store(at, p.x.load(at, 4).mul(p.by))
    })
    const features = VARIANTS[0]![1]
    expect(emitWasm(written, features).bytes).toEqual(emitWasm(written, features).bytes)
    expect(printWat(written, { ...features, threads: true })).toMatchInlineSnapshot(`
      "(module
        (type (;0;) (func (param i32 i32 i32 i32)))
        (import "env" "memory" (memory 1 65536 shared))
        (export "run" (func $run))
        (func $run (type 0) (param $args i32) (param $scratch i32) (param $group i32) (param $end i32)
          (local $x i32)
          (local $y i32)
          (local $by f32)
          (local $rest i32)
          (local $group.x i32)
          (local $size.x i32)
          (local $at i32)
          local.get $args
          i32.load offset=16
          local.set $x
          local.get $args
          i32.load offset=20
          local.set $y
          local.get $args
          f32.load offset=24
          local.set $by
          local.get $group
          local.set $rest
          local.get $args
          i32.load
          local.set $size.x
          local.get $size.x
          i32.eqz
          if $b0
            return
          end
          local.get $rest
          local.get $size.x
          i32.rem_u
          local.set $group.x
          block $b1
            loop $b2
              local.get $group
              local.get $end
              i32.ge_u
              br_if $b1
              local.get $group.x
              i32.const 4
              i32.mul
              local.set $at
              local.get $y
              local.get $at
              i32.const 2
              i32.shl
              i32.add
              local.get $x
              local.get $at
              i32.const 2
              i32.shl
              i32.add
              v128.load align=4
              local.get $by
              f32x4.splat
              f32x4.mul
              v128.store align=4
              local.get $group
              i32.const 1
              i32.add
              local.set $group
              local.get $group.x
              i32.const 1
              i32.add
              local.tee $group.x
              local.get $size.x
              i32.eq
              if $b3
                i32.const 0
                local.set $group.x
              end
              br $b2
            end
          end
        )
      )
      "
    `)
  })
})
