// Identities of arithmetic, one table row per op. Part of the Folder (fold.ts): a rule returns a simpler node or undefined.
// Floats keep -0 and NaN, so most rules are for integers only.

import { type DType, isFloat, isInteger, scalarOf } from '../../base/dtype.ts'
import type { Node, NodeOf } from '../node.ts'
import { type OpName, opRecord } from '../op.ts'
import { type Making, splatOf } from './constant.ts'

interface Case {
  readonly make: (op: OpName, a: Node, b: Node) => Node
  readonly constant: (value: number) => Node
  readonly dtype: DType
  readonly a: Node
  readonly b: Node
  /** the constant that all elements of b are */
  readonly right: number | undefined
}
type Rule = (it: Case) => Node | undefined

const ALL_ONES = 0xffffffff

const MERGE = {
  add: (a: number, b: number) => a + b,
  mul: Math.imul,
  and: (a: number, b: number) => a & b,
  or: (a: number, b: number) => a | b,
}

/** The parts of `x op constant`, where a node has that form. */
function partsOf(node: Node, op: OpName): { readonly x: Node; readonly by: number } | undefined {
  const [x, second] = node.src
  const by = node.op === op && second !== undefined ? splatOf(second) : undefined
  return x === undefined || by === undefined ? undefined : { x, by }
}

/** (x op c1) op c2 -> x op (c1 op c2) for ops of integers that may be regrouped. */
const regroup =
  (op: keyof typeof MERGE): Rule =>
  ({ make, constant, a, right }) => {
    const inner = partsOf(a, op)
    return inner === undefined || right === undefined ? undefined : make(op, inner.x, constant(MERGE[op](inner.by, right)))
  }
/** Two shifts one way are one, if together they are below 32. */
const regroupShift =
  (op: 'shl' | 'shr'): Rule =>
  ({ make, constant, a, right = 0 }) => {
    const inner = partsOf(a, op)
    const isOne = inner !== undefined && inner.by > 0 && right > 0 && inner.by + right < 32
    return isOne ? make(op, inner.x, constant(inner.by + right)) : undefined
  }
const first =
  (...rules: readonly Rule[]): Rule =>
  (it) => {
    for (const rule of rules) {
      const found = rule(it)
      if (found !== undefined) return found
    }
    return undefined
  }
const unit =
  (value: number): Rule =>
  ({ a, right }) =>
    right === value ? a : undefined
const absorbing =
  (value: number): Rule =>
  ({ b, right }) =>
    right === value ? b : undefined
const idempotent: Rule = ({ a, b }) => (a === b ? a : undefined)
const ifSame =
  (value: number): Rule =>
  ({ a, b, constant }) =>
    a === b ? constant(value) : undefined

const INTEGER: Partial<Record<OpName, Rule>> = {
  add: first(unit(0), regroup('add')),
  sub: first(unit(0), ifSame(0), regroupSub),
  mul: first(unit(1), absorbing(0), regroup('mul')),
  div: first(unit(1), ({ make, constant, dtype, a, right }) =>
    scalarOf(dtype) === 'u32' && isPowerOfTwo(right) ? make('shr', a, constant(Math.log2(right))) : undefined,
  ),
  rem: first(
    ({ constant, right }) => (right === 1 ? constant(0) : undefined),
    ({ make, constant, dtype, a, right }) =>
      scalarOf(dtype) === 'u32' && isPowerOfTwo(right) ? make('and', a, constant(right - 1)) : undefined,
  ),
  min: first(idempotent, ({ b, dtype, right }) => (scalarOf(dtype) === 'u32' && right === 0 ? b : undefined)),
  max: first(idempotent, ({ a, dtype, right }) => (scalarOf(dtype) === 'u32' && right === 0 ? a : undefined)),
  and: first(
    absorbing(0),
    idempotent,
    isAllOnes(({ a }) => a),
    regroup('and'),
    ({ constant, a, right }) => lowBits(constant, a, right),
  ),
  or: first(
    unit(0),
    idempotent,
    isAllOnes(({ b }) => b),
    regroup('or'),
  ),
  xor: first(unit(0), ifSame(0)),
  shl: first(unit(0), regroupShift('shl')),
  shr: first(unit(0), regroupShift('shr'), dropLowBits),
}
const FLOAT: Partial<Record<OpName, Rule>> = {
  sub: ({ a, right }) => (Object.is(right, 0) ? a : undefined),
  mul: unit(1),
  div: unit(1),
  min: idempotent,
  max: idempotent,
}
const BOOL: Partial<Record<OpName, Rule>> = {
  and: first(unit(1), absorbing(0), idempotent),
  or: first(unit(0), absorbing(1), idempotent),
  xor: first(unit(0), ({ a, right, make }) => (right === 1 ? make('not', a, a) : undefined)),
}
const OPPOSITE: Partial<Record<OpName, OpName>> = { eq: 'ne', ne: 'eq', lt: 'ge', ge: 'lt', gt: 'le', le: 'gt' }
const OF_EQUALS: Partial<Record<OpName, number>> = { eq: 1, le: 1, ge: 1, ne: 0, lt: 0, gt: 0 }

