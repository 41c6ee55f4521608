// Steps of a model on a device. A step is some rows, each a token of some sequence, and what is wanted of them; the plan for its shape is
// made once and replayed, so that a step is one submission. Knows rows and plans; which rows come together is decided elsewhere.
//
// Where the device chooses the tokens, a step of rows that are each a sequence's last prepares its own successor: it writes the tokens and
// the next positions itself, so that the next step needs nothing from the host and may be submitted before this one is read. The largest
// logit of a row comes back with its token: where a model computes garbage, it is no number (kernel/select/float-order.ts).

import { IngotError } from '../../base/error.ts'
import type { BufferHandle, Device } from '../../device/device.ts'
import { DRAW_RULE, type DrawRule, ruleWords } from '../../kernel/select/draw.ts'
import type { LanguageModel } from '../../model/model.ts'
import type { PagedCache } from '../../nn/cache.ts'
import { operandsFirst } from '../../tensor/graph.ts'
import { type Plan, type PlanSpec, assignment, buildPlan } from '../../tensor/plan.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { DeviceState } from './state.ts'

/** A token of a sequence. */
export interface Row {
  readonly token: number
  readonly position: number
  /** of the table of pages; 0: the row only fills up the step */
  readonly slot: number
}

/** What a step brings back. */
export type Output =
  /** nothing: the caches are written */
  | { readonly kind: 'none' }
  /** the hidden state, or all logits, of every row */
  | { readonly kind: 'hidden' | 'all-logits' }
  /** of some rows: a token that the device chooses, the best `topK` (0: of all), and all logits where those are wanted */
  | { readonly kind: 'choose'; readonly topK: number; readonly logits: boolean }

/** The rows of a step: first those that follow each other in their sequences, then `apart` rows that are each the last of theirs. */
export interface Step {
  readonly rows: readonly Row[]
  readonly apart: number
  readonly output: Output
  /** of which rows something is chosen; all of `apart` rows where there are no others */
  readonly chosen: readonly { readonly row: number; readonly rule: DrawRule | undefined }[]
}

/** What was chosen for a row. */
export interface Choice {
  readonly token: number
  /** the largest logit */
  readonly largest: number
  /** where the device selected some: ids and logits, best first */
  readonly candidates: { readonly ids: Int32Array; readonly logits: Float32Array } | undefined
  /** where they were asked for */
  readonly logits: Float32Array | undefined
}

interface Inputs {
  /** [n] */
  readonly tokens: Tensor
  readonly positions: Tensor
  readonly slots: Tensor
  /** [n]: 1 where the next position is one further on */
  readonly advance: Tensor
  /** [chosen]: rows of which something is chosen */
  readonly chosen: Tensor
  /** [chosen, words]: how tokens are drawn, where they are */
  readonly rules: Tensor
  readonly buffers: Readonly<Record<'tokens' | 'positions' | 'slots' | 'advance' | 'chosen' | 'rules', BufferHandle>>
}

/** The shape of a step: steps of one shape share a plan. */
export interface StepShape {
  readonly rows: number
  readonly apart: number
  readonly chosen: number
  readonly output: Output
}

interface PlanWithInputs {
  readonly plan: Plan
  readonly inputs: Inputs
}

/** Plans of this many shapes are kept; a chat's prompts repeat few. */
const PLANS_KEPT = 32
/** Draws the best candidate: all that is likelier than nothing. */
const BEST: DrawRule = { temperature: 1, topP: 1e-9, minP: 0, seed: 0, start: 0, count: 1 }

export class Runner {
  readonly device: Device
  readonly state: DeviceState
  /** models that there are plans for, by number */
  readonly #numbers = new WeakMap<LanguageModel, number>()
  #counted = 0
  readonly #plans = new Map<string, Promise<PlanWithInputs>>()

  constructor(device: Device, state: DeviceState) {
    this.device = device
    this.state = state
  }

  /** Makes the plan for steps of this shape, so that the work itself need not wait for compilers. */
  async prepare(model: LanguageModel, shape: StepShape): Promise<void> {
    await this.#plan(model, shape)
  }

  /** Runs a step; gives what it brings back. */
  async run(model: LanguageModel, step: Step): Promise<Uint8Array[]> {
    const { plan, inputs } = await this.#plan(model, shapeOf(step))
    this.#write(inputs, step)
    return plan.run()
  }

  /** Begins steps that prepare each other: every call of the result submits the next one. */
  async begin(model: LanguageModel, step: Step): Promise<() => Promise<Uint8Array[]>> {
    if (!feedsItself(shapeOf(step)))
      throw new IngotError('bad-argument', 'these rows do not go on by themselves', {
        op: 'runner',
        got: step.rows.length,
        wanted: step.apart,
      })
    const { plan, inputs } = await this.#plan(model, shapeOf(step))
    this.#write(inputs, step)
    return () => plan.run()
  }

