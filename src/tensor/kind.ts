// Kinds of nodes: an operation with what it is told and what it gives, one object for all nodes that are alike in these. A node of a kind
// that was made before need not be checked again, and graphs of the same kinds are told by comparing numbers (signature.ts).
//
// Invariant: kinds with the same number are the same; no number is given twice. What is told to a kind is a copy of its own, so that nobody
// changes it.

import type { AttrsOf, Kind, OpName, OperandsOf, TensorNode, TensorType, Typed } from './node.ts'

/** What an operation was told, and the kinds that came of it, by the types of its operands. */
interface Told {
  readonly attrs: object
  readonly kinds: Map<number | string, Kind>
}

/** Kinds and types kept: programs have few, but one that counts in an attribute makes a new one with every step. */
const MOST = 4096
/** What operations were told, by a hash of it. */
const told = new Map<number, { readonly op: OpName; readonly told: Told }[]>()
/** by a text */
const types = new Map<string, number>()
const leaves = new Map<string, Kind>()
let [kindCount, kept, typeCount] = [0, 0, 0]

/** The kind of an operation on these operands; `infer` says what it gives, and refuses operands that do not fit. */
export function kindOfOperation<O extends OpName>(
  op: O,
  src: OperandsOf<O>,
  attrs: AttrsOf<O>,
  infer: (op: O, src: OperandsOf<O>, attrs: AttrsOf<O>) => Typed,
): Kind {
  const known = findTold(op, attrs)
  const key = keyOf(src)
  const found = known?.kinds.get(key)
  if (found !== undefined) return found
  const { shape, dtype } = infer(op, src, attrs)
  const own = known ?? addTold(op, attrs)
  const kind: Kind = { op, attrs: own.attrs, dtype, shape: Object.freeze([...shape]), number: kindCount++, type: typeOf(op, dtype, shape) }
  own.kinds.set(key, kind)
  if (++kept > MOST) forgetAll()
  return kind
}

/** The kind of a node, however it was made. */
export function kindOf(node: TensorNode): Kind {
  const { kind } = node
  if (node.op === 'leaf') {
    const { layout } = node.attrs
    if (kind?.layout === layout) return kind
    const own = kind !== undefined && layout === 'plain' ? (kind.leaf ??= leafKind(node.dtype, node.shape, layout)) : undefined
    return (node.kind = own ?? leafKind(node.dtype, node.shape, layout))
  }
  if (kind !== undefined && isOf(kind, node)) return kind
  // Rewrites change nodes without asking what operands fit: what they make is of kinds that `makeNode` does not know.
  const { op, attrs, dtype, shape } = node
  return { op, attrs, dtype, shape, number: kindCount++, type: typeOf(op, dtype, shape) }
}

/** Whether a node is still what it was made as. */
function isOf(kind: Kind, { op, attrs, dtype }: TensorNode): boolean {
  return kind.op === op && kind.attrs === attrs && kind.dtype === dtype
}

function leafKind(dtype: TensorType, shape: readonly number[], layout: string): Kind {
  const text = `${layout} ${dtype}[${shape.join()}]`
  const known = leaves.get(text)
  if (known !== undefined) return known
  const kind: Kind = { op: 'leaf', layout, dtype, shape, number: kindCount++, type: typeOf(`leaf ${layout}`, dtype, shape) }
  if (leaves.size >= MOST) leaves.clear()
  leaves.set(text, kind)
  return kind
}

/** Only assignments ask what gives their operands: memory, or another assignment. Others may ask how memory is laid out. */
function typeOf(role: string, dtype: TensorType, shape: readonly number[]): number {
  const text = `${role === 'assign' || role.startsWith('leaf') ? role : ''} ${dtype}[${shape.join()}]`
  const type = types.get(text) ?? typeCount++
  if (types.size >= MOST) types.clear()
  types.set(text, type)
  return type
}

/** More types than a program ever has. */
const STEP = 2 ** 26

/** The types of operands, as something that a map finds quickly. */
function keyOf(src: readonly TensorNode[]): number | string {
  const [a, b] = src
  if (a === undefined) return -1
  if (b === undefined) return kindOf(a).type
  return src.length === 2 ? STEP * (kindOf(a).type + 1) + kindOf(b).type : src.map((node) => kindOf(node).type).join(' ')
}

function findTold(op: OpName, attrs: object): Told | undefined {
  const bucket = told.get(hashOf(attrs))
  if (bucket !== undefined) for (const each of bucket) if (each.op === op && isEqual(each.told.attrs, attrs)) return each.told
  return undefined
}

function addTold(op: OpName, attrs: object): Told {
  const hash = hashOf(attrs)
  const made: Told = { attrs: frozenCopy(attrs) as object, kinds: new Map() }
  const bucket = told.get(hash)
  if (bucket === undefined) told.set(hash, [{ op, told: made }])
  else bucket.push({ op, told: made })
  return made
}

/** Kinds that nodes have stay what they are; equal ones that are made from now on are others. */
function forgetAll(): void {
  told.clear()
  kept = 0
}

/** Lists in lists that are deeper are told apart by comparing them only. */
const DEPTH = 32
const words = new Map<string, number>()
const double = new Float64Array(1)
const halves = new Int32Array(double.buffer)

/** A number for plain data that equal data share. */
function hashOf(value: unknown, depth = 0): number {
  switch (typeof value) {
    case 'number':
      double[0] = value
      return Math.imul((halves[0] ?? 0) ^ Math.imul(halves[1] ?? 0, 31), 0x9e3779b1)
    case 'string':
      return hashWord(value)
    case 'object': {
      if (value === null || depth > DEPTH) return 1
      let hash = 7
      if (Array.isArray(value)) for (const each of value) hash = Math.imul(hash, 31) + hashOf(each, depth + 1)
      else for (const key in value) hash = Math.imul(hash, 37) + hashOf((value as Readonly<Record<string, unknown>>)[key], depth + 1)
      return hash | 0
    }
    default:
      return value === true ? 3 : 5
  }
}

/** Names of operations and types: there are few. */
function hashWord(word: string): number {
  const known = words.get(word)
  if (known !== undefined) return known
  if (words.size >= MOST) return word.length
  const number = Math.imul(words.size + 1, 0x85ebca6b)
  words.set(word, number)
  return number
}

/** Whether plain data are the same; 0 and -0 are not. */
function isEqual(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b)
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false
    for (let i = 0; i < a.length; i++) if (!isEqual(a[i], b[i])) return false
    return true
  }
  if (Array.isArray(b)) return false
  const [one, other] = [a as Readonly<Record<string, unknown>>, b as Readonly<Record<string, unknown>>]
  let count = 0
  for (const key in one) {
    if (!(key in other) || !isEqual(one[key], other[key])) return false
    count++
  }
  for (const _ in other) count--
  return count === 0
}

function frozenCopy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return Object.freeze(value.map(frozenCopy))
  return Object.freeze(Object.fromEntries(Object.entries(value).map(([key, each]) => [key, frozenCopy(each)])))
}
