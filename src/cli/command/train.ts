// `ingot train`: fine-tunes a model on data. Shows how the loss falls; Ctrl-C writes a checkpoint, from which `--resume` goes on as if it
// had never stopped.

import { rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { type Command, Option } from 'commander'
import { printable, printableJson } from '../../base/printable.ts'
import { WRITABLE } from '../../llm/quantize.ts'
import type { GgmlType } from '../../quant/type.ts'
import { beginModel } from '../../train/begin.ts'
import { NEW_SHAPES, type NewShape, readShape } from '../../train/create.ts'
import type { Estimate, FinetuneResult, TrainEvent } from '../../train/event.ts'
import { Finetune, estimateFinetune, finetune } from '../../train/finetune.ts'
import { describeMemory } from '../../train/memory.ts'
import { type FinetuneOptions, OPTIMIZERS, type ScheduleSettings } from '../../train/options.ts'
import { Failure } from '../failure.ts'
import { interruptible } from '../interruption.ts'
import { decimal, whole } from '../option/number.ts'
import { checkFile, defined, deviceName } from '../option/shared.ts'
import { typeName } from '../option/type-name.ts'
import { type Log, checkOutput, openLog, writeOutput } from '../output/file.ts'
import { type Progress, showProgress } from '../output/progress.ts'
import { showBytes } from '../output/style.ts'
import { count, createDisplay, describeData, showSeconds } from '../train/display.ts'
import { drawSvg } from '../train/plot.ts'

interface TrainFlags {
  readonly out?: string
  readonly format?: 'gguf' | 'peft'
  readonly force?: true
  readonly full?: true
  readonly new?: NewShape
  readonly vocab?: number
  readonly type?: GgmlType
  readonly rank?: number
  readonly alpha?: number
  readonly rslora?: true
  readonly dropout?: number
  readonly targets?: readonly string[]
  readonly lr?: number
  readonly schedule?: ScheduleSettings['kind']
  readonly warmup?: number
  readonly floor?: number
  readonly optimizer?: (typeof OPTIMIZERS)[number]
  readonly weightDecay?: number
  readonly clip?: number
  readonly epochs?: number
  readonly steps?: number
  readonly batch?: number
  readonly accumulate?: number
  readonly ctx?: number
  /** commander's name for `--no-packing`: true unless given */
  readonly packing?: boolean
  readonly validation?: number
  readonly validateEvery?: number
  readonly patience?: number
  readonly beta?: number
  readonly seed?: number
  readonly strict?: true
  readonly checkpoint?: string
  readonly checkpointEvery?: number
  readonly resume?: true | string
  readonly log?: string
  readonly plot?: string
  readonly dryRun?: true
  readonly json?: true
  readonly recompute?: boolean
  readonly memory?: number
  readonly device?: string
  readonly threads?: number
}

/** The highest learning rate of a model that knows nothing. */
const NEW_RATE = 2e-3

export function define(command: Command): void {
  const least1 = whole({ least: 1, most: 2 ** 31 - 1 })
  command
    .argument('<model>', 'a GGUF file in any format; with --new it is the first file of data')
    .argument('[data...]', 'JSONL files (messages; prompt and completion; text; prompt, chosen and rejected), or plain text')
    .option('-o, --out <path>', 'where the adapter goes: a .gguf file, or a folder for PEFT; with --full, the model')
    .addOption(new Option('--format <format>', 'of the adapter (default: by the ending of --out)').choices(['gguf', 'peft']))
    .option('-f, --force', 'replace what is there')
    .option('--full', 'train all weights instead of an adapter')
    .option('--new <shape>', `train a new model: ${Object.keys(NEW_SHAPES).join(', ')}, or dim=256,layers=4,heads=8,context=512`, readShape)
    .option('--vocab <n>', 'with --new: tokens of its vocabulary, which is learnt from the data (default: 2048)', least1)
    .option('--type <type>', `of the matrices of a model that is written: ${WRITABLE.join(', ')} (default: f16)`, typeName(WRITABLE))
    .option('--rank <n>', 'rank of the adapter (default: 8)', least1)
    .option('--alpha <x>', 'its change is times alpha / rank (default: twice the rank)', decimal({ above: 0 }))
    .option('--rslora', 'divide alpha by the root of the rank instead')
    .option('--dropout <p>', 'chance that an input of the adapter is left out (default: 0)', decimal({ least: 0, most: 0.99 }))
    .option('--targets <names>', 'layers with adapters: attn_q,attn_v (default: all linear ones)', (text) => text.split(','))
    .option('--lr <rate>', 'highest learning rate (default: 2e-4; 5e-5 with --full)', decimal({ above: 0 }))
    .addOption(new Option('--schedule <kind>', 'how the rate falls (default: cosine)').choices(['constant', 'linear', 'cosine']))
    .option('--warmup <n>', 'updates during which it rises; below 1, a share of all (default: 0.03)', decimal({ least: 0 }))
    .option('--floor <rate>', 'the rate at the end (default: 0)', decimal({ least: 0 }))
    .addOption(new Option('--optimizer <name>', 'default: adamw').choices(OPTIMIZERS))
    .option('--weight-decay <x>', 'of matrices (default: 0)', decimal({ least: 0 }))
    .option('--clip <norm>', 'make longer gradients this long; 0 is off (default: 1)', decimal({ least: 0 }))
    .option('--epochs <n>', 'how often all data is learnt (default: 3)', least1)
    .option('--steps <n>', 'updates in all, instead of epochs', least1)
    .option('--batch <n>', 'rows computed at once (default: 4)', least1)
    .option('--accumulate <n>', 'batches that make one update (default: 1)', least1)
    .option('--ctx <n>', 'tokens of a row (default: as trained, at most 512)', whole({ least: 2, most: 1 << 24 }))
    .option('--no-packing', 'one sequence in a row instead of several')
    .option('--validation <n>', 'records to measure instead of learning; below 1, a share of all (default: 0)', decimal({ least: 0 }))
    .option('--validate-every <n>', 'updates between measurements (default: each epoch)', least1)
    .option('--patience <n>', 'stop after so many measurements that were no better, and keep the best', least1)
    .option('--beta <x>', 'of preference pairs: how near to stay to the model as it was (default: 0.1)', decimal({ above: 0 }))
    .option('-s, --seed <s>', 'of order, adapters and dropout (default: 0)', whole({ least: 0 }))
    .option('--strict', 'fail at the first record that cannot be used')
    .option('--checkpoint <file>', 'what the run can go on from (default: OUT.checkpoint)')
    .option('--checkpoint-every <n>', 'updates between checkpoints (default: 100)', least1)
    .option('--resume [file]', 'go on from a checkpoint (default: OUT.checkpoint)')
    .option('--log <file>', 'write every event as a line of JSON, as it happens')
    .option('--plot <file>', 'draw the losses as SVG, at the end')
    .option('--dry-run', 'only say what the run would take: tokens, steps, memory, time')
    .option('--json', 'print the summary as one JSON object, and nothing else')
    .option('--recompute', 'compute layers again for gradients: less memory for more time (default: where memory asks for it)')
    .option('--no-recompute', 'keep them, whatever that takes')
    .option('--memory <MB>', 'what the run may take on the device (default: three quarters of the memory of a CPU)', decimal({ above: 0 }))
    .addOption(new Option('-d, --device <name>', 'device to compute on (default: auto)').argParser(deviceName))
    .option('--threads <n>', 'threads of the cpu device (default: all that the machine has)', whole({ least: 1, most: 1024 }))
    .action(train)
}

async function train(first: string, rest: readonly string[], flags: TrainFlags): Promise<void> {
  if (flags.new !== undefined) return trainNew([first, ...rest], flags.new, flags)
  if (flags.vocab !== undefined) throw new Failure('--vocab is for a new model; use it with --new')
  await tune(first, rest, flags)
}

/** A new model lies beside the result while it is trained; a run that was stopped goes on from it. */
async function trainNew(data: readonly string[], shape: NewShape, flags: TrainFlags): Promise<void> {
  const { out, force, vocab, seed, resume } = flags
  for (const path of data) await checkFile(path)
  if (out === undefined) throw new Failure('no place for the model; use --out model.gguf')
  await checkOutput(out, { force: force === true, inputs: data })
  const begun = `${out}.new`
  if (resume === undefined) {
    const options = defined({ vocabulary: vocab, seed })
    const { vocabulary, parameters } = await beginModel(begun, { shape, data, name: basename(out, '.gguf'), ...options })
    if (flags.json !== true) process.stdout.write(`new: ${count(parameters, 'parameter')}, a vocabulary of ${count(vocabulary, 'token')}\n`)
  }
  const isWhole = await tune(begun, data, { lr: NEW_RATE, ctx: shape.context, ...flags, full: true })
  if (isWhole) await rm(begun, { force: true })
}

/** True once the result is written. */
async function tune(model: string, data: readonly string[], flags: TrainFlags): Promise<boolean> {
  await checkFile(model)
  if (data.length === 0) throw new Failure('no data given; use: ingot train model.gguf data.jsonl --out adapter.gguf')
  for (const path of data) await checkFile(path)
  if (flags.out === undefined && flags.dryRun !== true) throw new Failure('no place for the result; use --out adapter.gguf, or --dry-run')
  if (flags.out !== undefined && (flags.full === true || flags.out.endsWith('.gguf')))
    await checkOutput(flags.out, { force: flags.force === true, inputs: [model, ...data] })
  const reason = await interruptible(async ({ signal }) => {
    using bar = new StageBar()
    const options = optionsOf(model, data, flags, bar)
    if (flags.dryRun === true) {
      const estimate = await estimateFinetune({ ...options, signal })
      bar.end()
      process.stdout.write(flags.json === true ? `${printableJson(estimate)}\n` : describeEstimate(estimate))
      return undefined
    }
    return await runWith(options, flags, signal, bar)
  })
  return reason === 'finished' || reason === 'early-stop'
}

async function runWith(options: FinetuneOptions, flags: TrainFlags, signal: AbortSignal, bar: StageBar): Promise<FinetuneResult['reason']> {
  const isResumed = flags.resume !== undefined
  const inputs = [String(options.model), ...[options.data].flat().map(String)]
  const target = flags.log === undefined ? undefined : await checkOutput(flags.log, { force: isResumed || flags.force === true, inputs })
  const plot = flags.plot === undefined ? undefined : await checkOutput(flags.plot, { force: isResumed || flags.force === true, inputs })
  const run = finetune(options)
  const stop = (): void => run.stop()
  signal.addEventListener('abort', stop)
  const display = createDisplay(flags.json === true ? { write: () => true } : process.stdout)
  let log: Log | undefined
  try {
    log = target === undefined ? undefined : await openLog(target, { append: isResumed })
    const result = await follow(run, async (event) => {
      if (event.kind === 'data' || event.kind === 'start') bar.end()
      display.show(event)
      await log?.write(JSON.stringify(event))
    })
    if (flags.json === true) process.stdout.write(`${printableJson(result)}\n`)
    else process.stdout.write(describeResult(result, options, flags))
    return result.reason
  } finally {
    display.end()
    signal.removeEventListener('abort', stop)
    await log?.close()
    if (plot !== undefined && display.curves.losses.length > 0)
      await writeOutput(plot, drawSvg(display.curves, basename(String(options.model))))
  }
}

async function follow(run: Finetune, onEvent: (event: TrainEvent) => Promise<void>): Promise<FinetuneResult> {
  for await (const event of run) await onEvent(event)
  return run
}

function optionsOf(model: string, data: readonly string[], flags: TrainFlags, bar: StageBar): FinetuneOptions {
  const { out, rank, alpha, rslora, dropout, targets, schedule, warmup, floor, patience } = flags
  const checkpoint = flags.checkpoint ?? (out === undefined ? undefined : `${out.replace(/\/+$/, '')}.checkpoint`)
  const resume = flags.resume === true ? checkpoint : flags.resume
  if (flags.resume === true && resume === undefined) throw new Failure('no checkpoint to go on from; use --resume FILE')
  const lora = defined({ rank, alpha, rsLora: rslora, dropout, targets })
  const rates = defined({ kind: schedule, warmup, floor })
  return {
    model,
    data,
    ...defined({
      out,
      format: flags.format,
      type: flags.type,
      force: flags.force,
      full: flags.full,
      optimizer: flags.optimizer,
      rate: flags.lr,
      epochs: flags.epochs,
      steps: flags.steps,
      batch: flags.batch,
      accumulate: flags.accumulate,
      clipNorm: flags.clip,
      weightDecay: flags.weightDecay,
      context: flags.ctx,
      validation: flags.validation,
      validateEvery: flags.validateEvery,
      seed: flags.seed,
      beta: flags.beta,
      strict: flags.strict,
      device: flags.device,
      threads: flags.threads,
      recompute: flags.recompute,
      memory: flags.memory === undefined ? undefined : flags.memory * 1e6,
      resume,
    }),
    ...(flags.packing === false ? { packing: false } : {}),
    ...(Object.keys(lora).length === 0 ? {} : { lora }),
    ...(Object.keys(rates).length === 0 ? {} : { schedule: { kind: 'cosine', ...rates } }),
    ...(patience === undefined ? {} : { earlyStop: { patience } }),
    ...(checkpoint === undefined || flags.dryRun === true
      ? {}
      : { checkpoint: { path: checkpoint, ...defined({ every: flags.checkpointEvery }) } }),
    onWarning: (line) => process.stderr.write(`ingot: ${printable(line)}\n`),
    onProgress: ({ what, done, total }) => bar.update(what, done, total),
  }
}

/** One bar after the other. */
class StageBar implements Disposable {
  #what = ''
  #bar: Progress | undefined

  update(what: string, done: number, total: number): void {
    if (this.#what !== what) {
      this.end()
      this.#what = what
      this.#bar = showProgress(what)
    }
    this.#bar?.update(done, total)
  }
  end(): void {
    this.#bar?.end()
    this.#bar = undefined
  }
  [Symbol.dispose](): void {
    this.end()
  }
}

function describeEstimate(estimate: Estimate): string {
  const { data, steps, epochs, sequences, tokens, parameters, device, expected, msPerStep, ms } = estimate
  const kept = sequences.validation === 0 ? '' : `, ${sequences.validation} for validation`
  const lines = [
    ...describeData({ kind: 'data', ...data }),
    `run: ${sequences.train} sequences${kept}; ${steps} steps in ${Math.round(100 * epochs) / 100} epochs; ${tokens} tokens`,
    `size: ${count(parameters, 'parameter')} learn on ${device}`,
    `memory: ${describeMemory(expected, showBytes)}`,
    `time: ${showSeconds(ms / 1000)}, ${Math.round(msPerStep)} ms for a step (measured)`,
  ]
  return `${lines.join('\n')}\n`
}

function describeResult(
  { reason, steps, loss, validation, ms, out, checkpoint }: FinetuneResult,
  options: FinetuneOptions,
  flags: TrainFlags,
): string {
  const measured = validation === undefined ? '' : `, validation ${validation.last.toFixed(4)} (best ${validation.best.toFixed(4)})`
  const said = `${steps} steps in ${showSeconds(ms / 1000)}, loss ${loss.toFixed(4)}${measured}`
  if (reason !== 'stopped') return `${reason === 'early-stop' ? 'no longer better: ' : ''}${said}; wrote ${out ?? 'nothing'}\n`
  if (checkpoint === undefined) return `stopped before the first step\n`
  // Settings are in the checkpoint; these are not.
  const rest = { out: flags.out, log: flags.log, plot: flags.plot, 'validate-every': flags.validateEvery, patience: flags.patience }
  const words = [options.model, ...[options.data].flat()]
  for (const [name, value] of Object.entries(defined({ ...rest, resume: checkpoint }))) words.push(`--${name}`, String(value))
  return `stopped: ${said}\nto go on: ingot train ${words.map((word) => shellQuote(String(word))).join(' ')}\n`
}

function shellQuote(text: string): string {
  return /^[\w./:=+,@%-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