  /** Labelled intermediate tensors of one pass over rows of a sequence, in order of computation. */
  async trace(model: LanguageModel, rows: readonly Row[]): Promise<{ label: string; shape: readonly number[]; values: Float32Array }[]> {
    const step: Step = { rows, apart: rows.length === 1 ? 1 : 0, output: { kind: 'all-logits' }, chosen: [] }
    const inputs = this.#inputs(shapeOf(step))
    let plan: Plan | undefined
    try {
      const logits = model.logits(model.forward({ ...inputs, cache: this.#cacheFor(inputs, step.apart) }))
      const watched = labelled(logits)
      plan = await buildPlan(this.device, { reads: watched })
      this.#write(inputs, step)
      const results = await plan.run()
      return watched.map((tensor, i) => ({
        label: tensor.node.label ?? tensor.node.op,
        shape: tensor.shape,
        values: floatsOf(results[i]),
      }))
    } finally {
      plan?.[Symbol.dispose]()
      this.#free(inputs)
    }
  }

  /** Waits for what is under way, and frees the plans. */
  async close(): Promise<void> {
    await this.device.sync().catch(() => {})
    await Promise.all([...this.#plans.values()].map((building) => this.#discard(building)))
    this.#plans.clear()
  }

  #plan(model: LanguageModel, shape: StepShape): Promise<PlanWithInputs> {
    const { kind } = shape.output
    const what = shape.output.kind === 'choose' ? `${shape.chosen} of ${shape.output.topK} ${shape.output.logits}` : kind
    const key = `${this.#numberOf(model)} ${shape.rows} ${shape.apart} ${what}`
    const known = this.#plans.get(key)
    if (known !== undefined) {
      this.#plans.delete(key) // to the end: the first key is the one longest unused
      this.#plans.set(key, known)
      return known
    }
    const building = this.#build(model, shape)
    this.#plans.set(key, building)
    building.catch(() => this.#plans.delete(key))
    const [oldest] = this.#plans
    if (this.#plans.size > PLANS_KEPT && oldest !== undefined) {
      this.#plans.delete(oldest[0])
      void this.#discard(oldest[1])
    }
    return building
  }

  #numberOf(model: LanguageModel): number {
    const number = this.#numbers.get(model) ?? this.#counted++
    this.#numbers.set(model, number)
    return number
  }

  async #build(model: LanguageModel, shape: StepShape): Promise<PlanWithInputs> {
    const inputs = this.#inputs(shape)
    try {
      const { tokens, positions } = inputs
      const hidden = model.forward({ tokens, positions, cache: this.#cacheFor(inputs, shape.apart) })
      return { plan: await buildPlan(this.device, specOf(model, hidden, inputs, shape)), inputs }
    } catch (error) {
      this.#free(inputs)
      throw error
    }
  }

  #cacheFor({ slots }: Inputs, apart: number): PagedCache {
    const { layers, table } = this.state
    return { layers, table, slots, apart }
  }

  #inputs({ rows, chosen }: StepShape): Inputs {
    const alloc = (words: number): BufferHandle => this.device.alloc(4 * Math.max(1, words))
    const buffers = {
      tokens: alloc(rows),
      positions: alloc(rows),
      slots: alloc(rows),
      advance: alloc(rows),
      chosen: alloc(chosen),
      rules: alloc(chosen * DRAW_RULE.words),
    }
    const tensor = (name: keyof typeof buffers, ...shape: number[]): Tensor => Tensor.over(buffers[name], shape, 'u32', name)
    return {
      tokens: tensor('tokens', rows),
      positions: tensor('positions', rows),
      slots: tensor('slots', rows),
      advance: tensor('advance', rows),
      chosen: tensor('chosen', Math.max(1, chosen)),
      rules: tensor('rules', Math.max(1, chosen), DRAW_RULE.words),
      buffers,
    }
  }

  #write({ buffers }: Inputs, { rows, chosen, output }: Step): void {
    const write = (buffer: BufferHandle, words: Uint32Array): void => {
      if (words.length > 0) this.device.write(buffer, 0, new Uint8Array(words.buffer))
    }
    const column = (value: (row: Row) => number): Uint32Array => Uint32Array.from(rows, value)
    write(buffers.tokens, column(({ token }) => token)) // prettier-ignore
    write(buffers.positions, column(({ position }) => position)) // prettier-ignore
    write(buffers.slots, column(({ slot }) => slot)) // prettier-ignore
    if (output.kind !== 'choose') return
    write(buffers.advance, column(({ slot }) => (slot === 0 ? 0 : 1))) // prettier-ignore
    write(buffers.chosen, Uint32Array.from(chosen, ({ row }) => row)) // prettier-ignore
    if (output.topK === 0) return
    const rules = new Uint32Array(chosen.length * DRAW_RULE.words)
    chosen.forEach(({ rule }, i) => rules.set(ruleWords(rule ?? BEST), i * DRAW_RULE.words))
    write(buffers.rules, rules)
  }

  async #discard(building: Promise<PlanWithInputs>): Promise<void> {
    const built = await building.catch(() => undefined)
    if (built === undefined) return
    built.plan[Symbol.dispose]()
    this.#free(built.inputs)
  }

  #free({ buffers }: Inputs): void {
    for (const buffer of Object.values(buffers)) this.device.free(buffer)
  }
}

