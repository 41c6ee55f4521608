// What works here: every device is probed, opened and made to compute real kernels. What it finds wrong or slow, it says with the
// evidence and with what to do about it. Never throws: a device that fails in any way is a finding.

import { isIngotError } from '../base/error.ts'
import { detectWasm } from '../emit/wasm/features.ts'
import type { Device } from './device.ts'
import type { Probe } from './factory.ts'
import { DEVICES, type DeviceLine, open } from './open.ts'
import { PRODUCTS, selfTest } from './self-test.ts'
import type { Verdict, VerdictStore } from './verdict.ts'

export interface Finding {
  /** what was looked at: `self-test`, `threads` */
  readonly probe: string
  /** note: nothing is wrong, but people may want to know */
  readonly status: 'ok' | 'note' | 'warn' | 'fail'
  readonly evidence: string
  /** what to do; empty where nothing has to be done */
  readonly prescription: string
}

export interface DeviceReport {
  readonly name: string
  readonly available: boolean
  readonly detail: string
  readonly selfTest: { readonly passed: readonly string[]; readonly failed: readonly { readonly name: string; readonly error: string }[] }
  readonly findings: readonly Finding[]
}

export interface Diagnosis {
  /** ok: the chosen device computes right; degraded: it does, but is the slow last resort, or another one computes wrong; broken: none works */
  readonly verdict: 'ok' | 'degraded' | 'broken'
  readonly chosen: string | null
  readonly why: string
  readonly devices: readonly DeviceReport[]
}

export interface DiagnoseOptions {
  readonly devices?: readonly DeviceLine[]
  /** told as each device is begun */
  readonly onDevice?: (name: string) => void
}

/** A buffer smaller than this keeps some models out. */
const ROOMY = 2 ** 30

export async function diagnose({ devices = DEVICES, onDevice }: DiagnoseOptions = {}): Promise<Diagnosis> {
  // One after the other: two devices at work at once would disturb each other. Tested now, not remembered.
  const reports: DeviceReport[] = []
  const verdicts = new Map<string, Verdict>()
  for (const line of devices) {
    onDevice?.(line.name)
    reports.push(await examine(line, verdicts))
  }
  const choice = await choose(devices, verdicts)
  const chosen = reports.find(({ name }) => name === choice.name)
  const right = chosen !== undefined && chosen.selfTest.failed.length === 0
  const doubtful =
    devices.find(({ name }) => name === choice.name)?.auto !== 'yes' || reports.some(({ selfTest: { failed } }) => failed.length > 0)
  return { verdict: !right ? 'broken' : doubtful ? 'degraded' : 'ok', chosen: choice.name, why: choice.why, devices: reports }
}

/** What `open` would take, by what the devices have just shown. */
async function choose(
  devices: readonly DeviceLine[],
  verdicts: ReadonlyMap<string, Verdict>,
): Promise<{ name: string | null; why: string }> {
  const known: VerdictStore = { get: async (key) => verdicts.get(key.split('/')[0] ?? ''), set: async () => {} }
  try {
    const { device, why } = await open('auto', { devices, verdicts: known, log: () => {} })
    await device.close()
    return { name: device.name, why }
  } catch (error) {
    return { name: null, why: message(error) }
  }
}

async function examine(line: DeviceLine, verdicts: Map<string, Verdict>): Promise<DeviceReport> {
  const findings: Finding[] = []
  let probe: Probe = { available: false, detail: 'does not load', key: '' }
  let verdict: Verdict = { passed: [], failed: [] }
  try {
    const factory = await line.load()
    probe = await factory.probe()
    if (probe.available) {
      const device = await factory.open()
      try {
        if (line.tested) {
          verdict = await selfTest(device)
          verdicts.set(line.name, verdict)
        }
        findings.push(judged(line, verdict), ...ofDevice(line, device, probe))
        if (line.name === 'cpu') findings.push(...(await ofProducts(device)))
      } finally {
        await device.close()
      }
    } else {
      findings.push(advise('available', (probe.reason ?? 'not available here').replace(`${line.name}: `, '')))
    }
  } catch (error) {
    findings.push({
      probe: 'open',
      status: 'fail',
      evidence: message(error),
      prescription: 'update the driver, or choose another device with INGOT_DEVICE',
    })
  }
  if (line.name === 'cpu') findings.push(...(await ofEngine(probe)))
  const failed = verdict.failed.map(({ name, error }) => ({ name, error }))
  return { name: line.name, available: probe.available, detail: probe.detail, selfTest: { passed: verdict.passed, failed }, findings }
}

/** Reasons carry their hint after the last semicolon. */
function advise(probe: string, reason: string): Finding {
  const cut = reason.lastIndexOf('; ')
  const [evidence, prescription] = cut < 0 ? [reason, ''] : [reason.slice(0, cut), reason.slice(cut + 2)]
  return { probe, status: 'warn', evidence, prescription }
}

function judged({ tested, name }: DeviceLine, { passed, failed }: Verdict): Finding {
  const [first] = failed
  const untested = name === 'reference' ? 'it is what the others are compared with' : 'it computes nothing'
  if (!tested) return { probe: 'self-test', status: 'ok', evidence: untested, prescription: '' }
  if (first === undefined)
    return { probe: 'self-test', status: 'ok', evidence: `${passed.length} kernels give what they should`, prescription: '' }
  return {
    probe: 'self-test',
    status: 'fail',
    evidence: `${first.name}: ${first.error}`,
    prescription: 'update the driver; until then Ingot does not use this device',
  }
}

