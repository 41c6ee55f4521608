// What `ingot doctor` says of a GPU by its caps: whether it is a real one, what kernels must do without, how large buffers can be. Devices
// that are GPUs hand it on as their own findings.

import type { Caps } from '../../base/caps.ts'
import type { Probe } from './factory.ts'
import { type Finding, pass } from './finding.ts'

/** A buffer smaller than this keeps some models out. */
const ROOMY = 2 ** 30

export function examineGpu(caps: Caps, { software, detail }: Probe): Finding[] {
  const findings: Finding[] = []
  const warn = (probe: string, evidence: string, prescription: string): void => {
    findings.push({ probe, status: 'warn', evidence, prescription })
  }
  if (software === true)
    warn(
      'adapter',
      `${detail}: a GPU emulated on the CPU`,
      'install the driver of your GPU, if there is one; else the cpu device is faster',
    )
  if (caps.subgroup > 0) findings.push(pass('subgroups', `${caps.subgroup} lanes`))
  else warn('subgroups', 'none of a fixed size: sums take a slower way', 'a newer driver may have them')
  if (caps.f16) findings.push(pass('f16', 'arithmetic in f16'))
  else warn('f16', 'none: kernels compute in f32', 'a newer driver may have it')
  const largest = Math.min(caps.bufferBytes, caps.bindingBytes)
  if (largest < ROOMY)
    warn(
      'buffer size',
      `at most ${Math.floor(largest / 2 ** 20)} MiB in one buffer`,
      'a tensor larger than that does not load here; use the cpu device for it',
    )
  return findings
}
