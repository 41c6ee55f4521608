// `ingot compare`: runs a model on two devices, one pass over the prompt and then some single tokens, and names the first tensor that
// differs more than it may. The first device is the measure of the second, and chooses the tokens.

import { type Command, InvalidArgumentError } from 'commander'
import { nmse } from '../device/compare.ts'
import type { Model } from '../llm/model.ts'
import { openGguf } from '../weights/gguf.ts'
import { Failure } from './failure.ts'
import { watchInterruption } from './interruption.ts'
import { decimal, tokenList, whole } from './number.ts'
import { type ModelFlags, addModelOptions, checkModelPath, deviceName, loadWithBar } from './options.ts'
import { styleFor } from './terminal.ts'

interface CompareFlags extends ModelFlags {
  readonly devices: readonly [string, string]
  readonly prompt?: string
  readonly promptTokens?: readonly number[]
  readonly steps: number
  readonly threshold?: number
  readonly all?: true
  readonly json?: true
}

type Resolved = CompareFlags & { readonly threshold: number }

interface Traced {
  readonly step: string
  readonly label: string
  readonly shape: readonly number[]
  readonly values: Float32Array
}

interface Difference {
  /** `prompt`, or which token after it */
  readonly step: string
  readonly tensor: string
  readonly shape: readonly number[]
  readonly nmse: number
  readonly maxError: number
  readonly differs: boolean
}

const FLOATS: ReadonlySet<string> = new Set(['f32', 'f16', 'bf16'])
const PROMPT = 'Once upon a time, there was'
/** For models without a tokenizer. */
const PROMPT_TOKENS: readonly number[] = [1, 5, 9, 2, 7, 3]

export function define(command: Command): void {
  command
    .argument('[model]', 'a GGUF file')
    .requiredOption('--devices <a,b>', 'the measure, and what is measured: cpu,webgpu', devicePair)
    .option('-p, --prompt <text>', 'the text to run over')
    .option('--prompt-tokens <ids>', 'token ids instead of text: 1,2,3', tokenList)
    .option('--steps <n>', 'single tokens to compute after the prompt', whole({ least: 0, most: 1000 }), 2)
    .option(
      '--threshold <nmse>',
      'normalised mean square error that a tensor may have (default: 1e-4, with quantised weights 5e-3)',
      decimal({ least: 0 }),
    )
    .option('--all', 'a line for every tensor')
  addModelOptions(command, { device: false }).option('--json', 'the result as one object').action(compare)
}

function devicePair(text: string): readonly [string, string] {
  const names = text.split(',').map((name) => name.trim())
  const [first, second] = names
  if (names.length !== 2 || first === undefined || second === undefined)
    throw new InvalidArgumentError('It must be two devices: cpu,webgpu.')
  return [deviceName(first), deviceName(second)]
}

async function compare(path: string | undefined, given: CompareFlags): Promise<void> {
  const file = await checkModelPath('compare', path)
  const flags: Resolved = { ...given, threshold: given.threshold ?? (await usualThreshold(file)) }
  if (flags.prompt !== undefined && flags.promptTokens !== undefined) throw new Failure('--prompt and --prompt-tokens exclude each other')
  const interruption = watchInterruption()
  const { signal } = interruption
  let differs = false
  try {
    const [first, second] = flags.devices
    const wanted = await traceOn(first, file, flags, signal)
    const got = await traceOn(second, file, { ...flags, promptTokens: wanted.prompt }, signal, wanted.steps)
    const found = wanted.tensors.map((tensor, i) => measure(tensor, got.tensors[i], flags.threshold))
    differs = found.some((each) => each.differs)
    process.stdout.write(flags.json === true ? `${JSON.stringify(summary(flags, wanted.prompt.length, found))}\n` : describe(flags, found))
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    interruption[Symbol.dispose]()
  }
  interruption.check()
  if (differs) throw new Failure('', 1)
}

/** Where weights are quantised, a device may round activations to 8 bits to multiply them faster. */
async function usualThreshold(file: string): Promise<number> {
  await using gguf = await openGguf(file)
  return [...gguf.tensors.values()].every(({ type }) => FLOATS.has(type)) ? 1e-4 : 5e-3
}

interface Trace {
  readonly prompt: readonly number[]
  readonly steps: readonly number[]
  readonly tensors: readonly Traced[]
}

