// The part of the demonstration that trains: an adapter over the default model, on a page of text that is in the package. What is shown of
// it is the caller's business.

import { fileURLToPath } from 'node:url'
import { packageFile } from '../../base/place.ts'
import type { Device } from '../../device/device.ts'
import { defaultModelPath } from '../../llm/default.ts'
import type { StepEvent } from '../../train/event.ts'
import { estimateFinetune, finetune } from '../../train/finetune.ts'
import type { FinetuneOptions } from '../../train/options.ts'

const TEXT = 'assets/genesis.txt'
export const RANK = 8
export const STEPS = 60
/** A slow machine takes fewer steps than it was asked for. */
const [MOST_MS, FEWEST_STEPS] = [15_000, 10]

export interface TuneOptions {
  readonly device: Device
  readonly steps: number
  /** where the adapter goes */
  readonly out: string
  readonly onStep: (step: StepEvent) => void
}

/** Trains an adapter; gives how many numbers it has. */
export async function tune({ device, steps, out, onStep }: TuneOptions): Promise<number> {
  const settings: FinetuneOptions = {
    model: await defaultModelPath(),
    data: fileURLToPath(packageFile(TEXT)),
    device,
    lora: { rank: RANK },
    rate: 6e-3,
    batch: 4,
    context: 96,
    steps,
  }
  const { msPerStep, parameters } = await estimateFinetune(settings)
  const affordable = Math.max(FEWEST_STEPS, Math.floor(MOST_MS / msPerStep))
  for await (const event of finetune({ ...settings, steps: Math.min(steps, affordable), out })) if (event.kind === 'step') onStep(event)
  return parameters
}
