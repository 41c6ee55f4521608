// What works here: every device is probed, opened and made to compute real kernels, and may say more of itself. What is wrong or slow
// comes with the evidence and with what to do about it. Names no device, reads no text. Never throws: a device that fails in any way is
// a finding.

import { messageOf } from '../../base/error.ts'
import type { Probe } from './factory.ts'
import { type Finding, makeReason, pass } from './finding.ts'
import { DEVICES, type DeviceLine, open, verdictKey } from './open.ts'
import { selfTest } from './self-test.ts'
import type { Verdict } from './verdict.ts'

export interface DeviceReport {
  readonly name: string
  readonly available: boolean
  readonly detail: string
  readonly selfTest: { readonly passed: readonly string[]; readonly failed: readonly { readonly name: string; readonly error: string }[] }
  readonly findings: readonly Finding[]
}

export interface Diagnosis {
  /** ok: the chosen device computes right; degraded: it is the slow last resort, or another one computes wrong; broken: none works */
  readonly verdict: 'ok' | 'degraded' | 'broken'
  readonly chosen: string | null
  readonly why: string
  readonly devices: readonly DeviceReport[]
}

export interface DiagnoseOptions {
  readonly devices?: readonly DeviceLine[]
  /** called as each device is begun */
  readonly onDevice?: (name: string) => void
}

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
  try {
    const known = { get: async (key: string) => verdicts.get(key), set: async () => {} }
    const { device, why } = await open('auto', { devices, verdicts: known, log: () => {} })
    await device.close()
    return { name: device.name, why }
  } catch (error) {
    return { name: null, why: messageOf(error) }
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
      await using device = await factory.open()
      if (line.untested === undefined) {
        verdict = await selfTest(device)
        verdicts.set(await verdictKey(device, probe), verdict)
      }
      findings.push(describeSelfTest(line, verdict), ...((await factory.examine?.(device, probe)) ?? []))
    } else {
      const { reason = makeReason('not available here') } = probe
      findings.push({ probe: 'available', status: 'warn', ...reason }, ...((await factory.examine?.(undefined, probe)) ?? []))
    }
  } catch (error) {
    findings.push({
      probe: 'open',
      status: 'fail',
      evidence: messageOf(error),
      prescription: 'update the driver, or choose another device with INGOT_DEVICE',
    })
  }
  const failed = verdict.failed.map(({ name, error }) => ({ name, error }))
  return { name: line.name, available: probe.available, detail: probe.detail, selfTest: { passed: verdict.passed, failed }, findings }
}

function describeSelfTest({ untested }: DeviceLine, { passed, failed: [first] }: Verdict): Finding {
  if (untested !== undefined) return pass('self-test', untested)
  if (first === undefined) return pass('self-test', `${passed.length} kernels give what they should`)
  return {
    probe: 'self-test',
    status: 'fail',
    evidence: `${first.name}: ${first.error}`,
    prescription: 'update the driver; until then Ingot does not use this device',
  }
}
