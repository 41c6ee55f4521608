// An interpreter of templates that ends. A chat template is a program from a file that anyone may have written: it may loop for ever,
// or double a text until the memory is full. So every evaluation is paid for from a budget, and no value may grow past a limit.
// Knows sizes and costs, not what templates mean. Ordinary templates use a thousandth of what they may.

import { Environment, Interpreter } from '@huggingface/jinja'
import { IngotError } from '../base/error.ts'

/** A value of a running template: tagged, with what it holds. */
export interface Runtime {
  readonly type: string
  readonly value: unknown
}
interface Statement {
  readonly type: string
  readonly property?: { readonly type: string }
  readonly operator?: { readonly value: string }
}
interface Evaluator {
  run(program: object): Runtime
  evaluate(statement: Statement | undefined, environment: Environment): Runtime
}

/** With its types written out: those of the package do not resolve under `nodenext`. */
const Base: new (environment: Environment) => Evaluator = Interpreter

/** What a run may cost; a unit is an evaluation, of which a machine does some five million a second. */
export const BUDGET = 5e6
/** Characters of a text: more than any context holds. */
export const MOST_TEXT = 2 ** 22
/** Items of a list. */
export const MOST_ITEMS = 2 ** 17
/** Values within a value, each counted as often as it is reached: what writing it out would take. */
const MOST_WEIGHT = 1e6

// Units of what an evaluation reads and makes, beside the one for itself; by characters of texts and items of lists.
const READ_TEXT = 1 / 64
const READ_ITEM = 1 / 8
const WEIGHED_ITEM = 1 / 16
/** of a list, or within its items, that becomes text */
const SPELLED_ITEM = 4
const MADE_TEXT = 1 / 32
const MADE_ITEM = 4
/** Texts that are put together are not copied: a conversation may be written message by message. */
const JOINED_TEXT = 1 / 4096
/** of a loop, whose scope has to be made */
const ITERATION = 32

/** Milliseconds: what steps are estimated to take is the rule, the clock is for where the estimate is wrong. Templates take one or two. */
export const MOST_MS = 3000
/** The clock is looked at after this many units, so that looking costs nothing. */
const UNITS_PER_LOOK = 1000

/** Counts down as a template runs. */
export class Budget {
  readonly #now: () => number
  readonly #until: number
  #left = BUDGET
  #look = BUDGET - UNITS_PER_LOOK

  /** `now` gives milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    this.#until = now() + MOST_MS
  }

  /** Throws `unsupported` when nothing is left. */
  charge(units: number): void {
    this.#left -= units
    if (this.#left > this.#look) return
    if (!(this.#left >= 0)) throw tooMuch('the template does not come to an end', undefined, `at most ${BUDGET} steps`)
    if (this.#now() > this.#until) throw tooMuch('the template takes too long', undefined, `at most ${MOST_MS} ms`)
    this.#look = Math.max(0, this.#left - UNITS_PER_LOOK)
  }

  /** The cost of a loop over a list or an object, beside what its body evaluates. */
  chargeLoop({ value }: Runtime): void {
    this.charge(ITERATION * (Array.isArray(value) ? value.length : value instanceof Map ? value.size : 0))
  }
}

/** How large values are: texts by their characters; lists and objects by their own items, and by all that writing them out takes. */
interface Size {
  readonly characters: number
  readonly items: number
  readonly weight: number
}
const NOTHING: Size = { characters: 0, items: 0, weight: 0 }

/** Give what others made, or one of them. */
const PASS: ReadonlySet<string> = new Set(['Identifier', 'Ternary', 'SelectExpression'])
/** Write what others made one after the other: lists are spelled out, texts only put together. */
const WRITE: ReadonlySet<string> = new Set(['Program', 'If', 'For', 'Set', 'Macro', 'CallStatement'])
const JOINS: ReadonlySet<string> = new Set(['+', '~'])

export class LimitedInterpreter extends Base {
  readonly #budget: Budget
  /** of lists and objects, which never change; not of what holds a namespace, which does */
  readonly #weights = new WeakMap<Runtime, number>()
  /** what the evaluation under way was given by those within it */
  #read: Size = NOTHING

  constructor(environment: Environment, budget: Budget) {
    super(environment)
    this.#budget = budget
  }

  override evaluate(statement: Statement | undefined, environment: Environment): Runtime {
    this.#budget.charge(1)
    const outer = this.#read
    this.#read = NOTHING
    const result = super.evaluate(statement, environment)
    const made = this.#measure(result)
    this.#budget.charge(costOf(statement, this.#read, made))
    this.#read = {
      characters: outer.characters + made.characters,
      items: outer.items + made.items,
      weight: outer.weight + made.weight,
    }
    return result
  }

  /** How large a value is; throws where that is too large. */
  #measure(result: Runtime): Size {
    const { value } = result
    if (typeof value === 'string') {
      if (value.length > MOST_TEXT) throw tooMuch('a text of the template is too long', value.length, `at most ${MOST_TEXT} characters`)
      return { characters: value.length, items: 0, weight: 0 }
    }
    if (!Array.isArray(value) && !(value instanceof Map)) return NOTHING
    const items = Array.isArray(value) ? value.length : value.size
    if (items > MOST_ITEMS) throw tooMuch('a list of the template is too long', items, `at most ${MOST_ITEMS} items`)
    return { characters: 0, items, weight: this.#weigh(result, MOST_WEIGHT).weight }
  }

  /** The weight of a value, and whether it stays so. Gives up at the first that is too heavy, however many there would be. */
  #weigh(value: Runtime, room: number): { readonly weight: number; readonly fixed: boolean } {
    const known = this.#weights.get(value)
    const content = value.value
    const items = Array.isArray(content) ? content : content instanceof Map ? content.values() : undefined
    if (known !== undefined || items === undefined) return { weight: known ?? 1, fixed: true }
    let [weight, fixed] = [1, value.type !== 'NamespaceValue']
    for (const item of items as Iterable<Runtime>) {
      this.#budget.charge(WEIGHED_ITEM)
      const part = this.#weigh(item, room - weight)
      weight += part.weight
      fixed &&= part.fixed
      if (weight > room) throw tooMuch('a value of the template is too large', undefined, `at most ${MOST_WEIGHT} values within values`)
    }
    if (fixed) this.#weights.set(value, weight)
    return { weight, fixed }
  }
}

/** What an evaluation does besides calling others. */
function costOf(statement: Statement | undefined, read: Size, made: Size): number {
  const kind = statement?.type ?? ''
  if (PASS.has(kind)) return 0
  const joined = (read.characters + made.characters) * JOINED_TEXT
  if (WRITE.has(kind)) return joined + read.weight * SPELLED_ITEM
  if (kind === 'MemberExpression' && statement?.property?.type !== 'SliceExpression') return read.characters * READ_TEXT
  const spelled = made.characters > 0 ? read.weight * SPELLED_ITEM : 0 // a list that became a text
  if (kind === 'BinaryExpression' && JOINS.has(statement?.operator?.value ?? '')) return joined + spelled + made.items * MADE_ITEM
  return read.characters * READ_TEXT + read.items * READ_ITEM + spelled + made.characters * MADE_TEXT + made.items * MADE_ITEM
}

export function tooMuch(what: string, got: unknown, wanted: string): IngotError {
  return new IngotError('unsupported', what, {
    op: 'template',
    ...(got === undefined ? {} : { got }),
    wanted,
    hint: 'the chat template of this model may be broken',
  })
}
