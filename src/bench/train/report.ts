// What a bench of training found, as data and as a table for people.

import type { LlamaShape } from '../../weights/synth/llama.ts'
import type { Machine } from '../machine.ts'
import { alignColumns } from '../report.ts'
import { median, summarize } from '../statistics.ts'
import type { OwnTrainSamples, TrainSamples } from './measure.ts'

export interface TrainMeasure {
  readonly name: string
  /** the format of the frozen weights */
  readonly base: string
  readonly recompute: boolean
  readonly tokens: number
  readonly samples: TrainSamples | OwnTrainSamples
  /** of each step: the share of its time that its products would take at the device's peak */
  readonly shares?: readonly number[]
}

export interface TrainReport {
  readonly kind: 'train'
  readonly date: string
  readonly machine: Machine
  /** the share of all cores that other programs used before */
  readonly busy: number
  readonly shape: LlamaShape
  readonly rank: number
  readonly measures: readonly TrainMeasure[]
}

/** Others that use more than this of the machine are worth a word. */
const BUSY = 0.1

export function showTrainReport({ machine, busy, shape, rank, measures }: TrainReport): string {
  const { width, layers, heads, hidden, vocabulary } = shape
  const [{ tokens } = { tokens: 0 }] = measures
  const peer = (recompute: boolean): TrainMeasure | undefined =>
    measures.find((measure) => measure.name.startsWith('PyTorch') && measure.recompute === recompute)
  const rows = measures.map((measure) => {
    const { name, base, recompute, samples, shares } = measure
    const seconds = median(samples.seconds)
    const against = name === 'Ingot' ? peer(recompute) : undefined
    const ratio = against && median(against.samples.seconds) / seconds
    return [
      name,
      base,
      recompute ? 'again' : 'kept',
      seconds.toFixed(3),
      `${(100 * summarize(samples.seconds).noise).toFixed(0)} %`,
      (tokens / seconds).toFixed(0),
      shares === undefined ? '' : `${(100 * median(shares)).toFixed(0)} %`,
      (samples.bytes / 1e6).toFixed(0),
      'statedBytes' in samples ? (samples.statedBytes / 1e6).toFixed(0) : '',
      ratio === undefined ? '' : ratio.toFixed(2),
      against === undefined ? '' : (samples.bytes / against.samples.bytes).toFixed(2),
    ]
  })
  const head = ['', 'base', 'layers', 's/step', 'noise', 'tok/s', 'of peak', 'MB', 'stated', 'x peer', 'of its MB']
  const devices = [...new Set(measures.flatMap(({ samples }) => ('device' in samples ? [samples.device] : [])))]
  return [
    `LoRA of rank ${rank} on all linear layers: width ${width}, ${layers} layers, ${heads} heads, ${hidden}, vocabulary ${vocabulary};`,
    `1 x ${tokens} tokens, AdamW, clipping. ${machine.cpu}, ${machine.cores} cores; ${devices.join(', ')}`,
    '',
    ...alignColumns([head, ...rows], [0, 1, 2]),
    ...(busy > BUSY ? ['', `other programs used ${(100 * busy).toFixed(0)} % of the machine: times are those of what was left`] : []),
    '',
  ].join('\n')
}
