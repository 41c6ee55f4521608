// `ingot bench --ops`: single operations on every device, one report for each.

import { printableJson } from '../../base/printable.ts'
import { saveReport } from '../../bench/history.ts'
import { findOpPeer, ingotOps } from '../../bench/op/contenders.ts'
import { FULL_OPS, QUICK_OPS } from '../../bench/op/measure.ts'
import { type OpReport, opsToJson, showOpReport } from '../../bench/op/report.ts'
import { runOpBench } from '../../bench/op/run.ts'
import { OP_LINES, type OpLine } from '../../bench/op/workload.ts'
import { DEVICES, listDevices } from '../../device/open/open.ts'
import { Failure } from '../failure.ts'
import { interruptible } from '../interruption.ts'
import { defined } from '../option/shared.ts'
import { createProgress } from './progress.ts'

export interface OpsFlags {
  readonly device?: readonly string[]
  readonly threads?: number
  readonly against?: string
  readonly only?: string
  readonly quick?: true
  readonly json?: true
  readonly save?: string
  readonly title?: string
  readonly comment?: string
}

export async function benchOps({ device, threads, against, only, quick, json, save, title, comment }: OpsFlags): Promise<void> {
  const lines = chooseLines(only)
  const contenders = [ingotOps, ...(against === undefined ? [] : against.split(',').map(findOpPeer))]
  await interruptible(async ({ signal }) => {
    using progress = createProgress()
    const reports: OpReport[] = []
    for (const name of device ?? (await workingDevices())) {
      const effort = quick === true ? QUICK_OPS : FULL_OPS
      const how = { effort, lines, device: name, ...defined({ threads }), onProgress: progress.update, signal }
      const report = await runOpBench(contenders, how)
      progress.pause()
      if (json !== true) process.stdout.write(`${reports.length === 0 ? '' : '\n'}${showOpReport(report)}`)
      if (save !== undefined) await saveReport(save, report, defined({ title, comment }))
      reports.push(report)
    }
    if (json === true) process.stdout.write(`${printableJson({ reports: reports.map(opsToJson) })}\n`)
  })
}

function chooseLines(only: string | undefined): readonly OpLine[] {
  if (only === undefined) return OP_LINES
  const words = only.split(',')
  // What is asked for by name is measured, however quick it is to be.
  const chosen = OP_LINES.filter(({ name }) => words.some((word) => name.includes(word))).map((line) => ({ ...line, quick: true }))
  if (chosen.length === 0)
    throw new Failure(`no operation has ${words.join(' or ')} in its name; there are ${OP_LINES.map(({ name }) => name).join('; ')}`)
  return chosen
}

/** All that compute here, but those that nobody takes for speed. */
async function workingDevices(): Promise<string[]> {
  const slow = new Set(DEVICES.flatMap(({ name, auto }) => (auto === 'yes' ? [] : [name])))
  return (await listDevices()).flatMap(({ name, probe }) => (probe.available && !slow.has(name) ? [name] : []))
}
