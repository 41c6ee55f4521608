// What WebGPU is told. wgsl.gpu.test.ts has Dawn compile and run the same kernels.
import { describe, expect, it } from 'vitest'
import { emitWgsl } from '../../src/emit/wgsl.ts'
import { axpy, convert, corners, histogram, matvec, reduce } from './sample.ts'

const FULL = { subgroup: 32, f16: true, tiles: false }
const PLAIN = { subgroup: 0, f16: false, tiles: false }

describe('WGSL', () => {
  it('is the same every time', () => expect(emitWgsl(corners, PLAIN).text).toBe(emitWgsl(corners, PLAIN).text))
  it('elementwise with a bounds check', () =>
    expect(emitWgsl(axpy, PLAIN).text).toMatchInlineSnapshot(`
    "// axpy: workgroups of 64 lanes

    struct Args {
      a: f32,
      n: u32,
      _pad0: u32,
      _pad1: u32,
    }
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @group(0) @binding(2) var<uniform> args: Args;

    @compute @workgroup_size(64)
    fn axpy(
      @builtin(global_invocation_id) gid: vec3u,
    ) {
      let i = gid.x;
      if (i < args.n) {
        y[i] += x[i] * args.a;
      }
    }
    "
  `))
  it('mat-vec with subgroups', () =>
    expect(emitWgsl(matvec(32), FULL).text).toMatchInlineSnapshot(`
    "// matvec: workgroups of 64 lanes, subgroups of 32
    enable subgroups;
    diagnostic(off, subgroup_uniformity);

    struct Args {
      rows: u32,
      columns: u32,
      _pad0: u32,
      _pad1: u32,
    }
    @group(0) @binding(0) var<storage, read> w: array<f32>;
    @group(0) @binding(1) var<storage, read> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> y: array<f32>;
    @group(0) @binding(3) var<uniform> args: Args;

    fn sum_f32x4(v: vec4f) -> f32 {
      return (v.x + v.y) + (v.z + v.w);
    }

    @compute @workgroup_size(64)
    fn matvec(
      @builtin(workgroup_id) group: vec3u,
      @builtin(local_invocation_index) lane: u32,
      @builtin(subgroup_invocation_id) sublane: u32,
    ) {
      let row = group.x * 2 + lane / 32;
      if (row < args.rows) {
        var acc = vec4f(0.0f);
        let t = row * args.columns;
        for (var c: u32 = sublane * 4; c < args.columns; c += 128) {
          let at = t + c;
          let wValue = vec4f(w[at], w[at + 1], w[at + 2], w[at + 3]);
          let xValue = vec4f(x[c], x[c + 1], x[c + 2], x[c + 3]);
          acc += wValue * xValue;
        }
        let sum = subgroupAdd(sum_f32x4(acc));
        if (sublane == 0) {
          y[row] = sum;
        }
      }
    }
    "
  `))
  it('a reduction through workgroup memory', () =>
    expect(emitWgsl(reduce, PLAIN).text).toMatchInlineSnapshot(`
    "// reduce: workgroups of 64 lanes

    struct Args {
      n: u32,
      _pad0: u32,
      _pad1: u32,
      _pad2: u32,
    }
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @group(0) @binding(2) var<uniform> args: Args;

    var<workgroup> partial: array<f32, 64>;

    @compute @workgroup_size(64)
    fn reduce(
      @builtin(global_invocation_id) gid: vec3u,
      @builtin(workgroup_id) group: vec3u,
      @builtin(local_invocation_index) lane: u32,
    ) {
      partial[lane] = 0.0f;
      let i = gid.x;
      if (i < args.n) {
        partial[lane] = x[i];
      }
      workgroupBarrier();
      if (lane < 32) {
        partial[lane] += partial[lane + 32];
      }
      workgroupBarrier();
      if (lane < 16) {
        partial[lane] += partial[lane + 16];
      }
      workgroupBarrier();
      if (lane < 8) {
        partial[lane] += partial[lane + 8];
      }
      workgroupBarrier();
      if (lane < 4) {
        partial[lane] += partial[lane + 4];
      }
      workgroupBarrier();
      if (lane < 2) {
        partial[lane] += partial[lane + 2];
      }
      workgroupBarrier();
      if (lane < 1) {
        partial[lane] += partial[lane + 1];
      }
      workgroupBarrier();
      if (lane == 0) {
        y[group.x] = partial[0];
      }
    }
    "
  `))
  it('halves with the extension', () =>
    expect(emitWgsl(convert, FULL).text).toMatchInlineSnapshot(`
    "// convert: workgroups of 64 lanes
    enable f16;

    struct Args {
      n: u32,
      _pad0: u32,
      _pad1: u32,
      _pad2: u32,
    }
    @group(0) @binding(0) var<storage, read> h: array<f16>;
    @group(0) @binding(1) var<storage, read> q: array<u32>;
    @group(0) @binding(2) var<storage, read_write> out: array<f16>;
    @group(0) @binding(3) var<uniform> args: Args;

    @compute @workgroup_size(64)
    fn convert(
      @builtin(global_invocation_id) gid: vec3u,
    ) {
      let i = gid.x * 4;
      if (i < args.n) {
        let hValue = vec4h(h[i], h[i + 1], h[i + 2], h[i + 3]);
        let qValue = unpack4xU8(q[i >> 2]);
        let t = vec4h(vec4f(hValue) * 0.0625f + vec4f(qValue & vec4u(15u))) * 2.0h;
        out[i] = t.x;
        out[i + 1] = t.y;
        out[i + 2] = t.z;
        out[i + 3] = t.w;
      }
    }
    "
  `))
  it('halves without the extension', () => expect(emitWgsl(convert, PLAIN).text).not.toContain('enable'))
  it('runs subgroups of a size the device has not in one lane', () => {
    expect(emitWgsl(matvec(32), PLAIN)).toMatchObject({ workgroup: [1, 1, 1], text: expect.not.stringContaining('enable subgroups') })
  })
  it('atomics', () =>
    expect(emitWgsl(histogram, PLAIN).text).toMatchInlineSnapshot(`
    "// histogram: workgroups of 16 lanes

    struct Args {
      n: u32,
      _pad0: u32,
      _pad1: u32,
      _pad2: u32,
    }
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
    @group(0) @binding(2) var<uniform> args: Args;

    var<workgroup> local: array<atomic<u32>, 16>;

    @compute @workgroup_size(16)
    fn histogram(
      @builtin(global_invocation_id) gid: vec3u,
      @builtin(local_invocation_index) lane: u32,
    ) {
      atomicStore(&local[lane], 0u);
      workgroupBarrier();
      let at = gid.x;
      if (at < args.n) {
        atomicAdd(&local[x[at] & 0xf], 1u);
      }
      workgroupBarrier();
      atomicAdd(&counts[lane], atomicLoad(&local[lane]));
    }
    "
  `))
  it('odd corners', () =>
    expect(emitWgsl(corners, PLAIN).text).toMatchInlineSnapshot(`
    "// corners: workgroups of 1 lane

    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read> i: array<i32>;
    @group(0) @binding(2) var<storage, read_write> u: array<u32>;
    @group(0) @binding(3) var<storage, read_write> out: array<i32>;

    const table = array<i32, 4>(3, -1, 4, i32(-2147483648));

    fn inf() -> f32 {
      var bits = 0x7f800000u;
      return bitcast<f32>(bits);
    }

    fn to_i32(x: f32) -> i32 {
      return select(select(i32(x), 2147483647, x >= 2147483648.0f), 0, (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u);
    }

    fn to_u32(x: f32) -> u32 {
      return select(select(u32(x), 0xffffffffu, x >= 4294967296.0f), 0u, (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u);
    }

    @compute @workgroup_size(1)
    fn corners(
      @builtin(workgroup_id) group: vec3u,
    ) {
      let a = i[group.x];
      let b = i[group.x + 1];
      let maxValue = x[group.x];
      let t = group.x * 8;
      out[t] = a / b;
      out[t + 1] = a % b;
      out[t + 2] = to_i32(maxValue);
      out[t + 3] = (a << u32(b)) ^ (a >> 3);
      out[t + 4] = table[group.x & 3];
      out[t + 5] = select(7, a, (maxValue < inf() && maxValue > -3.5e20f) || a == i32(-2147483648));
      out[t + 6] = bitcast<i32>(to_u32(maxValue));
      var steps = 0;
      var rest = u[group.x];
      loop {
        if (rest == 0) {
          break;
        }
        rest &= rest - 1;
        steps += 1;
      }
      out[t + 7] = steps;
      u[group.x] *= 3;
    }
    "
  `))
})
