// The work of a training run: opens everything, makes one update after the other, measures, writes checkpoints and the result. Tells what
// happens; knows nothing of who listens.

import { messageOf } from '../base/error.ts'
import type { Device } from '../device/device.ts'
import { open } from '../device/open/open.ts'
import { DEFAULT_CONTEXT } from '../llm/default.ts'
import { readCount } from '../llm/model-source.ts'
import { readTemplate } from '../llm/template.ts'
import { createTokenizer } from '../llm/tokenizer/tokenizer.ts'
import { type Optimizer, adamw, lion, sgd } from '../nn/optim.ts'
import { rateAt } from '../nn/schedule.ts'
import { Tensor } from '../tensor/tensor.ts'
import { type Gguf, openGguf } from '../weights/gguf/gguf.ts'
import { metaString } from '../weights/gguf/meta.ts'
import {
  type CheckpointHead,
  type Progress,
  checkOrigin,
  checkSettings,
  fingerprintOf,
  readCheckpointHead,
  readCheckpointState,
  writeCheckpoint,
} from './checkpoint.ts'
import { Curriculum, type Lesson } from './curriculum.ts'
import { type Dataset, readDataset } from './data/dataset.ts'
import { createSampleEncoder } from './data/encode.ts'
import { bringBatch } from './data/rows.ts'
import { type Estimate, type FinetuneResult, LossError, type TrainEvent } from './event.ts'
import { type FinetuneOptions, type ResolvedSettings, type TrainSettings, alphaOf, resolveSettings, scheduleFor } from './options.ts'
import { type ResultTarget, openTarget } from './output.ts'
import { type Batch, emptyBatch } from './batch.ts'
import { type StepMemory, checkFits, withMemory } from './memory.ts'
import { pairLoss, sequenceLoss } from './objective.ts'
import { type StepResult, type Trainer, capacityOf, createTrainer } from './step.ts'
import { type Trainable, loadTrainable } from './trainable.ts'

export interface RunControl {
  /** stops the run quietly */
  readonly stop: AbortSignal
  emit(event: TrainEvent): void
}

/** How much of the moving mean of losses stays with each update. */
const SMOOTHNESS = 0.95
const CHECKPOINT_EVERY = 100
/** Tells seeds of dropout from others: an odd number. */
const NOISE = 0x9e3779b1
const BEGIN: Progress = { step: 0, mean: 0, tokens: 0, worse: 0, best: null }

/** Runs all of it. */
export async function runTraining(options: FinetuneOptions, control: RunControl): Promise<FinetuneResult> {
  const begun = performance.now()
  const { signal: outer } = options
  const signal = outer === undefined ? control.stop : AbortSignal.any([outer, control.stop])
  let run: Run | undefined
  try {
    run = await openRun(options, signal, control.emit)
    return await run.train(begun)
  } catch (error) {
    if (!signal.aborted || error !== signal.reason || outer?.aborted === true) throw error
    // Stopped before the first update.
    return { reason: 'stopped', steps: 0, loss: Number.NaN, tokens: 0, ms: performance.now() - begun }
  } finally {
    await run?.close()
  }
}

/** What a run consists of. */
export interface RunParts {
  readonly options: FinetuneOptions
  readonly settings: ResolvedSettings
  readonly gguf: Gguf
  readonly device: Device
  readonly ownsDevice: boolean
  readonly target: ResultTarget | undefined
  readonly data: Dataset
  readonly curriculum: Curriculum
  readonly trainable: Trainable
  readonly optimizer: Optimizer
  readonly trainer: Trainer
  readonly origin: Pick<CheckpointHead, 'base' | 'data'>
  readonly head: CheckpointHead | undefined
  readonly signal: AbortSignal
  emit(event: TrainEvent): void
}

