// soft-metal runs kernels: the language, the collectives, the API paths. Faults are checks.test.ts.

import { expect, test } from 'vitest'
import { describeSoftMetal } from './harness.ts'

await describeSoftMetal('kernels on soft-metal', (metal) => {
  test('adds two vectors', () => {
    const a = metal.buffer(Float32Array.from({ length: 100 }, (_, i) => i))
    const b = metal.buffer(Float32Array.from({ length: 100 }, (_, i) => 2 * i))
    const y = metal.buffer(400)
    const source = `kernel void add(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]],
      device float* y [[buffer(2)]], uint i [[thread_position_in_grid]]) { y[i] = a[i] + b[i]; }`
    const run = metal.dispatch(source, 'add', [a, b, y], [10, 1, 1], [10, 1, 1])
    expect(run).toEqual({ status: 4, error: '' })
    expect([...metal.floats(y)]).toEqual(Array.from({ length: 100 }, (_, i) => 3 * i))
    for (const x of [a, b, y]) metal.release(x)
  })

  test('mat-vec by simd_sum, arguments in a struct by setBytes', () => {
    const rows = 7
    const columns = 75
    const w = Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i))
    const x = Float32Array.from({ length: columns }, (_, i) => Math.cos(i))
    const [wb, xb, y] = [metal.buffer(w), metal.buffer(x), metal.buffer(rows * 4)]
    const source = `struct Args { uint rows; uint columns; float scale; };
      kernel void matvec(device const float* w [[buffer(0)]], device const float* x [[buffer(1)]], device float* y [[buffer(2)]],
        constant Args& args [[buffer(3)]], uint3 wg [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
        uint sg [[simdgroup_index_in_threadgroup]], uint sgs [[simdgroups_per_threadgroup]]) {
        uint row = wg.x * sgs + sg;
        if (row >= args.rows) return;
        float sum = 0;
        for (uint c = lane; c < args.columns; c += 32) sum += w[row * args.columns + c] * x[c];
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum * args.scale;
      }`
    const args = new Uint32Array([rows, columns, 0])
    new Float32Array(args.buffer)[2] = 2
    expect(metal.dispatch(source, 'matvec', [wb, xb, y, args], [4, 1, 1], [64, 1, 1]).error).toBe('')
    const got = metal.floats(y)
    for (let r = 0; r < rows; r++) {
      let sum = 0
      for (let c = 0; c < columns; c++) sum += (w[r * columns + c] ?? 0) * (x[c] ?? 0)
      expect(got[r]).toBeCloseTo(2 * sum, 4)
    }
    for (const b of [wb, xb, y]) metal.release(b)
  })

  test('reduces in threadgroup memory with barriers', () => {
    const x = metal.buffer(Float32Array.from({ length: 1024 }, (_, i) => i))
    const y = metal.buffer(16)
    const source = `kernel void reduce(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
      uint lid [[thread_index_in_threadgroup]], uint wg [[threadgroup_position_in_grid]], uint n [[threads_per_threadgroup]]) {
      threadgroup float tile[256];
      threadgroup uint count;
      tile[lid] = x[wg * n + lid];
      if (lid == 0) count = 0u;
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (uint s = n / 2; s > 0; s >>= 1) {
        if (lid < s) tile[lid] += tile[lid + s];
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
      if (lid == 0) y[wg] = tile[0] + float(count);
    }`
    expect(metal.dispatch(source, 'reduce', [x, y], [4, 1, 1], [256, 1, 1]).error).toBe('')
    expect([...metal.floats(y)]).toEqual([0, 1, 2, 3].map((g) => 256 * (g * 256) + (255 * 256) / 2))
    metal.release(x)
    metal.release(y)
  })

  test('multiplies with simdgroup matrices, half operands, threadgroup staging, transpose', () => {
    const a = Float32Array.from({ length: 64 }, (_, i) => ((i * 7) % 11) - 5)
    const b = Float32Array.from({ length: 64 }, (_, i) => ((i * 5) % 13) - 6)
    const [ab, bb, y] = [metal.buffer(a), metal.buffer(b), metal.buffer(64 * 4 * 3)]
    const source = `kernel void mma(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]], device float* y [[buffer(2)]],
      uint lane [[thread_index_in_simdgroup]]) {
      threadgroup half tile[64];
      for (uint i = lane; i < 64; i += 32) tile[i] = half(b[i]);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      simdgroup_float8x8 x;
      simdgroup_half8x8 w;
      simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8>(1.0f);
      simdgroup_load(x, a);
      simdgroup_load(w, tile, 8);
      simdgroup_multiply_accumulate(sum, x, w, sum);
      simdgroup_store(sum, y, 8);
      simdgroup_float8x8 t;
      simdgroup_load(t, a, 8, 0, true);
      simdgroup_store(t, y + 64);
      t.thread_elements()[0] = float(lane);
      t.thread_elements()[1] = float(lane) + 0.5;
      simdgroup_store(t, y + 128, 8, ulong2(0, 0), false);
    }`
    expect(metal.dispatch(source, 'mma', [ab, bb, y], [1, 1, 1], [32, 1, 1]).error).toBe('')
    const got = metal.floats(y)
    for (let r = 0; r < 8; r++) {
      for (let c = 0; c < 8; c++) {
        let sum = 1
        for (let k = 0; k < 8; k++) sum += (a[r * 8 + k] ?? 0) * (b[k * 8 + c] ?? 0)
        expect(got[r * 8 + c]).toBe(sum)
        expect(got[64 + r * 8 + c]).toBe(a[c * 8 + r])
      }
    }
    // The lane map of real hardware: row 4*(L>>4) + ((L>>1)&3), columns from 4*((L>>3)&1) + 2*(L&1).
    for (let lane = 0; lane < 32; lane++) {
      const at = 128 + (4 * (lane >> 4) + ((lane >> 1) & 3)) * 8 + 4 * ((lane >> 3) & 1) + 2 * (lane & 1)
      expect([got[at], got[at + 1]]).toEqual([lane, lane + 0.5])
    }
    for (const x of [ab, bb, y]) metal.release(x)
  })

  test('specialises by function constants', () => {
    const source = `constant uint FACTOR [[function_constant(0)]];
      constant bool NEGATE [[function_constant(1)]];
      constant uint DOUBLE = FACTOR * 2;
      float scale(float x) { return x * float(DOUBLE); }
      kernel void fc(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = NEGATE ? -scale(float(i)) : scale(float(i)); }`
    const y = metal.buffer(16)
    const pipelines = [1, 3].map((n) =>
      metal.pipeline(source, 'fc', [
        [0, 33, new Uint32Array([n])],
        [1, 53, new Uint8Array([n === 3 ? 1 : 0])],
      ]),
    )
    const results = pipelines.map((p) => {
      metal.run((e) => e.use(p, [y]).groups([1, 1, 1], [4, 1, 1]))
      metal.release(p)
      return [...metal.floats(y)]
    })
    expect(results).toEqual([
      [0, 2, 4, 6],
      [-0, -6, -12, -18],
    ])
    expect(() => metal.pipeline(source, 'fc')).toThrow(/function constant/)
    expect(() =>
      metal.pipeline(source, 'fc', [
        [0, 3, new Float32Array([1])],
        [1, 53, new Uint8Array(1)],
      ]),
    ).toThrow(/'FACTOR' is uint/)
    metal.release(y)
  })

  test('clips the last threadgroups of dispatchThreads', () => {
    const y = metal.buffer(new Uint32Array(15))
    const source = `kernel void clip(device uint* y [[buffer(0)]], uint2 i [[thread_position_in_grid]], uint2 n [[threads_per_grid]],
      uint2 size [[threads_per_threadgroup]], uint2 full [[dispatch_threads_per_threadgroup]]) {
      y[i.y * n.x + i.x] = size.x * 100 + size.y * 10 + full.x; }`
    const p = metal.pipeline(source, 'clip')
    expect(metal.run((e) => e.use(p, [y]).threads([5, 3, 1], [4, 2, 1])).error).toBe('')
    const wide = [424, 424, 424, 424, 124]
    expect([...new Uint32Array(metal.bytes(y))]).toEqual([...wide, ...wide, 414, 414, 414, 414, 114])
    metal.release(p)
    metal.release(y)
  })

  test('replays an indirect command buffer with barriers', () => {
    const source = `kernel void inc(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
      y[i] = x[i] + 1.0; }`
    const p = metal.pipeline(source, 'inc', [], true)
    const [a, b] = [metal.buffer(256), metal.buffer(256)]
    const descriptor = metal.sendClass('MTLIndirectCommandBufferDescriptor', 'new') as bigint
    const set = (selector: string, value: unknown) => metal.send(descriptor, 'MTLIndirectCommandBufferDescriptor', selector, value)
    set('setCommandTypes:', 0x60)
    set('setInheritBuffers:', false)
    set('setInheritPipelineState:', false)
    set('setMaxKernelBufferBindCount:', 2)
    const icb = metal.send(
      metal.device,
      'MTLDevice',
      'newIndirectCommandBufferWithDescriptor:maxCommandCount:options:',
      descriptor,
      2,
      0,
    ) as bigint
    for (const [i, [from, to]] of [
      [a, b],
      [b, a],
    ].entries()) {
      const c = metal.send(icb, 'MTLIndirectCommandBuffer', 'indirectComputeCommandAtIndex:', i) as bigint
      const command = (selector: string, ...args: unknown[]) => metal.send(c, 'MTLIndirectComputeCommand', selector, ...args)
      command('setComputePipelineState:', p)
      command('setKernelBuffer:offset:atIndex:', from, 0, 0)
      command('setKernelBuffer:offset:atIndex:', to, 0, 1)
      command('concurrentDispatchThreads:threadsPerThreadgroup:', { width: 64, height: 1, depth: 1 }, { width: 32, height: 1, depth: 1 })
      command('setBarrier')
    }
    const replay = (barriers = true) =>
      metal.run((e) => {
        if (!barriers) {
          const c = metal.send(icb, 'MTLIndirectCommandBuffer', 'indirectComputeCommandAtIndex:', 1) as bigint
          metal.send(c, 'MTLIndirectComputeCommand', 'clearBarrier')
        }
        const both = new BigUint64Array([a, b])
        e.send('useResources:count:usage:', both, 2, 3)
        e.send('executeCommandsInBuffer:withRange:', icb, { location: 0, length: 2 })
      }, true)
    for (let i = 0; i < 3; i++) expect(replay()).toEqual({ status: 4, error: '' })
    expect(metal.floats(a)[63]).toBe(6)
    const notResident = metal.run((e) => e.send('executeCommandsInBuffer:withRange:', icb, { location: 0, length: 2 }))
    expect(notResident.error).toMatch(/not resident/)
    expect(replay(false).error).toMatch(/race between concurrent dispatches/)
    for (const x of [p, a, b, descriptor, icb]) metal.release(x)
  })

  test('waits for and signals shared events', () => {
    const event = metal.send(metal.device, 'MTLDevice', 'newSharedEvent') as bigint
    metal.pooled(() => {
      const cb = metal.commandBuffer()
      metal.send(cb, 'MTLCommandBuffer', 'encodeWaitForEvent:value:', event, 1)
      metal.send(cb, 'MTLCommandBuffer', 'encodeSignalEvent:value:', event, 2)
      metal.send(cb, 'MTLCommandBuffer', 'commit')
      expect(metal.send(event, 'MTLSharedEvent', 'waitUntilSignaledValue:timeoutMS:', 2, 20)).toBe(false)
      metal.send(event, 'MTLSharedEvent', 'setSignaledValue:', 1)
      expect(metal.send(event, 'MTLSharedEvent', 'waitUntilSignaledValue:timeoutMS:', 2, 5000)).toBe(true)
      metal.send(cb, 'MTLCommandBuffer', 'waitUntilCompleted')
      expect(Number(metal.send(event, 'MTLSharedEvent', 'signaledValue'))).toBe(2)
      const start = metal.send(cb, 'MTLCommandBuffer', 'GPUStartTime') as number
      expect(metal.send(cb, 'MTLCommandBuffer', 'GPUEndTime') as number).toBeGreaterThan(start)
    })
    metal.release(event)
  })

  test('waits off the main thread', async () => {
    metal.inject('slow', 100)
    const pool = metal.push()
    const cb = metal.retain(metal.commandBuffer())
    metal.send(cb, 'MTLCommandBuffer', 'commit')
    metal.pop(pool)
    let turns = 0
    const timer = setInterval(() => turns++, 5)
    const wait = metal.function('v@:')
    await new Promise<void>((resolve, reject) => {
      wait.async(cb, metal.selector('waitUntilCompleted'), (error: unknown) => (error ? reject(error) : resolve()))
    })
    clearInterval(timer)
    metal.inject('slow', 0)
    expect(turns).toBeGreaterThan(0)
    expect(Number(metal.send(cb, 'MTLCommandBuffer', 'status'))).toBe(4)
    metal.release(cb)
  })

  test('copies and fills by blits', () => {
    const [a, b] = [metal.buffer(new Uint8Array(16).fill(7)), metal.buffer(16)]
    metal.pooled(() => {
      const cb = metal.commandBuffer()
      const e = metal.send(cb, 'MTLCommandBuffer', 'blitCommandEncoder') as bigint
      const blit = (selector: string, ...args: unknown[]) => metal.send(e, 'MTLBlitCommandEncoder', selector, ...args)
      blit('copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:', a, 4, b, 8, 8)
      blit('fillBuffer:range:value:', b, { location: 1, length: 2 }, 3)
      blit('endEncoding')
      expect(metal.finish(cb).error).toBe('')
    })
    expect([...new Uint8Array(metal.bytes(b))]).toEqual([0, 3, 3, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7])
    metal.release(a)
    metal.release(b)
  })

  test('gives compile errors as Metal does', () => {
    const text = metal.library('kernel void bad(device float* y [[buffer(0)]]) {\n  y[0] = missing + 1.0f;\n}')
    expect(text).toMatch(/^program_source:4:10: error: .*'missing'/)
    expect(text).toMatch(/ {2}y\[0\] = missing \+ 1\.0f;\n {9}\^\n/)
    expect(metal.library('kernel void d(device double* y [[buffer(0)]]) {}')).toMatch(
      /program_source:3:22: error: 'double' is not supported in Metal/,
    )
    expect(metal.library('kernel void p(float* y [[buffer(0)]]) {}')).toMatch(
      /error: pointer type must have explicit address space qualifier/,
    )
  })
})
