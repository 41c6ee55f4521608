// `ingot bench --train`: how long a step of training takes, and what memory.

import { printableJson } from '../../base/printable.ts'
import { showTrainReport } from '../../bench/train/report.ts'
import { runTrainBench } from '../../bench/train/run.ts'
import { Failure } from '../failure.ts'
import { interruptible } from '../interruption.ts'
import { defined } from '../option/shared.ts'
import { createProgress } from './progress.ts'

export interface TrainFlags {
  readonly device?: readonly string[]
  readonly threads?: number
  readonly ctx?: number
  readonly against?: string
  readonly quick?: true
  readonly json?: true
}

const TOKENS = 256
const RANK = 8
/** Steps that are timed. */
const [FULL, QUICK] = [7, 3]

export async function benchTrain(model: string | undefined, { device, threads, ctx, against, quick, json }: TrainFlags): Promise<void> {
  const [name, ...others] = device ?? []
  if (others.length > 0) throw new Failure('training is measured on one device')
  const python = against === undefined ? undefined : pythonOf(against)
  await interruptible(async ({ signal }) => {
    using progress = createProgress()
    const report = await runTrainBench({
      tokens: ctx ?? TOKENS,
      rank: RANK,
      steps: quick === true ? QUICK : FULL,
      ...defined({ model, device: name, threads, python }),
      onProgress: progress.update,
      signal,
    })
    progress.pause()
    process.stdout.write(json === true ? `${printableJson(report)}\n` : showTrainReport(report))
  })
}

/** `pytorch`, or `pytorch:/path/to/python` */
function pythonOf(against: string): string {
  const [peer, ...path] = against.split(':')
  if (peer !== 'pytorch') throw new Failure(`training is measured against pytorch, not ${against}`)
  return path.length === 0 ? 'python3' : path.join(':')
}