/** Reads the data, then loads the model. What cannot work is refused in the order of its cost. */
export async function openRun(options: FinetuneOptions, signal: AbortSignal, emit: RunControl['emit']): Promise<Run> {
  const closing: (() => unknown)[] = []
  try {
    signal.throwIfAborted()
    const head = options.resume === undefined ? undefined : await readCheckpointHead(options.resume)
    const gguf = await openGguf(options.model)
    closing.push(() => gguf.close())
    const architecture = metaString(gguf, 'general.architecture')
    const trained = readCount(gguf, `${architecture}.context_length`, { otherwise: DEFAULT_CONTEXT })
    const settings = resolveSettings(head === undefined ? options : withStored(options, head.settings), trained)
    if (head !== undefined) checkSettings(settings, head.settings)
    const inputs = [...gguf.files, ...pathsOf(options.data).map((path) => ({ path }))].flatMap(({ path }) => path ?? [])
    const target = await openTarget({ ...options, full: settings.lora === null, inputs })
    const data = await readData(options, settings, gguf, signal)
    const origin = { base: await fingerprintOf(gguf), data: data.store.fingerprint() }
    if (head !== undefined) checkOrigin(origin, head)
    emit({ kind: 'data', ...data.summary })
    const curriculum = new Curriculum(data, settings)
    const ownsDevice = typeof options.device !== 'object'
    const device = typeof options.device === 'object' ? options.device : (await open(options.device, options)).device
    if (ownsDevice) closing.push(() => device.close())
    const trainable = await loadTrainable(device, gguf, {
      contextLength: settings.context,
      ...(settings.lora === null ? {} : { lora: { ...settings.lora, alpha: alphaOf(settings.lora), seed: settings.seed } }),
      onProgress: ({ loaded, total }) => options.onProgress?.({ what: 'loading', done: loaded, total }),
      signal,
    })
    closing.push(() => trainable.free())
    const optimizer = makeOptimizer(settings, trainable)
    const loss = data.kind === 'pairs' ? pairLoss(trainable, settings.beta) : sequenceLoss(trainable)
    const trainer = createTrainer(trainable, {
      optimizer,
      loss,
      ...(settings.clipNorm === 0 ? {} : { clipNorm: settings.clipNorm }),
      ...(options.recompute === undefined ? {} : { recompute: options.recompute }),
      ...(options.memory === undefined ? {} : { memory: options.memory }),
    })
    closing.push(() => trainer[Symbol.dispose]())
    const parts = {
      options,
      settings,
      gguf,
      device,
      ownsDevice,
      target,
      data,
      curriculum,
      trainable,
      optimizer,
      trainer,
      origin,
      head,
      signal,
      emit,
    }
    return new Run(parts, closing)
  } catch (error) {
    for (const close of closing.toReversed()) await close()
    throw error
  }
}

async function readData(options: FinetuneOptions, settings: ResolvedSettings, gguf: Gguf, signal: AbortSignal): Promise<Dataset> {
  const { onWarning, strict, onProgress } = options
  const tokenizer = createTokenizer(gguf.metadata, onWarning === undefined ? {} : { warn: onWarning })
  let template: ReturnType<typeof readTemplate> | undefined
  const encoder = createSampleEncoder({
    tokenizer,
    template: () => (template ??= readTemplate(gguf, tokenizer, onWarning)),
    context: settings.context,
  })
  return readDataset(options.data, {
    encoder,
    vocabulary: tokenizer.vocabSize,
    ...(strict === undefined ? {} : { strict }),
    signal,
    onProgress: (done, total) => onProgress?.({ what: 'reading', done, total }),
  })
}

/** Norms and biases keep all they have. */
function makeOptimizer({ optimizer, weightDecay }: ResolvedSettings, { parameters }: Trainable): Optimizer {
  const options = { weightDecay: (_: string, { rank }: Tensor) => (rank > 1 ? weightDecay : 0) }
  return { adamw, sgd, lion }[optimizer](parameters, options)
}

/** A run that is open. */
export class Run {
  readonly parts: RunParts
  readonly #closing: readonly (() => unknown)[]
  readonly #every: number
  #progress: Progress = BEGIN
  /** parameters when they measured best */
  #best: Record<string, Tensor> | undefined
  /** the last measurement, and the update after which it was */
  #measured: { readonly step: number; readonly loss: number } | undefined
  #checkpoint: string | undefined

  constructor(parts: RunParts, closing: readonly (() => unknown)[]) {
    this.parts = parts
    this.#closing = closing
    const { checkpoint } = parts.options
    this.#every = (typeof checkpoint === 'object' ? checkpoint.every : undefined) ?? CHECKPOINT_EVERY
  }

