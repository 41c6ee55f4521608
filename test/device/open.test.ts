// Choosing a device: order, reasons, self-test and its memory, the environment. With fakes; nothing here needs a GPU.

import { mkdtemp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { IngotError, isIngotError } from '../../src/base/error.ts'
import type { Device } from '../../src/device/device.ts'
import type { Probe } from '../../src/device/open/factory.ts'
import { makeReason } from '../../src/device/open/finding.ts'
import { DEVICES, type DeviceLine, type OpenDeviceOptions, listDevices, open } from '../../src/device/open/open.ts'
import { openNull } from '../../src/device/null/null.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { selfTestCases } from '../../src/device/open/self-test.ts'
import { type Verdict, type VerdictStore, openVerdicts } from '../../src/device/open/verdict.ts'

interface Fake extends Partial<Probe> {
  readonly open?: () => Device
  readonly auto?: DeviceLine['auto']
  readonly untested?: string
}

let opened: string[]
let closed: string[]

/** A device that is right unless said otherwise. */
function fake(name: string, { open: make = openReference, auto = 'yes', untested, ...probe }: Fake = {}): DeviceLine {
  return {
    name,
    auto,
    ...(untested === undefined ? {} : { untested }),
    load: async () => ({
      name,
      about: `fake ${name}`,
      probe: async () => ({ available: true, detail: `a ${name}`, key: name, ...probe }),
      open: async () => {
        opened.push(name)
        const device = make()
        const close = device.close.bind(device)
        return Object.assign(device, {
          close: () => {
            closed.push(name)
            return close()
          },
        })
      },
    }),
  }
}

function fakeStore(): VerdictStore & { readonly known: Map<string, Verdict> } {
  const known = new Map<string, Verdict>()
  return {
    known,
    get: async (key) => known.get(key),
    set: async (key, verdict) => {
      known.set(key, verdict)
    },
  }
}

const wrong = (): Device => openNull() // computes nothing, so every result is wrong

describe('open', () => {
  let lines: string[]
  let options: OpenDeviceOptions & { readonly verdicts: ReturnType<typeof fakeStore> }
  beforeEach(() => {
    opened = []
    closed = []
    lines = []
    options = { log: (line) => lines.push(line), verdicts: fakeStore(), cases: selfTestCases(openNull().caps).slice(0, 1) }
    vi.stubEnv('INGOT_DEVICE', '')
  })
  afterEach(() => {
    vi.unstubAllEnvs()
  })

  const choose = (preference: string | undefined, ...devices: DeviceLine[]) => open(preference, { ...options, devices })
  const failure = async (act: () => Promise<unknown>): Promise<string> =>
    act().then(
      () => 'nothing was thrown',
      (error: unknown) => (isIngotError(error) ? `${error.code}: ${error.message}` : String(error)),
    )

  it('takes the first that works, and says why', async () => {
    const { why, tried, verdict } = await choose(
      'auto',
      fake('metal', { available: false, reason: makeReason('this is not macOS') }),
      fake('webgpu'),
      fake('cpu'),
    )
    expect(opened).toEqual(['webgpu'])
    expect(why).toMatch(/best that works here: a webgpu/)
    expect(tried).toEqual([{ name: 'metal', reason: 'this is not macOS' }])
    expect(verdict?.failed).toEqual([])
    expect(lines).toEqual([expect.stringMatching(/metal is not used: this is not macOS/)])
  })

  it('prefers the CPU to an emulated GPU, and says so', async () => {
    const { tried } = await choose('auto', fake('webgpu', { software: true, detail: 'SwiftShader' }), fake('cpu'))
    expect(opened).toEqual(['cpu'])
    expect(tried).toEqual([{ name: 'webgpu', reason: expect.stringMatching(/emulated on the CPU \(SwiftShader\); cpu goes before it/) }])
    opened = []
    const { why } = await choose(
      'auto',
      fake('webgpu', { software: true }),
      fake('cpu', { available: false, reason: makeReason('none') }),
      fake('reference', { auto: 'last' }),
    )
    expect(opened).toEqual(['webgpu'])
    expect(why).toMatch(/software GPU/)
  })

  it('skips a device that fails its self-test, closes it, and falls back aloud', async () => {
    const { tried } = await choose('auto', fake('webgpu', { open: wrong }), fake('cpu'))
    expect(opened).toEqual(['webgpu', 'cpu'])
    expect(closed).toEqual(['webgpu'])
    expect(tried).toEqual([{ name: 'webgpu', reason: expect.stringMatching(/self-test fails: linear .*element 0 is NaN/) }])
    expect(lines[0]).toMatch(/webgpu is not used: .*self-test/)
  })

  it('skips a device that does not open or throws while probed', async () => {
    const broken = (): Device => {
      throw new IngotError('device-unavailable', 'driver too old')
    }
    const bad: DeviceLine = { name: 'metal', auto: 'yes', load: () => Promise.reject(new Error('no such module')) }
    const { tried } = await choose('auto', bad, fake('webgpu', { open: broken }), fake('cpu'))
    expect(tried.map(({ reason }) => reason)).toEqual(['no such module', 'driver too old'])
  })

  it('warns of what fails, not of what is not there, and prints nothing', async () => {
    const printed = vi.spyOn(console, 'warn').mockImplementation(() => {})
    const devices = [fake('quiet', { available: false, reason: makeReason('not here') }), fake('loud', { open: wrong }), fake('cpu')]
    const { verdicts, cases } = options
    const warnings: string[] = []
    await open('auto', { devices, verdicts, cases: cases! })
    await open('auto', { devices, verdicts, cases: cases!, onWarning: (line) => warnings.push(line) })
    expect(warnings).toEqual([expect.stringMatching(/^loud is not used/)])
    expect(printed).not.toHaveBeenCalled()
    printed.mockRestore()
  })

  it('takes the last resort only when all else fails, and never what must be asked for', async () => {
    const devices = [
      fake('cpu', { open: wrong }),
      fake('reference', { auto: 'last', untested: 'a fake' }),
      fake('null', { auto: 'never', untested: 'a fake' }),
    ]
    const { device, why } = await choose('auto', ...devices)
    expect(opened).toEqual(['cpu', 'reference'])
    expect(why).toMatch(/nothing else works/)
    expect(lines.at(-1)).toMatch(/using reference, which is slow/)
    await device.close()
    expect(await failure(() => choose('auto', fake('cpu', { available: false, reason: makeReason('no threads') })))).toMatch(
      /^device-unavailable: .*cpu: no threads/,
    )
    opened = []
    await choose('null', ...devices)
    expect(opened).toEqual(['null'])
  })

  it('never falls back from a device that was asked for', async () => {
    expect(
      await failure(() => choose('metal', fake('metal', { available: false, reason: makeReason('this is not macOS') }), fake('cpu'))),
    ).toMatch(/^device-unavailable: metal: this is not macOS/)
    expect(await failure(() => choose('webgpu', fake('webgpu', { open: wrong }), fake('cpu')))).toMatch(
      /^wrong-result: webgpu: the self-test fails/,
    )
    expect(closed).toEqual(['webgpu'])
    const { why, tried } = await choose('cpu', fake('webgpu'), fake('cpu'))
    expect({ why, tried }).toEqual({ why: 'asked for', tried: [] })
  })

  it('can be told to trust', async () => {
    const { verdict } = await open('webgpu', { ...options, devices: [fake('webgpu', { open: wrong })], selfTest: false })
    expect(verdict).toBeUndefined()
  })

  it('honours INGOT_DEVICE, unless a device was asked for', async () => {
    vi.stubEnv('INGOT_DEVICE', ' CPU ')
    const devices = [fake('webgpu'), fake('cpu')]
    expect((await choose('auto', ...devices)).why).toBe('INGOT_DEVICE is cpu')
    await choose(undefined, ...devices)
    await choose('webgpu', ...devices)
    expect(opened).toEqual(['cpu', 'cpu', 'webgpu'])
    vi.stubEnv('INGOT_DEVICE', 'gpu')
    expect(await failure(() => choose('auto', ...devices))).toMatch(
      /^unknown-name: .*gpu \(INGOT_DEVICE is gpu\), wanted one of auto, webgpu, cpu/,
    )
  })

  it('lists the known names for an unknown one, and says that cuda is not there yet', async () => {
    expect(await failure(() => choose('gpu', fake('webgpu'), fake('cpu')))).toMatch(/^unknown-name: .*gpu.*one of auto, webgpu, cpu/)
    expect(await failure(() => choose('cuda', fake('webgpu'), fake('cpu')))).toMatch(
      /^unsupported: .*cuda is not supported yet; use one of auto, webgpu, cpu/,
    )
  })

  it('remembers a verdict for the same adapter and kernels only', async () => {
    const make = vi.fn<() => Device>(openReference)
    const tests = async (line: DeviceLine): Promise<boolean> => {
      const { device } = await choose(line.name, line)
      return device.stats.submissions > 0
    }
    expect(await tests(fake('cpu', { open: make }))).toBe(true)
    expect(await tests(fake('cpu', { open: make }))).toBe(false)
    expect(await tests(fake('cpu', { open: make, key: 'another driver' }))).toBe(true)
    expect(await tests(fake('cpu', { open: () => openReference({ caps: { subgroup: 0 } }) }))).toBe(true)
    expect(options.verdicts.known.size).toBe(3)
  })

  it('remembers that a device is wrong, but not what may pass', async () => {
    await failure(() => choose('cpu', fake('cpu', { open: wrong })))
    expect(options.verdicts.known.size).toBe(1)
    const full = (): Device =>
      Object.assign(openReference(), {
        alloc: () => {
          throw new IngotError('out-of-memory', 'full')
        },
      })
    expect(await failure(() => choose('gpu', fake('gpu', { open: full })))).toMatch(/^wrong-result: .*full/)
    expect(options.verdicts.known.size).toBe(1)
  })

  it('knows its own devices', async () => {
    const found = await listDevices()
    expect(found.map(({ name }) => name)).toEqual(DEVICES.map(({ name }) => name))
    expect(found.find(({ name }) => name === 'reference')?.probe.available).toBe(true)
    expect((await open('reference')).device.name).toBe('reference')
  })
})

describe('verdicts on disk', () => {
  let folder: string
  const verdict: Verdict = { passed: ['a'], failed: [{ name: 'b', error: 'wrong', lasting: true }] }
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ingot-'))
    vi.stubEnv('XDG_CACHE_HOME', folder)
  })
  afterEach(async () => {
    vi.unstubAllEnvs()
    await rm(folder, { recursive: true })
  })

  it('outlive the process, and leave no drafts', async () => {
    const store = openVerdicts()
    expect(await store.get('k')).toBeUndefined()
    await store.set('k', verdict)
    await store.set('l', { passed: [], failed: [] })
    expect(await openVerdicts().get('k')).toEqual(verdict)
    expect(await readdir(join(folder, 'ingot'))).toEqual(['verdicts.json'])
  })

  it.each(['', '{', 'null', '[1]', '{"k":1}', '{"k":{"passed":[1],"failed":[]}}', '{"k":{"passed":[],"failed":[{}]}}'])(
    'survive a file that holds %j',
    async (text) => {
      await mkdir(join(folder, 'ingot'))
      await writeFile(join(folder, 'ingot', 'verdicts.json'), text)
      const store = openVerdicts()
      expect(await store.get('k')).toBeUndefined()
      await store.set('k', verdict)
      expect(await store.get('k')).toEqual(verdict)
    },
  )

  it('forget the oldest', async () => {
    const store = openVerdicts()
    for (let i = 0; i < 70; i++) await store.set(`k${i}`, verdict)
    expect(await store.get('k0')).toBeUndefined()
    expect(await store.get('k69')).toEqual(verdict)
    expect(Object.keys(JSON.parse(await readFile(join(folder, 'ingot', 'verdicts.json'), 'utf8')) as object)).toHaveLength(64)
  })

  it('do without a place to be', async () => {
    await writeFile(join(folder, 'ingot'), 'a file where the folder should be')
    const store = openVerdicts()
    await store.set('k', verdict)
    expect(await store.get('k')).toBeUndefined()
  })
})
