// C: what is written, that it compiles without warnings everywhere, and that it computes what the interpreter says.
import { describe, expect, it } from 'vitest'
import { emitC, scratchBytes } from '../../src/emit/c.ts'
import { emitWgsl } from '../../src/emit/wgsl.ts'
import { buffer, kernel } from '../../src/ir/author.ts'
import { gpuCaps } from '../kernel/caps.ts'
import { COMPILERS, MARCHES, build, canRun, compile } from './c-build.ts'
import { axpy, corners, dotRow, reduce } from './sample.ts'
import { cases, dispatchOf, oracle, readable } from './sample-data.ts'

describe('C', () => {
  it('does not assign a variable to itself', () => {
    const same = kernel('same', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'write') } }, ({ x, y }, k) => {
      const v = k.var('v', x.load(0, 8))
      v.set(v.get().abs()) // of unsigned numbers: nothing to do
      y.store(0, v.get())
    })
    expect(emitC(same).text).not.toMatch(/\b(\w+) = \1;/)
  })

  it('is the same every time', () => expect(emitC([axpy, corners]).text).toBe(emitC([axpy, corners]).text))
  it('16 lanes of packed dot products', () =>
    expect(emitC(dotRow).text).toMatchInlineSnapshot(`
    "#include "prelude.h"

    // dotRow: workgroups of 1 lane
    void ingot_dotRow(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch);
    void ingot_dotRow(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch) {
      (void)scratch;
      const uint32_t *a = buffers[0];
      const uint32_t *b = buffers[1];
      const float *scale = buffers[2];
      float *out = buffers[3];
      const uint32_t words = ((const uint32_t *)uniforms)[0];
      for (uint32_t group = begin; group < end; group++) {
        const uint32_t group_x = group % grid[0];
        i32x16 acc = i32x16_splat(0);
        const uint32_t t = group_x * words;
        for (uint32_t w = 0; w < words; w += 16) {
          acc = i32x16_dotU7I8(load_u32x16(&a[t + w]), load_u32x16(&b[w]), acc);
        }
        out[group_x] = (float)i32x16_hsum(acc) * scale[group_x];
      }
    }
    "
  `))
  it('what is loaded ahead is a hint', () => {
    const sum = (hint?: { ahead: number }) =>
      kernel('sum', { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') } }, ({ x, y }, k) => {
        y.set(k.workgroupId.x, x.load(k.workgroupId.x.mul(4), 4, hint).hsum())
      })
    expect(emitC(sum({ ahead: 4096 })).text).toBe(emitC(sum()).text.replace(/load_f32x4\((.*?\])\)/, 'load_f32x4(expect_soon($1, 4096))'))
    expect(emitC(sum({ ahead: 4096 })).text).toContain('expect_soon')
    expect(emitWgsl(sum({ ahead: 4096 }), gpuCaps(0)).text).toBe(emitWgsl(sum(), gpuCaps(0)).text)
  })
  it('odd corners', () =>
    expect(emitC(corners).text).toMatchInlineSnapshot(`
    "#include "prelude.h"

    // corners: workgroups of 1 lane
    void ingot_corners(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch);
    void ingot_corners(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch) {
      (void)uniforms; (void)scratch;
      static const int32_t table[4] = {3, -1, 4, INT32_MIN};
      const float *x = buffers[0];
      const int32_t *i = buffers[1];
      uint32_t *u = buffers[2];
      int32_t *out = buffers[3];
      for (uint32_t group = begin; group < end; group++) {
        const uint32_t group_x = group % grid[0];
        const int32_t a = i[group_x];
        const int32_t b = (i + group_x)[1];
        const float maxValue = x[group_x];
        const uint32_t t = group_x * 8;
        out[t] = i32_div(a, b);
        (out + t)[1] = i32_rem(a, b);
        (out + t)[2] = f32_to_i32(maxValue);
        (out + t)[3] = (a << (b & 31)) ^ (a >> 3);
        (out + t)[4] = table[group_x & 3];
        (out + t)[5] = (maxValue < INFINITE && maxValue > -3.5e20f) || a == INT32_MIN ? a : 7;
        (out + t)[6] = (int32_t)f32_to_u32(maxValue);
        int32_t steps = 0;
        uint32_t rest = u[group_x];
        while (true) {
          if (rest == 0) {
            break;
          }
          rest &= rest - 1;
          steps += 1;
        }
        (out + t)[7] = steps;
        u[group_x] *= 3;
      }
    }
    "
  `))
  it('a lane loop with a bounds check', () =>
    expect(emitC(axpy).text).toMatchInlineSnapshot(`
    "#include "prelude.h"

    // axpy: workgroups of 1 lane
    void ingot_axpy(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch);
    void ingot_axpy(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch) {
      (void)scratch;
      const float *x = buffers[0];
      float *y = buffers[1];
      const float a = ((const float *)uniforms)[0];
      const uint32_t n = ((const uint32_t *)uniforms)[1];
      for (uint32_t group = begin; group < end; group++) {
        const uint32_t group_x = group % grid[0];
        for (uint32_t lane = 0; lane < 64; lane++) {
          const uint32_t at = group_x * 64 + lane;
          if (at < n) {
            y[at] += x[at] * a;
          }
        }
      }
    }
    "
  `))
  it('places shared arrays on cache lines', () => expect(scratchBytes(reduce) % 64).toBe(0))
})

const all = cases(4)
describe.skipIf(COMPILERS.length === 0).each(COMPILERS)('%s (skipped where no C compiler is installed)', (compiler) => {
  const source = emitC(all.map(({ kernel }) => kernel))
  it.each(MARCHES)('compiles without warnings and agrees with the interpreter: %s', (march) => {
    if (!canRun(march)) {
      expect(compile(source, compiler, march)).toBe(true)
      return
    }
    using library = build(source, compiler, march)
    for (const one of all) {
      const dispatch = dispatchOf(one)
      library.run(one.kernel, dispatch)
      expect({ name: one.kernel.name, ...readable(one, dispatch) }).toEqual({ name: one.kernel.name, ...readable(one, oracle(one)) })
    }
  })
})

describe.skipIf(!COMPILERS.includes('clang'))('aarch64, compiled but not run (skipped without clang)', () => {
  const source = emitC(all.map(({ kernel }) => kernel))
  it.each(['armv8-a', 'armv8.2-a+dotprod', 'armv8.2-a+dotprod+i8mm'])('%s', (march) => {
    expect(compile(source, 'clang', march, ['-O1', '--target=aarch64-linux-gnu', '-ffreestanding', '-c'])).toBe(true)
  })
})
