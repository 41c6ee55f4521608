// How ops are said that several languages say alike. A dialect takes what fits it into its table; what it must choose is an
// argument here: how operators take operands, what a type is called, how a helper function is defined.

import { type DType, type Narrow, type Scalar, isFloat, isInteger, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Node, NodeOf, NodeWith } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import { constantOf } from './constant.ts'
import {
  BARE,
  LEVEL,
  type Operands,
  type Speaker,
  type Spelling,
  type Spellings,
  type Text,
  atom,
  binary,
  call,
  infix,
  list,
  prefix,
  spread,
} from './expression.ts'

/** The ops of a table of spellings. */
export function opsOf(spell: Spellings): ReadonlySet<OpName> {
  // the keys of a table of spellings are names of ops
  return new Set(Object.keys(spell) as OpName[])
}

/** The scalar of a type that shading languages have: `lower` lets no other come here. */
export function shaderScalar<S extends Scalar | Narrow>(scalar: S): Exclude<S, 'f64'> {
  if (scalar === 'f64') throw new IngotError('unsupported', 'shading languages have no 64-bit floats', { op: 'emit', got: scalar })
  return scalar as Exclude<S, 'f64'>
}

/** `&&` on single booleans, `&` on everything else. */
const logic =
  (single: Spelling<2>, operator: string, level: number, operands: (dtype: DType) => Operands): Spelling<2> =>
  (node, speaker) =>
    (node.dtype === 'bool' ? single : infix(operator, level, operands(node.dtype)))(node, speaker)

export interface OperatorWords {
  /** of comparisons */
  readonly compare: Operands
  /** of bitwise operators on this type */
  readonly bits: (dtype: DType) => Operands
}

/** Operators as all these languages have them. */
export function operators({ compare, bits }: OperatorWords) {
  return {
    add: infix('+', LEVEL.add, spread),
    sub: infix('-', LEVEL.add, spread),
    mul: infix('*', LEVEL.mul, spread),
    lt: infix('<', LEVEL.compare, compare),
    le: infix('<=', LEVEL.compare, compare),
    gt: infix('>', LEVEL.compare, compare),
    ge: infix('>=', LEVEL.compare, compare),
    eq: infix('==', LEVEL.compare, compare),
    ne: infix('!=', LEVEL.compare, compare),
    and: logic(infix('&&', LEVEL.and), '&', LEVEL.bitAnd, bits),
    or: logic(infix('||', LEVEL.or), '|', LEVEL.bitOr, bits),
    xor: logic(infix('!=', LEVEL.compare), '^', LEVEL.bitXor, bits),
    not: (node, speaker) => prefix(scalarOf(node.dtype) === 'bool' ? '!' : '~')(node, speaker),
    neg: prefix('-'),
  } as const satisfies Spellings
}

/** Ops that are said by the name of a function. */
export function calls<O extends OpName>(names: Readonly<Record<O, string>>): Readonly<Record<O, ReturnType<typeof call>>> {
  const entries = Object.entries<string>(names).map(([op, name]) => [op, call(name)])
  // the keys are those of `names`
  return Object.fromEntries(entries) as Record<O, ReturnType<typeof call>>
}

/** Ops that are said by functions named after them. */
export function byName<O extends OpName, S>(spelling: (name: string) => S, ...ops: readonly O[]): Readonly<Record<O, S>> {
  // the keys are the ops
  return Object.fromEntries(ops.map((op) => [op, spelling(op)])) as Record<O, S>
}

/** What shading languages call as the kernel language does. */
const SAME_NAMES = [
  ...(['min', 'max', 'fma', 'sqrt', 'exp', 'exp2', 'log', 'log2', 'pow', 'floor', 'ceil', 'trunc'] as const),
  ...(['sin', 'cos', 'tan', 'asin', 'acos', 'atan'] as const),
] as const satisfies readonly OpName[]

/** An unsigned number is its own absolute value. */
export const absolute =
  (spelling: Spelling): Spelling =>
  (node, speaker) =>
    scalarOf(node.dtype) === 'u32' ? speaker.say(node.src[0]) : spelling(node, speaker)

/** Shifts in languages that leave counts from 32 on open; `mask` is what a count is masked with. */
export const maskedShift =
  (operator: '<<' | '>>', mask: (scalar: Scalar) => string): Spelling<2> =>
  (node, speaker) => {
    const count = constantOf(node.src[1])
    const left = speaker.say(node.src[0]) // alone gives the type
    if (count !== undefined) return binary(left, operator, atom(String(count & 31)), LEVEL.shift)
    const [, right] = spread(node, speaker)
    return binary(left, operator, binary(right, '&', atom(mask(scalarOf(node.dtype))), LEVEL.bitAnd), LEVEL.shift)
  }

