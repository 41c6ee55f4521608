// The flags that several commands share: which model, on which device, how to sample. Declares them, and turns what was given into
// the options of the library. Knows no command.

import { stat } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { printable } from '../../base/printable.ts'
import { DEVICES, NOT_YET } from '../../device/open/open.ts'
import { CACHE_TYPES, type CacheType } from '../../kernel/attention/cache-type.ts'
import type { GenerateOptions } from '../../llm/generation.ts'
import type { AdapterChoice } from '../../llm/adapter/adapted.ts'
import { type LoadOptions, type Model, load } from '../../llm/model.ts'
import { Failure } from '../failure.ts'
import { decimal, whole } from './number.ts'
import { showProgress } from '../output/progress.ts'

export interface ModelFlags {
  readonly ctx?: number
  readonly threads?: number
  readonly device?: string
  readonly cacheType?: CacheType
  /** commander's name for `--no-mmap`: true unless given */
  readonly mmap?: boolean
  readonly adapter?: readonly AdapterChoice[]
}

export const DEVICE_NAMES: readonly string[] = ['auto', ...DEVICES.map(({ name }) => name)]

/** Flags of loading; `device: false` for commands that choose devices another way. */
export function addModelOptions(command: Command, { device = true } = {}): Command {
  command
    .option('--ctx <n>', 'context length in tokens (default: as trained, at most 4096)', whole({ least: 1, most: 1 << 24 }))
    .option('--threads <n>', 'threads of the cpu device (default: all that the machine has)', whole({ least: 1, most: 1024 }))
    .addOption(new Option('--cache-type <type>', 'element type of the key and value cache (default: f16)').choices(CACHE_TYPES))
    .option(
      '--adapter <file>',
      'a LoRA adapter, GGUF or a folder of PEFT; FILE:SCALE for more or less of it; may be repeated',
      collectAdapters,
    )
    .option('--no-mmap', 'read the weights into memory instead of mapping the file: for files that may be cut short meanwhile')
  if (device) command.addOption(new Option('-d, --device <name>', 'device to compute on (default: auto)').argParser(deviceName))
  return command
}

/** `FILE` or `FILE:SCALE` */
export function adapterChoice(text: string): AdapterChoice {
  const [, path = text, scale] = /^(.+):([+-]?[\d.]+(?:e[+-]?\d+)?)$/i.exec(text) ?? []
  return scale === undefined ? { path } : { path, scale: decimal()(scale) }
}

function collectAdapters(text: string, before: readonly AdapterChoice[] = []): readonly AdapterChoice[] {
  return [...before, adapterChoice(text)]
}

/** Accepts the name of a device; refuses any other with a line that lists them. */
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
    .option('-n, --max-tokens <n>', 'generate at most n tokens (default: until the context is full)', whole({ least: 0 }))
    .option('--ignore-eos', 'do not stop where the model ends its text')
    .option('-t, --temp <t>', 'temperature; 0 takes the most probable token (default: 0.8)', decimal({ least: 0 }))
    .option('--top-k <k>', 'keep the k most probable tokens; 0 is off (default: 40)', whole({ least: 0 }))
    .option(
      '--top-p <p>',
      'keep the fewest tokens that together have probability p; 1 is off (default: 0.95)',
      decimal({ above: 0, most: 1 }),
    )
    .option('--min-p <p>', 'keep tokens at least p times as probable as the best; 0 is off (default: 0.05)', decimal({ least: 0, most: 1 }))
    .option(
      '--typical-p <p>',
      'keep locally typical tokens that together have probability p; 1 is off (default: 1)',
      decimal({ above: 0, most: 1 }),
    )
    .option('--repeat-penalty <x>', 'penalty on recent tokens; 1 is off (default: 1)', decimal({ above: 0 }))
    .option('--repeat-last-n <n>', 'how many recent tokens are penalised; -1 is all (default: 64)', whole({ least: -1 }))
    .option('--presence-penalty <x>', 'subtracted from the logits of recent tokens, once (default: 0)', decimal())
    .option('--frequency-penalty <x>', 'subtracted from the logits of recent tokens, once per occurrence (default: 0)', decimal())
    .option('-s, --seed <s>', 'seed of the random choices; the same one gives the same text (default: random)', whole({ least: 0 }))
    .option('--stop <text>', 'text that ends the generation and is not part of it; may be given several times', collectStops)
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

/** Refuses a model that was not given or does not exist, before anything is loaded. */
export async function checkModelPath(command: string, path: string | undefined): Promise<string> {
  if (path === undefined) throw new Failure(`no model given; use: ingot ${command} model.gguf`)
  await checkFile(path)
  return path
}

/** Refuses a path that is not a file. */
export async function checkFile(path: string): Promise<void> {
  const stats = await stat(path).catch(() => undefined)
  if (stats === undefined) throw new Failure(`no such file: ${path}`)
  if (!stats.isFile()) throw new Failure(`not a file: ${path}`)
}

/** Loads with a progress bar. Without a path it is the model that the package carries, and stderr says so. */
export async function loadWithBar(
  path: string | undefined,
  flags: ModelFlags,
  signal: AbortSignal,
  options: LoadOptions = {},
): Promise<Model> {
  if (path === undefined) process.stderr.write('ingot: no model given: this is the default one, which is very small and tells stories\n')
  const bar = showProgress('loading')
  try {
    return await load(path, {
      ...defined({
        contextLength: flags.ctx,
        threads: flags.threads,
        device: flags.device,
        cacheType: flags.cacheType,
        mmap: flags.mmap,
        adapters: flags.adapter,
      }),
      onWarning: (line) => process.stderr.write(`ingot: ${printable(line)}\n`),
      ...options,
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
