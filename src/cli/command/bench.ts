// `ingot bench`: how fast a model runs here, and how that compares with a peer on the same file; with --ops, how fast single operations
// are; with --train, how fast a model learns. The table goes to stdout; progress to stderr, on terminals only.

import { stat } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { printableJson } from '../../base/printable.ts'
import { ingot, findPeer } from '../../bench/contenders.ts'
import { readEntries, saveReport, showHistory } from '../../bench/history.ts'
import { OP_PEERS } from '../../bench/op/contenders.ts'
import { showReport, toJson } from '../../bench/report.ts'
import { runBench } from '../../bench/run.ts'
import { FULL, QUICK, parallelEffort } from '../../bench/workload.ts'
import { benchOps } from '../bench/ops.ts'
import { createProgress } from '../bench/progress.ts'
import { benchTrain } from '../bench/train.ts'
import { Failure } from '../failure.ts'
import { interruptible } from '../interruption.ts'
import { whole } from '../option/number.ts'
import { checkFile, checkModelPath, defined, deviceName } from '../option/shared.ts'
import { checkOutput } from '../output/file.ts'

interface BenchFlags {
  readonly device?: readonly string[]
  readonly threads?: number
  readonly ctx?: number
  readonly against?: string
  readonly ops?: true
  readonly train?: true
  readonly only?: string
  readonly parallel?: readonly number[]
  readonly quick?: true
  readonly seed: number
  readonly json?: true
  readonly save?: string
  readonly title?: string
  readonly comment?: string
  readonly history?: string
}

export function define(command: Command): void {
  command
    .argument('[model]', 'a GGUF file')
    .addOption(
      new Option('-d, --device <name>', 'device to compute on (default: auto; with --ops all that work, or a list)').argParser(deviceList),
    )
    .option('--threads <n>', 'CPU threads of Ingot and of the peer (default: the best for each)', whole({ least: 1, most: 1024 }))
    .option('--ctx <n>', 'context length in tokens (default: as trained)', whole({ least: 2, most: 1 << 20 }))
    .option(
      '--against <peer>',
      `measure a peer, too, in turns: node-llama-cpp; with --ops a list of ${OP_PEERS.join(', ')}; with --train pytorch[:python]`,
    )
    .option('--ops', 'measure single operations of tensors instead of a model')
    .option('--train', 'measure steps of training (LoRA) instead of answers, by default of random weights of 162 M parameters')
    .option('--only <words>', 'with --ops: the lines whose names have one of these words in them, such as add,softmax')
    .option('--parallel <list>', 'measure so many sequences at once, such as 1,2,4,8, instead of one', countList)
    .option('--quick', 'few sizes, few samples, usual settings')
    .option('-s, --seed <s>', 'seed of the random prompt', whole({ least: 0 }), 1)
    .option('--json', 'print everything as one JSON object, with the raw samples')
    .option('--save <file>', 'append the result to a history: a file of JSON lines')
    .option('--title <text>', 'title of the result in the history')
    .option('--comment <text>', 'comment on the result in the history')
    .option('--history <file>', 'compare the last two results of a history, and measure nothing')
    .action(bench)
}

function deviceList(text: string): string[] {
  return text.split(',').map(deviceName)
}

function countList(text: string): number[] {
  return text.split(',').map((each) => whole({ least: 1, most: 64 })(each))
}

async function bench(path: string | undefined, flags: BenchFlags): Promise<void> {
  if (flags.history !== undefined) return printHistory(path, flags.history, flags.json === true)
  if (flags.save === undefined && (flags.title ?? flags.comment) !== undefined)
    throw new Failure('--title and --comment are for a history; use them with --save file.jsonl')
  if (flags.ops === true) {
    if (path !== undefined) throw new Failure('--ops measures operations and no model')
    if (flags.save !== undefined) await checkHistory(flags.save)
    return benchOps(flags)
  }
  if (flags.train === true) {
    if (flags.only !== undefined || flags.save !== undefined) throw new Failure('--train takes neither --only nor --save')
    return benchTrain(path === undefined ? undefined : await checkModelPath('bench', path), flags)
  }
  const model = await checkModelPath('bench', path)
  if (flags.only !== undefined) throw new Failure('--only chooses among operations; use it with --ops')
  const [device, ...others] = flags.device ?? []
  if (others.length > 0) throw new Failure('a model is measured on one device; --ops takes a list')
  if (flags.save !== undefined) await checkHistory(flags.save)
  const contenders = [ingot, ...(flags.against === undefined ? [] : [findPeer(flags.against)])]
  const effort = flags.quick === true ? QUICK : FULL
  await interruptible(async ({ signal }) => {
    using progress = createProgress()
    const report = await runBench(model, contenders, {
      effort: flags.parallel === undefined ? effort : parallelEffort(effort, flags.parallel),
      seed: flags.seed,
      constraints: defined({ threads: flags.threads, device }),
      ...defined({ context: flags.ctx }),
      onProgress: progress.update,
      signal,
    })
    progress.pause()
    process.stdout.write(flags.json === true ? `${printableJson(toJson(report))}\n` : showReport(report))
    if (flags.save !== undefined) await saveReport(flags.save, report, defined({ title: flags.title, comment: flags.comment }))
  })
}

/** A history grows at its end, so that one that exists is fine; a file that is none would be spoiled. */
async function checkHistory(file: string): Promise<void> {
  const { kind } = await checkOutput(file, { force: true })
  if (kind === 'file' && (await stat(file).catch(() => undefined)) !== undefined) await readEntries(file)
}

async function printHistory(path: string | undefined, file: string, json: boolean): Promise<void> {
  if (path !== undefined) throw new Failure('--history shows a file and measures no model')
  await checkFile(file)
  const entries = await readEntries(file)
  if (entries.length === 0) throw new Failure(`no results in ${file}`)
  process.stdout.write(json ? `${printableJson(entries)}\n` : showHistory(entries))
}
