// Compiles and runs a Jinja template as the Python engine of chat templates does (trim_blocks, lstrip_blocks, the
// unescaped `tojson`). The parser and interpreter are @huggingface/jinja; this file closes the gaps between the two by
// rewriting the parsed program, and brings the globals. It does not know what a chat message is.
//
// Gaps closed: a loop over an undefined name is empty, not an error; `tojson(indent=n)` writes empty containers as
// `[]` and `{}`; `strftime_now` speaks English whatever the machine speaks, and takes its time from the caller. Templates come from
// files: what they may cost is bounded, while they are parsed here, while they run in jinja-limit.ts.

import { Environment, parse, tokenize } from '@huggingface/jinja'
import { IngotError } from '../base/error.ts'
import { Budget, LimitedInterpreter, MOST_ITEMS, MOST_TEXT, type Runtime, tooMuch } from './jinja-limit.ts'

type Program = ReturnType<typeof parse>

/** Template syntax trees are plain records with a `type`; that is all a rewrite needs to know. */
interface SyntaxNode {
  type: string
  [field: string]: unknown
}

/** The name under which templates reach our JSON writer; no template can spell it. */
const JSON_GLOBAL = ' tojson'
/** The same for what loops go over. */
const LOOP_GLOBAL = ' loop'

/** Characters of a template, ten times those of the longest that are known. */
const MOST_SOURCE = 2 ** 18
/** White space in a row: the time that the tokenizer takes grows with its square. */
const MOST_SPACE = 2000
/** Spaces for each level of JSON. */
const MOST_INDENT = 64

const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null }

/** Parses once; throws whatever the parser throws, and `bad-file` for what is too long to parse. */
export function compileJinja(source: string): Program {
  const bad = (what: string, got: number, most: number): IngotError =>
    new IngotError('bad-file', what, { op: 'template', got, wanted: `at most ${most} characters` })
  if (source.length > MOST_SOURCE) throw bad('the chat template is too long', source.length, MOST_SOURCE)
  const space = longestSpace(source)
  if (space > MOST_SPACE) throw bad('the chat template has too much white space in a row', space, MOST_SPACE)
  const program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }))
  rewrite(program)
  return program
}

export interface JinjaGlobals {
  readonly now: Date
  readonly raise: (message: string) => never
}

export function runJinja(program: Program, variables: Readonly<Record<string, unknown>>, globals: JinjaGlobals): string {
  const budget = new Budget()
  const outer = new Environment()
  for (const [name, value] of Object.entries(CONSTANTS)) outer.set(name, value)
  outer.set('range', range)
  outer.set('raise_exception', (message: unknown) => globals.raise(String(message)))
  outer.set('strftime_now', (format: unknown) => formatTime(globals.now, String(format)))
  // set as some function, then given a body that sees runtime values: a plain function loses their kinds
  const define = (name: string, body: (args: readonly Runtime[]) => Runtime | undefined): void => {
    const variable = outer.set(name, () => null) as { value: unknown }
    variable.value = body
  }
  define(JSON_GLOBAL, (args) => toRuntime(writeJsonCall(args)))
  define(LOOP_GLOBAL, ([items]) => {
    if (items !== undefined) budget.chargeLoop(items)
    return items
  })
  // an inner scope, so that a caller's variable may shadow a global
  const inner = new Environment(outer)
  for (const [name, value] of Object.entries(variables)) if (value !== undefined) inner.set(name, value)
  return String(new LimitedInterpreter(inner, budget).run(program).value)
}

function toRuntime(value: unknown): Runtime {
  return new Environment().set('value', value)
}

// ---- rewriting ----

function rewrite(node: SyntaxNode): void {
  for (const [field, value] of Object.entries(node)) {
    if (Array.isArray(value)) value.forEach((item, i) => isNode(item) && (value[i] = visit(item)))
    else if (value instanceof Map)
      for (const [key, item] of value) {
        if (isNode(item)) value.set(key, visit(item))
      }
    else if (isNode(value)) node[field] = visit(value)
  }
}

function visit(node: SyntaxNode): SyntaxNode {
  rewrite(node)
  if (node.type === 'For') {
    const iterable = node['iterable'] as SyntaxNode
    if (iterable.type === 'SelectExpression') iterable['lhs'] = counted(orEmpty(iterable['lhs'] as SyntaxNode))
    else node['iterable'] = counted(orEmpty(iterable))
  }
  if (node.type === 'FilterExpression') {
    const filter = node['filter'] as SyntaxNode
    const called = filter.type === 'CallExpression'
    const name = (called ? filter['callee'] : filter) as SyntaxNode
    if (name.type === 'Identifier' && name['value'] === 'tojson') {
      const args = called ? (filter['args'] as SyntaxNode[]) : []
      return call(JSON_GLOBAL, node['operand'] as SyntaxNode, ...args)
    }
  }
  return node
}

/** `x` becomes `x | default([])`: Python's undefined iterates as an empty sequence. */
function orEmpty(operand: SyntaxNode): SyntaxNode {
  const callee = { type: 'Identifier', value: 'default' }
  const filter = { type: 'CallExpression', callee, args: [{ type: 'ArrayLiteral', value: [] }] }
  return { type: 'FilterExpression', operand, filter }
}

