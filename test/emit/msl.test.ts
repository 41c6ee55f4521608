// What Metal is told. The snapshots are read by people: they should look like kernels written by hand.
import { describe, expect, it } from 'vitest'
import { emitMsl } from '../../src/emit/msl.ts'
import { axpy, convert, corners, histogram, matvec, reduce, tileMatmul } from './sample.ts'

describe('MSL', () => {
  it('is the same every time', () => expect(emitMsl(corners).text).toBe(emitMsl(corners).text))
  it('elementwise with a bounds check', () =>
    expect(emitMsl(axpy).text).toMatchInlineSnapshot(`
    "// axpy: workgroups of 64 lanes
    #include <metal_stdlib>
    using namespace metal;

    struct axpy_args {
      float a;
      uint n;
    };

    [[max_total_threads_per_threadgroup(64)]]
    kernel void axpy(
        device const float* x [[buffer(0)]],
        device float* y [[buffer(1)]],
        constant axpy_args& args [[buffer(2)]],
        uint gid [[thread_position_in_grid]]
    ) {
      uint i = gid;
      if (i < args.n) {
        y[i] += x[i] * args.a;
      }
    }
    "
  `))
  it('mat-vec with subgroups', () =>
    expect(emitMsl(matvec(32)).text).toMatchInlineSnapshot(`
    "// matvec: workgroups of 64 lanes, subgroups of 32
    #include <metal_stdlib>
    using namespace metal;

    struct matvec_args {
      uint rows;
      uint columns;
    };

    inline float sum_f32x4(float4 v) {
      return (v.x + v.y) + (v.z + v.w);
    }

    [[max_total_threads_per_threadgroup(64)]]
    kernel void matvec(
        device const float* w [[buffer(0)]],
        device const float* x [[buffer(1)]],
        device float* y [[buffer(2)]],
        constant matvec_args& args [[buffer(3)]],
        uint group [[threadgroup_position_in_grid]],
        uint simdgroup [[simdgroup_index_in_threadgroup]],
        uint sublane [[thread_index_in_simdgroup]]
    ) {
      uint row = group * 2 + simdgroup;
      if (row < args.rows) {
        float4 acc = float4(0.0f);
        uint t = row * args.columns;
        for (uint c = sublane * 4; c < args.columns; c += 128) {
          acc += float4(*(device const packed_float4*)&w[t + c]) * *(device const float4*)&x[c];
        }
        float sum = simd_sum(sum_f32x4(acc));
        if (sublane == 0) {
          y[row] = sum;
        }
      }
    }
    "
  `))
  it('a reduction through threadgroup memory', () =>
    expect(emitMsl(reduce).text).toMatchInlineSnapshot(`
    "// reduce: workgroups of 64 lanes
    #include <metal_stdlib>
    using namespace metal;

    struct reduce_args {
      uint n;
    };

    [[max_total_threads_per_threadgroup(64)]]
    kernel void reduce(
        device const float* x [[buffer(0)]],
        device float* y [[buffer(1)]],
        constant reduce_args& args [[buffer(2)]],
        uint gid [[thread_position_in_grid]],
        uint group [[threadgroup_position_in_grid]],
        uint lane [[thread_index_in_threadgroup]]
    ) {
      threadgroup float partial[64];
      partial[lane] = 0.0f;
      uint i = gid;
      if (i < args.n) {
        partial[lane] = x[i];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (lane < 32) {
        partial[lane] += partial[lane + 32];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (lane < 16) {
        partial[lane] += partial[lane + 16];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (lane < 8) {
        partial[lane] += partial[lane + 8];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (lane < 4) {
        partial[lane] += partial[lane + 4];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (lane < 2) {
        partial[lane] += partial[lane + 2];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (lane < 1) {
        partial[lane] += partial[lane + 1];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (lane == 0) {
        y[group] = partial[0];
      }
    }
    "
  `))
  it('8x8 tiles', () =>
    expect(emitMsl(tileMatmul(32)).text).toMatchInlineSnapshot(`
    "// tileMatmul: workgroups of 32 lanes, subgroups of 32
    #include <metal_stdlib>
    using namespace metal;

    struct tileMatmul_args {
      uint n;
      uint depth;
    };

    kernel void tileMatmul(
        device const half* a [[buffer(0)]],
        device const half* b [[buffer(1)]],
        device float* c [[buffer(2)]],
        constant tileMatmul_args& args [[buffer(3)]],
        uint3 group [[threadgroup_position_in_grid]]
    ) {
      simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      uint row = group.y * 8;
      uint column = group.x * 8;
      uint t = row * args.depth;
      uint t2 = column * args.depth;
      for (uint d = 0; d < args.depth; d += 8) {
        simdgroup_half8x8 left;
        simdgroup_load(left, &a[t + d], args.depth);
        simdgroup_half8x8 right;
        simdgroup_load(right, &b[t2 + d], args.depth, ulong2(0, 0), true);
        simdgroup_multiply_accumulate(acc, left, right, acc);
      }
      simdgroup_store(acc, &c[row * args.n + column], args.n);
    }
    "
  `))
  it('halves and bytes', () =>
    expect(emitMsl(convert).text).toMatchInlineSnapshot(`
    "// convert: workgroups of 64 lanes
    #include <metal_stdlib>
    using namespace metal;

    struct convert_args {
      uint n;
    };

    [[max_total_threads_per_threadgroup(64)]]
    kernel void convert(
        device const half* h [[buffer(0)]],
        device const uchar* q [[buffer(1)]],
        device half* out [[buffer(2)]],
        constant convert_args& args [[buffer(3)]],
        uint gid [[thread_position_in_grid]]
    ) {
      uint i = gid * 4;
      if (i < args.n) {
        *(device half4*)&out[i] =
            half4(float4(*(device const half4*)&h[i]) * 0.0625f + float4(uint4(*(device const uchar4*)&q[i]) & 0xfu))
            * 2.0h;
      }
    }
    "
  `))
  it('atomics', () =>
    expect(emitMsl(histogram).text).toMatchInlineSnapshot(`
    "// histogram: workgroups of 16 lanes
    #include <metal_stdlib>
    using namespace metal;

    struct histogram_args {
      uint n;
    };

    kernel void histogram(
        device const uint* x [[buffer(0)]],
        device atomic_uint* counts [[buffer(1)]],
        constant histogram_args& args [[buffer(2)]],
        uint gid [[thread_position_in_grid]],
        uint lane [[thread_index_in_threadgroup]]
    ) {
      threadgroup atomic_uint local[16];
      atomic_store_explicit(&local[lane], 0u, memory_order_relaxed);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      uint at = gid;
      if (at < args.n) {
        atomic_fetch_add_explicit(&local[x[at] & 0xf], 1u, memory_order_relaxed);
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      atomic_fetch_add_explicit(&counts[lane], atomic_load_explicit(&local[lane], memory_order_relaxed),
          memory_order_relaxed);
    }
    "
  `))
  it('odd corners', () =>
    expect(emitMsl(corners).text).toMatchInlineSnapshot(`
    "// corners: workgroups of 1 lane
    #include <metal_stdlib>
    using namespace metal;

    inline int div_i32(int a, int b) {
      return b == 0 ? a : b == -1 ? int(0u - uint(a)) : a / b;
    }

    inline int rem_i32(int a, int b) {
      return b == 0 || b == -1 ? 0 : a % b;
    }

    inline int to_i32(float x) {
      return x >= 2147483648.0f ? 2147483647 : x >= -2147483648.0f ? int(x) : x < -2147483648.0f ? (-2147483647 - 1) : 0;
    }

    inline uint to_u32(float x) {
      return x >= 4294967296.0f ? 0xffffffffu : x > 0.0f ? uint(x) : 0u;
    }

    constant int table[4] = { 3, -1, 4, (-2147483647 - 1) };

    kernel void corners(
        device const float* x [[buffer(0)]],
        device const int* i [[buffer(1)]],
        device uint* u [[buffer(2)]],
        device int* out [[buffer(3)]],
        uint group [[threadgroup_position_in_grid]]
    ) {
      int a = i[group];
      int b = i[group + 1];
      float maxValue = x[group];
      uint t = group * 8;
      out[t] = div_i32(a, b);
      out[t + 1] = rem_i32(a, b);
      out[t + 2] = to_i32(maxValue);
      out[t + 3] = (a << (b & 31)) ^ (a >> 3);
      out[t + 4] = table[group & 3];
      out[t + 5] = (maxValue < INFINITY && maxValue > -3.5e20f) || a == (-2147483647 - 1) ? a : 7;
      out[t + 6] = as_type<int>(to_u32(maxValue));
      int steps = 0;
      uint rest = u[group];
      while (true) {
        if (rest == 0) {
          break;
        }
        rest &= rest - 1;
        steps += 1;
      }
      out[t + 7] = steps;
      u[group] *= 3;
    }
    "
  `))
})
