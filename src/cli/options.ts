// The flags that several commands share: which model, on which device, how to sample. Declares them, and turns what was given into
// the options of the library. Knows no command.

import { stat } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { DEVICES, NOT_YET } from '../device/open.ts'
import type { GenerateOptions } from '../llm/generation.ts'
import { type LoadOptions, type Model, load } from '../llm/model.ts'
import { Failure } from './failure.ts'
import { decimal, whole } from './number.ts'
import { showProgress } from './progress.ts'

export interface ModelFlags {
  readonly ctx?: number
  readonly threads?: number
  readonly device?: string
  readonly cacheType?: 'f16' | 'f32'
}

export const DEVICE_NAMES: readonly string[] = ['auto', ...DEVICES.map(({ name }) => name)]

/** Flags of loading; `device: false` for commands that choose devices another way. */
export function addModelOptions(command: Command, { device = true } = {}): Command {
  command
    .option('--ctx <n>', 'tokens a text may have (default: as trained, at most 4096)', whole({ least: 1, most: 1 << 24 }))
    .option('--threads <n>', 'of the cpu device', whole({ least: 1, most: 1024 }))
    .addOption(new Option('--cache-type <type>', 'of keys and values (default: f16)').choices(['f16', 'f32']))
  if (device) command.addOption(new Option('-d, --device <name>', 'where to compute (default: auto)').argParser(deviceName))
  return command
}

/** A device that Ingot has, or a line that lists them. */
export function deviceName(text: string): string {
  if (DEVICE_NAMES.includes(text)) return text
  const why = NOT_YET.includes(text.toLowerCase()) ? `${text} is not supported yet. ` : ''
  throw new InvalidArgumentError(`${why}It must be one of ${DEVICE_NAMES.join(', ')}.`)
}

export interface SampleFlags {
  readonly maxTokens?: number
  readonly ignoreEos?: true
  readonly temp?: number
  readonly topK?: number
  readonly topP?: number
  readonly minP?: number
  readonly typicalP?: number
  readonly repeatPenalty?: number
  readonly repeatLastN?: number
  readonly presencePenalty?: number
  readonly frequencyPenalty?: number
  readonly seed?: number
  readonly stop?: readonly string[]
}

export function addSampleOptions(command: Command): Command {
  return command
    .option('-n, --max-tokens <n>', 'most tokens to write (default: until the context is full)', whole({ least: 0 }))
    .option('--ignore-eos', 'go on past the end that the model sets')
    .option('-t, --temp <t>', 'temperature; 0 takes the most probable token (default: 0.8)', decimal({ least: 0 }))
    .option('--top-k <k>', 'only the k most probable; 0 is off (default: 40)', whole({ least: 0 }))
    .option('--top-p <p>', 'only the fewest that together reach p; 1 is off (default: 0.95)', decimal({ above: 0, most: 1 }))
    .option('--min-p <p>', 'only those at least p times as probable as the best; 0 is off (default: 0.05)', decimal({ least: 0, most: 1 }))
    .option('--typical-p <p>', 'only the locally typical; 1 is off (default: 1)', decimal({ above: 0, most: 1 }))
    .option('--repeat-penalty <x>', 'against tokens that were there; 1 is off (default: 1)', decimal({ above: 0 }))
    .option('--repeat-last-n <n>', 'how far back penalties look; -1 is all (default: 64)', whole({ least: -1 }))
    .option('--presence-penalty <x>', 'subtracted once from tokens that were there', decimal())
    .option('--frequency-penalty <x>', 'subtracted from tokens for each time they were there', decimal())
    .option('-s, --seed <s>', 'the same seed gives the same text', whole({ least: 0 }))
    .option('--stop <text>', 'ends the answer and is not part of it; may be given several times', collectStops)
}

function collectStops(text: string, before: readonly string[] = []): readonly string[] {
  if (text === '') throw new InvalidArgumentError('It must not be empty.')
  return [...before, text]
}

export function generateOptions(flags: SampleFlags): GenerateOptions {
  return defined({
    maxTokens: flags.maxTokens,
    ignoreEos: flags.ignoreEos,
    stop: flags.stop,
    seed: flags.seed,
    temperature: flags.temp,
    topK: flags.topK,
    topP: flags.topP,
    minP: flags.minP,
    typicalP: flags.typicalP,
    repetitionPenalty: flags.repeatPenalty,
    repetitionWindow: flags.repeatLastN,
    presencePenalty: flags.presencePenalty,
    frequencyPenalty: flags.frequencyPenalty,
  })
}

/** Refuses a model that is not given or not there, before anything is loaded. */
export async function checkModelPath(command: string, path: string | undefined): Promise<string> {
  if (path === undefined) throw new Failure(`which model? Give a GGUF file: ingot ${command} model.gguf`)
  await checkFile(path)
  return path
}

/** Refuses a path that is no file. */
export async function checkFile(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (found === undefined) throw new Failure(`no such file: ${path}`)
  if (!found.isFile()) throw new Failure(`not a file: ${path}`)
}

/** Loads with a progress bar. */
export async function loadWithBar(path: string, flags: ModelFlags, signal: AbortSignal, more: LoadOptions = {}): Promise<Model> {
  const bar = showProgress('loading')
  try {
    return await load(path, {
      ...defined({ contextLength: flags.ctx, threads: flags.threads, device: flags.device, cacheType: flags.cacheType }),
      ...more,
      signal,
      onProgress: ({ loaded, total }) => bar.update(loaded, total),
    })
  } finally {
    bar.end()
  }
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Leaves out what was not given: an option that is undefined is not the same as none. */
export function defined<T extends object>(values: T): Defined<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<T>
}