export function simplifyArithmetic(into: Making, op: OpName, dtype: DType, src: readonly Node[]): Node | undefined {
  const [x, y, z] = src
  if (x === undefined) return undefined
  switch (op) {
    case 'cast':
      return simplifyCast(into, dtype, x)
    case 'bitcast':
      if (x.dtype === dtype) return x
      return x.op === 'bitcast' ? into.make('bitcast', dtype, x.src) : undefined
    case 'neg':
      return x.op === 'neg' ? x.src[0] : undefined
    case 'not':
      return simplifyNot(into, x)
    case 'select':
      return y === undefined || z === undefined ? undefined : simplifySelect(into, dtype, x, y, z)
    case 'eq':
    case 'ne':
    case 'lt':
    case 'le':
    case 'gt':
    case 'ge':
      return y === undefined ? undefined : simplifyCompare(into, op, dtype, x, y)
    default:
      return y === undefined || z !== undefined ? undefined : simplifyTwo(into, op, dtype, x, y)
  }
}

function simplifyTwo(into: Making, op: OpName, dtype: DType, x: Node, y: Node): Node | undefined {
  const rule = (isInteger(dtype) ? INTEGER : isFloat(dtype) ? FLOAT : BOOL)[op]
  if (rule === undefined) return undefined
  if (opRecord(op).commutative === true && splatOf(x) !== undefined && splatOf(y) === undefined) return into.make(op, dtype, [y, x])
  return rule({
    make: (name, a, b) => into.make(name, dtype, name === 'not' ? [a] : [a, b]),
    constant: (value) => into.constant(value, dtype),
    dtype,
    a: x,
    b: y,
    right: splatOf(y),
  })
}

function simplifyCast(into: Making, dtype: DType, x: Node): Node | undefined {
  if (x.dtype === dtype) return x
  if (x.op !== 'cast' && x.op !== 'bitcast') return undefined
  const [inner] = x.src
  if (x.op === 'bitcast' && !isInteger(inner.dtype)) return undefined
  const [from, over] = [scalarOf(inner.dtype), scalarOf(x.dtype)]
  // widening a float, or wrapping between integers, loses nothing on the way
  const widens = (from === 'f16' && over === 'f32') || ((from === 'f16' || from === 'f32') && over === 'f64')
  if (widens) return into.make('cast', dtype, [inner])
  const wraps = isInteger(inner.dtype) && isInteger(x.dtype) && isInteger(dtype)
  return wraps || (from === 'bool' && over !== 'bool') ? into.make('cast', dtype, [inner]) : undefined
}

function simplifyNot(into: Making, x: Node): Node | undefined {
  if (x.op === 'not') return x.src[0]
  const opposite = OPPOSITE[x.op]
  const [compared] = x.src
  if (opposite === undefined || compared === undefined) return undefined
  // a comparison with NaN is false both ways round
  const exact = x.op === 'eq' || x.op === 'ne' || !isFloat(compared.dtype)
  return exact ? into.make(opposite, x.dtype, x.src) : undefined
}