/** Division by this constant gives what the kernel language wants (x / 0 = x, x % 0 = 0, MIN / -1 wraps) in any language. */
export const dividesSafely = (divisor: number | undefined): boolean => divisor !== undefined && divisor !== 0 && divisor !== -1

/** The operator for floats and where the divisor is safe; else what the language has for integers. */
export const divide =
  (operator: '/' | '%', isSafe: (divisor: number | undefined) => boolean, otherwise: Spelling<2>): Spelling<2> =>
  (node, speaker) =>
    (isFloat(node.dtype) || isSafe(constantOf(node.src[1])) ? infix(operator, LEVEL.mul, spread) : otherwise)(node, speaker)

/** `select(no, yes, condition)` */
export const selectCall: Spelling<3> = ({ src: [condition, yes, no] }, speaker) => {
  const [test, a, b] = [condition, yes, no].map((each) => speaker.say(each).text)
  return atom(`select(${b}, ${a}, ${test})`)
}

/** `base[index]` */
export function subscript(base: string, index: Text): Text {
  return atom(`${base}[${index.text}]`)
}

export const tableEntry = (node: NodeOf<'table'>, speaker: Speaker): Text => subscript(speaker.table(node), speaker.say(node.src[0], BARE))

/** What shading languages say alike but for the names of types and the way to define a function. */
export interface ShaderWords {
  readonly typeName: (dtype: DType) => string
  /** A function that returns one expression. */
  readonly define: (name: string, parameters: readonly Parameter[], result: DType, value: string) => readonly string[]
  /** A conversion from f32 that saturates and makes NaN 0. */
  readonly saturate: (name: string, to: DType) => readonly string[]
}
export interface Parameter {
  readonly name: string
  readonly dtype: DType
}

export function shaderSpellings({ typeName, define, saturate }: ShaderWords) {
  /** Several different constants together are a pattern of bits. */
  const construct = ({ op, dtype, src }: NodeWith<1>, speaker: Speaker): Text =>
    atom(`${typeName(dtype)}(${src.map((part) => speaker.say(part, { hex: op === 'vec' }).text).join(', ')})`)

  const cast: Spelling = (node, speaker) => {
    const [from] = node.src
    if (!isInteger(node.dtype) || !isFloat(from.dtype) || fitsInteger(from, scalarOf(node.dtype))) return construct(node, speaker)
    const name = `to_${node.dtype}`
    speaker.need(name, () => saturate(name, node.dtype))
    const { text } = speaker.say(from)
    return atom(`${name}(${scalarOf(from.dtype) === 'f16' ? `${typeName(vector('f32', widthOf(from.dtype)))}(${text})` : text})`)
  }

  /** The sum of a product's elements is a dot product; any other sum is a helper. */
  const hsum: Spelling = (node, speaker) => {
    const [from] = node.src
    if (from.op === 'mul' && isFloat(node.dtype)) return atom(`dot(${list(from, speaker)})`)
    const name = `sum_${from.dtype}`
    speaker.need(name, () => define(name, [{ name: 'v', dtype: from.dtype }], node.dtype, sumOf('v', widthOf(from.dtype))))
    return call(name)(node, speaker)
  }

  return {
    ...byName(call, ...SAME_NAMES),
    abs: absolute(call('abs')),
    splat: construct,
    vec: construct,
    cast,
    hsum,
  } as const satisfies Spellings
}

function sumOf(name: string, width: number): string {
  return width === 2 ? `${name}.x + ${name}.y` : `(${name}.x + ${name}.y) + (${name}.z + ${name}.w)`
}

/** True if a float is clamped between constants, so that converting it to this integer type cannot overflow. */
function fitsInteger(node: Node, to: Scalar): boolean {
  switch (node.op) {
    case 'splat':
    case 'floor':
    case 'rint':
    case 'trunc':
    case 'ceil':
      return fitsInteger(node.src[0], to)
    case 'min':
    case 'max': {
      const [inner, bound] = node.src
      if (inner.op !== (node.op === 'min' ? 'max' : 'min')) return false
      const [least, most] = to === 'u32' ? [0, 2 ** 32] : [-(2 ** 31), 2 ** 31]
      return [bound, inner.src[1]].every((each) => {
        const limit = each === undefined ? undefined : constantOf(each)
        return limit !== undefined && limit >= least && limit < most
      })
    }
    default:
      return false
  }
}
