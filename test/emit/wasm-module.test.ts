// Modules that are built, instantiated and run; and mistakes that must be named while emitting.

import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import type { FunctionBody } from '../../src/emit/wasm/body.ts'
import { detectWasm } from '../../src/emit/wasm/features.ts'
import { WasmModule, type FunctionOptions } from '../../src/emit/wasm/module.ts'

const features = await detectWasm()

type Call = (...args: readonly (number | bigint)[]) => number
function start(module: WasmModule, imports: WebAssembly.Imports = {}): Record<string, Call> {
  const instance = new WebAssembly.Instance(new WebAssembly.Module(module.encode()), imports)
  return instance.exports as unknown as Record<string, Call>
}

/** Emits body for i = 0, step, 2 step, ... while i < the value of local `count`. */
function eachStep(f: FunctionBody, count: number, step: number, body: (i: number) => void): void {
  const i = f.local('i32', 'i')
  f.block((out) => {
    f.loop((next) => {
      f.localGet(i).localGet(count).emit('i32.ge_u').brIf(out)
      body(i)
      f.localGet(i).i32Const(step).emit('i32.add').localSet(i)
      f.br(next)
    })
  })
}

/** dot(a, b, n): f32 vectors at a and b, n bytes, a multiple of 16. */
function dotModule(check = true): WasmModule {
  const module = new WasmModule({ check })
  module.importMemory('env', 'memory', { min: 1 })
  module.function('dot', { params: ['i32', 'i32', 'i32'], results: ['f32'], export: true }, (f) => {
    const [a, b, n] = [f.param(0, 'a'), f.param(1, 'b'), f.param(2, 'n')]
    const sum = f.local('v128', 'sum')
    eachStep(f, n, 16, (i) => {
      f.localGet(a).localGet(i).emit('i32.add').emit('v128.load', { align: 4 })
      f.localGet(b).localGet(i).emit('i32.add').emit('v128.load', { align: 4 })
      f.emit('f32x4.mul').localGet(sum).emit('f32x4.add').localSet(sum)
    })
    for (let lane = 0; lane < 4; lane++) f.localGet(sum).emit('f32x4.extract_lane', lane)
    f.emit('f32.add').emit('f32.add').emit('f32.add')
  })
  return module
}

/** Runs `dot` on sixteen i8 and sixteen i7 that lie on the stack; what it gave and what JS says. */
function runDot(dot: (f: FunctionBody, first: readonly number[]) => unknown): { got: number[]; wanted: number[] } {
  const start4 = [1, 2, 3, -4]
  const module = new WasmModule()
  module.memory({ min: 1 })
  module.export('memory', 'memory')
  module.function('dot', { export: true }, (f) => {
    f.i32Const(32).i32Const(0).emit('v128.load').i32Const(16).emit('v128.load')
    dot(f, start4)
    f.emit('v128.store')
  })
  const exports = start(module)
  const { buffer } = exports['memory'] as unknown as WebAssembly.Memory
  const bytes = new Int8Array(buffer)
  for (let i = 0; i < 16; i++) {
    bytes[i] = i * 17 - 128
    bytes[16 + i] = (i * 29) % 128 // seven bits: the same on every machine
  }
  exports['dot']?.()
  const wanted = start4.map((first, lane) => {
    let sum = first
    for (let i = lane * 4; i < lane * 4 + 4; i++) sum += (bytes[i] ?? 0) * (bytes[16 + i] ?? 0)
    return sum
  })
  return { got: [...new Int32Array(buffer, 32, 4)], wanted }
}

