// How much an expression changes with one of its inputs, as an expression again: the chain rule over the slopes of its operations.

import { isElementType } from '../../base/element.ts'
import { type Register, isFloat } from '../element.ts'
import { type InputTypes, type MapExpr, exprOf, typeOf } from './expr.ts'
import { mapOp } from './op.ts'
import type { Partial } from './slope.ts'
import type { Term } from './term.ts'

export interface Derivation {
  readonly types: InputTypes
  /** the input that changes */
  readonly input: number
  /** what stands for the value of the whole expression, if it is known already */
  readonly result: MapExpr
}

/** 0 and 1 stand for themselves. */
export function derivativeOf(expr: MapExpr, { types, input, result }: Derivation): MapExpr | 0 | 1 {
  const derive = (part: MapExpr, value: MapExpr): Partial => {
    if ('const' in part || 'slot' in part) return 0
    if ('input' in part) return part.input === input ? 1 : 0
    const type = typeOf(part, types)
    if (!isFloat(type)) return 0 // integers and bools change in jumps
    if ('cast' in part) return castOf(derive(part.of, part.of), typeOf(part.of, types), type)
    const { slope } = mapOp(part.op)
    const [a = ZERO, b = ZERO, c = ZERO] = part.args
    const slopes = slope?.([a, b, c], value, (number) => ({ const: number, type })) ?? []
    return slopes.reduce<Partial>((sum, each, i) => {
      const arg = part.args[i]
      return plus(sum, arg === undefined ? 0 : times(each, derive(arg, arg)), type)
    }, 0)
  }
  const derived = derive(expr, result)
  return derived === 0 || derived === 1 ? derived : exprOf(derived)
}

/** The derivative of what is cast from one register to another. */
function castOf(derived: Partial, from: Register, to: Register): Partial {
  if (derived === 0 || derived === 1 || from === to) return isFloat(from) ? derived : 0
  return isFloat(from) && isElementType(to) ? { cast: to, of: derived } : 0
}

const ZERO: MapExpr = { const: 0, type: 'f32' }

function times(a: Partial, b: Partial): Partial {
  if (a === 0 || b === 0) return 0
  if (a === 1 || b === 1) return a === 1 ? b : a
  return { op: 'mul', args: [a, b] }
}

function plus(a: Partial, b: Partial, type: Register): Partial {
  if (a === 0 || b === 0) return a === 0 ? b : a
  const one: Term = { const: 1, type }
  return { op: 'add', args: [a === 1 ? one : a, b === 1 ? one : b] }
}
