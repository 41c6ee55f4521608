// What WGSL refuses or leaves open, and how the text keeps clear of it. Each of these once failed on a driver.

import { describe, expect, it } from 'vitest'
import { emitWgsl } from '../../src/emit/wgsl.ts'
import { type Scope, buffer, kernel } from '../../src/ir/author.ts'
import type { Value } from '../../src/ir/value.ts'

const PLAIN = { subgroup: 0, f16: false, tiles: false }

function textOf(write: (x: Value<'f32x4'>, k: Scope) => Value<'f32x4'> | Value<'u32x4'>): string {
  return emitWgsl(
    kernel(
      'one',
      { params: { x: buffer('f32x4', 'read'), y: buffer('f32x4', 'write'), z: buffer('u32x4', 'write') } },
      ({ x, y, z }, k) => {
        const value = write(x.at(0), k)
        if (value.dtype === 'f32x4') y.set(0, value)
        else z.set(0, value)
      },
    ),
    PLAIN,
  ).text
}

describe('WGSL', () => {
  it('takes counts of constant shifts modulo 32 itself', () => {
    const counts = [0xeffbd577, 40, 1, 2]
    const text = textOf((x, k) => x.as('u32').shl(k.vec(...counts.map((count) => k.const('u32', count))) as Value<'u32x4'>))
    expect(text).toMatch(/<< \(vec4u\(.*\) & vec4u\(31\)\)/)
  })

  // WGSL refuses what overflows while it compiles: such products must not reach it
  it('never multiplies constants of tables or of joined vectors', () => {
    expect(
      textOf((_, k) =>
        k
          .table('u32', [2 ** 31], k.const('u32', 0))
          .mul(3)
          .splat(4),
      ),
    ).toContain('z[0] = vec4u(0x80000000u)')
    const joined = (k: Scope): Value<'u32x4'> =>
      k
        .const('u32', 2 ** 31)
        .splat(2)
        .join(k.const('u32', 7).splat(2)) as Value<'u32x4'>
    expect(textOf((_, k) => joined(k).mul(3))).toContain('vec4u(0x80000000u, 0x80000000u, 0x15u, 0x15u)')
  })

  it('keeps tanh from overflowing', () => {
    expect(textOf((x) => x.tanh())).toContain('tanh(clamp(x[0], vec4f(-10.0f), vec4f(10.0f)))')
  })

  it('writes the largest f32 as a number that is not above it', () => {
    expect(textOf((x) => x.min(3.4028234663852886e38))).toContain('3.4028234e38f')
  })
})
