// A whole bench of training: bases in several formats, kept and computed again, each in a process of its own; and PyTorch beside them.

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { IngotError, messageOf } from '../../base/error.ts'
import { packageFile, scriptFile } from '../../base/place.ts'
import type { GgmlType } from '../../quant/type.ts'
import { openGguf } from '../../weights/gguf/gguf.ts'
import { metaNumber, metaString } from '../../weights/gguf/meta.ts'
import type { LlamaShape } from '../../weights/synth/llama.ts'
import { SHAPES, synthesize } from '../../weights/synth/synth.ts'
import { describeMachine, measureOtherLoad } from '../machine.ts'
import { type OwnTrainSamples, type TrainRun, type TrainSamples, measureTraining, operationsOf } from './measure.ts'
import type { TrainMeasure, TrainReport } from './report.ts'

export interface TrainBenchOptions {
  /** a GGUF file; without it, random weights of 162 M parameters in each of `BASES` */
  readonly model?: string
  readonly tokens: number
  readonly rank: number
  readonly steps: number
  readonly device?: string
  readonly threads?: number
  /** the Python that has PyTorch, which is measured too */
  readonly python?: string
  readonly onProgress?: (what: string, done: number, total: number) => void
  readonly signal?: AbortSignal
}

export const BASES: readonly GgmlType[] = ['f32', 'q8_0', 'q4_k']
const SHAPE = '160m'
const OTHER_LOAD_MS = 200
/** How often each is measured, in a new process; steps are shared out among the rounds. */
const ROUNDS = 2

const run = promisify(execFile)
const CHILD = fileURLToPath(scriptFile('bench/train/child.js'))
const PEER = fileURLToPath(packageFile('bench/peers/train/pytorch.py'))

export async function runTrainBench(options: TrainBenchOptions): Promise<TrainReport> {
  const { model, rank, steps, python, signal, onProgress } = options
  const folder = model === undefined ? await mkdtemp(join(tmpdir(), 'ingot-train-')) : undefined
  try {
    const files = folder === undefined ? [model ?? ''] : await writeBases(folder, signal)
    const [first = ''] = files
    const contenders = await Promise.all(files.map((file) => contenderOf(file, options)))
    if (python !== undefined) contenders.unshift(await peerOf(python, first, options))
    const measures: TrainMeasure[] = []
    const rounds = partsOf(steps)
    const total = 2 * rounds.length * contenders.length
    const busy = await measureOtherLoad(OTHER_LOAD_MS)
    let done = 0
    for (const recompute of [false, true]) {
      // By turns, so that what the machine does meanwhile meets all of them.
      const found = contenders.map((): TrainMeasure[] => [])
      for (const part of rounds) {
        for (const [i, { title, measure }] of contenders.entries()) {
          signal?.throwIfAborted()
          onProgress?.(title, done++, total)
          found[i]?.push(await measure(recompute, part))
        }
      }
      measures.push(...found.map(joinMeasures))
    }
    const shape = await shapeOf(first)
    return { kind: 'train', date: new Date().toISOString(), machine: describeMachine(), busy, shape, rank, measures }
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  }
}

/** Whoever is measured. */
interface Contender {
  readonly title: string
  measure(recompute: boolean, steps: number): Promise<TrainMeasure>
}

async function contenderOf(file: string, { tokens, rank, threads, device, signal }: TrainBenchOptions): Promise<Contender> {
  await using gguf = await openGguf(file)
  const [operations, base] = [operationsOf(gguf, tokens), formatOf(gguf)]
  const ask = { model: file, tokens, rank, ...(threads === undefined ? {} : { threads }), ...(device === undefined ? {} : { device }) }
  const measure = async (recompute: boolean, steps: number): Promise<TrainMeasure> => {
    const samples = await askIngot({ ...ask, steps, recompute }, signal)
    const shares = samples.seconds.map((seconds, i) => operations / (samples.peaks[i] ?? NaN) / seconds)
    return { name: 'Ingot', base, recompute, tokens, samples, shares }
  }
  return { title: `Ingot ${file}`, measure }
}

async function peerOf(python: string, file: string, { tokens, rank, threads, signal }: TrainBenchOptions): Promise<Contender> {
  const shape = await shapeOf(file)
  const ask = { tokens, rank, ...(threads === undefined ? {} : { threads }) }
  const measure = async (recompute: boolean, steps: number): Promise<TrainMeasure> => {
    const { version, ...samples } = await askPyTorch(python, shape, { ...ask, steps, recompute }, signal)
    return { name: `PyTorch ${version}`, base: 'f32', recompute, tokens, samples }
  }
  return { title: 'PyTorch', measure }
}