function simplifySelect(into: Making, dtype: DType, condition: Node, a: Node, b: Node): Node | undefined {
  const known = splatOf(condition)
  if (known !== undefined) return known === 0 ? b : a
  if (a === b) return a
  if (condition.op === 'not') return into.make('select', dtype, [condition.src[0], b, a])
  if (scalarOf(dtype) !== 'bool') return undefined
  const [left, right] = [splatOf(a), splatOf(b)]
  if (left === 1 && right === 0) return condition
  return left === 0 && right === 1 ? into.make('not', dtype, [condition]) : undefined
}

function simplifyCompare(into: Making, op: OpName, dtype: DType, x: Node, y: Node): Node | undefined {
  if (!isInteger(x.dtype)) return undefined
  const same = OF_EQUALS[op]
  if (x === y && same !== undefined) return into.constant(same, dtype)
  if (scalarOf(x.dtype) !== 'u32') return undefined
  if (op === 'lt' && splatOf(y) === 0) return into.constant(0, dtype)
  if (op === 'ge' && splatOf(y) === 0) return into.constant(1, dtype)
  // a bool that was kept in an integer
  const inner = x.op === 'cast' ? x.src[0] : undefined
  return op === 'ne' && splatOf(y) === 0 && inner !== undefined && scalarOf(inner.dtype) === 'bool' ? inner : undefined
}

/** (x + c1) - c2 -> x + (c1 - c2); what stays negative stays a subtraction, which reads better. */
function regroupSub({ make, constant, a, right }: Case): Node | undefined {
  const sum = partsOf(a, 'add')
  if (sum === undefined || right === undefined) return undefined
  const rest = sum.by - right
  return rest >= 0 ? make('add', sum.x, constant(rest)) : make('sub', sum.x, constant(-rest))
}

function isAllOnes(then: Rule): Rule {
  return (it) => (it.right !== undefined && it.right >>> 0 === ALL_ONES ? then(it) : undefined)
}

function isPowerOfTwo(value: number | undefined): value is number {
  return value !== undefined && value > 0 && Number.isInteger(Math.log2(value))
}

/** (a + c) & mask where a has only zeros under the mask. */
function lowBits(constant: Case['constant'], a: Node, mask: number | undefined): Node | undefined {
  if (mask === undefined || !isPowerOfTwo(mask + 1)) return undefined
  const zeros = Math.log2(mask + 1)
  if (trailingZeros(a) >= zeros) return constant(0)
  const sum = partsOf(a, 'add')
  return sum !== undefined && trailingZeros(sum.x) >= zeros ? constant(sum.by & mask) : undefined
}

/** (a + c) >> k where a has k zeros at the end and c is below 2^k. */
function dropLowBits({ make, dtype, a, b, right }: Case): Node | undefined {
  const sum = partsOf(a, 'add')
  if (scalarOf(dtype) !== 'u32' || sum === undefined || right === undefined || right > 31) return undefined
  return sum.by < 2 ** right && trailingZeros(sum.x) >= right ? make('shr', sum.x, b) : undefined
}

/** How many low bits of an integer are certainly zero. `known` may tell about locals. Looks only a few steps deep. */
export function trailingZeros(node: Node, known: (local: NodeOf<'local'>) => number = () => 0, depth = 6): number {
  const value = splatOf(node)
  if (value !== undefined) return value === 0 ? 32 : 31 - Math.clz32(value & -value)
  const [a, b] = node.src
  if (depth === 0 || a === undefined) return node.op === 'local' ? known(node) : 0
  const of = (child: Node): number => trailingZeros(child, known, depth - 1)
  if (b === undefined) return 0
  switch (node.op) {
    case 'mul':
      return Math.min(32, of(a) + of(b))
    case 'add':
    case 'sub':
    case 'or':
    case 'xor':
      return Math.min(of(a), of(b))
    case 'and':
      return Math.max(of(a), of(b))
    case 'shl':
      return Math.min(32, of(a) + ((splatOf(b) ?? 0) & 31))
    default:
      return 0
  }
}
