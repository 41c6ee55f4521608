// What a training run is told, and what that means: every option with its default, checked at once. Settings are what decides the numbers
// of a run; a checkpoint carries them, and a run that goes on must have the same.

import {
  checkArgument,
  checkOption,
  checkOptions,
  hasMethods,
  isBoolean,
  isFunction,
  isObject,
  isSignal,
  isString,
} from '../base/argument.ts'
import { IngotError } from '../base/error.ts'
import type { OpenDeviceOptions } from '../device/open/open.ts'
import type { Device } from '../device/device.ts'
import type { Schedule } from '../nn/schedule.ts'
import type { GgmlType } from '../quant/type.ts'
import type { ByteSink } from '../weights/sink.ts'
import type { ByteSource } from '../weights/source.ts'
import type { DataSource } from './data/dataset.ts'

/** Adapters to train: which layers have one, and how much it can learn. */
export interface LoraSettings {
  /** default 8 */
  readonly rank?: number
  /** the change of a layer is times alpha / rank (default: twice the rank) */
  readonly alpha?: number
  /** times alpha / root of the rank instead, which suits high ranks (default false) */
  readonly rsLora?: boolean
  /** names of layers, whole (`blk.0.attn_q`) or by their last part (`attn_q`); default: all of them */
  readonly targets?: 'all-linear' | readonly string[]
  /** the chance that an input of an adapter is left out in a step (default 0) */
  readonly dropout?: number
}

/** How the rate goes over the run: rises during `warmup`, a share of the updates below 1 or a count, then falls to `floor`. */
export interface ScheduleSettings {
  readonly kind: 'constant' | 'linear' | 'cosine'
  /** default 0.03 */
  readonly warmup?: number
  /** the rate at the end (default 0) */
  readonly floor?: number
}

/** The optimisers that a run can have. */
export const OPTIMIZERS = ['adamw', 'sgd', 'lion'] as const

/** What decides the numbers of a run. */
export interface TrainSettings {
  /** adapters over a frozen model; the default way to train */
  readonly lora?: LoraSettings
  /** train all weights instead (default false) */
  readonly full?: boolean
  /** default `adamw` */
  readonly optimizer?: (typeof OPTIMIZERS)[number]
  /** the highest learning rate (default 2e-4; with all weights 5e-5) */
  readonly rate?: number
  /** default: along a cosine to 0, after a warm-up */
  readonly schedule?: ScheduleSettings['kind'] | ScheduleSettings
  /** how often all data is learnt (default 3, unless `steps` is given) */
  readonly epochs?: number
  /** updates in all, instead of epochs */
  readonly steps?: number
  /** rows computed at once (default 4) */
  readonly batch?: number
  /** batches whose gradients make one update (default 1) */
  readonly accumulate?: number
  /** gradients that are longer together are made this long; 0: never (default 1) */
  readonly clipNorm?: number
  /** how much of a weight goes at a rate of 1; matrices only, norms and biases keep all (default 0) */
  readonly weightDecay?: number
  /** tokens of a row (default: as the model was trained, at most 512) */
  readonly context?: number
  /** several sequences in a row, so that few are padding (default true) */
  readonly packing?: boolean
  /** records that are not learnt but measured: a share below 1, or a count (default 0) */
  readonly validation?: number
  /** of the order of data, of adapters and of dropout (default 0) */
  readonly seed?: number
  /** for pairs of answers: how far the model may go from the one it was (default 0.1) */
  readonly beta?: number
}

