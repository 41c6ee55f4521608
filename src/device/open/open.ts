// Chooses and opens a device. The one place that names them all, best first, one line each; everything above asks for a
// preference and gets a Device with the reasons for it. A device that fails its self-test is never used unasked.

import { checkArgument, checkOptions, isString } from '../../base/argument.ts'
import { IngotError, messageOf } from '../../base/error.ts'
import { readEnvironment } from '../core/platform.ts'
import type { Device } from '../device.ts'
import { hashRunningCode } from './code-hash.ts'
import type { DeviceFactory, OpenOptions, Probe } from './factory.ts'
import { makeReason, describeReason } from './finding.ts'
import { type SelfTestCase, selfTest, selfTestCases, selfTestKey } from './self-test.ts'
import { type Verdict, type VerdictStore, openVerdicts } from './verdict.ts'

/** A device that Ingot knows, as a line of DEVICES. */
export interface DeviceLine {
  readonly name: string
  /** 'last': only when nothing else works; 'never': only when asked for */
  readonly auto: 'yes' | 'last' | 'never'
  /** why it needs no self-test, if it needs none */
  readonly untested?: string
  /** Loads its code only now: a device that is not used costs nothing. */
  load(): Promise<DeviceFactory>
}

export const DEVICES: readonly DeviceLine[] = [
  { name: 'metal', auto: 'yes', load: async () => (await import('../metal/metal.ts')).metal },
  { name: 'webgpu', auto: 'yes', load: async () => (await import('../webgpu/webgpu.ts')).webgpu },
  { name: 'cpu', auto: 'yes', load: async () => (await import('../cpu/cpu.ts')).cpu },
  {
    name: 'reference',
    auto: 'last',
    untested: 'it is what the others are compared with',
    load: async () => (await import('../reference/reference.ts')).reference,
  },
  {
    name: 'null',
    auto: 'never',
    untested: 'it computes nothing',
    load: async () => (await import('../null/null.ts')).nullDevice,
  },
]

/** Names that users try and Ingot does not have. */
export const NOT_YET: readonly string[] = ['cuda', 'rocm', 'vulkan', 'directml']

export interface Attempt {
  readonly name: string
  /** why it was not taken */
  readonly reason: string
}

/** A device that works, and why it was chosen. */
export interface Opened {
  readonly device: Device
  /** why this one */
  readonly why: string
  /** better ones that were not taken, in order */
  readonly tried: readonly Attempt[]
  /** what the self-test said; undefined for devices that need none */
  readonly verdict: Verdict | undefined
}

/** What `open` is told. */
export interface OpenDeviceOptions extends OpenOptions {
  /** gets a line for every device that is not used, also where that is as it should be; default: nobody */
  readonly log?: (line: string) => void
  /** gets a line for what people should know: a device that fails, or that only the slow one is left; default: nobody */
  readonly onWarning?: (line: string) => void
  /** false: trust the device */
  readonly selfTest?: boolean
  readonly devices?: readonly DeviceLine[]
  readonly verdicts?: VerdictStore
  readonly cases?: readonly SelfTestCase[]
}

/** Opens a device by name, or with 'auto' (the default, unless INGOT_DEVICE says otherwise) the best that works. */
export async function open(preference = 'auto', options: OpenDeviceOptions = {}): Promise<Opened> {
  checkArgument('open', 'the device', preference, 'a name', isString)
  checkOptions('open', options)
  const { devices = DEVICES } = options
  const wish = preference === 'auto' ? (fromEnvironment() ?? preference) : preference
  if (wish === 'auto') return openBest(devices, options)
  const why = wish === preference ? 'asked for' : `INGOT_DEVICE is ${wish}`
  const line = findLine(wish, devices, why)
  const factory = await line.load()
  const probe = await factory.probe()
  if (!probe.available)
    throw new IngotError('device-unavailable', describeReason(probe.reason ?? makeReason('not available here')), {
      op: wish,
      hint: `${why}; 'auto' takes what works`,
    })
  return { ...(await openTested(line, factory, probe, options)), why, tried: [] }
}

export interface Listed {
  readonly name: string
  readonly about: string
  readonly probe: Probe
}

/** Every device Ingot knows, with what it would open here. */
export function listDevices(devices: readonly DeviceLine[] = DEVICES): Promise<Listed[]> {
  return Promise.all(
    devices.map(async (line) => {
      const factory = await line.load()
      return { name: line.name, about: factory.about, probe: await factory.probe() }
    }),
  )
}

interface Candidate {
  readonly line: DeviceLine
  readonly factory: DeviceFactory
  readonly probe: Probe
}