describe('a built module', () => {
  it('multiplies vectors with SIMD', () => {
    const memory = new WebAssembly.Memory({ initial: 1 })
    const { dot } = start(dotModule(), { env: { memory } })
    const floats = new Float32Array(memory.buffer)
    for (let i = 0; i < 32; i++) {
      floats[i] = i - 7
      floats[64 + i] = 3 - i
    }
    let wanted = 0
    for (let i = 0; i < 32; i++) wanted += (i - 7) * (3 - i)
    expect(dot?.(0, 256, 128)).toBe(wanted)
  })

  it.skipIf(!features.relaxed)('takes relaxed int8 dot products (skipped: engine has no relaxed SIMD)', () => {
    const { got, wanted } = runDot((f, first) => {
      f.emit('i16x8.relaxed_dot_i8x16_i7x16_s').emit('i32x4.extadd_pairwise_i16x8_s')
      f.v128Const('i32x4', first).emit('i32x4.add')
    })
    expect(got).toEqual(wanted)
  })

  // V8 of Node 20 drops the sum of the one-instruction form in its baseline compiler: detection must keep kernels away from it.
  it('adds relaxed dot products by the instruction that detection allows', () => {
    const { got, wanted } = runDot((f, first) => {
      if (features.relaxedDot) f.v128Const('i32x4', first).emit('i32x4.relaxed_dot_i8x16_i7x16_add_s')
      else f.emit('i16x8.relaxed_dot_i8x16_i7x16_s').emit('i32x4.extadd_pairwise_i16x8_s').v128Const('i32x4', first).emit('i32x4.add')
    })
    expect(got).toEqual(wanted)
  })

  it('branches, calls, keeps globals and data', () => {
    const module = new WasmModule()
    const log = module.importFunction('env', 'log', { params: ['i32'] })
    const base = module.importGlobal('env', 'base', 'i32')
    module.memory({ min: 1 })
    module.data(new Uint8Array([5, 6, 7]), 100)
    const waiting = module.data(new Uint8Array([42]))
    const count = module.global('i32', 1000)
    const wide = module.global('i64', -5n, false)
    const one: FunctionOptions = { params: ['i32'], results: ['i32'] }
    const double = module.function('double', one, (f) => f.localGet(0).i32Const(1).emit('i32.shl'))
    const square = module.function('square', one, (f) => f.localGet(0).localGet(0).emit('i32.mul'))
    module.table([double, square])
    module.function('pick', { ...one, export: true }, (f) => {
      f.block((other) => {
        f.block((second) => {
          f.block((first) => f.localGet(0).brTable([first, second], other))
          f.i32Const(9).i32Const(0).emit('call_indirect', double.type).emit('return')
        })
        f.i32Const(9).i32Const(1).emit('call_indirect', double.type).emit('return')
      })
      f.i32Const(-1).emit('call', log.index).i32Const(-1)
    })
    module.function('factorial', { ...one, export: true }, (f) => {
      f.localGet(0).emit('i32.eqz')
      f.if(
        () => f.i32Const(1),
        () => f.localGet(0).localGet(0).i32Const(1).emit('i32.sub').call(f).emit('i32.mul'),
        'i32',
      )
    })
    module.function('state', { results: ['i32'], export: true }, (f) => {
      f.i32Const(103).i32Const(0).i32Const(1).emit('memory.init', waiting)
      f.emit('global.get', count).i32Const(1).emit('i32.add').emit('global.set', count)
      f.i32Const(100).emit('i32.load').emit('global.get', count).emit('i32.add')
      f.emit('global.get', wide).emit('i32.wrap_i64').emit('i32.add')
      f.emit('global.get', base).emit('i32.add')
    })
    const logged: number[] = []
    const { pick, factorial, state } = start(module, { env: { log: (value: number) => logged.push(value), base: 10 } })
    expect([pick?.(0), pick?.(1), pick?.(7)]).toEqual([18, 81, -1])
    expect(logged).toEqual([-1])
    expect(factorial?.(10)).toBe(3628800)
    expect(state?.()).toBe(0x2a070605 + 1001 - 5 + 10)
    expect(module.contents.types.length).toBe(3) // (i32), (i32)->i32, ()->i32: equal types are one
  })

  it('is the same every time, checked or not', () => {
    const first = dotModule().encode()
    expect(dotModule().encode()).toEqual(first)
    expect(dotModule(false).encode()).toEqual(first)
  })
})

describe.skipIf(!features.threads)('atomics (skipped: engine has no threads)', () => {
  it('wake a waiting worker', async () => {
    const module = new WasmModule()
    module.importMemory('env', 'memory', { min: 1, max: 1, shared: true })
    const seconds = 10n * 1_000_000_000n
    module.function('park', { results: ['i32'], export: true }, (f) => {
      f.i32Const(4).i32Const(1).emit('i32.atomic.store')
      f.i32Const(0).i32Const(0).i64Const(seconds).emit('memory.atomic.wait32')
      f.i32Const(8).i32Const(5).emit('i32.atomic.rmw.add').emit('drop')
    })
    module.function('wake', { results: ['i32'], export: true }, (f) => {
      f.i32Const(0).i32Const(1).emit('memory.atomic.notify', { offset: 0 })
    })
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })
    const bytes = module.encode()
    const { wake } = start(module, { env: { memory } })
    const code = `const { workerData: { bytes, memory }, parentPort } = require('node:worker_threads')
      const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } })
      parentPort.postMessage(exports.park())`
    const worker = new Worker(code, { eval: true, workerData: { bytes, memory } })
    try {
      const verdict = new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
      const deadline = Date.now() + 8000
      while (wake?.() !== 1 && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 1))
      expect(await verdict).toBe(0) // woken, neither mismatched nor timed out
      expect([...new Int32Array(memory.buffer, 0, 3)]).toEqual([0, 1, 5])
    } finally {
      await worker.terminate()
    }
  })
})