/** The shape of a step. */
export function shapeOf({ rows, apart, chosen, output }: Step): StepShape {
  return { rows: rows.length, apart, chosen: chosen.length, output }
}

/** Whether such a step prepares its successor: a token is chosen for every row, by the device alone. */
function feedsItself({ rows, apart, chosen, output }: StepShape): boolean {
  return output.kind === 'choose' && !output.logits && apart === rows && chosen === rows
}

function specOf(model: LanguageModel, hidden: Tensor, inputs: Inputs, shape: StepShape): PlanSpec {
  const { output, rows, chosen } = shape
  if (output.kind === 'none') return { effects: [hidden] }
  if (output.kind !== 'choose') return { reads: [output.kind === 'hidden' ? hidden : model.logits(hidden)] }
  const isAll = chosen === rows && shape.apart === rows
  const logits = model.logits(isAll ? hidden : hidden.embedding(inputs.chosen)) // [chosen, vocabulary]
  const positions = isAll ? inputs.positions : inputs.positions.gather(inputs.chosen)
  const best = output.topK > 0 ? logits.candidates(output.topK) : undefined
  const token = best?.draw(inputs.rules, positions) ?? logits.argmax(-1)
  const largest = best ?? logits.reshape(chosen * model.vocabulary, 1).embedding(chosen === 1 ? token : ofRows(token, model.vocabulary))
  const reads = [token, largest, ...(output.logits ? [logits] : [])]
  if (!feedsItself(shape)) return { reads }
  const next = [assignment(inputs.positions, inputs.positions.add(inputs.advance)), assignment(inputs.tokens, token)]
  return { reads, effects: next }
}

/** Where the elements that columns [n] of n rows name lie, counted through all rows. */
function ofRows(columns: Tensor, width: number): Tensor {
  return columns.add(
    Tensor.iota([columns.shape[0] ?? 1], 0)
      .to('u32')
      .mul(width),
  )
}

/** What a step brought back for each of the rows of which something is chosen. */
export function choicesOf(results: readonly Uint8Array[], { chosen, output }: Pick<Step, 'chosen' | 'output'>): Choice[] {
  if (output.kind !== 'choose') return []
  const { topK } = output
  const [tokens, largest] = [wordsOf(results[0]), wordsOf(results[1])]
  const logits = output.logits ? floatsOf(results[2]) : undefined
  const vocabulary = (logits?.length ?? 0) / chosen.length
  return chosen.map((_, i): Choice => ({
    token: tokens.getUint32(4 * i, true),
    largest: largest.getFloat32(topK > 0 ? 4 * topK * (2 * i + 1) : 4 * i, true), // candidates are ids, then logits
    candidates: topK > 0 ? candidatesOf(results[1], i, topK) : undefined,
    logits: logits?.subarray(i * vocabulary, (i + 1) * vocabulary),
  }))
}

function candidatesOf(bytes: Uint8Array | undefined, row: number, topK: number): NonNullable<Choice['candidates']> {
  const { buffer } = bytesOf(bytes).slice(8 * topK * row, 8 * topK * (row + 1))
  return { ids: new Int32Array(buffer, 0, topK), logits: new Float32Array(buffer, 4 * topK, topK) }
}

/** A copy: what a device gives may lie at any offset of memory that it uses again. */
export function floatsOf(bytes: Uint8Array | undefined): Float32Array {
  return new Float32Array(bytesOf(bytes).slice().buffer)
}

function wordsOf(bytes: Uint8Array | undefined): DataView {
  const { buffer, byteOffset, byteLength } = bytesOf(bytes)
  return new DataView(buffer, byteOffset, byteLength)
}

function bytesOf(bytes: Uint8Array | undefined): Uint8Array {
  if (bytes === undefined) throw new IngotError('device-failed', 'the device brought nothing back', { op: 'runner' })
  return bytes
}

/** The tensors with labels below one, operands first. */
function labelled(root: Tensor): Tensor[] {
  return operandsFirst([root.node]).flatMap((node) => (node.op !== 'leaf' && node.label !== undefined ? [new Tensor(node)] : []))
}