  /** All updates from here on. */
  async train(begun: number): Promise<FinetuneResult> {
    const { curriculum, settings, device, trainable, emit, head, options, signal, target } = this.parts
    await this.#resume()
    const { total } = curriculum
    emit({
      kind: 'start',
      settings,
      steps: total,
      done: head?.progress.step ?? 0,
      epochs: curriculum.epochs,
      sequences: curriculum.sizes,
      parameters: countOf(trainable),
      device: device.name,
      memory: device.stats.bytesLive,
      expected: await this.#expected(),
    })
    let reason: FinetuneResult['reason'] = 'finished'
    while (this.#progress.step < total) {
      if (signal.aborted) {
        reason = 'stopped'
        break
      }
      const lesson = curriculum.lesson(this.#progress.step)
      await this.#update(lesson, total)
      if (await this.#measureIfDue(lesson.isLastOfEpoch, total)) {
        reason = 'early-stop'
        break
      }
      if (this.#progress.step % this.#every === 0 && this.#progress.step < total) await this.#saveOrWarn()
    }
    if (reason === 'stopped') {
      await this.#save()
      options.signal?.throwIfAborted()
    } else await this.#finish(target)
    const result = this.#result(reason, begun)
    emit({ kind: 'end', ...result })
    return result
  }

  /** What the run will take, by making the first update twice at a rate of 0: nothing is learnt. */
  async estimate(): Promise<Estimate> {
    const { curriculum, device, trainable, data, settings } = this.parts
    const lesson = curriculum.lesson(0)
    const expected = await this.#expected()
    let ms = 0
    for (const _ of [1, 2]) {
      const begun = performance.now()
      await this.#step(lesson, 0, 0)
      ms = performance.now() - begun // of the second: the first waits for compilers
    }
    const { total, epochs } = curriculum
    return {
      data: data.summary,
      settings,
      steps: total,
      epochs,
      sequences: curriculum.sizes,
      tokens: Math.round(data.summary.tokens * epochs * (1 - curriculum.sizes.validation / data.store.size)),
      parameters: countOf(trainable),
      device: device.name,
      memory: expected.total,
      expected,
      msPerStep: ms,
      ms: ms * total,
    }
  }

  async close(): Promise<void> {
    for (const close of this.#closing.toReversed()) await close()
  }

  async #update(lesson: Lesson, total: number): Promise<void> {
    const { settings, device, emit } = this.parts
    const { step, mean, tokens } = this.#progress
    const rate = rateAt(scheduleFor(settings.schedule, total), settings.rate, step)
    const begun = performance.now()
    const { loss, norm } = await this.#step(lesson, step, rate)
    const ms = performance.now() - begun
    for (const [what, value] of [
      ['the loss', loss],
      ['the length of the gradients', norm],
    ] as const)
      // prettier-ignore
      if (!Number.isFinite(value)) throw new LossError(what, value, step + 1, lesson.origins(), this.#checkpoint)
    const next = { ...this.#progress, step: step + 1, mean: SMOOTHNESS * mean + (1 - SMOOTHNESS) * loss, tokens: tokens + lesson.tokens }
    this.#progress = next
    emit({
      kind: 'step',
      step: next.step,
      steps: total,
      epoch: (next.step / total) * this.parts.curriculum.epochs,
      loss,
      smooth: smoothed(next),
      rate,
      norm,
      tokens: lesson.tokens,
      tokensPerSecond: (1000 * lesson.tokens) / ms,
      ms,
      memory: device.stats.bytesLive,
    })
  }

  async #step(lesson: Lesson, step: number, rate: number): Promise<StepResult> {
    const { trainer, settings } = this.parts
    const batches = this.#bring(lesson, step)
    try {
      return await trainer.step(batches, rate)
    } catch (error) {
      throw await withMemory(error, settings, () => trainer.memory(batches))
    }
  }

  /** What the largest update will need. */
  async #expected(): Promise<StepMemory> {
    const { trainer, curriculum, device, settings, options } = this.parts
    const expected = await trainer.memory(curriculum.largest().map((shape) => emptyBatch(device, shape, hasDropout(settings))))
    checkFits(expected, options.memory ?? capacityOf(device.caps), settings)
    return expected
  }

  #bring({ batches }: Lesson, step: number): Batch[] {
    const { device, settings } = this.parts
    const hasNoise = hasDropout(settings)
    const noise = (i: number): Uint32Array => Uint32Array.of(Math.imul(settings.seed, NOISE), step * settings.accumulate + i)
    return batches.map((values, i) => bringBatch(device, values, hasNoise ? noise(i) : undefined))
  }

  /** True where measurements say that it is enough. */
  async #measureIfDue(isLastOfEpoch: boolean, total: number): Promise<boolean> {
    const { curriculum, options, emit } = this.parts
    const { step } = this.#progress
    const isDue = options.validateEvery === undefined ? isLastOfEpoch : step % options.validateEvery === 0
    if (!curriculum.hasValidation || !(isDue || step === total)) return false
    const loss = await this.#measure()
    const { earlyStop } = options
    const best = this.#progress.best ?? Infinity
    const isBest = loss < best
    const isBetter = loss < best - (earlyStop?.delta ?? 0)
    this.#progress = { ...this.#progress, best: Math.min(best, loss), worse: isBetter ? 0 : this.#progress.worse + 1 }
    this.#measured = { step, loss }
    if (isBest && earlyStop !== undefined) this.#best = await copyOf(this.parts.trainable)
    emit({ kind: 'validation', step, loss, isBest })
    return earlyStop !== undefined && this.#progress.worse >= earlyStop.patience
  }

