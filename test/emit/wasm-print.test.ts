// The text of a module, read as a reviewer would.

import { expect, it } from 'vitest'
import { WasmModule } from '../../src/emit/wasm/module.ts'
import { printModule } from '../../src/emit/wasm/print.ts'

it('prints a module as WAT', () => {
  const module = new WasmModule()
  const log = module.importFunction('env', 'log', { params: ['f32'] })
  module.importMemory('env', 'memory', { min: 1, max: 16, shared: true })
  const count = module.global('f32', -0)
  module.data(new Uint8Array([0, 255]), 8)
  module.function('scale rows', { params: ['i32', 'i32'], results: ['i32'], export: true }, (f) => {
    const [at, end] = [f.param(0, 'at'), f.param(1, 'end')]
    const factor = f.local('v128', 'factor')
    f.local('i32')
    f.v128Const('f32x4', [1, 2, 3, 4]).localSet(factor)
    f.block((out) => {
      f.loop((next) => {
        f.localGet(at).localGet(end).emit('i32.ge_u').brIf(out)
        f.localGet(at).localGet(at).emit('v128.load', { offset: 16, align: 4 })
        f.localGet(factor).emit('f32x4.mul').emit('v128.store')
        f.localGet(at).i32Const(16).emit('i32.add').localSet(at).br(next)
      })
    })
    f.emit('global.get', count).f32Const(Infinity).emit('f32.lt')
    f.if(
      () => f.f32Const(0.5).call(log).i32Const(-1),
      () => f.localGet(at),
      'i32',
    )
  })
  expect(WebAssembly.validate(module.encode())).toBe(true)
  expect(printModule(module)).toMatchInlineSnapshot(`
    "(module
      (type (;0;) (func (param f32)))
      (type (;1;) (func (param i32 i32) (result i32)))
      (import "env" "log" (func $log (type 0)))
      (import "env" "memory" (memory 1 16 shared))
      (global (;0;) (mut f32) (f32.const -0))
      (export "scale rows" (func $scale_rows))
      (func $scale_rows (type 1) (param $at i32) (param $end i32) (result i32)
        (local $factor v128)
        (local $3 i32)
        v128.const i32x4 0x3f800000 0x40000000 0x40400000 0x40800000
        local.set $factor
        block $b0
          loop $b1
            local.get $at
            local.get $end
            i32.ge_u
            br_if $b0
            local.get $at
            local.get $at
            v128.load offset=16 align=4
            local.get $factor
            f32x4.mul
            v128.store
            local.get $at
            i32.const 16
            i32.add
            local.set $at
            br $b1
          end
        end
        global.get 0
        f32.const inf
        f32.lt
        if $b2 (result i32)
          f32.const 0.5
          call $log
          i32.const -1
        else
          local.get $at
        end
      )
      (data (i32.const 8) "\\00\\ff")
    )
    "
  `)
})