async function openBest(devices: readonly DeviceLine[], options: OpenDeviceOptions): Promise<Opened> {
  const tried: Attempt[] = []
  const skip = (name: string, reason: string, loud: boolean): void => {
    tried.push({ name, reason })
    report(`${name} is not used: ${reason}`, loud, options)
  }
  for (const { line, factory, probe, why, instead } of await rank(devices, skip)) {
    try {
      const opened = { ...(await openTested(line, factory, probe, options)), why, tried }
      if (line.auto === 'last') report(`using ${line.name}, which is slow: nothing else works here`, true, options)
      if (instead !== undefined)
        skip(instead.line.name, `a GPU emulated on the CPU (${instead.probe.detail}); ${line.name} goes before it`, false)
      return opened
    } catch (error) {
      skip(line.name, messageOf(error), true)
    }
  }
  throw new IngotError('device-unavailable', 'no device works here', {
    op: 'open',
    got: tried.map(({ name, reason }) => `${name}: ${reason}`),
  })
}

type Ranked = Candidate & { readonly why: string; readonly instead: Candidate | undefined }

/** Who to try, best first: real GPUs and the CPU in the order of the list, then emulated GPUs, then the last resort. */
async function rank(devices: readonly DeviceLine[], skip: (name: string, reason: string, loud: boolean) => void): Promise<Ranked[]> {
  const found: Candidate[] = []
  for (const line of devices.filter(({ auto }) => auto !== 'never')) {
    try {
      const factory = await line.load()
      const probe = await factory.probe()
      if (probe.available) found.push({ line, factory, probe })
      else skip(line.name, describeReason(probe.reason ?? makeReason('not available')), false)
    } catch (error) {
      skip(line.name, messageOf(error), true)
    }
  }
  const level = ({ line, probe }: Candidate): number => (line.auto === 'last' ? 2 : probe.software === true ? 1 : 0)
  return found
    .toSorted((a, b) => level(a) - level(b))
    .map((candidate) => {
      const passedOver = found.find(
        (other) => level(other) === 1 && level(candidate) === 0 && found.indexOf(other) < found.indexOf(candidate),
      )
      return { ...candidate, instead: passedOver, why: whyOf(level(candidate), candidate) }
    })
}

function whyOf(level: number, { probe }: Candidate): string {
  if (level === 2) return 'nothing else works here'
  return level === 1 ? `a software GPU, but the best there is: ${probe.detail}` : `the best that works here: ${probe.detail}`
}

/** Opens a device and lets it prove itself; throws `wrong-result` if it cannot. */
async function openTested(
  line: DeviceLine,
  factory: DeviceFactory,
  probe: Probe,
  options: OpenDeviceOptions,
): Promise<Pick<Opened, 'device' | 'verdict'>> {
  const device = await factory.open(options.threads === undefined ? {} : { threads: options.threads })
  if (line.untested !== undefined || options.selfTest === false) return { device, verdict: undefined }
  try {
    const verdict = await findVerdict(device, probe, options)
    const [first] = verdict.failed
    if (first === undefined) return { device, verdict }
    throw new IngotError('wrong-result', `the self-test fails: ${first.name}: ${first.error}`, {
      op: line.name,
      got: `${verdict.failed.length} of ${verdict.failed.length + verdict.passed.length} wrong`,
      hint: 'update the driver, or choose another device',
    })
  } catch (error) {
    await device.close().catch(() => {})
    throw error
  }
}

/** What a verdict holds for: this device with its driver, this code, these cases. */
export async function verdictKey(
  device: Device,
  probe: Probe,
  cases: readonly SelfTestCase[] = selfTestCases(device.caps),
): Promise<string> {
  return `${device.name}/${probe.key}/${await hashRunningCode()}/${selfTestKey(device.caps, cases)}`
}

/** What is remembered of a device, or else what its self-test says now. */
async function findVerdict(
  device: Device,
  probe: Probe,
  { verdicts = openVerdicts(), cases = selfTestCases(device.caps) }: OpenDeviceOptions,
): Promise<Verdict> {
  const key = await verdictKey(device, probe, cases)
  const known = await verdicts.get(key)
  if (known !== undefined) return known
  const verdict = await selfTest(device, cases)
  if (verdict.failed.every(({ lasting }) => lasting)) await verdicts.set(key, verdict)
  return verdict
}

function findLine(name: string, devices: readonly DeviceLine[], why: string): DeviceLine {
  const line = devices.find((each) => each.name === name)
  if (line !== undefined) return line
  const known = ['auto', ...devices.map((each) => each.name)]
  if (NOT_YET.includes(name))
    throw new IngotError('unsupported', `${name} is not supported yet`, { op: 'open', hint: `use one of ${known.join(', ')}` })
  throw new IngotError('unknown-name', 'no such device', { op: 'open', got: `${name} (${why})`, wanted: `one of ${known.join(', ')}` })
}

function fromEnvironment(): string | undefined {
  const asked = readEnvironment().INGOT_DEVICE?.trim().toLowerCase()
  return asked === '' ? undefined : asked
}

function report(line: string, loud: boolean, { log, onWarning }: OpenDeviceOptions): void {
  log?.(line)
  if (loud) onWarning?.(line)
}
