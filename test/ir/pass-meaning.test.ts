// Every pass keeps what a kernel means: interpreted before and after, on targets that have everything down to nearly nothing.
import { describe, expect, it } from 'vitest'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { PASSES, lower } from '../../src/ir/pass/index.ts'
import { printKernel } from '../../src/ir/print.ts'
import { verify } from '../../src/ir/verify/verify.ts'
import { SAMPLES, type Sample } from './pass-kernels.ts'
import { TARGETS } from './target.ts'

function results(kernel: Kernel, { buffers, uniforms = {}, grid }: Sample): Readonly<Record<string, Uint8Array>> {
  const used = buffers()
  interpret(kernel, { buffers: used, uniforms, grid })
  return used
}

function expectSame(
  got: Readonly<Record<string, Uint8Array>>,
  wanted: Readonly<Record<string, Uint8Array>>,
  sample: Sample,
  what: string,
): void {
  for (const [name, bytes] of Object.entries(wanted)) {
    if (sample.compare === 'u8' || name === 'j') {
      expect([...(got[name] as Uint8Array)], `${what}: ${name}`).toEqual([...bytes])
      continue
    }
    const [a, b] = [new Float32Array((got[name] as Uint8Array).buffer), new Float32Array(bytes.buffer)]
    const worst = b.reduce((most, value, at) => Math.max(most, Math.abs(value - (a[at] as number)) / (1 + Math.abs(value))), 0)
    expect(worst, `${what}: ${name}`).toBeLessThanOrEqual(sample.tolerance)
  }
}

describe.each(TARGETS.map((target) => [target.name, target] as const))('on %s', (_, target) => {
  it.each(Object.entries(SAMPLES))('%s means the same after every pass', (_name, make) => {
    const sample = make()
    const wanted = results(sample.kernel, sample)
    let kernel = sample.kernel
    for (const [name, pass] of PASSES) {
      const before = printKernel(kernel)
      const next = pass(kernel, target)
      expect(printKernel(kernel), `${name} changed its input`).toBe(before)
      try {
        verify(next, { inlined: name === 'place' })
        expectSame(results(next, sample), wanted, sample, name)
      } catch (error) {
        throw new Error(`after ${name}: ${String(error)}\n${printKernel(next)}`, { cause: error })
      }
      kernel = next
    }
    expect(printKernel(lower(sample.kernel, target))).toBe(printKernel(kernel))
  })
})