/** Every named tensor of the prompt's pass and of each step. Without given steps, each takes the best token of the one before. */
async function traceOn(device: string, file: string, flags: CompareFlags, signal: AbortSignal, given?: readonly number[]): Promise<Trace> {
  await using model = await loadWithBar(file, flags, signal, { device })
  const prompt = promptOf(model, flags)
  const tensors: Traced[] = []
  const steps: number[] = []
  const pass = async (tokens: readonly number[], step: string): Promise<void> => {
    signal.throwIfAborted()
    for (const each of await model.engine.trace(tokens)) tensors.push({ step, ...each })
  }
  await pass(prompt, 'prompt')
  const room = Math.min(flags.steps, model.contextLength - prompt.length)
  for (let i = 0; i < room; i++) {
    const token = given?.[i] ?? best(tensors.at(-1)?.values.subarray(-model.vocabulary))
    steps.push(token)
    await pass([token], `token ${i + 1}`)
  }
  return { prompt, steps, tensors }
}

function promptOf(model: Model, { prompt, promptTokens }: CompareFlags): readonly number[] {
  if (promptTokens !== undefined) return promptTokens
  if (prompt !== undefined || model.hasTokenizer) return model.tokenize(prompt ?? PROMPT, { addSpecial: true, parseSpecial: true })
  return PROMPT_TOKENS
}

function best(logits: Float32Array | undefined): number {
  let at = 0
  logits?.forEach((logit, i) => {
    if (logit > (logits[at] as number)) at = i
  })
  return at
}

function measure(want: Traced, got: Traced | undefined, threshold: number): Difference {
  const values = got?.values ?? new Float32Array(want.values.length).fill(NaN)
  let maxError = 0
  let sameClass = true
  want.values.forEach((value, i) => {
    const other = values[i] as number
    if (!Number.isFinite(value) || !Number.isFinite(other)) sameClass &&= Object.is(value, other)
    else maxError = Math.max(maxError, Math.abs(value - other))
  })
  const error = sameClass ? nmse(values, want.values) : Infinity
  return { step: want.step, tensor: want.label, shape: want.shape, nmse: error, maxError, differs: !(error <= threshold) }
}

function summary(flags: Resolved, promptTokens: number, found: readonly Difference[]): object {
  const finite = (each: Difference): object => ({ ...each, nmse: Number.isFinite(each.nmse) ? each.nmse : null })
  const first = found.find((each) => each.differs)
  return {
    devices: flags.devices,
    threshold: flags.threshold,
    promptTokens,
    steps: flags.steps,
    compared: found.length,
    first: first === undefined ? null : finite(first),
    ...(flags.all === true ? { tensors: found.map(finite) } : {}),
  }
}

function describe({ devices: [first, second], all, threshold }: Resolved, found: readonly Difference[]): string {
  const style = styleFor(process.stdout)
  const wide = (pick: (each: Difference) => string): number => Math.max(...found.map((each) => pick(each).length))
  const [steps, names, shapes] = [wide(({ step }) => step), wide(({ tensor }) => tensor), wide(({ shape }) => shape.join(' x '))]
  const rows = found.map((each) => {
    const line =
      `${each.step.padEnd(steps)}  ${each.tensor.padEnd(names)}  ${each.shape.join(' x ').padEnd(shapes)}  ` +
      `NMSE ${each.nmse.toExponential(1).padStart(8)}  worst ${each.maxError.toExponential(1)}`
    return each.differs ? style.red(`${line}  differs`) : line
  })
  const worst = found.reduce((most, each) => Math.max(most, each.nmse), 0)
  const bad = found.find((each) => each.differs)
  const verdict =
    bad === undefined
      ? style.green(
          `none of ${found.length} tensors differs between ${first} and ${second}: NMSE at most ${worst.toExponential(1)}, allowed ${threshold}`,
        )
      : `first to differ between ${first} and ${second}: ${style.bold(bad.tensor)} (${bad.step}, ${bad.shape.join(' x ')}): ` +
        `NMSE ${bad.nmse.toExponential(1)}, allowed ${threshold}; worst error ${bad.maxError.toExponential(1)}`
  return `${[...(all === true ? rows : []), verdict].join('\n')}\n`
}
