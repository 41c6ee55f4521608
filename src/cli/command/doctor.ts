// `ingot doctor`: which devices work here, found out by running kernels on them, and what to do about those that do not.

import type { Command } from 'commander'
import { printable, printableJson } from '../../base/printable.ts'
import { type DeviceReport, type Diagnosis, diagnose } from '../../device/open/diagnose.ts'
import type { Finding } from '../../device/open/finding.ts'
import { DEVICES } from '../../device/open/open.ts'
import { Failure } from '../failure.ts'
import { type Style, styleFor } from '../output/style.ts'

export function define(command: Command): void {
  command.option('--json', 'print everything as one JSON object').action(doctor)
}

async function doctor({ json }: { readonly json?: true }): Promise<void> {
  const diagnosis = await diagnose()
  process.stdout.write(json === true ? `${printableJson(diagnosis)}\n` : describeDiagnosis(diagnosis, styleFor(process.stdout)))
  if (diagnosis.verdict === 'broken') throw new Failure('', 1)
}

const VERDICTS = {
  ok: ['green', 'all is well'],
  degraded: ['yellow', 'it works, but not as it should'],
  broken: ['red', 'no device works'],
} as const satisfies Record<Diagnosis['verdict'], readonly [keyof Style, string]>

/** A line for the verdict, one for each device; then, unless `short`, what is not as it should be and what to do. */
export function describeDiagnosis({ verdict, chosen, why, devices }: Diagnosis, style: Style, { short = false } = {}): string {
  const [colour, text] = VERDICTS[verdict]
  const shown = devices.filter(({ name }) => DEVICES.find((line) => line.name === name)?.auto !== 'never')
  const width = Math.max(...shown.map(({ name }) => name.length))
  const lines = [
    `${style.bold(style[colour](text))}${chosen === null ? `: ${why}` : `: models run on ${style.bold(chosen)} (${why})`}`,
    '',
    ...shown.map((device) => `  ${mark(device, style)} ${device.name.padEnd(width)}  ${state(device)}`),
  ]
  const troubles = short
    ? []
    : shown.flatMap(({ name, findings }) =>
        findings.filter(({ status }) => status !== 'ok').map((finding) => trouble(name, finding, style)),
      )
  return `${[...lines, ...(troubles.length > 0 ? ['', ...troubles] : [])].join('\n')}\n`
}

function mark({ available, selfTest, findings }: DeviceReport, style: Style): string {
  if (selfTest.failed.length > 0 || findings.some(({ status }) => status === 'fail')) return style.red('✗')
  return available ? style.green('✓') : style.dim('-')
}

function state({ available, detail, selfTest: { passed, failed }, findings }: DeviceReport): string {
  if (!available) return `not available: ${printable(findings[0]?.evidence ?? detail)}`
  const total = passed.length + failed.length
  return total === 0 ? printable(detail) : `${printable(detail)}; ${passed.length} of ${total} kernels correct`
}

function trouble(name: string, { probe, status, evidence, prescription }: Finding, style: Style): string {
  const sign = status === 'fail' ? style.red('✗') : status === 'warn' ? style.yellow('!') : style.dim('·')
  return `  ${sign} ${name}, ${probe}: ${printable(evidence)}${prescription === '' ? '' : `\n      ${style.cyan('->')} ${prescription}`}`
}
