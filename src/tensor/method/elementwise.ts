// Methods that work on each element alone. Tensors of different shapes broadcast together, those of different types meet in the wider one,
// and a plain number takes the type of the tensor. One line per operation; what it means is in kernel/map/op.ts.

import type { ElementType } from '../../base/element.ts'
import { registerOf } from '../../kernel/element.ts'
import type { MapExpr } from '../../kernel/map/expr.ts'
import { type MapOp, mapOp } from '../../kernel/map/op.ts'
import { isFloatType, promote, promoteNumber } from '../promote.ts'
import { checkElementType, checkFinite, checkList } from '../operand.ts'
import type { TensorType } from '../node.ts'
import { BaseMethods } from './base.ts'

export abstract class ElementwiseMethods extends BaseMethods {
  /** Applies an operation of maps to this and the other operands. */
  #map(op: MapOp, ...others: readonly (this | number)[]): this {
    const { takes, gives } = mapOp(op)
    this.checkOperands(op, others, 1)
    let common = this.elementType(op)
    for (const other of others) if (typeof other !== 'number') common = promote(common, other.elementType(op))
    for (const other of others) if (typeof other === 'number') common = promoteNumber(common, other)
    const type =
      takes === 'float' && !isFloatType(common) ? 'f32' : takes === 'bool' ? 'bool' : takes === 'any' ? common : arithmetic(common)
    return this.#apply(op, others, type, gives ?? type)
  }

  /** The operation in one type; operands of another are cast. */
  #apply(op: MapOp, others: readonly (this | number)[], type: ElementType, result: ElementType): this {
    const src: this[] = [this]
    const args: MapExpr[] = [inputAs(0, this.dtype, type)]
    for (const other of others) {
      if (typeof other === 'number') {
        args.push({ const: other, type: registerOf(type) })
        continue
      }
      const known = src.indexOf(other)
      args.push(inputAs(known >= 0 ? known : src.push(other) - 1, other.dtype, type))
    }
    return this.apply('map', src, { expr: { op, args }, type: result })
  }

  /** An elementwise expression of tensors that broadcast together; it refers to them by number. */
  expression(expr: MapExpr, src: readonly this[], type: ElementType): this {
    checkList('map', 'what an expression reads', src)
    return this.apply('map', src, { expr, type })
  }

  /** The same values as another type. Floats become integers by cutting, and end at the limits of the type. */
  to(type: ElementType): this {
    checkElementType('to', type)
    if (type === this.dtype) return this
    const isWeight = this.dtype.includes('_') || this.dtype === 'mxfp4'
    if (isWeight) return this.apply('dequantize', [this], {}).to(type)
    this.elementType('to')
    return this.apply('map', [this], { expr: { cast: type, of: { input: 0 } }, type })
  }

  /** The same numbers as floats: differences and squares of small integers would wrap. */
  protected floats(op: string): this {
    return isFloatType(this.elementType(op)) ? this : this.to('f32')
  }

  /** `a` where this holds (is not zero), `b` elsewhere. */
  where(a: this | number, b: this | number): this {
    this.checkOperands('where', [a, b])
    const condition = this.dtype === 'bool' ? this : this.ne(0)
    const tensors = [a, b].flatMap((operand) => (typeof operand === 'number' ? [] : [operand.elementType('where')]))
    const numbers = [a, b].filter((operand) => typeof operand === 'number')
    const type = tensors.length === 0 ? 'f32' : numbers.reduce(promoteNumber, tensors.reduce(promote))
    const src: this[] = [condition]
    const args = [a, b].map((operand): MapExpr => {
      if (typeof operand === 'number') return { const: operand, type: registerOf(type) }
      const input = { input: src.push(operand) - 1 }
      return operand.dtype === type ? input : { cast: type, of: input }
    })
    return this.apply('map', src, { expr: { op: 'select', args: [{ input: 0 }, ...args] }, type })
  }

  add(other: this | number): this {
    return this.#map('add', other)
  }
  sub(other: this | number): this {
    return this.#map('sub', other)
  }
  mul(other: this | number): this {
    return this.#map('mul', other)
  }
  /** The quotient as a float, also of integers; `quotient` cuts. */
  div(other: this | number): this {
    return this.#map('div', other)
  }
  /** Of integers, cut towards zero; the dividend where the divisor is 0. */
  quotient(other: this | number): this {
    return this.#map('quotient', other)
  }
  /** What `quotient` leaves, with the sign of the dividend; 0 where the divisor is 0. */
  remainder(other: this | number): this {
    return this.#map('remainder', other)
  }
  pow(other: this | number): this {
    return this.#map('pow', other)
  }
  /** The smaller of two elements; `min` is that of a whole tensor. */
  minimum(other: this | number): this {
    return this.#map('min', other)
  }
  /** The larger of two elements; `max` is that of a whole tensor. */
  maximum(other: this | number): this {
    return this.#map('max', other)
  }
  clamp(low: this | number, high: this | number): this {
    return this.#map('clamp', low, high)
  }

  neg(): this {
    return this.#map('neg')
  }
  abs(): this {
    return this.#map('abs')
  }
  sign(): this {
    return this.#map('sign')
  }
  square(): this {
    return this.#map('square')
  }
  sqrt(): this {
    return this.#map('sqrt')
  }
  rsqrt(): this {
    return this.#map('rsqrt')
  }
  reciprocal(): this {
    return this.#map('reciprocal')
  }
  exp(): this {
    return this.#map('exp')
  }
  log(): this {
    return this.#map('log')
  }
  expm1(): this {
    return this.#map('expm1')
  }
  log1p(): this {
    return this.#map('log1p')
  }
  sin(): this {
    return this.#map('sin')
  }
  cos(): this {
    return this.#map('cos')
  }
  tan(): this {
    return this.#map('tan')
  }
  asin(): this {
    return this.#map('asin')
  }
  acos(): this {
    return this.#map('acos')
  }
  atan(): this {
    return this.#map('atan')
  }
  tanh(): this {
    return this.#map('tanh')
  }
  erf(): this {
    return this.#map('erf')
  }
  floor(): this {
    return this.#map('floor')
  }
  ceil(): this {
    return this.#map('ceil')
  }
  /** To the nearest whole number, halves to even. */
  round(): this {
    return this.#map('round')
  }
  trunc(): this {
    return this.#map('trunc')
  }

  relu(): this {
    return this.#map('relu')
  }
  /** x, or slope * x below 0; with a tensor of slopes it is PReLU. */
  leakyRelu(slope: this | number = 0.01): this {
    return this.#map('leakyRelu', slope)
  }
  /** x, or alpha * (exp(x) - 1) below 0 */
  elu(alpha: this | number = 1): this {
    return this.#map('elu', alpha)
  }
  sigmoid(): this {
    return this.#map('sigmoid')
  }
  /** alpha * x + beta between 0 and 1 */
  hardSigmoid(alpha = 0.2, beta = 0.5): this {
    return this.#map('hardSigmoid', alpha, beta)
  }
  silu(): this {
    return this.#map('silu')
  }
  hardSwish(): this {
    return this.#map('hardSwish')
  }
  /** log(1 + exp(beta * x)) / beta */
  softplus(beta = 1): this {
    checkFinite('softplus', 'beta', beta)
    return beta === 1 ? this.#map('softplus') : this.mul(beta).#map('softplus').div(beta)
  }
  logSigmoid(): this {
    return this.#map('logSigmoid')
  }
  softsign(): this {
    return this.#map('softsign')
  }
  /** The tanh form, as models mean it; `geluErf` is exact. */
  gelu(): this {
    return this.#map('gelu')
  }
  geluErf(): this {
    return this.#map('geluErf')
  }

  eq(other: this | number): this {
    return this.#map('eq', other)
  }
  ne(other: this | number): this {
    return this.#map('ne', other)
  }
  lt(other: this | number): this {
    return this.#map('lt', other)
  }
  le(other: this | number): this {
    return this.#map('le', other)
  }
  gt(other: this | number): this {
    return this.#map('gt', other)
  }
  ge(other: this | number): this {
    return this.#map('ge', other)
  }
  isNaN(): this {
    return this.#map('isNaN')
  }
  isInfinite(): this {
    return this.#map('isInfinite')
  }
  /** Whether both hold (are not zero). */
  and(other: this): this {
    return this.#map('and', other)
  }
  or(other: this): this {
    return this.#map('or', other)
  }
  xor(other: this): this {
    return this.#map('xor', other)
  }
  not(): this {
    return this.#map('not')
  }
  bitAnd(other: this | number): this {
    return this.#map('bitAnd', other)
  }
  bitOr(other: this | number): this {
    return this.#map('bitOr', other)
  }
  bitXor(other: this | number): this {
    return this.#map('bitXor', other)
  }
  shiftLeft(by: this | number): this {
    return this.#map('shiftLeft', by)
  }
  /** With the sign for i32, with zeros for u32. */
  shiftRight(by: this | number): this {
    return this.#map('shiftRight', by)
  }
}

/** An operand of a map, cast where it is of another type. */
function inputAs(input: number, from: TensorType, type: ElementType): MapExpr {
  return from === type ? { input } : { cast: type, of: { input } }
}

/** Bools are counted with. */
function arithmetic(type: ElementType): ElementType {
  return type === 'bool' ? 'i32' : type
}
