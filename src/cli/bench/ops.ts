// `ingot bench --ops`: single operations on every device, one report for each.

import { printableJson } from '../../base/printable.ts'
import { saveReport } from '../../bench/history.ts'
import { findOpPeer, ingotOps } from '../../bench/op/contenders.ts'
import { FULL_OPS, QUICK_OPS } from '../../bench/op/measure.ts'
import { type OpReport, opsToJson, showOpReport } from '../../bench/op/report.ts'
import { runOpBench } from '../../bench/op/run.ts'
import { DEVICES, listDevices } from '../../device/open/open.ts'
import { watchInterruption } from '../interruption.ts'
import { defined } from '../option/shared.ts'
import { createProgress } from './progress.ts'

export interface OpsFlags {
  readonly device?: readonly string[]
  readonly threads?: number
  readonly against?: string
  readonly quick?: true
  readonly json?: true
  readonly save?: string
  readonly title?: string
  readonly comment?: string
}

export async function benchOps({ device, threads, against, quick, json, save, title, comment }: OpsFlags): Promise<void> {
  const contenders = [ingotOps, ...(against === undefined ? [] : against.split(',').map(findOpPeer))]
  const interruption = watchInterruption()
  const progress = createProgress()
  const { signal } = interruption
  const reports: OpReport[] = []
  try {
    for (const name of device ?? (await workingDevices())) {
      const effort = quick === true ? QUICK_OPS : FULL_OPS
      const report = await runOpBench(contenders, { effort, device: name, ...defined({ threads }), onProgress: progress.update, signal })
      progress.pause()
      if (json !== true) process.stdout.write(`${reports.length === 0 ? '' : '\n'}${showOpReport(report)}`)
      if (save !== undefined) await saveReport(save, report, defined({ title, comment }))
      reports.push(report)
    }
    if (json === true) process.stdout.write(`${printableJson({ reports: reports.map(opsToJson) })}\n`)
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    progress.end()
    interruption[Symbol.dispose]()
  }
  interruption.check()
}

/** All that compute here, but those that nobody takes for speed. */
async function workingDevices(): Promise<string[]> {
  const slow = new Set(DEVICES.flatMap(({ name, auto }) => (auto === 'yes' ? [] : [name])))
  return (await listDevices()).flatMap(({ name, probe }) => (probe.available && !slow.has(name) ? [name] : []))
}
