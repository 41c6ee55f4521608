// Map expressions as data: what they are, what they mean in plain numbers and in the kernel language, and whether one is well formed.
// Kernels made of them are in map.ts.

import type { Vector } from '../../base/dtype.ts'
import { type ElementType, isElementType, roundElements } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { type Register, convert, isFloat, registerOf } from '../element.ts'
import { MAP_OPS, type MapOp, type Operand, mapOp } from './op.ts'
import type { Call, Cast, Constant, Input, Slot, Term } from './term.ts'

export type MapExpr = Input | Constant | Slot | Cast<MapExpr> | Call<MapExpr, MapOp>

/** What is known of an input: the type of its elements. */
export type InputTypes = readonly ElementType[]

function fail(what: string, got: unknown, wanted: unknown): never {
  throw new IngotError('bad-argument', what, { op: 'map', got, wanted })
}

/** What registers hold of an expression's value. Refuses one whose operands do not fit. */
export function typeOf(expr: MapExpr, inputs: InputTypes): Register {
  if (typeof expr !== 'object' || expr === null) return fail('this is no expression', typeof expr, 'an object')
  if ('const' in expr && typeof expr.const !== 'number') return fail('a constant is no number', typeof expr.const, 'a number')
  if ('const' in expr || 'slot' in expr) return expr.type
  if ('input' in expr) {
    const type = inputs[expr.input]
    return type === undefined ? fail('no such input', expr.input, `0 to ${inputs.length - 1}`) : registerOf(type)
  }
  if ('cast' in expr) {
    typeOf(expr.of, inputs)
    if (!isElementType(expr.cast)) return fail('no such type', typeof expr.cast, 'a type of elements')
    return registerOf(expr.cast)
  }
  if (!isMapOp(expr.op) || !Array.isArray(expr.args))
    return fail('this is no expression', Object.keys(expr), 'an operation and its operands')
  const { arity, takes, gives } = mapOp(expr.op)
  const types = expr.args.map((arg) => typeOf(arg, inputs))
  if (types.length !== arity) fail(`wrong number of operands of ${expr.op}`, types.length, arity)
  if (expr.op === 'select' && types[0] !== 'bool') fail('the condition of select is no bool', types[0], 'bool')
  const [first = 'f32', ...others] = expr.op === 'select' ? types.slice(1) : types
  if (others.some((type) => type !== first)) fail(`operands of ${expr.op} differ in type`, types.join(' and '), 'one type')
  if (!TAKES[takes].includes(first)) fail(`${expr.op} does not work on ${first}`, first, TAKES[takes].join(' or '))
  return gives ?? first
}

const TAKES: Readonly<Record<ReturnType<typeof mapOp>['takes'], readonly Register[]>> = {
  float: ['f32', 'f64'],
  number: ['f32', 'f64', 'i32', 'u32'],
  integer: ['i32', 'u32'],
  bool: ['bool'],
  any: ['f32', 'f64', 'i32', 'u32', 'bool'],
}

/** A term whose operations are all known. */
export function exprOf(term: Term): MapExpr {
  if ('cast' in term) return { cast: term.cast, of: exprOf(term.of) }
  if (!('op' in term)) return term
  return { op: isMapOp(term.op) ? term.op : fail('no such operation', term.op, Object.keys(MAP_OPS)), args: term.args.map(exprOf) }
}

function isMapOp(name: string): name is MapOp {
  return Object.hasOwn(MAP_OPS, name)
}

/** The expression with other parts; `replace` gives what takes the place of an input, a constant or a slot, or nothing. */
export function substitute(expr: MapExpr, replace: (leaf: Input | Constant | Slot) => MapExpr | undefined): MapExpr {
  if ('cast' in expr) return { cast: expr.cast, of: substitute(expr.of, replace) }
  if ('op' in expr) return { op: expr.op, args: expr.args.map((arg) => substitute(arg, replace)) }
  return replace(expr) ?? expr
}

/** Operations of an expression for each element, functions such as exp as one. */
export function countOperations(expr: MapExpr): number {
  if ('cast' in expr) return 1 + countOperations(expr.of)
  return 'op' in expr ? 1 + expr.args.reduce((sum, arg) => sum + countOperations(arg), 0) : 0
}

/** The value of an expression, in doubles and wrapped integers; slots have no meaning here. */
export function evaluate(expr: MapExpr, values: readonly number[], inputs: InputTypes): number {
  if ('input' in expr) return inputs[expr.input] === 'i64' ? (values[expr.input] ?? 0) | 0 : (values[expr.input] ?? Number.NaN)
  if ('const' in expr) return expr.const
  if ('slot' in expr) return Number.NaN
  if ('cast' in expr) return castValue(evaluate(expr.of, values, inputs), typeOf(expr.of, inputs), expr.cast)
  const [a = 0, b = 0, c = 0] = expr.args.map((arg) => evaluate(arg, values, inputs))
  const { js, whole = js } = mapOp(expr.op)
  switch (typeOf(expr, inputs)) {
    case 'i32':
      return whole(a, b, c) | 0
    case 'u32':
      return whole(a, b, c) >>> 0
    default:
      return js(a, b, c)
  }
}

/** A value as an element of that type holds it: floats saturate where integers wrap. */
function castValue(value: number, from: Register, to: ElementType): number {
  const bounds = isFloat(from) ? SATURATES[to] : undefined
  if (bounds === undefined) return to === 'f64' || (to === 'f32' && from !== 'f64') ? value : (roundElements(to, [value])[0] ?? Number.NaN)
  return Number.isNaN(value) ? 0 : Math.trunc(Math.min(Math.max(value, bounds[0]), bounds[1]))
}

const SATURATES: { readonly [T in ElementType]?: readonly [low: number, high: number] } = {
  i8: [-128, 127],
  u8: [0, 255],
  i32: [-(2 ** 31), 2 ** 31 - 1],
  u32: [0, 2 ** 32 - 1],
  i64: [-(2 ** 31), 2 ** 31 - 1],
}

type One = Value<Register>
type Many = Value<Vector<Register>>

/** What an expression is written of: its inputs, the values of its slots, and their types. */
export interface Ingredients<V> {
  readonly inputs: readonly V[]
  readonly types: InputTypes
  readonly slots?: readonly V[]
}

/** The expression in the kernel language, over scalars or vectors of `width`. */
export function writeExpr(k: LaneScope, expr: MapExpr, given: Ingredients<One>): One
export function writeExpr(k: LaneScope, expr: MapExpr, given: Ingredients<Many>, width: number): Many
export function writeExpr(k: LaneScope, expr: MapExpr, { inputs, types, slots = [] }: Ingredients<Operand>, width?: number): Operand {
  const literal = (type: Register, value: number): Operand => {
    const one = k.const(type, type === 'bool' ? value !== 0 : value)
    return width === undefined ? one : one.splat(width as 4) // the width of the inputs
  }
  const write = (part: MapExpr): Operand => {
    if ('const' in part) return literal(part.type, part.const)
    if ('slot' in part) return slots[part.slot] ?? literal(part.type, Number.NaN)
    if ('input' in part) return inputs[part.input] ?? literal('f32', Number.NaN) // `typeOf` has refused an input that is not there
    if ('cast' in part) return convert(write(part.of), typeOf(part.of, types), part.cast)
    const [a = literal('f32', 0), b = a, c = a] = part.args.map(write) // operations look at as many as they have
    const last = part.args.at(-1)
    const type = last === undefined ? 'f32' : typeOf(last, types)
    return mapOp(part.op).ir([a, b, c], (value) => literal(type, value))
  }
  return write(expr)
}
