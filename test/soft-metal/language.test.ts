// The subset of MSL that kernels are written in, run on soft-metal and compared with JavaScript.

import { expect, test } from 'vitest'
import { describeSoftMetal, type Size } from './harness.ts'

const ONE: Size = [1, 1, 1]

await describeSoftMetal('the language on soft-metal', (metal) => {
  /** Run statements that write `y` (floats) and `u` (uints) in one thread; what they wrote. */
  const evaluate = (body: string, count: number, before = '', threads = 1) => {
    const [y, u] = [metal.buffer(4 * Math.max(count, 1)), metal.buffer(4 * Math.max(count, 1))]
    const source = `${before}\nkernel void k(device float* y [[buffer(0)]], device uint* u [[buffer(1)]],
      ushort lane [[thread_index_in_simdgroup]], uint3 tid [[thread_position_in_threadgroup]]) {\n${body}\n}`
    const run = metal.dispatch(source, 'k', [y, u], ONE, [threads, 1, 1])
    expect(run.error).toBe('')
    const result = { y: [...metal.floats(y)], u: [...new Uint32Array(metal.bytes(u))] }
    metal.release(y)
    metal.release(u)
    return result
  }
  /** Expressions of type float, each to its value; those that differ. */
  const differences = (table: Record<string, number>) => {
    const names = Object.keys(table)
    const { y } = evaluate(names.map((e, i) => `y[${i}] = float(${e});`).join('\n'), names.length)
    return Object.entries(table).flatMap(([e, wanted], i) => {
      const got = y[i] ?? NaN
      const close = Number.isFinite(wanted) ? Math.abs(got - wanted) <= 1e-6 * Math.max(1, Math.abs(wanted)) : Object.is(got, wanted)
      return close ? [] : [`${e} is ${got}, wanted ${wanted}`]
    })
  }

  test('math functions', () => {
    const wrong = differences({
      'abs(-2)': 2,
      'abs(-2.5)': 2.5,
      'fabs(-1.0f)': 1,
      'min(3, 4)': 3,
      'max(3u, 4u)': 4,
      'min(NAN, 1.0f)': 1,
      'clamp(5.0f, 0.0f, 1.0f)': 1,
      'sign(-3.0f)': -1,
      'floor(-1.5f)': -2,
      'ceil(1.2f)': 2,
      'round(2.5f)': 3,
      'round(-2.5f)': -3,
      'rint(2.5f)': 2,
      'trunc(-1.7f)': -1,
      'fract(1.25f)': 0.25,
      'fmod(5.5f, 2.0f)': 1.5,
      'sqrt(2.0f)': Math.SQRT2,
      'rsqrt(4.0f)': 0.5,
      'exp(1.0f)': Math.E,
      'exp2(3.0f)': 8,
      'exp10(2.0f)': 100,
      'log(10.0f)': Math.LN10,
      'log2(8.0f)': 3,
      'log10(100.0f)': 2,
      'pow(2.0f, 0.5f)': Math.SQRT2,
      'sin(1.0f)': Math.sin(1),
      'cos(1.0f)': Math.cos(1),
      'tan(1.0f)': Math.tan(1),
      'tanh(0.5f)': Math.tanh(0.5),
      'precise::tanh(0.5f)': Math.tanh(0.5),
      'fast::exp(0.5f)': Math.exp(0.5),
      'atan2(1.0f, 2.0f)': Math.atan2(1, 2),
      'asinh(1.0f)': Math.asinh(1),
      'fma(2.0f, 3.0f, 4.0f)': 10,
      'copysign(3.0f, -1.0f)': -3,
      'ldexp(1.5f, 3)': 12,
      'isnan(NAN)': 1,
      'isinf(-INFINITY)': 1,
      'isfinite(1.0f)': 1,
      'signbit(-1.0f)': 1,
      'select(1.0f, 2.0f, true)': 2,
      'mix(1.0f, 3.0f, 0.25f)': 1.5,
      'saturate(1.5f)': 1,
      'step(1.0f, 2.0f)': 1,
      FLT_MAX: 3.4028234663852886e38,
      'popcount(255u)': 8,
      'clz(1u)': 31,
      'ctz(8u)': 3,
      'clz(ushort(1))': 15,
      'mulhi(0x80000000u, 4u)': 2,
      'rotate(0x80000001u, 1u)': 3,
      'extract_bits(0xabcdu, 4u, 8u)': 0xbc,
      'extract_bits(-16, 4u, 8u)': -1,
      'half(2049.0f)': 2048,
      'half(1.0h + 0.00048828125h)': 1,
      'bfloat(1.00390625f)': 1,
      'float(half(65504.0f) * half(2.0f))': Infinity,
      'numeric_limits<half>::max()': 65504,
      '1.5e0': 1.5,
      '3 / 2': 1,
      '-7 % 3': -1,
      'as_type<uint>(1.0f) >> 23': 127,
      'as_type<half2>(0x3c003c00u).y': 1,
      'as_type<uchar4>(0x04030201u)[2]': 3,
      'int(as_type<char4>(0xff00ff00u)[1])': -1,
    })
    expect(wrong).toEqual([])
  })

  test('vectors', () => {
    const wrong = differences({
      'float4(1.0f).w': 1,
      'float4(1, 2, 3, 4).z': 3,
      'float4(float2(1, 2), float2(3, 4))[3]': 4,
      'float3(float2(1, 2), 3.0f).z': 3,
      'dot(float4(1, 2, 3, 4), float4(2))': 20,
      'length(float2(3, 4))': 5,
      '(float4(1, 2, 3, 4) * 2.0f + 1.0f).y': 5,
      '(2.0f * half4(1, 2, 3, 4)).x': 2,
      '(int4(7) / int4(2)).x': 3,
      '(uint4(1) << uint4(0, 1, 2, 3)).w': 8,
      'float4(uchar4(1, 2, 3, 255)).w': 255,
      'float2(int2(-1, 1)).x': -1,
      'all(float2(1, 2) < float2(2, 3)) ? 1 : 0': 1,
      'any(int2(1, 2) == int2(3, 4)) ? 1 : 0': 0,
      'max(float4(1, 5, 3, 2), 2.5f).x': 2.5,
      'select(float2(1, 2), float2(3, 4), bool2(true, false)).x': 3,
      '(-float2(1, 2)).y': -2,
      'clamp(int2(-5, 5), 0, 3).y': 3,
      'exp(float2(0)).x': 1,
      'float(sizeof(float3))': 16,
      'float(sizeof(packed_float3))': 12,
      'float(alignof(half4))': 8,
      'float(sizeof(char4))': 4,
      'float(sizeof(float4x4))': 64,
    })
    expect(wrong).toEqual([])
  })

  test('pointers, references, casts, structs, templates', () => {
    const before = `
      struct Pair { half a; ushort b; float c[2]; };
      constant float table[4] = { 1.0, 2.0, 4.0, 8.0 };
      constant constexpr int N = 3;
      template <typename T> T twice(T v) { return v + v; }
      void bump(thread float& v, device float* p) { v += 1.0; p[0] = v; }
      float pick(constant float* t, int i) { return t[i]; }
      float sum(device const float* p, uint n) { float s = 0; for (uint i = 0; i < n; ++i) s += *p++; return s; }`
    const { y, u } = evaluate(
      `
      for (int i = 0; i < 8; i++) y[i] = float(i);
      device const packed_float4* v = (device const packed_float4*)(y + 1);
      float4 q = *v;
      y[8] = q.x + q[3];
      device float4* w = reinterpret_cast<device float4*>(y + 4);
      w[0].y = 50.0;
      y[9] = w->z + (*w).y;
      auto copy = y[0]; y[0] = 7.0; y[10] = copy;
      float local = 1.0; bump(local, y + 11); y[12] = local + twice(2.0f);
      y[13] = pick(table, N);
      y[14] = sum(y, 4);
      device Pair* pair = (device Pair*)(u + 4);
      pair->b = 9; pair->a = 1.5h; pair[0].c[1] = 3.0;
      y[15] = float(pair->b) + float(pair->a) + pair->c[1];
      device const uchar* bytes = (device const uchar*)u;
      u[0] = 0x01020304u; u[1] = uint(bytes[1]) + (uint)*(device const ushort*)(bytes + 2);
      u[2] = uint(((device const half*)(u + 4))[0] * 2.0h);
      u[3] = u[0] & 0xffu; u[3] += 1u; u[3] <<= 2; u[3]++;
      device atomic_uint* count = (device atomic_uint*)(u + 7);
      atomic_store_explicit(count, 5u, memory_order_relaxed);
      u[8] = atomic_fetch_add_explicit(&count[0], 3u, memory_order_relaxed);
      u[9] = atomic_fetch_max_explicit((device atomic_uint*)(u + 7), 20u, memory_order_relaxed);
      device atomic_float* total = (device atomic_float*)(u + 10);
      atomic_store_explicit(total, 1.0f, memory_order_relaxed);
      atomic_fetch_add_explicit(total, 0.5f, memory_order_relaxed);
      uint expected = 20; bool swapped = atomic_compare_exchange_weak_explicit(count, &expected, 21u, memory_order_relaxed, memory_order_relaxed);
      u[11] = swapped ? 1 : 0;
      u[12] = (tid.x == 0 && lane == 0) ? 1u : 0u;`,
      16,
      before,
    )
    expect(y).toEqual([7, 1, 2, 3, 4, 50, 6, 7, 1 + 4, 6 + 50, 0, 2, 6, 8, 7 + 1 + 2 + 3, 13.5])
    expect(u.slice(0, 4)).toEqual([0x01020304, 3 + 0x0102, 3, 21])
    expect(u.slice(7, 10)).toEqual([21, 5, 8])
    expect(new Float32Array(new Uint32Array([u[10] ?? 0]).buffer)[0]).toBe(1.5)
    expect(u.slice(11, 13)).toEqual([1, 1])
  })

  test('memory in every place of an expression', () => {
    const { y, u } = evaluate(
      `
      for (int i = 0; i < 16; i++) y[i] = float(i);
      device const float* c = y; device half* h = (device half*)(u + 8); device const half* k = h;
      threadgroup half t[2]; t[0] = 5.0h;
      h[0] = 2.0h; h[1] = 3.0h;
      bool yes = y[1] > 0.5f;
      y[0] = yes ? c[3] : y[4]; y[1] = yes ? k[0] : h[1]; y[2] = yes ? h[1] : 1.0h; y[3] = yes ? t[0] : h[0];
      y[4] = (yes ? c : y)[5];
      device float4* w = (device float4*)(y + 8);
      float4 q = w[0]; float4 r(w[1]); const float4 z = *w;
      y[5] = q.x + r.y + z.z; y[6] = (w[0] * w[1]).x + dot(w[0], q) + max(w[0], w[1]).x;
      device packed_half4* ph = (device packed_half4*)(u + 12);
      *ph = packed_half4(half4(q)); half4 hq = *ph; y[7] = float(hq.w) + float(half4(*ph)[0]);
      if (u[0]) u[1] = 9u; else u[1] = 7u;
      u[2] = !u[0] && ~u[0] == 0xffffffffu ? 1u : 0u;
      switch (u[1]) { case 7: u[3] = 70u; break; default: u[3] = 1u; }
      int4 n = int4(w[0]); n[1] += int(c[8]); u[4] = uint(n.y);
      while (u[5] < 3u) u[5] += 1u;
      u[6] = y[u[5]] == y[3] ? y[9] != y[9] : 2u;
      u[7] = uint(-y[9] * -1.0f) + uint(y[9] > y[8]) + (uint(y[9]) << u[5]);`,
      16,
    )
    expect(y.slice(0, 8)).toEqual([3, 2, 3, 5, 5, 8 + 13 + 10, 96 + (64 + 81 + 100 + 121) + 12, 11 + 8])
    expect(u.slice(0, 8)).toEqual([0, 7, 1, 70, 17, 3, 0, 9 + 1 + 72])
  })

  test('simdgroup functions', () => {
    const functions: Record<string, (lane: number) => number> = {
      'simd_sum(x)': () => 528,
      'simd_max(x)': () => 32,
      'simd_min(x)': () => 1,
      'simd_product(lane < 3 ? x : 1.0f)': () => 6,
      'float(simd_or(1u << lane) == 0xffffffffu)': () => 1,
      'float(simd_and(lane | 8u))': () => 8,
      'float(simd_xor(uint(lane)))': () => 0,
      'simd_broadcast(x, 5)': () => 6,
      'simd_broadcast_first(x)': () => 1,
      'simd_shuffle(x, 31 - lane)': (l) => 32 - l,
      'simd_shuffle_xor(x, 3)': (l) => (l ^ 3) + 1,
      'lane < 28 ? simd_shuffle_down(x, 4) : (simd_shuffle_down(x, 4), 0.0f)': (l) => (l < 28 ? l + 5 : 0),
      'simd_shuffle_rotate_up(x, 1)': (l) => ((l + 31) % 32) + 1,
      'simd_shuffle_and_fill_up(x, -x, 2)': (l) => (l < 2 ? -(l + 31) : l - 1),
      'simd_prefix_inclusive_sum(x)': (l) => ((l + 1) * (l + 2)) / 2,
      'simd_prefix_exclusive_sum(x)': (l) => (l * (l + 1)) / 2,
      'float(simd_all(x > 0))': () => 1,
      'float(simd_any(x > 31))': () => 1,
      'float(ulong(simd_ballot(lane < 4)))': () => 15,
      'quad_sum(x)': (l) => 16 * Math.floor(l / 4) + 10,
      'quad_shuffle_xor(x, 1)': (l) => (l ^ 1) + 1,
      'float(simd_sum(half(1.0h)))': () => 32,
      'simd_sum(float4(x, 0, 0, 1)).w': () => 32,
      'simd_is_first() ? 1.0f : 0.0f': (l) => (l === 0 ? 1 : 0),
    }
    const names = Object.keys(functions)
    const body = `float x = float(lane) + 1.0;\n${names.map((e, i) => `y[${i * 32} + lane] = ${e};`).join('\n')}`
    const { y } = evaluate(body, names.length * 32, '', 32)
    for (const [i, e] of names.entries()) {
      expect([e, ...y.slice(i * 32, i * 32 + 32)]).toEqual([e, ...Array.from({ length: 32 }, (_, l) => functions[e]?.(l))])
    }
  })

  test('two-dimensional threadgroup arrays and threadgroup pointers in functions', () => {
    const before = `float total(threadgroup const float* row, uint n) { float s = 0; for (uint i = 0; i < n; i++) s += row[i]; return s; }`
    const { y } = evaluate(
      `threadgroup float tile[4][9]; threadgroup half h[4], k[4];
      for (uint i = 0; i < 8; i++) tile[tid.x][i] = float(tid.x * 10 + i);
      h[tid.x] = half(tid.x); k[tid.x] = h[tid.x] * 2.0h;
      threadgroup_barrier(mem_flags::mem_threadgroup);
      y[tid.x] = total(tile[3 - tid.x], 8) + float(k[3 - tid.x]);`,
      4,
      before,
      4,
    )
    expect(y).toEqual([3, 2, 1, 0].map((r) => 80 * r + 28 + 2 * r))
  })
})
