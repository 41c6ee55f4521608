// The bits of f64 to an f32 and back, in a kernel: the nearest one, and exactly.
import { expect, it } from 'vitest'
import { compileProgram } from '../../src/atlas/compile/compile.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import { printKernel } from '../../src/ir/print.ts'

const COPY = parseProgram(`
  movimm.u32 r2, 3
  shl.u64 r3, r255, r2
  movimm.u64 r0, 1
  movimm.u64 r1, 2
  ldg.f64 r4, [r0 + r3]
  mov.f64 r5, r4
  stg.f64 r5, [r1 + r3]`)

it('is the nearest f32, and that f32 exactly', () => {
  const half = 2 ** -24
  const edges = [0, -0, Infinity, -Infinity, NaN, Number.MAX_VALUE, Number.MIN_VALUE, 2 ** 128, 2 ** 128 - 2 ** 103, 2 ** 128 - 2 ** 104]
  const ties = [1 + half, 1 + 3 * half, 1 + half + 2 ** -52, -(1 + half), 16777217, 16777219, 2 - half]
  const small = [
    2 ** -126,
    2 ** -126 - 2 ** -150,
    2 ** -149,
    1.5 * 2 ** -149,
    2.5 * 2 ** -149,
    2 ** -150,
    2 ** -150 * (1 + 2 ** -52),
    2 ** -151,
  ]
  const others = Array.from({ length: 400 }, (_, i) => (i % 2 === 0 ? 1 : -1) * Math.sin(i) * 2 ** (i - 200))
  const values = Float64Array.from([...edges, ...ties, ...small, ...others])
  const { kernel } = compileProgram(COPY, { block: [1] }, { checks: false, f64AsF32: true })
  expect(printKernel(kernel)).not.toContain('f64')
  const [buf1, buf2] = [new Uint8Array(values.buffer), new Uint8Array(values.byteLength)]
  interpret(kernel, { buffers: { buf1, buf2 }, grid: [values.length, 1, 1] })
  expect(new Float64Array(buf2.buffer)).toEqual(Float64Array.from(values, Math.fround))
})
