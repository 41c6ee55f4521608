// f64 as f32, on devices that have no f64: refused unless it is allowed, then as near as f32 can be.
import { expect, it } from 'vitest'
import type { Executor } from '../../src/atlas/executor.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import { runCompiled, runInterpreted } from './compiled.ts'

/** Every lane: a function of its f64, a sum with an i64, the other way round, and what a register of f32 becomes. */
const PROGRAM = parseProgram(`
  movimm.u64 r0, 1
  movimm.u64 r1, 2
  movimm.u32 r2, 3
  shl.u64 r3, r255, r2
  ldg.f64 r4, [r0 + r3]
  movimm.f64 r5, 1.5
  fma.f64 r6, r4, r5, r5
  abs.f64 r7, r6
  sqrt.f64 r7, r7
  cvt.i64.f64 r8, r7
  cvt.f64.i64 r9, r8
  add.f64 r9, r9, r7
  cvt.f32.f64 r10, r4
  cvt.f64.f32 r11, r10
  sub.f64 r9, r9, r11
  sts.f64 r9, [r3 + 0]
  lds.f64 r9, [r3 + 0]
  stg.f64 r9, [r1 + r3]`)
const ACCUMULATE = parseProgram('clsget r1\ncvt.f64.u8 r2, r1\nresaccum r1, r2\nmovimm.f64 r3, 0.5\nresaccum r1, r3')

export function describeDoubles(executorOf: () => Executor): void {
  it('f64 is refused unless f32 is allowed', async () => {
    const executor = executorOf()
    const handle = executor.allocate(8)
    const program = parseProgram('movimm.u8 r0, 1\nmovimm.f64 r1, 3\nstg.f64 r1, [buf1 + 0]')
    await expect(executor.execute(program, { buffers: { 1: handle } })).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/has no f64, got instruction 1: movimm.f64 r1, 3.*f64AsF32: true/) as string,
    })
    await expect(executor.execute(ACCUMULATE)).rejects.toMatchObject({ code: 'unsupported' })
    await executor.execute(program, { buffers: { 1: handle }, f64AsF32: true })
    expect(new Float64Array((await executor.copyFrom(handle)).slice().buffer)).toEqual(Float64Array.of(3))
    executor.free(handle)
  })

  it.each([true, false])('f64 as f32 is as near as f32 can be, checks: %s', async (checks) => {
    const values = [0, -0, 1, Math.PI, -1e-30, 12345.678, 2 ** 40 / 3, -7e12]
    const buffers = [new Uint8Array(Float64Array.from(values).buffer), new Uint8Array(64)]
    const launch = { block: [8], sharedBytes: 64 } as const
    const [, got = new Uint8Array()] = await runCompiled(executorOf(), PROGRAM, buffers, { ...launch, checks, f64AsF32: true })
    const [, wanted = new Uint8Array()] = runInterpreted(PROGRAM, buffers, launch)
    const exact = new Float64Array(wanted.slice().buffer)
    new Float64Array(got.slice().buffer).forEach((value, i) => {
      expect(Math.abs(value - (exact[i] ?? NaN))).toBeLessThanOrEqual(1e-6 * (1 + Math.abs(exact[i] ?? 0)))
      expect(Math.fround(value)).toBe(value)
    })
  })

  it('accumulators of f64 as f32', async () => {
    const { accumulators } = await executorOf().execute(ACCUMULATE, { grid: [98], block: [2], f64AsF32: true })
    expect(accumulators.slice(0, 3)).toEqual(Float64Array.of(2, 6, 5))
  })
}
