// Diagnosing devices: what is found is data, from the devices themselves; no text is read to decide.

import { describe, expect, it } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import { cpu } from '../../src/device/cpu/cpu.ts'
import { diagnose } from '../../src/device/open/diagnose.ts'
import type { DeviceFactory, Probe } from '../../src/device/open/factory.ts'
import { type Finding, makeReason, describeReason, pass, reasonOf } from '../../src/device/open/finding.ts'
import type { DeviceLine } from '../../src/device/open/open.ts'
import { openReference } from '../../src/device/reference/reference.ts'

function lineOf(name: string, probe: Partial<Probe>, factory: Partial<DeviceFactory> = {}): DeviceLine {
  return {
    name,
    auto: 'yes',
    untested: 'a fake',
    load: async () => ({
      name,
      about: name,
      probe: async () => ({ available: true, detail: name, key: name, ...probe }),
      open: async () => openReference(),
      ...factory,
    }),
  }
}

const examineDevice = async (line: DeviceLine): Promise<readonly Finding[]> => (await diagnose({ devices: [line] })).devices[0]!.findings

describe('a diagnosis', () => {
  it('holds what a device says of itself, open or not', async () => {
    const examine: DeviceFactory['examine'] = async (device, { key }) => [pass('own', `${device === undefined ? 'shut' : 'open'} ${key}`)]
    expect(await examineDevice(lineOf('odd', {}, { examine }))).toEqual([pass('self-test', 'a fake'), pass('own', 'open odd')])
    const reason = makeReason('no driver; none at all', 'install one: it is free')
    expect(await examineDevice(lineOf('odd', { available: false, reason }, { examine }))).toEqual([
      { probe: 'available', status: 'warn', ...reason },
      pass('own', 'shut odd'),
    ])
  })

  it('goes on when a device cannot examine itself', async () => {
    const examine = (): Promise<never> => Promise.reject(new Error('no idea'))
    expect(await examineDevice(lineOf('odd', {}, { examine }))).toContainEqual(
      expect.objectContaining({ probe: 'open', status: 'fail', evidence: 'no idea' }),
    )
  })
})

describe('the cpu device', () => {
  const probe: Probe = { available: true, detail: 'anything', key: '' }
  const examine = async (faster?: Probe['faster']): Promise<readonly Finding[]> =>
    (await cpu.examine?.(undefined, faster === undefined ? probe : { ...probe, faster })) ?? []

  it('says once what would make it faster', async () => {
    expect((await examine()).map((finding) => finding.probe)).toEqual(['wasm simd', 'relaxed simd', 'relaxed dot', 'threads'])
    expect((await examine(makeReason('native kernels are not built: sorry', 'build them')))[0]).toEqual({
      probe: 'native',
      status: 'warn',
      evidence: 'native kernels are not built: sorry; WebAssembly serves, several times slower',
      prescription: 'build them',
    })
  })
})

describe('a reason', () => {
  it('takes the hint of an error apart from what it says', () => {
    const error = new IngotError('device-unavailable', 'no GPU', { op: 'metal', got: 1, wanted: 2, hint: 'buy one; or two' })
    expect(error.message).toBe('metal: no GPU, got 1, wanted 2; buy one; or two')
    expect(reasonOf(error)).toEqual({ evidence: 'no GPU, got 1, wanted 2', prescription: 'buy one; or two' })
    expect(reasonOf(new Error('plain; text'))).toEqual({ evidence: 'plain; text', prescription: '' })
    expect(reasonOf('thrown')).toEqual({ evidence: 'thrown', prescription: '' })
    expect(describeReason(reasonOf(error))).toBe('no GPU, got 1, wanted 2; buy one; or two')
    expect(describeReason(makeReason('alone'))).toBe('alone')
  })
})