/** Steps of each round: about as many in each, in as few rounds as there are steps. */
function partsOf(steps: number): number[] {
  const rounds = Math.min(ROUNDS, steps)
  return Array.from({ length: rounds }, (_, i) => Math.floor(((i + 1) * steps) / rounds) - Math.floor((i * steps) / rounds))
}

/** The rounds of one contender as one measure: all steps, and the most memory. */
function joinMeasures(rounds: readonly TrainMeasure[]): TrainMeasure {
  const [first] = rounds
  if (first === undefined) throw new IngotError('bad-argument', 'there is nothing to measure', { op: 'bench --train', got: 'no steps' })
  const all = rounds.map(({ samples }) => samples)
  const samples = {
    ...(all.at(-1) ?? first.samples),
    seconds: all.flatMap(({ seconds }) => seconds),
    bytes: Math.max(...all.map(({ bytes }) => bytes)),
    ...(all.every((each) => 'peaks' in each) ? { peaks: all.flatMap(({ peaks }) => peaks) } : {}),
  }
  return { ...first, samples, ...(first.shares === undefined ? {} : { shares: rounds.flatMap(({ shares = [] }) => shares) }) }
}

async function writeBases(folder: string, signal: AbortSignal | undefined): Promise<string[]> {
  const shape = SHAPES[SHAPE]
  if (shape === undefined) throw new IngotError('bad-argument', 'no such shape', { op: 'bench --train', got: SHAPE })
  const files: string[] = []
  for (const type of BASES) {
    const file = join(folder, `${SHAPE}-${type}.gguf`)
    await synthesize(file, { shape, type, ...(signal === undefined ? {} : { signal }) })
    files.push(file)
  }
  return files
}

async function askIngot(ask: TrainRun, signal: AbortSignal | undefined): Promise<OwnTrainSamples> {
  // Run from its sources, Ingot has no script that node could start.
  if (!existsSync(CHILD)) return measureTraining(ask)
  const { stdout } = await run(process.execPath, [CHILD, JSON.stringify(ask)], signal === undefined ? {} : { signal })
  return JSON.parse(stdout) as OwnTrainSamples // what child.ts writes
}

interface PeerSamples extends TrainSamples {
  readonly version: string
}

async function askPyTorch(
  python: string,
  shape: LlamaShape,
  { tokens, rank, steps, recompute, threads = describeMachine().cores }: Omit<TrainRun, 'model'>,
  signal: AbortSignal | undefined,
): Promise<PeerSamples> {
  const ask = { ...shape, tokens, rank, steps: steps + 1, recompute, threads }
  try {
    // Threads that wait without spinning are its best where there are few.
    const env = { ...process.env, OMP_WAIT_POLICY: 'passive', OMP_NUM_THREADS: String(threads) }
    const { stdout } = await run(python, [PEER, JSON.stringify(ask)], { env, ...(signal === undefined ? {} : { signal }) })
    const { seconds, ...samples } = JSON.parse(stdout) as PeerSamples // what pytorch.py writes
    return { ...samples, seconds: seconds.slice(1) }
  } catch (error) {
    signal?.throwIfAborted()
    throw new IngotError('bad-argument', 'PyTorch does not run', {
      op: 'bench --train',
      got: messageOf(error).slice(0, 500),
      hint: `install it, for example with apt install python3-torch, and name the Python that has it: --against pytorch:/usr/bin/python3`,
    })
  }
}

/** The sizes of a Llama file. */
async function shapeOf(file: string): Promise<LlamaShape> {
  await using gguf = await openGguf(file)
  const architecture = metaString(gguf, 'general.architecture')
  const of = (key: string, fallback?: number): number => metaNumber(gguf, `${architecture}.${key}`, fallback)
  const heads = of('attention.head_count')
  return {
    width: of('embedding_length'),
    layers: of('block_count'),
    heads,
    kvHeads: of('attention.head_count_kv', heads),
    hidden: of('feed_forward_length'),
    vocabulary: gguf.tensors.get('token_embd.weight')?.dims[1] ?? 0,
  }
}

/** The format that most matrices of layers have. */
function formatOf({ tensors }: { readonly tensors: ReadonlyMap<string, { readonly type: string }> }): string {
  return tensors.get('blk.0.ffn_up.weight')?.type ?? tensors.get('blk.0.attn_output.weight')?.type ?? 'unknown'
}