function ofDevice({ auto }: DeviceLine, { caps }: Device, { software, faster, detail }: Probe): Finding[] {
  if (auto !== 'yes') return []
  const findings: Finding[] = []
  if (faster !== undefined) findings.push(advise('speed', faster))
  if (software === true) {
    const prescription = 'install the driver of your GPU, if there is one; else the cpu device is faster'
    findings.push({ probe: 'adapter', status: 'warn', evidence: `${detail}: a GPU emulated on the CPU`, prescription })
  }
  if (caps.lanes > 1) {
    findings.push(
      caps.subgroup > 0
        ? { probe: 'subgroups', status: 'ok', evidence: `${caps.subgroup} lanes`, prescription: '' }
        : {
            probe: 'subgroups',
            status: 'warn',
            evidence: 'none of a fixed size: sums take a slower way',
            prescription: 'a newer driver may have them',
          },
    )
    findings.push(
      caps.f16
        ? { probe: 'f16', status: 'ok', evidence: 'arithmetic in f16', prescription: '' }
        : { probe: 'f16', status: 'warn', evidence: 'none: kernels compute in f32', prescription: 'a newer driver may have it' },
    )
  }
  const largest = Math.min(caps.bufferBytes, caps.bindingBytes)
  if (largest < ROOMY) {
    const prescription = 'a tensor larger than that does not load here; use the cpu device for it'
    findings.push({
      probe: 'buffer size',
      status: 'warn',
      evidence: `at most ${Math.floor(largest / 2 ** 20)} MiB in one buffer`,
      prescription,
    })
  }
  return findings
}

/** What the JavaScript engine gives the cpu device. How well it multiplies matters only where no native code does. */
async function ofEngine({ detail, faster }: Probe): Promise<Finding[]> {
  const multiplies = detail.startsWith('WebAssembly')
  const { simd, relaxed, relaxedDot, threads } = await detectWasm()
  const engine = typeof process === 'undefined' ? 'this browser' : `Node ${process.versions.node}`
  const check = (probe: string, good: boolean, yes: string, no: string, prescription: string, bad: 'warn' | 'fail' = 'warn'): Finding =>
    good ? { probe, status: 'ok', evidence: yes, prescription: '' } : { probe, status: bad, evidence: no, prescription }
  const [missed = '', remedy = ''] = faster?.split(/: (.*)/s) ?? []
  return [
    ...(faster === undefined ? [] : [check('native', false, '', `${missed}; WebAssembly serves, several times slower`, remedy)]),
    check('wasm simd', simd, engine, `${engine} has no WebAssembly SIMD`, 'use a newer engine: the cpu device needs it', 'fail'),
    check(
      'relaxed simd',
      relaxed || !multiplies,
      relaxed ? `${engine} has it` : 'not needed: native code multiplies',
      `${engine} has no relaxed SIMD: int8 products are slower`,
      'use Node 22 or a recent browser',
    ),
    check(
      'relaxed dot',
      relaxedDot || !relaxed || !multiplies,
      relaxedDot ? `${engine} has it right` : 'not used',
      `${engine} adds int8 products wrongly: Ingot takes a slower instruction`,
      'Node 22 has it right',
    ),
    check(
      'threads',
      threads,
      'SharedArrayBuffer',
      'no SharedArrayBuffer: one thread does all the work',
      'serve the page cross-origin isolated (COOP and COEP headers)',
    ),
  ]
}

/** Sizes named in one line. */
const SIZES_SHOWN = 6

/** Who multiplies f32 matrices there: sizes that it has not met yet are measured now. */
async function ofProducts(device: Device): Promise<Finding[]> {
  const { failed } = await selfTest(device, PRODUCTS)
  const { productsOf } = await import('./cpu/cpu.ts')
  const { name, path, reason, choices = [] } = productsOf(device) ?? {}
  const [first] = failed
  if (first !== undefined)
    return [
      {
        probe: 'f32 products',
        status: 'fail',
        evidence: `${first.name}: ${first.error}`,
        prescription: name === undefined ? '' : 'set INGOT_BLAS=off',
      },
    ]
  if (reason !== undefined) {
    const prescription =
      process.env['INGOT_BLAS'] === undefined
        ? 'OpenBLAS makes models of f32 weights faster; Debian and Ubuntu have it as libopenblas0-pthread'
        : ''
    return [{ probe: 'f32 products', status: 'note', evidence: `by Ingot's own kernels: ${reason}`, prescription }]
  }
  if (name === undefined) return [] // no native kernels, no choice
  const wrong = choices.find(({ why }) => why.startsWith('wrong'))
  if (wrong !== undefined) {
    return [
      {
        probe: 'f32 products',
        status: 'warn',
        evidence: `${name} (${path}) is ${wrong.why} (${wrong.size})`,
        prescription: 'update it, or set INGOT_BLAS=off; until then Ingot does without it where it is wrong',
      },
    ]
  }
  const list = (blas: boolean): string =>
    choices
      .filter((choice) => choice.blas === blas)
      .slice(0, SIZES_SHOWN)
      .map(({ size, why }) => `${size} (${why})`)
      .join(', ')
  const parts = [list(true), list(false)]
    .map((text, i) => (text === '' ? '' : `${i === 0 ? 'used for' : 'not for'} ${text}`))
    .filter((text) => text !== '')
  return [
    {
      probe: 'f32 products',
      status: 'note',
      evidence: `${name} (${path}), ${parts.length === 0 ? 'not used: nothing could be measured' : parts.join('; ')}`,
      prescription: '',
    },
  ]
}

function message(error: unknown): string {
  return isIngotError(error) || error instanceof Error ? error.message : String(error)
}
