// What the WebAssembly engine at hand can do, found by asking it to validate the smallest module that needs it, and
// by running the one instruction that a released engine gets wrong. Knows nothing of kernels. It is the one file of
// this folder that touches the engine; nothing is cached, a detection takes a millisecond or two.

import type { FunctionBody } from './body.ts'
import { WasmModule } from './module.ts'

export interface WasmFeatures {
  readonly simd: boolean
  readonly relaxed: boolean
  /** `i32x4.relaxed_dot_i8x16_i7x16_add_s` adds its accumulator, as it must; implies `relaxed` */
  readonly relaxedDot: boolean
  /** sums of byte products are cheaper in 16 bits first: x64, which has no instruction that goes to 32 at once; implies `relaxed` */
  readonly pairs: boolean
  /** shared memory and atomics, and permission to use them */
  readonly threads: boolean
  readonly bulk: boolean
}

/** Asks the engine; on Node 20, first switches relaxed SIMD on, which its V8 has behind a flag. */
export async function detectWasm(): Promise<WasmFeatures> {
  const relaxed = validates(useRelaxed) || ((await unlockRelaxed()) && validates(useRelaxed))
  const threads = mayShareMemory() && validates(useThreads, true)
  const relaxedDot = relaxed && addsDots()
  const pairs = relaxed && (!relaxedDot || (typeof process !== 'undefined' && process.arch === 'x64'))
  return { simd: validates(useSimd), relaxed, relaxedDot, pairs, threads, bulk: validates(useBulk) }
}

const useSimd = (f: FunctionBody): unknown => f.i32Const(1).emit('i32x4.splat').emit('v128.any_true').emit('drop')

const useRelaxed = (f: FunctionBody): unknown => {
  for (let i = 0; i < 3; i++) f.i32Const(1).emit('i32x4.splat')
  return f.emit('i32x4.relaxed_dot_i8x16_i7x16_add_s').emit('drop')
}

const useThreads = (f: FunctionBody): unknown => f.i32Const(0).i32Const(1).emit('i32.atomic.rmw.add').emit('drop')

const useBulk = (f: FunctionBody): unknown => f.i32Const(0).i32Const(0).i32Const(0).emit('memory.fill')

/**
 * V8 11.3 (Node 20) on x64: the baseline compiler lets the result share the accumulator's register and gives twice the
 * dot product instead, in just the loop a kernel would write. `i16x8.relaxed_dot_i8x16_i7x16_s` is right there, so a
 * kernel can use it with `i32x4.extadd_pairwise_i16x8_s` and an add. Three rounds of 4 * (3 * 2) from 1 make 73.
 */
function addsDots(): boolean {
  const module = new WasmModule()
  module.function('probe', { results: ['i32'], export: true }, (f) => {
    const [sum, round] = [f.local('v128'), f.local('i32')]
    f.i32Const(1).emit('i32x4.splat').localSet(sum)
    f.loop((next) => {
      f.i32Const(3).emit('i8x16.splat').i32Const(2).emit('i8x16.splat')
      f.localGet(sum).emit('i32x4.relaxed_dot_i8x16_i7x16_add_s').localSet(sum)
      f.localGet(round).i32Const(1).emit('i32.add').localTee(round).i32Const(3).emit('i32.lt_u').brIf(next)
    })
    f.localGet(sum).emit('i32x4.extract_lane', 0)
  })
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module.encode()))
  return (exports['probe'] as () => number)() === 73
}

function validates(write: (f: FunctionBody) => unknown, shared = false): boolean {
  const module = new WasmModule()
  module.memory({ min: 1, max: 1, shared })
  module.function('probe', {}, write)
  return WebAssembly.validate(module.encode())
}

/** A page that is not cross-origin isolated validates threads but may not share memory. */
function mayShareMemory(): boolean {
  const isolated = (globalThis as { readonly crossOriginIsolated?: boolean }).crossOriginIsolated
  return typeof SharedArrayBuffer !== 'undefined' && isolated !== false
}

/** Relaxed SIMD shipped with V8 11.4 (Node 21). Newer V8s do not know the flag and would complain on stderr. */
async function unlockRelaxed(): Promise<boolean> {
  const version = typeof process === 'undefined' ? undefined : process.versions?.node
  if (version === undefined || Number.parseInt(version, 10) >= 21) return false
  try {
    const { setFlagsFromString } = await import('node:v8')
    setFlagsFromString('--experimental-wasm-relaxed-simd')
    return true
  } catch {
    return false // a runtime that imitates Node without its V8
  }
}