/** A training run: what to learn from, what to train, and where the result goes. */
export interface FinetuneOptions extends TrainSettings, Pick<OpenDeviceOptions, 'log' | 'onWarning' | 'threads'> {
  /** a GGUF file in any format: its path, or a source of bytes */
  readonly model: string | ByteSource
  /** paths of JSONL or text files, or records */
  readonly data: DataSource
  /** a file for the adapter or, where all weights are trained, the model; a folder for an adapter of PEFT */
  readonly out?: string | ByteSink
  /** of an adapter: `gguf`, or `peft` (default: by the ending of `out`) */
  readonly format?: 'gguf' | 'peft'
  /** of matrices, where all weights are trained: `f32`, `f16`, `q8_0`... (default f16) */
  readonly type?: GgmlType
  /** what is at `out` may be replaced (default false) */
  readonly force?: boolean
  /** the first record that cannot be used is an error (default false: they are left out and counted) */
  readonly strict?: boolean
  /** updates between two measurements (default: after each epoch); without `validation` there are none */
  readonly validateEvery?: number
  /** ends the run when so many measurements in a row were no better; the best weights are kept */
  readonly earlyStop?: { readonly patience: number; readonly delta?: number }
  /** a file that the run can go on from, written every so many updates (default 100) and when it is stopped */
  readonly checkpoint?: string | { readonly path: string; readonly every?: number }
  /** goes on from this checkpoint, as if it had never stopped; settings that are not given are those of the checkpoint */
  readonly resume?: string
  /** layers are computed again for gradients: less memory for more time (default `auto`: where an update would need more than `memory`) */
  readonly recompute?: boolean | 'auto'
  /** bytes that a run may take on the device (default: three quarters of the memory of a CPU; of GPUs nobody knows) */
  readonly memory?: number
  /** a name (default `auto`), or a device that stays yours to close */
  readonly device?: string | Device
  /** aborting it stops after the update under way, writes the checkpoint if there is one, and rejects with its reason */
  readonly signal?: AbortSignal
  /** called while data is read and weights are loaded: how much of it is done */
  readonly onProgress?: (progress: { readonly what: 'reading' | 'loading'; readonly done: number; readonly total: number }) => void
}

/** Settings with all defaults, as a checkpoint has them: what is not there does not matter to the run. */
export interface ResolvedSettings {
  readonly lora: Required<LoraSettings> | null
  readonly optimizer: (typeof OPTIMIZERS)[number]
  readonly rate: number
  readonly schedule: Required<ScheduleSettings>
  readonly epochs: number | null
  readonly steps: number | null
  readonly batch: number
  readonly accumulate: number
  readonly clipNorm: number
  readonly weightDecay: number
  readonly context: number
  readonly packing: boolean
  readonly validation: number
  readonly seed: number
  readonly beta: number
}

const [MOST_CONTEXT, MOST_COUNT] = [512, 2 ** 31 - 1]

/** Fills in what is not given. `trained` is the context that the model was trained with. */
export function resolveSettings(given: TrainSettings, trained: number): ResolvedSettings {
  const { full = false, lora, epochs, steps, schedule = 'cosine', optimizer = 'adamw', packing = true } = given
  if (full && lora !== undefined) throw bad('adapters and all weights cannot be trained together', 'lora and full', 'one of them')
  if (epochs !== undefined && steps !== undefined) throw bad('both epochs and steps are given', `${epochs} and ${steps}`, 'one of them')
  if (!OPTIMIZERS.includes(optimizer)) throw bad('no such optimizer', optimizer, OPTIMIZERS.join(', '))
  checkOption('finetune', 'packing', packing, 'true or false', isBoolean)
  const { kind, warmup = 0.03, floor = 0 } = isString(schedule) ? { kind: schedule } : schedule
  if (!['constant', 'linear', 'cosine'].includes(kind)) throw bad('no such schedule', kind, 'constant, linear or cosine')
  return {
    lora: full ? null : resolveLora(lora ?? {}),
    optimizer,
    rate: number('rate', given.rate ?? (full ? 5e-5 : 2e-4), { above: 0 }),
    schedule: { kind, warmup: number('warmup', warmup), floor: number('floor', floor) },
    epochs: steps === undefined ? whole('epochs', epochs ?? 3) : null,
    steps: steps === undefined ? null : whole('steps', steps),
    batch: whole('batch', given.batch ?? 4),
    accumulate: whole('accumulate', given.accumulate ?? 1),
    clipNorm: number('clipNorm', given.clipNorm ?? 1),
    weightDecay: number('weightDecay', given.weightDecay ?? 0),
    context: whole('context', given.context ?? Math.min(trained, MOST_CONTEXT)),
    packing,
    validation: number('validation', given.validation ?? 0),
    seed: whole('seed', given.seed ?? 0, 0),
    beta: number('beta', given.beta ?? 0.1, { above: 0 }),
  }
}

