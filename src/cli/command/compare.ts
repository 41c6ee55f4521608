// `ingot compare`: runs a model on two devices, one pass over the prompt and then some single tokens, and names the first tensor that
// differs more than it may. The first device is the reference: it also chooses the tokens.

import { type Command, InvalidArgumentError } from 'commander'
import { printableJson } from '../../base/printable.ts'
import { nmse } from '../../device/open/compare.ts'
import type { Model } from '../../llm/model.ts'
import { openGguf } from '../../weights/gguf/gguf.ts'
import { Failure } from '../failure.ts'
import { interruptible } from '../interruption.ts'
import { decimal, tokenList, whole } from '../option/number.ts'
import { type ModelFlags, addModelOptions, checkModelPath, deviceName, loadWithBar } from '../option/shared.ts'
import { styleFor } from '../output/style.ts'

interface CompareFlags extends ModelFlags {
  readonly devices: readonly [string, string]
  readonly prompt?: string
  readonly promptTokens?: readonly number[]
  readonly steps: number
  readonly threshold?: number
  readonly all?: true
  readonly json?: true
}

type ResolvedFlags = CompareFlags & { readonly threshold: number }

interface TracedTensor {
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
    .requiredOption('--devices <a,b>', 'the reference device, and the one to check: cpu,webgpu', devicePair)
    .option('-p, --prompt <text>', 'the text to compute')
    .option('--prompt-tokens <ids>', 'token ids instead of text: 1,2,3', tokenList)
    .option('--steps <n>', 'single tokens to compute after the prompt', whole({ least: 0, most: 1000 }), 2)
    .option(
      '--threshold <nmse>',
      'normalised mean square error allowed (default: 1e-4, with quantised weights 5e-3)',
      decimal({ least: 0 }),
    )
    .option('--all', 'print a line for every tensor')
  addModelOptions(command, { device: false }).option('--json', 'print the result as one JSON object').action(compare)
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
  const flags: ResolvedFlags = { ...given, threshold: given.threshold ?? (await defaultThreshold(file)) }
  if (flags.prompt !== undefined && flags.promptTokens !== undefined) throw new Failure('--prompt and --prompt-tokens exclude each other')
  const differs = await interruptible(async ({ signal }) => {
    const [first, second] = flags.devices
    const reference = await traceOn(first, file, flags, signal)
    const checked = await traceOn(second, file, { ...flags, promptTokens: reference.prompt }, signal, reference.steps)
    const differences = reference.tensors.map((tensor, i) => compareTensors(tensor, checked.tensors[i], flags.threshold))
    const text = flags.json === true ? printableJson(summary(flags, reference.prompt.length, differences)) : describe(flags, differences)
    process.stdout.write(`${text}\n`)
    return differences.some((each) => each.differs)
  })
  if (differs === true) throw new Failure('', 1)
}

/** Where weights are quantised, a device may round activations to 8 bits to multiply them faster. */
async function defaultThreshold(file: string): Promise<number> {
  await using gguf = await openGguf(file)
  return [...gguf.tensors.values()].every(({ type }) => FLOATS.has(type)) ? 1e-4 : 5e-3
}

interface Trace {
  readonly prompt: readonly number[]
  /** the token of each step after the prompt */
  readonly steps: readonly number[]
  readonly tensors: readonly TracedTensor[]
}

/** Every named tensor of the prompt's pass and of each step. Without `given` tokens, each step takes the best of the one before. */
async function traceOn(device: string, file: string, flags: CompareFlags, signal: AbortSignal, given?: readonly number[]): Promise<Trace> {
  await using model = await loadWithBar(file, flags, signal, { device })
  const prompt = promptOf(model, flags)
  const tensors: TracedTensor[] = []
  const steps: number[] = []
  const pass = async (tokens: readonly number[], step: string): Promise<void> => {
    signal.throwIfAborted()
    for (const each of await model.engine.trace(tokens)) tensors.push({ step, ...each })
  }
  await pass(prompt, 'prompt')
  const stepCount = Math.min(flags.steps, model.contextLength - prompt.length)
  for (let i = 0; i < stepCount; i++) {
    const token = given?.[i] ?? argmax(tensors.at(-1)?.values.subarray(-model.vocabulary))
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

function argmax(logits: Float32Array = new Float32Array(0)): number {
  let [best, highest] = [0, -Infinity]
  logits.forEach((logit, i) => {
    if (logit > highest) [best, highest] = [i, logit]
  })
  return best
}

function compareTensors(expected: TracedTensor, got: TracedTensor | undefined, threshold: number): Difference {
  const values = got?.values ?? new Float32Array(expected.values.length).fill(NaN)
  let maxError = 0
  let sameClass = true
  expected.values.forEach((value, i) => {
    const other = values[i] ?? NaN
    if (!Number.isFinite(value) || !Number.isFinite(other)) sameClass &&= Object.is(value, other)
    else maxError = Math.max(maxError, Math.abs(value - other))
  })
  const error = sameClass ? nmse(values, expected.values) : Infinity
  const { step, label: tensor, shape } = expected
  return { step, tensor, shape, nmse: error, maxError, differs: !(error <= threshold) }
}

function summary(flags: ResolvedFlags, promptTokens: number, differences: readonly Difference[]): object {
  const finite = (each: Difference): object => ({ ...each, nmse: Number.isFinite(each.nmse) ? each.nmse : null })
  const first = differences.find((each) => each.differs)
  return {
    devices: flags.devices,
    threshold: flags.threshold,
    promptTokens,
    steps: flags.steps,
    compared: differences.length,
    first: first === undefined ? null : finite(first),
    ...(flags.all === true ? { tensors: differences.map(finite) } : {}),
  }
}

function describe({ devices, all, threshold }: ResolvedFlags, differences: readonly Difference[]): string {
  const style = styleFor(process.stdout)
  const both = devices.join(' and ')
  const bad = differences.find((each) => each.differs)
  const worst = differences.reduce((most, each) => Math.max(most, each.nmse), 0).toExponential(1)
  const verdict =
    bad === undefined
      ? style.green(`none of ${differences.length} tensors differs between ${both}: NMSE at most ${worst}, allowed ${threshold}`)
      : `first to differ between ${both}: ${style.bold(bad.tensor)} (${bad.step}, ${showShape(bad)}): ` +
        `NMSE ${bad.nmse.toExponential(1)}, allowed ${threshold}; worst error ${bad.maxError.toExponential(1)}`
  const rows = showRows(differences).map((row, i) => (differences[i]?.differs === true ? style.red(`${row}  differs`) : row))
  return [...(all === true ? rows : []), verdict].join('\n')
}

/** A line for each tensor, in columns. */
function showRows(differences: readonly Difference[]): string[] {
  const widthOf = (pick: (each: Difference) => string): number => Math.max(...differences.map((each) => pick(each).length))
  const [steps, names, shapes] = [widthOf(({ step }) => step), widthOf(({ tensor }) => tensor), widthOf(showShape)]
  return differences.map((each) => {
    const columns = [each.step.padEnd(steps), each.tensor.padEnd(names), showShape(each).padEnd(shapes)]
    return [...columns, `NMSE ${each.nmse.toExponential(1).padStart(8)}`, `worst ${each.maxError.toExponential(1)}`].join('  ')
  })
}

function showShape({ shape }: Difference): string {
  return shape.join(' x ')
}
