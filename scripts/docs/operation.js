// The tables of docs/tensors.md: every method of tensors, with what is found by trying it (which operations it makes, on which types, and
// whether gradients go through it), and the record of every operation. Gets the library from its caller, built or not, and writes nothing.

import { readMethods } from './method.js'
import { SAMPLES } from './sample.js'

/**
 * What the tables are made of.
 * @typedef {object} Library
 * @property {any} Tensor
 * @property {any} gradients
 * @property {Record<string, any>} operations
 * @property {Record<string, any>} mapOps
 * @property {readonly string[]} types
 */

const GROUPS = {
  elementwise: 'Element by element',
  shape: 'Shapes and parts',
  reduce: 'Over axes',
  gather: 'By indices, and in order',
  product: 'Products',
  window: 'Windows',
  network: 'Networks',
}
export const METHOD_FILES = Object.keys(GROUPS).map((name) => `src/tensor/method/${name}.ts`)

const KINDS = {
  any: ['f32', 'f16', 'bf16', 'f64', 'i32', 'u32', 'i8', 'u8', 'bool', 'i64'],
  numbers: ['f32', 'f16', 'bf16', 'f64', 'i32', 'u32', 'i8', 'u8', 'i64'],
  floats: ['f32', 'f16', 'bf16', 'f64'],
  integers: ['i32', 'u32', 'i8', 'u8', 'bool', 'i64'],
}

/**
 * The tables as Markdown.
 * @param {Library} library
 * @param {readonly string[]} sources the texts of METHOD_FILES
 */
export function operationTables(library, sources) {
  const parts = Object.values(GROUPS).flatMap((title, i) => [
    `### ${title}`,
    table(
      ['method', 'gives', 'made of', 'gradient', 'types'],
      readMethods(sources[i] ?? '').map((method) => methodRow(library, method)),
    ),
  ])
  const records = Object.entries(library.operations).map(([name, record]) => recordRow(name, record))
  return [...parts, '### The records', table(['operation', 'gives', 'kernels', 'definition', 'gradient'], records)].join('\n\n')
}

/**
 * @param {Library} library
 * @param {import('./method.js').Method} method
 */
function methodRow(library, method) {
  const { name, parameters, result, comment } = method
  const facts = factsOf(library, method)
  const about = comment !== '' ? comment : facts.about
  if (about === '') throw new Error(`${name} says nothing about itself: neither a comment nor a record that it stands for`)
  const returns = result === 'Tensor' ? '' : `: ${result}`
  return [code(`${name}(${parameters.join(', ')})${returns}`), sentence(about), facts.made, facts.gradient, facts.types]
}

/**
 * @param {Library} library
 * @param {import('./method.js').Method} method
 */
function factsOf(library, method) {
  const { mapOps, types } = library
  const fits = types.filter((type) => isTaken(library, method, type))
  const [x, y, result] = attempt(library, method, fits.includes('f32') ? 'f32' : (fits[0] ?? 'f32'))
  const nodes = nodesOf(result.node, new Set([x.node, y.node]))
  const maps = new Set(nodes.flatMap((node) => (node.op === 'map' ? opsOf(node.attrs.expr) : [])))
  const ops = [...new Set(nodes.map(({ op }) => op))].filter((op) => op !== 'leaf')
  const only = ops.length === 1 && ops[0] === 'map' && maps.size === 1 ? [...maps][0] : undefined
  return {
    about: only === undefined ? '' : mapOps[only].about,
    made: only === undefined ? ops.join(', ') : `map: ${only}`,
    gradient: isDifferentiable(library, x, y, result) ? 'yes' : 'no',
    types: kindOf(fits),
  }
}

/**
 * @param {Library} library
 * @param {import('./method.js').Method} method
 * @param {string} type
 */
function isTaken(library, method, type) {
  try {
    attempt(library, method, type)
    return true
  } catch (/** @type {any} */ error) {
    if (error?.name !== 'IngotError')
      throw new Error(`${method.name} cannot be tried: give it a line in scripts/docs/sample.js`, { cause: error })
    return false
  }
}

