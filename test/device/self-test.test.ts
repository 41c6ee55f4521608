// The self-test and what it stands on: it passes what is right, in every form, and catches what is not.

import { describe, expect, it } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import { ELEMENT_BYTES, ELEMENT_TYPES, type ElementType, encodeElements, roundElements } from '../../src/base/element.ts'
import { findDifference, nmse } from '../../src/device/open/compare.ts'
import { openNull } from '../../src/device/null/null.ts'
import { REFERENCE_CAPS, openReference } from '../../src/device/reference/reference.ts'
import { runFamily } from '../../src/device/open/run-family.ts'
import { selfTest, selfTestCases, selfTestKey } from '../../src/device/open/self-test.ts'
import { buffer, kernel } from '../../src/ir/author.ts'

const FORMS: readonly (readonly [string, Partial<Caps>])[] = [
  ['subgroups', {}],
  ['no subgroups', { subgroup: 0, tiles: false, f16: false }],
  ['vectors', { lanes: 1, subgroup: 0, tiles: false, f16: false, sharedBytes: 2 ** 20 }], // as CPUs have it
]

/** x[i] = i over `bytes` of f32, written up to `end` */
function counting(elements: number, end: number) {
  const count = kernel('count', { params: { x: buffer('f32', 'write') } }, (p, k) => k.for({ to: end }, (i) => p.x.set(i, i.to('f32'))))
  return {
    name: 'counting',
    buffers: () => [{ name: 'x', role: 'out', type: 'f32', elements } as const],
    work: () => ({ launches: [{ kernel: count, uniforms: {}, grid: [1, 1, 1] as const }] }),
  }
}

describe('the self-test', () => {
  it.each(FORMS)('passes on the reference with %s', async (_name, caps) => {
    const device = openReference({ caps })
    const { passed, failed } = await selfTest(device)
    expect(failed).toEqual([])
    expect(passed).toHaveLength(selfTestCases(device.caps).length)
  })

  it('fails on a device that computes nothing', async () => {
    const { passed, failed } = await selfTest(openNull())
    expect(passed).toEqual([])
    expect(failed.every(({ error, lasting }) => lasting && /instead of/.test(error))).toBe(true)
  })

  it('never throws and leaves no buffers', async () => {
    const device = openReference()
    const broken = Object.assign(openReference(), { submit: () => Promise.reject(new Error('no')) })
    expect((await selfTest(broken)).failed.map(({ error }) => error)).toEqual(selfTestCases(broken.caps).map(() => 'no'))
    await selfTest(device)
    expect([device.stats.buffers, broken.stats.buffers]).toEqual([0, 0])
  })

  it('has a name that depends on the kernels', () => {
    expect(selfTestKey(REFERENCE_CAPS)).toBe(selfTestKey({ ...REFERENCE_CAPS }))
    expect(selfTestKey(REFERENCE_CAPS)).not.toBe(selfTestKey({ ...REFERENCE_CAPS, subgroup: 0 }))
    expect(selfTestKey(REFERENCE_CAPS)).not.toBe(selfTestKey(REFERENCE_CAPS, selfTestCases(REFERENCE_CAPS).slice(1)))
  })
})

/** y = x, byte by byte, whatever the elements are */
function copying(type: ElementType, elements: number) {
  const params = { x: buffer('u8', 'read'), y: buffer('u8', 'write') }
  const copy = kernel('copy', { params }, (p, k) => k.for({ to: elements * ELEMENT_BYTES[type] }, (i) => p.y.set(i, p.x.at(i))))
  return {
    name: 'copying',
    buffers: () => [{ name: 'x', role: 'in', type, elements } as const, { name: 'y', role: 'out', type, elements } as const],
    work: () => ({ launches: [{ kernel: copy, uniforms: {}, grid: [1, 1, 1] as const }] }),
  }
}

describe('running a family', () => {
  it.each(ELEMENT_TYPES)('brings elements of type %s there and back', async (type) => {
    const numbers = { f64: [1 / 3, -0, 1e300], i64: [-(2 ** 52) - 1, 2 ** 40 + 1, 0], bf16: [1.5, -(2 ** 100), Infinity] }[type as string]
    const values = roundElements(type, numbers ?? [1, 0, 3])
    const { y } = await runFamily(openReference(), copying(type, 3), {}, { x: values }, { sentinels: true })
    expect(y).toEqual(values)
    if (ELEMENT_BYTES[type] === 1) return
    const { y: raw } = await runFamily(openReference(), copying(type, 3), {}, { x: encodeElements(type, values) })
    expect(raw).toEqual(values)
  })

  it('is one submission, and shows what was not written', async () => {
    const device = openReference()
    const { x } = await runFamily(device, counting(8, 5), {}, {})
    expect([...x!]).toEqual([0, 1, 2, 3, 4, NaN, NaN, NaN])
    expect(device.stats.submissions).toBe(1)
  })

  it('finds what was written past the end', async () => {
    // A device that binds too much, as hardware without bounds does.
    const device = openReference()
    const submit = device.submit.bind(device)
    device.submit = (work) =>
      submit(
        'commands' in work
          ? work
          : work.map((command) =>
              command.kind === 'dispatch'
                ? { ...command, buffers: command.buffers.map(({ buffer: handle }) => ({ buffer: handle })) }
                : command,
            ),
      )
    await expect(runFamily(device, counting(8, 9), {}, {}, { sentinels: true })).rejects.toThrow(
      /counting: a kernel wrote past the end of x, got byte 32/,
    )
    expect(device.stats.buffers).toBe(0)
  })
})

describe('comparing', () => {
  const f = (...values: number[]): Float32Array => Float32Array.from(values)
  it('measures the error against the size', () => {
    expect(nmse(f(1, 2), f(1, 2))).toBe(0)
    expect(nmse(f(1.5, 2), f(1, 2))).toBeCloseTo(0.05)
    expect(nmse(f(1), f(0))).toBe(Infinity)
  })

  it('names what differs', () => {
    expect(findDifference(f(1, 2), f(1, 2), 0)).toBeUndefined()
    expect(findDifference(f(1, NaN), f(1, 2), 1)).toMatch(/element 1 is NaN instead of 2/)
    expect(findDifference(f(1, -Infinity), f(1, Infinity), 1)).toMatch(/element 1/)
    expect(findDifference(f(NaN), f(NaN), 0)).toBeUndefined()
    expect(findDifference(f(1), f(1, 2), 0)).toMatch(/1 elements instead of 2/)
    expect(findDifference(f(1, 2.5), f(1, 2), 0)).toMatch(/element 1 is 2.5 instead of 2/)
    expect(findDifference(f(1, 2.5), f(1, 2), 1e-7)).toMatch(/NMSE 5.00e-2 .*worst is element 1: 2.5 instead of 2/)
    expect(findDifference(undefined, f(1), 0)).toMatch(/no such result/)
  })
})
