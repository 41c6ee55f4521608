// Where the result of a run goes: an adapter as a GGUF file or a folder of PEFT, or a whole model. Checked before the run, written after
// it: aside, so that what is there is there until the new one is complete.

import { IngotError } from '../base/error.ts'
import { writeAdapterGguf } from '../llm/adapter/gguf.ts'
import { writePeft } from '../llm/adapter/peft.ts'
import { adapterBase } from '../llm/adapter/read.ts'
import { type RowChange, quantizeModel } from '../llm/quantize.ts'
import type { GgmlType } from '../quant/type.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import type { GgufTensor } from '../weights/gguf/header.ts'
import { metaString } from '../weights/gguf/meta.ts'
import type { ByteSink } from '../weights/sink.ts'
import type { FinetuneOptions } from './options.ts'
import type { Trainable } from './trainable.ts'

/** A place for a result, which may be written to. */
export interface ResultTarget {
  /** for messages; undefined: a sink of the caller */
  readonly path: string | undefined
  write(trained: Trained): Promise<void>
}

/** What a run has trained. */
export interface Trained {
  readonly base: Gguf
  readonly trainable: Trainable
  /** of adapters; undefined: all weights */
  readonly alpha: number | undefined
}

type TargetOptions = Pick<FinetuneOptions, 'out' | 'format' | 'force' | 'type' | 'full'> & { readonly inputs: readonly string[] }

/** Refuses what must not be written to: `bad-argument`. */
export async function openTarget({
  out,
  format,
  force = false,
  type = 'f16',
  full,
  inputs,
}: TargetOptions): Promise<ResultTarget | undefined> {
  if (out === undefined) return undefined
  const isFolder = typeof out === 'string' && (format ?? (/\.gguf$/i.test(out) || full === true ? 'gguf' : 'peft')) === 'peft'
  if (full === true && format === 'peft')
    throw new IngotError('bad-argument', 'PEFT has adapters only', { op: 'finetune', got: 'all weights', wanted: 'format gguf' })
  if (typeof out !== 'string') return { path: undefined, write: (trained) => writeFile(out, trained, type) }
  if (isFolder) return openFolder(out, force)
  const { checkOutput, openOutput } = await import('../weights/output.ts') // needs Node
  const target = await checkOutput(out, { op: 'finetune', force, inputs })
  return { path: out, write: (trained) => writeFile(openOutput(target), trained, type) }
}

async function openFolder(path: string, force: boolean): Promise<ResultTarget> {
  const { mkdir, readdir, stat } = await import('node:fs/promises')
  const found = await stat(path).catch(() => undefined)
  if (found !== undefined && !found.isDirectory())
    throw new IngotError('bad-argument', `${path} is no folder`, { op: 'finetune', hint: 'an adapter as one file ends in .gguf' })
  if (found !== undefined && !force && (await readdir(path)).length > 0)
    throw new IngotError('bad-argument', `${path} exists and is not empty`, { op: 'finetune', hint: 'force writes into it' })
  return {
    path,
    write: async (trained) => {
      await mkdir(path, { recursive: true })
      const { base, alpha } = trained
      await writePeft(path, adapterSet(trained, alpha ?? 1), adapterBase(base), {
        baseName: metaString(base, 'general.name', ''),
        force: true,
      })
    },
  }
}

async function writeFile(sink: ByteSink, trained: Trained, type: GgmlType): Promise<void> {
  const { base, trainable, alpha } = trained
  if (alpha !== undefined) await writeAdapterGguf(sink, adapterSet(trained, alpha))
  else await writeTrained(sink, base, trainable, type)
}

function adapterSet({ base, trainable }: Trained, alpha: number): Parameters<typeof writeAdapterGguf>[1] {
  return { architecture: metaString(base, 'general.architecture'), alpha, tensors: trainable.parameters }
}

/** Writes the model of a file with what its weights have become, matrices in a format. */
export async function writeTrained(
  to: string | ByteSink,
  base: Gguf,
  trainable: Pick<Trainable, 'device' | 'parameters'>,
  type: GgmlType,
): Promise<void> {
  await quantizeModel(base, to, { type, change: (tensor) => trainedRows(trainable, tensor), device: trainable.device })
}

/** The rows of a tensor that was trained, whole or in parts (`NAME[from..]`); undefined where it was not. */
function trainedRows({ parameters }: Pick<Trainable, 'parameters'>, { name, dims }: GgufTensor): RowChange | undefined {
  const parts = Object.entries(parameters).flatMap(([key, tensor]) => {
    const from = key === name ? '0' : key.startsWith(`${name}[`) ? /\[(\d+)\.\.\]$/.exec(key)?.[1] : undefined
    return from === undefined ? [] : [{ tensor, from: Number(from) }]
  })
  if (parts.length === 0) return undefined
  const row = dims[0] ?? 1
  let values: Promise<Float32Array> | undefined
  return async (from, count) => {
    values ??= (async () => {
      const all = await Promise.all(parts.map(async (part) => ({ from: part.from, data: Float32Array.from(await part.tensor.data()) })))
      const joined = new Float32Array(Math.max(...all.map((part) => part.from * row + part.data.length)))
      for (const part of all) joined.set(part.data, part.from * row)
      return joined
    })()
    return (await values).slice(from * row, (from + count) * row)
  }
}
