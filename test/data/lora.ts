// Training against PyTorch's runs, on a device: every run of the data folder. Knows no device; the files that import it name theirs.

import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { layersOf } from '../../src/llm/adapter/adapter.ts'
import { readAdapterGguf } from '../../src/llm/adapter/gguf.ts'
import { adamw } from '../../src/nn/optim.ts'
import { rateAt } from '../../src/nn/schedule.ts'
import { type Batch, makeBatch } from '../../src/train/batch.ts'
import { createTrainer } from '../../src/train/step.ts'
import { type Trainable, loadTrainable } from '../../src/train/trainable.ts'
import { type Gguf, openGguf, readTensor } from '../../src/weights/gguf/gguf.ts'
import { dataFolder } from './folder.ts'
import { type StoredSchedule, scheduleOf } from './optim.ts'

interface Run {
  /** of LoRA */
  readonly base?: string
  readonly rank?: number
  readonly alpha?: number
  readonly initial_adapter?: string
  readonly prompt_lengths?: readonly number[] | null
  /** of all parameters */
  readonly initial?: string
  readonly sequence_length?: number
  readonly optimizer: {
    readonly lr: number
    readonly betas: readonly [number, number]
    readonly eps: number
    readonly weight_decay: number
  }
  readonly schedule: StoredSchedule
  readonly clip_norm: number | null
  readonly steps: number
  /** sequences of each step; of LoRA, of each of its batches */
  readonly batches: readonly (readonly (number | readonly number[])[])[]
  readonly losses: readonly number[]
  readonly grad_norms: readonly number[]
  readonly final_loss_on_sequences_0_3: number
}
export interface TrainingDevice {
  readonly name: string
  readonly open: () => Promise<Device>
  /** why it cannot be tested here */
  readonly missing?: string | undefined
  /** largest relative error of a loss */
  readonly tolerance: number
  /** steps to try, where all would take too long; 0: the run is left out */
  readonly mostSteps?: (run: string) => number
}

/** Milliseconds: software GPUs take long to compile kernels. */
const TIMEOUT = 300_000
const RUNS = ['lora-f32', 'lora-q8_0', 'lora-accum-clip', 'lora-masked', 'full-untied', 'full-tied'] as const
const folder = join(dataFolder, 'training', 'lora-run')
const runs = RUNS.filter((run) => existsSync(join(folder, run, 'run.json')))

export function testTraining({ name, open, missing, tolerance, mostSteps = () => Infinity }: TrainingDevice): void {
  const reason = missing ?? (runs.length === 0 ? 'no runs in the data folder' : undefined)
  describe.skipIf(reason !== undefined)(`training runs of PyTorch on ${name}${reason === undefined ? '' : `: ${reason}`}`, () => {
    let device: Device
    beforeAll(async () => {
      device = await open()
    }, TIMEOUT)
    afterAll(() => device?.close())
    test.for(runs.filter((run) => mostSteps(run) > 0))('%s', { timeout: TIMEOUT }, async (run) => {
      expect(await follow(device, run, tolerance, mostSteps(run))).toEqual([])
    })
  })
}

/** What is further from PyTorch's than it may be. */
async function follow(device: Device, name: string, tolerance: number, mostSteps: number): Promise<string[]> {
  const run = readJson<Run>(name, 'run.json')
  await using gguf = await openGguf(run.base === undefined ? join(folder, name, run.initial ?? '') : basePath(run.base))
  const trainable = await loadRun(device, gguf, name, run)
  const { lr, betas, eps, weight_decay: decay } = run.optimizer
  const optimizer = adamw(trainable.parameters, { betas, eps, weightDecay: (_, { rank }) => (rank > 1 ? decay : 0) })
  using trainer = createTrainer(trainable, { optimizer, ...(run.clip_norm === null ? {} : { clipNorm: run.clip_norm }) })
  const lines: string[] = []
  const check = (what: string, got: number, want: number, most: number): void => {
    if (!(Math.abs(got / want - 1) < most)) lines.push(`${what} is ${got} instead of ${want}`)
  }
  try {
    const steps = Math.min(run.steps, mostSteps)
    for (let step = 0; step < steps; step++) {
      const before = device.stats.submissions
      const batches = batchesOf(device, run, step)
      const { loss, norm } = await trainer.step(batches, rateAt(scheduleOf(run.schedule), lr, step))
      if (step > 0) expect(device.stats.submissions - before).toBe(batches.length)
      check(`the loss of step ${step}`, loss, run.losses[step]!, tolerance)
      check(`the norm of step ${step}`, norm, run.grad_norms[step]!, 10 * tolerance)
    }
    if (steps < run.steps) return lines
    check('the last loss', await trainer.evaluate(batchOf(device, run, [0, 1, 2, 3])), run.final_loss_on_sequences_0_3, tolerance)
    return [...lines, ...(await compareEnd(trainable, name, run))]
  } finally {
    trainable.free()
  }
}

