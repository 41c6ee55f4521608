// A run on disk, to go on from: parameters, the optimiser's state, how far it is, and the settings that decide its numbers. Order, dropout
// and rates follow from settings and the number of the update, so there is no other state. One safetensors file, written aside: what was
// there is there until the new one is complete.

import { isObject } from '../base/argument.ts'
import { IngotError } from '../base/error.ts'
import type { Device } from '../device/device.ts'
import type { Named } from '../nn/optim.ts'
import { loadSafetensors, saveSafetensors } from '../tensor/file.ts'
import type { Tensor } from '../tensor/tensor.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import { openSafetensors } from '../weights/safetensors/safetensors.ts'
import type { ResolvedSettings } from './options.ts'

/** How far a run is. */
export interface Progress {
  /** updates done */
  readonly step: number
  /** the moving mean of losses, not yet corrected for where it began */
  readonly mean: number
  /** tokens learnt from */
  readonly tokens: number
  /** measurements in a row that were no better than the best */
  readonly worse: number
  readonly best: number | null
}

/** What a checkpoint says beside its tensors. */
export interface CheckpointHead {
  readonly settings: ResolvedSettings
  readonly progress: Progress
  /** what tells the model and the data from others */
  readonly base: string
  readonly data: string
}

/** What a run changes. */
export interface RunState {
  readonly parameters: Named
  readonly optimizer: Named
  /** parameters when they measured best, where that matters */
  readonly best?: Named
}

const FORMAT = 'ingot training checkpoint 1'

/** Replaces the file at `path`, once the new one is complete. */
export async function writeCheckpoint(path: string, head: CheckpointHead, state: RunState): Promise<void> {
  const parts = Object.entries(state).flatMap(([part, named]: [string, Named]) =>
    Object.entries(named).map(([name, tensor]): [string, Tensor] => [`${part}/${name}`, tensor]),
  )
  await saveSafetensors(path, Object.fromEntries(parts), { metadata: { format: FORMAT, run: JSON.stringify(head) }, force: true })
}

/** What a checkpoint says. `bad-file` where it is none. */
export async function readCheckpointHead(path: string): Promise<CheckpointHead> {
  await using file = await openSafetensors(path)
  const { metadata } = file
  const run: unknown = metadata.get('format') === FORMAT ? JSON.parse(metadata.get('run') ?? 'null') : undefined
  if (!isHead(run)) throw new IngotError('bad-file', `${path} is no checkpoint of a training run`, { op: 'resume' })
  return run
}

/** Makes a run what it was. `bad-file` where the checkpoint is of another model or of other settings. */
export async function readCheckpointState(path: string, state: RunState, device: Device): Promise<{ best: Record<string, Tensor> }> {
  const tensors = new Map(Object.entries(await loadSafetensors(path, { device })))
  for (const [part, named] of Object.entries({ parameters: state.parameters, optimizer: state.optimizer })) {
    for (const [name, tensor] of Object.entries(named)) {
      const saved = tensors.get(`${part}/${name}`)
      if (saved === undefined || saved.shape.join() !== tensor.shape.join())
        throw new IngotError('bad-file', `the checkpoint does not fit ${name}`, {
          op: 'resume',
          got: saved === undefined ? 'nothing' : saved.shape,
          wanted: tensor.shape,
          hint: 'is it of another model?',
        })
      tensor.assign(saved)
      tensors.delete(`${part}/${name}`)
    }
  }
  const best = [...tensors].map(([name, tensor]): [string, Tensor] => [name.replace(/^best\//, ''), tensor])
  return { best: Object.fromEntries(best) }
}

/** Refuses to go on with settings that would give other numbers. */
export function checkSettings(settings: ResolvedSettings, stored: ResolvedSettings): void {
  for (const [name, value] of Object.entries(stored)) {
    const own: unknown = settings[name as keyof ResolvedSettings]
    if (JSON.stringify(own) === JSON.stringify(value)) continue
    throw new IngotError('bad-argument', `the checkpoint was made with another ${name}`, {
      op: 'resume',
      got: JSON.stringify(own),
      wanted: JSON.stringify(value),
      hint: 'leave it out, or begin anew',
    })
  }
}

/** Refuses to go on with another model, or other data. */
export function checkOrigin(own: Pick<CheckpointHead, 'base' | 'data'>, stored: Pick<CheckpointHead, 'base' | 'data'>): void {
  const other = own.base !== stored.base ? 'another model' : own.data !== stored.data ? 'other data' : undefined
  if (other === undefined) return
  throw new IngotError('bad-argument', `the checkpoint was made with ${other}`, { op: 'resume', hint: 'give the same files' })
}

/** Bytes of each tensor that are looked at. */
const SAMPLED = 64

/** What tells a model from others: its settings, its tensors and how each begins (FNV-1a). */
export async function fingerprintOf({ metadata, tensors }: Gguf): Promise<string> {
  let hash = 0x811c9dc5
  const add = (bytes: Uint8Array): void => {
    for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193)
  }
  const settings = [...metadata].flatMap(([key, { value }]) => (typeof value === 'number' ? [`${key}=${value}`] : []))
  add(new TextEncoder().encode(settings.join()))
  for (const { name, type, dims, bytes, offset, file } of tensors.values()) {
    add(new TextEncoder().encode(`${name} ${type} ${dims.join()}`))
    add(await file.read(offset, Math.min(SAMPLED, bytes)))
  }
  return (hash >>> 0).toString(16).padStart(8, '0')
}

function isHead(value: unknown): value is CheckpointHead {
  return isObject(value) && 'settings' in value && 'progress' in value && 'data' in value && isObject(value.progress)
}