/**
 * A method tried on tensors of a type that hold nothing: shapes and types are all that is asked for.
 * @param {Library} library
 * @param {import('./method.js').Method} method
 * @param {string} dtype
 */
function attempt({ Tensor }, { name, parameters }, dtype) {
  const sample = SAMPLES[name] ?? {}
  const [x, y] = [sample.x ?? [2, 3], sample.y ?? sample.x ?? [2, 3]].map((shape) => Tensor.from(zeros(shape), { shape, dtype }))
  const needed = parameters.filter((each) => !/\?$| = |^\.\.\./.test(each))
  const ids = (/** @type {number[]} */ ...shape) => Tensor.from(zeros(shape), { shape, dtype: 'u32' })
  const result = sample.call ? sample.call(x, y, { ids, Tensor }) : x[name](...needed.map(() => y))
  const first = result instanceof Tensor ? result : Object.values(result)[0]
  return [x, y, first]
}

/** @param {readonly number[]} shape */
const zeros = (shape) => new Float32Array(shape.reduce((product, size) => product * size, 1))

/**
 * @param {Library} library
 * @param {any} x
 * @param {any} y
 * @param {any} result
 */
function isDifferentiable({ Tensor, gradients }, x, y, result) {
  const { shape, dtype } = result
  if (!KINDS.floats.includes(dtype)) return false
  const cotangent = Tensor.from(zeros(shape), { shape, dtype })
  try {
    return gradients(result, [x, y], cotangent).some((/** @type {any} */ { node }) => !isConstant(node))
  } catch (/** @type {any} */ error) {
    if (error?.code === 'unsupported') return false
    throw error
  }
}

/** What no gradient comes to: a number, repeated. */
const isConstant = (/** @type {any} */ node) => node.op === 'expand' && node.src[0].op === 'map' && node.src[0].src.length === 0

/**
 * The nodes between a result and its operands, operands first.
 * @param {any} root
 * @param {Set<any>} ends
 * @returns {any[]}
 */
function nodesOf(root, ends, seen = new Set()) {
  if (ends.has(root) || seen.has(root)) return []
  seen.add(root)
  return [...root.src.flatMap((/** @type {any} */ node) => nodesOf(node, ends, seen)), root]
}

/**
 * The operations of an expression.
 * @param {any} expr
 * @returns {string[]}
 */
function opsOf(expr) {
  return 'op' in expr ? [...expr.args.flatMap(opsOf), expr.op] : 'cast' in expr ? opsOf(expr.of) : []
}

/** @param {readonly string[]} types */
function kindOf(types) {
  const known = Object.entries(KINDS).find(([, list]) => list.length === types.length && list.every((type) => types.includes(type)))
  return known?.[0] ?? types.join(' ')
}

/**
 * @param {string} name
 * @param {any} record
 */
function recordRow(name, record) {
  const own = record.gradient === undefined ? '' : record.gradientByDefinition === undefined ? 'its own' : 'its own, or by definition'
  return [
    code(name),
    sentence(record.about),
    record.lower === undefined ? '' : 'yes',
    record.define === undefined ? '' : 'yes',
    own !== '' ? own : record.define === undefined ? '' : 'by definition',
  ]
}

const code = (/** @type {string} */ text) => `\`${text}\``
/** Comments are written as sentences and records are not; here they are alike. Formulas stay as they are. */
const sentence = (/** @type {string} */ text) =>
  text.replace(/\.$/, '').replace(/^[a-z]{2,}(?=[,:]| (?![*+-])|$)/, (word) => word.charAt(0).toUpperCase() + word.slice(1))

/**
 * @param {readonly string[]} head
 * @param {readonly (readonly string[])[]} rows
 */
function table(head, rows) {
  const line = (/** @type {readonly string[]} */ cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}