/** The adapters or weights after the last step that are not PyTorch's. */
async function compareEnd({ parameters }: Trainable, name: string, run: Run): Promise<string[]> {
  const file = run.base === undefined ? `step-${run.steps}.gguf` : join(`step-${run.steps}`, 'adapter.gguf')
  await using gguf = await openGguf(join(folder, name, file))
  const far: string[] = []
  for (const [parameter, tensor] of Object.entries(parameters)) {
    const error = relativeError(await tensor.data(), await floatsOf(gguf, parameter))
    if (!(error < 1e-3)) far.push(`${parameter} is off by ${error.toExponential(1)}`)
  }
  return far
}

async function loadRun(device: Device, gguf: Gguf, name: string, { base, rank, alpha, initial_adapter: initial }: Run): Promise<Trainable> {
  if (base === undefined || rank === undefined || alpha === undefined) return loadTrainable(device, gguf, { contextLength: 64 })
  const start = await readAdapterGguf(join(folder, name, initial ?? '', 'adapter.gguf'), { device })
  const given = new Map(layersOf(start).map(({ weight, a, b }) => [weight, { a, b }]))
  const trainable = await loadTrainable(device, gguf, { contextLength: 64, lora: { rank, alpha, given } })
  expect(Object.keys(trainable.parameters).toSorted()).toEqual(Object.keys(start.tensors).toSorted())
  return trainable
}

function batchesOf(device: Device, run: Run, step: number): Batch[] {
  const parts = run.batches[step] ?? []
  const groups = parts.every((part) => typeof part === 'number') ? [parts] : parts.filter((part) => typeof part === 'object')
  return groups.map((group) => batchOf(device, run, group))
}

function batchOf(device: Device, { sequence_length: length = Infinity, prompt_lengths: prompts }: Run, group: readonly number[]): Batch {
  return makeBatch(
    device,
    group.map((at, i) => {
      const ids = sequences()[at]!.slice(0, length)
      return prompts ? { ids, prompt: prompts[i]! } : { ids }
    }),
  )
}

function sequences(): readonly (readonly number[])[] {
  return readJson<{ tokens: number[][] }>('sequences.json').tokens
}

/** A model of the data folder, or else of the default one. */
function basePath(base: string): string {
  return (
    [dataFolder, resolve('../shared/data')].map((data) => join(data, 'models', base)).find(existsSync) ?? join(dataFolder, 'models', base)
  )
}

async function floatsOf(gguf: Gguf, name: string): Promise<Float32Array> {
  const tensor = gguf.tensors.get(name)
  if (tensor === undefined) throw new Error(`there is no tensor ${name}`)
  return new Float32Array((await readTensor(tensor)).slice().buffer)
}

/** The length of the difference over that of what is wanted. */
function relativeError(got: ArrayLike<number>, want: Float32Array): number {
  const [off, size] = want.reduce(([e, s], value, i) => [e + ((got[i] ?? Number.NaN) - value) ** 2, s + value ** 2], [0, 0])
  return Math.sqrt(off / size)
}

function readJson<T>(...path: readonly string[]): T {
  return JSON.parse(readFileSync(join(folder, ...path), 'utf8')) as T
}