  /** The mean over all tokens that are predicted, or all pairs. */
  async #measure(): Promise<number> {
    const { curriculum, device, trainer, data } = this.parts
    let [sum, count] = [0, 0]
    for (const values of curriculum.validation()) {
      const weight = data.kind === 'pairs' ? values.shape[0] : values.learnt
      sum += weight * (await trainer.evaluate(bringBatch(device, values)))
      count += weight
    }
    if (!Number.isFinite(sum)) throw new LossError('the validation loss', sum, this.#progress.step, [], this.#checkpoint)
    return sum / count
  }

  async #resume(): Promise<void> {
    const { head, options, trainable, optimizer, device } = this.parts
    if (head === undefined || options.resume === undefined) return
    const state = { parameters: trainable.parameters, optimizer: optimizer.state }
    const { best } = await readCheckpointState(options.resume, state, device)
    if (Object.keys(best).length > 0) this.#best = best
    this.#progress = head.progress
    this.#checkpoint = options.resume
  }

  async #saveOrWarn(): Promise<void> {
    try {
      await this.#save()
    } catch (error) {
      // The one before is still there, and the run may be worth more than a new one.
      this.parts.options.onWarning?.(`no checkpoint after step ${this.#progress.step}: ${messageOf(error)}`)
    }
  }

  async #save(): Promise<void> {
    const { options, settings, origin, trainable, optimizer, emit } = this.parts
    const { checkpoint } = options
    if (checkpoint === undefined) return
    const path = typeof checkpoint === 'string' ? checkpoint : checkpoint.path
    const head = { settings, progress: this.#progress, ...origin }
    const best = this.#best === undefined ? {} : { best: this.#best }
    await writeCheckpoint(path, head, { parameters: trainable.parameters, optimizer: optimizer.state, ...best })
    this.#checkpoint = path
    emit({ kind: 'checkpoint', step: this.#progress.step, path })
  }

  async #finish(target: ResultTarget | undefined): Promise<void> {
    const { gguf, trainable, settings } = this.parts
    if (this.#best !== undefined)
      for (const [name, tensor] of Object.entries(trainable.parameters)) tensor.assign(this.#best[name] ?? tensor)
    await target?.write({ base: gguf, trainable, alpha: settings.lora === null ? undefined : alphaOf(settings.lora) })
  }

  #result(reason: FinetuneResult['reason'], begun: number): FinetuneResult {
    const { step, tokens, best } = this.#progress
    const out = reason === 'stopped' ? undefined : this.parts.target?.path
    return {
      reason,
      steps: step,
      loss: step === 0 ? Number.NaN : smoothed(this.#progress),
      ...(best === null ? {} : { validation: { last: this.#measured?.loss ?? best, best } }),
      tokens,
      ms: performance.now() - begun,
      ...(out === undefined ? {} : { out }),
      ...(this.#checkpoint === undefined ? {} : { checkpoint: this.#checkpoint }),
    }
  }
}

function hasDropout({ lora }: ResolvedSettings): boolean {
  return lora !== null && lora.dropout > 0
}

function countOf({ parameters }: Trainable): number {
  return Object.values(parameters).reduce((sum, { size }) => sum + size, 0)
}

/** A mean that began at 0, without what it has of that. */
function smoothed({ mean, step }: Progress): number {
  return mean / (1 - SMOOTHNESS ** step)
}

async function copyOf({ parameters, device }: Trainable): Promise<Record<string, Tensor>> {
  const copies = Object.entries(parameters).map(async ([name, tensor]): Promise<[string, Tensor]> => {
    return [name, Tensor.from(Float32Array.from(await tensor.data()), { shape: [...tensor.shape], device })]
  })
  return Object.fromEntries(await Promise.all(copies))
}

/** Settings that are not given are those of the checkpoint. */
function withStored(given: TrainSettings, { lora, epochs, steps, ...stored }: ResolvedSettings): TrainSettings {
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  const length = epochs === null ? (steps === null ? {} : { steps }) : { epochs }
  return {
    ...stored,
    ...(given.epochs === undefined && given.steps === undefined ? length : {}),
    ...(lora === null ? { full: true } : {}),
    ...known,
    ...(lora === null || given.full === true ? {} : { lora: { ...lora, ...given.lora } }),
  }
}

function pathsOf(data: FinetuneOptions['data']): string[] {
  return (typeof data === 'string' ? [data] : data).filter((item): item is string => typeof item === 'string')
}