function resolveLora({
  rank = 8,
  alpha = 2 * rank,
  rsLora = false,
  targets = 'all-linear',
  dropout = 0,
}: LoraSettings): Required<LoraSettings> {
  checkOption('finetune', 'rsLora', rsLora, 'true or false', isBoolean)
  checkOption('finetune', 'targets', targets, '`all-linear`, or a list of names', (value) => value === 'all-linear' || isTexts(value))
  const chance = number('dropout', dropout)
  if (chance >= 1) throw bad('no such dropout', chance, 'from 0 to below 1')
  return { rank: whole('rank', rank), alpha: number('alpha', alpha, { above: 0 }), rsLora, targets, dropout: chance }
}

/** What a change is times, as alpha over the rank: rsLoRA is plain LoRA with a larger alpha. */
export function alphaOf({ rank, alpha, rsLora }: Pick<Required<LoraSettings>, 'rank' | 'alpha' | 'rsLora'>): number {
  return rsLora ? alpha * Math.sqrt(rank) : alpha
}

/** The schedule of a run of so many updates. */
export function scheduleFor({ kind, warmup: wanted, floor }: Required<ScheduleSettings>, total: number): Schedule {
  const warmup = Math.min(wanted < 1 ? Math.ceil(wanted * total) : wanted, Math.max(0, total - 1))
  return kind === 'constant' ? { kind, warmup } : { kind, warmup, total, floor }
}

/** What is no number is checked here, before any work; numbers by `resolveSettings`. */
export function checkFinetune(options: unknown): void {
  const op = 'finetune'
  checkOptions(op, options)
  const { model, data, out, format, force, strict, checkpoint, resume, device, signal, lora, ...rest } = options as Readonly<
    Record<string, unknown>
  >
  checkArgument(op, 'the model', model, 'a path or a ByteSource', (value) => isString(value) || hasMethods(value, ['read', 'close']))
  checkArgument(op, 'data', data, 'a path, paths or records', (value) => isString(value) || Array.isArray(value))
  checkOption(op, 'out', out, 'a path or a sink', (value) => isString(value) || hasMethods(value, ['write']))
  checkOption(op, 'format', format, '`gguf` or `peft`', (value) => value === 'gguf' || value === 'peft')
  for (const [name, value] of Object.entries({ force, strict, full: rest['full'] }))
    checkOption(op, name, value, 'true or false', isBoolean)
  checkOption(
    op,
    'checkpoint',
    checkpoint,
    'a path, or an object with one',
    (value) => isString(value) || (isObject(value) && 'path' in value),
  )
  checkOption(op, 'resume', resume, 'a path', isString)
  checkOption(op, 'lora', lora, 'an object', isObject)
  checkOption(
    op,
    'device',
    device,
    'a name or a device',
    (value) => isString(value) || hasMethods(value, ['alloc', 'submit', 'load', 'free']),
  )
  checkOption(op, 'signal', signal, 'an AbortSignal', isSignal)
  checkOption(op, 'onProgress', rest['onProgress'], 'a function', isFunction)
  checkOption(op, 'recompute', rest['recompute'], 'true, false or `auto`', (value) => isBoolean(value) || value === 'auto')
  const { earlyStop, validateEvery, memory } = options as FinetuneOptions
  if (memory !== undefined) number('memory', memory, { above: 0 })
  if (validateEvery !== undefined) whole('validateEvery', validateEvery)
  if (earlyStop === undefined) return
  checkOption(op, 'earlyStop', earlyStop, 'an object', isObject)
  whole('patience', earlyStop.patience)
  number('delta', earlyStop.delta ?? 0)
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isString)
}

function whole(name: string, value: number, least = 1): number {
  if (Number.isSafeInteger(value) && value >= least && value <= MOST_COUNT) return value
  throw bad(`no such ${name}`, value, `a whole number from ${least} on`)
}

function number(name: string, value: number, { above = -Number.MIN_VALUE } = {}): number {
  if (Number.isFinite(value) && value > above) return value
  throw bad(`no such ${name}`, value, above === 0 ? 'a number above 0' : 'a number from 0 on')
}

function bad(what: string, got: unknown, wanted: string): IngotError {
  return new IngotError('bad-argument', what, { op: 'finetune', got, wanted })
}