/** What a loop goes over, paid for item by item. */
function counted(operand: SyntaxNode): SyntaxNode {
  return call(LOOP_GLOBAL, operand)
}

function call(name: string, ...args: readonly SyntaxNode[]): SyntaxNode {
  return { type: 'CallExpression', callee: { type: 'Identifier', value: name }, args }
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}

// ---- tojson ----

interface JsonLayout {
  readonly indent: string | undefined
  readonly item: string
  readonly key: string
  readonly ascii: boolean
  readonly sort: boolean
}

function writeJsonCall(args: readonly Runtime[]): string {
  const [operand, last] = [args[0] ?? { type: 'UndefinedValue', value: undefined }, args.at(-1)]
  const named = last?.type === 'KeywordArgumentsValue' ? (last.value as Map<string, Runtime>) : new Map<string, Runtime>()
  const option = (name: string): unknown => named.get(name)?.value
  const indent = option('indent') ?? (args[1] !== last || named.size === 0 ? args[1]?.value : undefined)
  const separators = option('separators')
  if (typeof indent === 'number' && indent > MOST_INDENT) throw tooMuch('JSON is indented too far', indent, `at most ${MOST_INDENT}`)
  const pair = Array.isArray(separators) ? separators.map((part: Runtime) => String(part.value)) : undefined
  return writeJson(operand, '\n', {
    indent: typeof indent === 'number' ? ' '.repeat(indent) : typeof indent === 'string' ? indent : undefined,
    item: pair?.[0] ?? (typeof indent === 'number' || typeof indent === 'string' ? ',' : ', '),
    key: pair?.[1] ?? ': ',
    ascii: option('ensure_ascii') === true,
    sort: option('sort_keys') === true,
  })
}

function writeJson(value: Runtime, margin: string, layout: JsonLayout): string {
  const content: unknown = value.value
  if (Array.isArray(content)) {
    return wrap(
      '[',
      content.map((item: Runtime) => writeJson(item, inner(margin, layout), layout)),
      ']',
      margin,
      layout,
    )
  }
  if (content instanceof Map) {
    const entries = [...(content as Map<string, Runtime>)]
    if (layout.sort) entries.sort(([a], [b]) => (a < b ? -1 : 1))
    const items = entries.map(([key, item]) => quote(key, layout) + layout.key + writeJson(item, inner(margin, layout), layout))
    return wrap('{', items, '}', margin, layout)
  }
  if (typeof content === 'string') return quote(content, layout)
  return typeof content === 'number' || typeof content === 'boolean' ? JSON.stringify(content) : 'null'
}

function inner(margin: string, layout: JsonLayout): string {
  return margin + (layout.indent ?? '')
}

function wrap(open: string, items: readonly string[], close: string, margin: string, layout: JsonLayout): string {
  if (items.length === 0) return open + close
  const line = layout.indent === undefined ? '' : inner(margin, layout)
  const between = layout.item + line
  const length = items.reduce((sum, item) => sum + item.length + between.length, 0)
  if (length > MOST_TEXT) throw tooMuch('a text of the template is too long', length, `at most ${MOST_TEXT} characters`)
  return open + line + items.join(between) + (layout.indent === undefined ? '' : margin) + close
}

function quote(text: string, layout: JsonLayout): string {
  const json = JSON.stringify(text)
  if (!layout.ascii) return json
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

// ---- globals ----

function range(first: number, end?: number, step = 1): number[] {
  const [from, to] = end === undefined ? [0, first] : [first, end]
  const count = step === 0 ? 0 : Math.max(0, Math.ceil((to - from) / step))
  if (!(count <= MOST_ITEMS)) throw tooMuch('a range of the template is too long', count, `at most ${MOST_ITEMS} numbers`)
  return Array.from({ length: count }, (_, i) => from + i * step)
}

function longestSpace(source: string): number {
  let [longest, run] = [0, 0]
  for (const character of source) {
    run = /\s/.test(character) ? run + 1 : 0
    longest = Math.max(longest, run)
  }
  return longest
}

const MONTHS = 'January February March April May June July August September October November December'.split(' ')
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ')

/** The directives of Python's strftime that templates use; others stay as written. */
function formatTime(time: Date, format: string): string {
  const two = (n: number): string => String(n).padStart(2, '0')
  const month = MONTHS[time.getMonth()] ?? ''
  const day = DAYS[time.getDay()] ?? ''
  const hour12 = time.getHours() % 12 || 12
  const parts: Readonly<Record<string, string>> = {
    Y: String(time.getFullYear()),
    y: two(time.getFullYear() % 100),
    m: two(time.getMonth() + 1),
    B: month,
    b: month.slice(0, 3),
    d: two(time.getDate()),
    e: String(time.getDate()).padStart(2),
    A: day,
    a: day.slice(0, 3),
    H: two(time.getHours()),
    I: two(hour12),
    M: two(time.getMinutes()),
    S: two(time.getSeconds()),
    p: time.getHours() < 12 ? 'AM' : 'PM',
    '%': '%',
  }
  return format.replace(/%(-?)([A-Za-z%])/g, (whole, dash: string, letter: string) => {
    const part = parts[letter]
    if (part === undefined) return whole
    return dash === '' ? part : part.replace(/^[0 ]+(?=.)/, '')
  })
}
