// Every check of soft-metal, each with a planted fault: the report must name the kernel, the thread and the source line.
// Lines count from 3: the harness puts two lines before a source.

import { beforeEach, describe, expect, test } from 'vitest'
import { describeSoftMetal, type Size } from './harness.ts'

const ONE: Size = [1, 1, 1]
const PARAMS = `device float* y [[buffer(0)]], uint lid [[thread_index_in_threadgroup]]`

await describeSoftMetal('checks of soft-metal', (metal) => {
  beforeEach(() => metal.reset())

  /**
   * Run each body as a kernel on a buffer of 64 floats, all compiled as one library; the error texts. Every body begins on
   * line 4, whatever comes before it.
   */
  const faults = (threads: number, ...bodies: string[]): string[] => {
    const source = bodies.map((body, i) => `#line 3\nkernel void planted${i}(${PARAMS}) {\n${body}\n}`).join('\n')
    return bodies.map((_, i) => {
      const y = metal.buffer(256)
      const run = metal.dispatch(source, `planted${i}`, [y], ONE, [threads, 1, 1])
      metal.release(y)
      expect(run.status).toBe(run.error === '' ? 4 : 5)
      return run.error
    })
  }

  describe('in kernels', () => {
    test('access outside a buffer', () => {
      const [past, before, wide, moved, shared] = faults(
        33,
        'y[lid * 2] = 1.0;',
        'if (lid > 0) return;\nfloat x = y[int(lid) - 1];\ny[0] = x;',
        '\n*(device packed_float4*)(y + 61) = packed_float4(1.0);',
        'device float* p = y + 64;\n*p += 1.0;',
        'threadgroup float t[4];\nt[lid] = 1.0;\ny[lid] = 1.0;',
      )
      expect(past).toBe(
        "kernel 'planted0', program_source:4: out of bounds: write of 4 bytes at offset 256 of buffer(0) 'y', whose length is 256; " +
          'thread (32, 0, 0) of threadgroup (0, 0, 0)',
      )
      expect(before).toMatch(/:5: out of bounds: read of 4 bytes at offset -4/)
      expect(wide).toMatch(/:5: out of bounds: write of 16 bytes at offset 244/)
      expect(moved).toMatch(/:4: out of bounds: read of 4 bytes at offset 256/)
      expect(shared).toMatch(
        /:5: out of bounds: write of 4 bytes at offset 16 of threadgroup memory, whose length is 16; thread \(4, 0, 0\)/,
      )
    })

    test('a constant argument larger than what is bound', () => {
      const source = `struct Args { uint a[4]; };\nkernel void planted(constant Args& args [[buffer(0)]]) {}`
      expect(metal.dispatch(source, 'planted', [new Uint32Array(3)], ONE, ONE).error).toMatch(/out of bounds: read of 16 bytes/)
    })

    test('a conditional whose arms lie in different address spaces', () => {
      const begin = 'device half* h = (device half*)y; threadgroup half t[2]; t[0] = 1.0h;\n'
      const [right, shared, own] = faults(
        1,
        `${begin}y[4] = float(lid == 0 ? t[0] : h[200]);`,
        `${begin}y[4] = float(lid == 0 ? t[1] : h[0]);`,
        `${begin}y[4] = float(lid != 0 ? t[1] : h[128]);`,
      )
      expect(right).toBe('')
      expect(shared).toMatch(/:5: uninitialised read of 2 bytes at offset 2 of threadgroup memory/)
      expect(own).toMatch(/:5: out of bounds: read of 2 bytes at offset 256 of buffer\(0\)/)
    })

    test('misaligned access', () => {
      expect(faults(1, '*(device float4*)(y + 1) = float4(1.0);')[0]).toMatch(/:4: misaligned write at offset 4 of buffer\(0\)/)
    })

    test('threadgroup races', () => {
      const tg = 'threadgroup_barrier(mem_flags::mem_threadgroup);'
      const sg = 'simdgroup_barrier(mem_flags::mem_threadgroup);'
      const exchange = (barrier: string) => `threadgroup float t[64];\nt[lid] = 1.0;\n${barrier}\ny[lid] = t[63 - lid];`
      // The cell is read by its neighbour before it is overwritten.
      const late = (barrier: string) =>
        `threadgroup float t[64];\nt[lid] = 1.0;\n${tg}\nfloat v = t[lid ^ 1u];\n${barrier}\nt[lid] = v;\ny[lid] = v;`
      const [none, group, simd, same, lateNone, lateSimd, device] = faults(
        64,
        exchange(''),
        exchange(tg),
        exchange(sg),
        'threadgroup float t[1];\nt[0] = float(lid);\ny[lid] = 0.0;',
        late(''),
        late(sg),
        exchange('threadgroup_barrier(mem_flags::mem_device);'),
      )
      expect(none).toMatch(/kernel 'planted0', program_source:7: (threadgroup race: read of .* wrote|uninitialised read)/)
      expect(group).toBe('')
      expect(simd).toMatch(/threadgroup race|uninitialised/)
      expect(same).toMatch(
        /:5: threadgroup race: write of 4 bytes at offset 0 of threadgroup memory that thread \(0, 0, 0\) wrote with no barrier between; thread \(1, 0, 0\)/,
      )
      expect(lateNone).toMatch(
        /:[79]: threadgroup race: (write|read) of 4 bytes at offset \d+ of threadgroup memory that thread \(\d+, 0, 0\) (read|wrote)/,
      )
      expect(lateSimd).toBe('')
      expect(device).toMatch(/threadgroup race/) // the barrier orders device memory only
    })

    test('threadgroup atomics race with plain access, not with each other', () => {
      const [atomic, mixed] = faults(
        64,
        `threadgroup atomic_uint n;\nif (lid == 0) atomic_store_explicit(&n, 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);\natomic_fetch_add_explicit(&n, 1u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);\nif (lid == 0) y[0] = float(atomic_load_explicit(&n, memory_order_relaxed));`,
        `threadgroup uint n[1];\nif (lid == 0) n[0] = 0u;
        atomic_fetch_add_explicit((threadgroup atomic_uint*)n, 1u, memory_order_relaxed);\ny[lid] = 0.0;`,
      )
      expect(atomic).toBe('')
      expect(mixed).toMatch(/:6: threadgroup race: atomic access/)
    })

    test('uninitialised threadgroup reads', () => {
      const body =
        'threadgroup float t[64];\nif (lid < 60) t[lid] = 1.0;\nthreadgroup_barrier(mem_flags::mem_threadgroup);\ny[lid] = t[lid];'
      expect(faults(64, body)[0]).toMatch(/:7: uninitialised read of 4 bytes at offset 252 of threadgroup memory; thread \(63, 0, 0\)/)
    })

    test('divergent barriers', () => {
      const barrier = 'threadgroup_barrier(mem_flags::mem_threadgroup);'
      const [apart, last, first] = faults(
        64,
        `if (lid < 32) ${barrier}\nelse ${barrier}\ny[lid] = 0.0;`,
        `if (lid == 63) return;\n${barrier}\ny[lid] = 0.0;`,
        `if (lid == 0) return;\n${barrier}\ny[lid] = 0.0;`,
      )
      expect(apart).toMatch(/:5: divergent barrier: threadgroup_barrier while thread \(0, 0, 0\) waits in another at line 4/)
      expect(last).toMatch(/:5: divergent barrier: .*returned.*; thread \(63, 0, 0\)/)
      expect(first).toMatch(/:5: divergent barrier: threadgroup_barrier after thread \(0, 0, 0\) returned/)
    })

    test('divergent collectives', () => {
      const [ops, mixed, left] = faults(
        64,
        'float v = 0.0;\nif (lid & 1) v = simd_sum(1.0f);\nelse v = simd_max(1.0f);\ny[lid] = v;',
        'float v = 0.0;\nif (lid < 8) v = simd_sum(1.0f);\nthreadgroup_barrier(mem_flags::mem_threadgroup);\ny[lid] = v;',
        'if (lid >= 8) return;\ny[lid] = simd_sum(1.0f);',
      )
      expect(ops).toMatch(
        /:5: divergent collective: simd_sum while thread \(0, 0, 0\) of the same simdgroup waits in simd_max at line 6; thread \(1, 0, 0\)/,
      )
      expect(mixed).toMatch(/divergent collective: threadgroup_barrier while thread \(0, 0, 0\) waits in simd_sum at line 5/)
      // A lane that returned has left the simdgroup: the others go on without it.
      expect(left).toBe('')
    })

    test('values from lanes that do not exist show', () => {
      const y = metal.buffer(128)
      metal.dispatch(`kernel void planted(${PARAMS}) { y[lid] = simd_shuffle_down(1.0f, 16); }`, 'planted', [y], ONE, [32, 1, 1])
      expect(metal.floats(y)[15]).toBe(1)
      expect(metal.floats(y)[16]).toBeNaN()
      metal.release(y)
    })

    test('threads with too much memory are refused by the compiler', () => {
      expect(
        metal.library(
          `kernel void big(${PARAMS}) {\nfloat a[40000];\nfor (uint i = 0; i < 40000; i++) a[i] = y[i & 63];\ny[lid] = a[uint(y[0])];\n}`,
        ),
      ).toMatch(/error: (the frame size|stack frame size)/) // g++ or clang++
    })
  })

  describe('between dispatches', () => {
    const source = `kernel void put(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n  y[i] = 1.0;\n}
      kernel void get(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {\n  y[i] = x[i];\n}`
    const pair = (concurrent: boolean, between: 'nothing' | 'barrier' | 'resource' | 'other resource', distance = 0) => {
      const [put, get] = [metal.pipeline(source, 'put'), metal.pipeline(source, 'get')]
      const [x, y] = [metal.buffer(512), metal.buffer(256)]
      const run = metal.run((e) => {
        e.use(put, [x]).groups(ONE, [64, 1, 1])
        if (between === 'barrier') e.barrier()
        if (between === 'resource') e.send('memoryBarrierWithResources:count:', new BigUint64Array([x]), 1)
        if (between === 'other resource') e.send('memoryBarrierWithResources:count:', new BigUint64Array([y]), 1)
        e.use(get, [x, y]).send('setBuffer:offset:atIndex:', x, distance, 0).groups(ONE, [64, 1, 1])
      }, concurrent)
      for (const o of [put, get, x, y]) metal.release(o)
      return run.error
    }

    test('races of concurrent dispatches without a barrier', () => {
      const report =
        /kernel 'get', program_source:7: race between concurrent dispatches: read of 4 bytes at offset 0 of buffer\(0\) 'x' that dispatch 1 \('put'\) wrote with no memory barrier between; thread \(0, 0, 0\)/
      expect(pair(true, 'nothing')).toMatch(report)
      expect(pair(true, 'other resource')).toMatch(report)
      expect(pair(true, 'barrier')).toBe('')
      expect(pair(true, 'resource')).toBe('')
      expect(pair(false, 'nothing')).toBe('')
      expect(pair(true, 'nothing', 256)).toBe('') // other bytes of the same buffer
      expect(pair(true, 'nothing', 252)).toMatch(/race between concurrent dispatches/)
    })

    test('a write after a read, and two writers', () => {
      const [put, get] = [metal.pipeline(source, 'put'), metal.pipeline(source, 'get')]
      const [x, y] = [metal.buffer(256), metal.buffer(256)]
      const after = metal.run((e) => e.use(get, [x, y]).groups(ONE, [64, 1, 1]).use(put, [x]).groups(ONE, [64, 1, 1]), true)
      expect(after.error).toMatch(/kernel 'put', .*write of 4 bytes at offset 0 of buffer\(0\) 'y' that dispatch 1 \('get'\) read/)
      const both = metal.run((e) => e.use(put, [x]).groups(ONE, [64, 1, 1]).groups(ONE, [64, 1, 1]), true)
      expect(both.error).toMatch(/that dispatch 1 \('put'\) wrote/)
      for (const o of [put, get, x, y]) metal.release(o)
    })
  })
})
