// `ingot bench`: how fast a model runs here, and how that compares with a peer on the same file. The table goes to stdout; progress
// to stderr, on terminals only.

import { type Command, Option } from 'commander'
import { ingot, findPeer } from '../bench/contestant.ts'
import { readEntries, saveReport, showHistory } from '../bench/history.ts'
import { showReport, toJson } from '../bench/report.ts'
import { runBench } from '../bench/run.ts'
import { FULL, QUICK } from '../bench/workload.ts'
import { Failure } from './failure.ts'
import { watchInterruption } from './interruption.ts'
import { whole } from './number.ts'
import { checkFile, checkModelPath, defined, deviceName } from './options.ts'
import { type Progress, showProgress } from './progress.ts'

interface BenchFlags {
  readonly device?: string
  readonly threads?: number
  readonly ctx?: number
  readonly against?: string
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
    .addOption(new Option('-d, --device <name>', 'where to compute (default: auto)').argParser(deviceName))
    .option('--threads <n>', 'for both sides (default: what is best for each)', whole({ least: 1, most: 1024 }))
    .option('--ctx <n>', 'tokens a text may have (default: as trained)', whole({ least: 2, most: 1 << 20 }))
    .option('--against <peer>', 'measure a peer on the same file, in turns: node-llama-cpp')
    .option('--quick', 'few sizes, few samples, usual settings')
    .option('-s, --seed <s>', 'of the random prompt', whole({ least: 0 }), 1)
    .option('--json', 'everything, with the raw samples')
    .option('--save <file>', 'append to a history, a file of JSON lines')
    .option('--title <text>', 'what to call it there')
    .option('--comment <text>', 'what to say about it there')
    .option('--history <file>', 'show before and after of a history, and measure nothing')
    .action(bench)
}

async function bench(path: string | undefined, flags: BenchFlags): Promise<void> {
  if (flags.history !== undefined) return printHistory(path, flags.history, flags.json === true)
  if (flags.save === undefined && (flags.title ?? flags.comment) !== undefined)
    throw new Failure('--title and --comment are for a history: give --save file.jsonl')
  const model = await checkModelPath('bench', path)
  const contestants = [ingot, ...(flags.against === undefined ? [] : [findPeer(flags.against)])]
  const interruption = watchInterruption()
  const progress = createSteps()
  const { signal } = interruption
  try {
    const report = await runBench(model, contestants, {
      effort: flags.quick === true ? QUICK : FULL,
      seed: flags.seed,
      choice: defined({ threads: flags.threads, device: flags.device }),
      ...defined({ context: flags.ctx }),
      onProgress: progress.update,
      signal,
    })
    progress.end()
    process.stdout.write(flags.json === true ? `${JSON.stringify(toJson(report))}\n` : showReport(report))
    if (flags.save !== undefined) await saveReport(flags.save, report, defined({ title: flags.title, comment: flags.comment }))
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    progress.end()
    interruption[Symbol.dispose]()
  }
  interruption.check()
}

async function printHistory(path: string | undefined, file: string, json: boolean): Promise<void> {
  if (path !== undefined) throw new Failure('--history shows a file and measures no model')
  await checkFile(file)
  const entries = await readEntries(file)
  if (entries.length === 0) throw new Failure(`nothing is saved in ${file}`)
  process.stdout.write(json ? `${JSON.stringify(entries)}\n` : showHistory(entries))
}

const REDRAW_MS = 500 // seldom: drawing takes time from what is measured

/** One bar after the other, one for each thing that is measured; drawn again while a single step takes long. */
function createSteps(): { update: (what: string, done: number, total: number) => void; end: () => void } {
  let current: { readonly what: string; readonly bar: Progress; done: number; total: number } | undefined
  const draw = (): void => current?.bar.update(current.done, current.total)
  const timer = process.stderr.isTTY ? setInterval(draw, REDRAW_MS).unref() : undefined
  const update = (what: string, done: number, total: number): void => {
    if (current?.what !== what) {
      current?.bar.end()
      current = { what, bar: showProgress(what), done, total }
    }
    Object.assign(current, { done, total })
    draw()
  }
  const end = (): void => {
    clearInterval(timer)
    current?.bar.end()
    current = undefined
  }
  return { update, end }
}