describe('a mistake', () => {
  const attempt = (write: (f: FunctionBody) => unknown, options: FunctionOptions = {}): string => {
    try {
      new WasmModule().function('k', options, write)
    } catch (error) {
      expect(isIngotError(error, 'bad-kernel')).toBe(true)
      return (error as Error).message
    }
    return 'nothing thrown'
  }
  const result: FunctionOptions = { results: ['i32'] }

  it('of types names function, instruction, found and wanted', () => {
    expect(attempt((f) => f.i32Const(1).f32Const(2).emit('i32.add'))).toBe('k: i32.add: operands do not match, got i32 f32, wanted i32 i32')
    expect(attempt((f) => f.emit('f32x4.mul'))).toMatch(/k: f32x4.mul: .* got an empty stack, wanted v128 v128/)
    expect(attempt((f) => f.f32Const(1), result)).toMatch(/k: end: operands do not match, got f32, wanted i32/)
    expect(attempt((f) => f.i32Const(1))).toMatch(/k: end: values are left over, got i32, wanted an empty stack/)
    expect(attempt((f) => f.i32Const(1).f32Const(1).i32Const(0).emit('select'))).toMatch(/select: operands differ/)
    expect(attempt((f) => f.emit('drop'))).toMatch(/drop: no operand/)
  })

  it('inside blocks is found too', () => {
    expect(attempt((f) => f.i32Const(1).block(() => f.emit('drop')))).toMatch(/drop: no operand/)
    expect(attempt((f) => f.block(() => f.f32Const(0), 'i32'))).toMatch(/block end: operands do not match/)
    const arms = (f: FunctionBody): unknown =>
      f
        .i32Const(1)
        .if(
          () => f.i32Const(1),
          () => {},
          'i32',
        )
        .emit('drop')
    expect(attempt(arms)).toMatch(/if end: operands do not match, got an empty stack, wanted i32/)
    expect(attempt((f) => f.i32Const(1).if(() => f.i32Const(1), undefined, 'i32'))).toMatch(/if: no else arm/)
    expect(attempt((f) => f.block((out) => f.i32Const(1).f32Const(1).brIf(out)))).toMatch(/br_if/)
  })

  it('in dead code is only what can never be right', () => {
    expect(attempt((f) => f.emit('return').emit('i32.add').emit('drop'))).toBe('nothing thrown')
    expect(attempt((f) => f.emit('unreachable').f32Const(1).emit('i32.add'), result)).toMatch(/i32.add/)
  })

  it('of immediates is found', () => {
    expect(attempt((f) => f.localGet(3))).toMatch(/local.get: no such local, got 3/)
    expect(attempt((f) => f.emit('call', 9))).toMatch(/call: no such function/)
    expect(attempt((f) => f.i32Const(2 ** 40))).toMatch(/not a 32-bit integer/)
    expect(attempt((f) => f.i32Const(0).emit('i32.load'))).toMatch(/the module has no memory/)
    expect(attempt((f) => f.v128Const('i8x16', [1]))).toMatch(/wrong number of bytes/)
    expect(attempt((f) => f.v128Const('i32x4', [0, 0, 0, 0]).emit('i32x4.extract_lane', 4))).toMatch(/no such lane/)
    const module = new WasmModule()
    module.memory({ min: 1 })
    const load = (f: FunctionBody): unknown => f.i32Const(0).emit('i32.load', { align: 8 })
    expect(() => module.function('k', {}, load)).toThrow(/i32.load: bad alignment, got 8/)
    expect(() => module.memory({ min: 1 })).toThrow(/declared twice/)
    expect(() => module.importFunction('a', 'b')).toThrow(/comes after a function/)
  })
})
