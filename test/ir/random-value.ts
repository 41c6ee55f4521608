// Random expressions for random.ts. Integers do anything: their meaning is exact everywhere. Floats are kept tame: each value
// carries a bound of its size, an estimate of how far targets may differ on it, and, if it is exact, the grid it lies on (a
// multiple of 2^-grid). Only exact floats decide anything: comparisons, conversions to integers, roundings.
import { type DType, type Scalar, type Width, isFloat, scalarOf, vector, widthOf } from '../../src/base/dtype.ts'
import type { Builder } from '../../src/ir/build.ts'
import type { Arg, OpName } from '../../src/ir/op.ts'
import { Value } from '../../src/ir/value.ts'
import { type Random, gridOf, randomFloat } from './random-number.ts'

export type V = Value<DType>

/** A value and what is known about it. `error` 0 means every target gives the same bits, but for the sign of zero. */
export interface Known {
  readonly v: V
  readonly bound: number
  readonly error: number
  readonly grid: number
}

/** A memory that can be read: random elements are on the grid of their type within 4 if they are floats. */
export interface Input {
  readonly scalar: Scalar
  /** of one element */
  readonly width: 1 | Width
  readonly length: number
  at(index: V): V
  load(index: V, width: Width): V
}

/** Bits of a mantissa, but for the first. */
const MANTISSA: Readonly<Record<string, number>> = { f16: 10, f32: 23, f64: 52 }
/** How much a rounded operation may be off, in parts of its size. */
const EPSILON: Readonly<Record<string, number>> = { f16: 2 ** -10, f32: 2 ** -21, f64: 2 ** -50 }
/** How much functions of f64 may be off besides; those of other types differ more between targets. */
const DOUBLE_EXTRA = 2 ** -48

const UNARY_FLOAT = {
  neg: 1,
  abs: 1,
  sqrt: 1,
  rsqrt: 1,
  exp: 1,
  exp2: 1,
  log: 1,
  log2: 1,
  sin: 1,
  cos: 1,
  tanh: 1,
  atan: 1,
  tan: 1,
  asin: 1,
  acos: 1,
  floor: 1,
  ceil: 1,
  trunc: 1,
  rint: 1,
} as const
const INTEGER2 = ['add', 'sub', 'mul', 'div', 'rem', 'and', 'or', 'xor', 'shl', 'shr', 'min', 'max'] as const
const COMPARE = ['lt', 'le', 'gt', 'ge', 'eq', 'ne'] as const

export class Expressions {
  readonly random: Random
  readonly builder: Builder
  readonly inputs: readonly Input[]
  readonly leaves: readonly Known[]
  /** Values that may be used here; a block adds to it and takes away again. */
  pool: Known[] = []
  /** Leaves that all lanes share only, for conditions around barriers. */
  uniform = false
  readonly #half: boolean
  readonly #double: boolean

  constructor(
    random: Random,
    builder: Builder,
    inputs: readonly Input[],
    leaves: readonly Known[],
    { f16, f64 }: { readonly f16: boolean; readonly f64: boolean },
  ) {
    this.random = random
    this.builder = builder
    this.inputs = inputs
    this.leaves = leaves
    this.#half = f16
    this.#double = f64
  }

  op(name: OpName, src: readonly V[], dtype: DType = 'void', arg: Arg = null): V {
    return new Value(
      this.builder,
      this.builder.apply(
        name,
        src.map(({ node }) => node),
        arg,
        dtype,
      ),
    )
  }
  number(dtype: DType, value: number | boolean): V {
    return new Value(this.builder, this.builder.constant(value, dtype))
  }
  known(v: V, bound = 0, error = 0, grid = 0): Known {
    return { v, bound, error, grid }
  }

  anyType(): DType {
    const scalar = this.random.pick<Scalar>([
      ...(this.#half
        ? (['f32', 'i32', 'u32', 'f16', 'bool', 'f32', 'u32'] as const)
        : (['f32', 'i32', 'u32', 'bool', 'f32', 'u32'] as const)),
      ...(this.#double ? (['f64', 'f64', 'f64'] as const) : []),
    ])
    return vector(scalar, this.random.pick<1 | Width>([1, 1, 1, 1, 2, 4, 4, 8, 16]))
  }

  value(dtype: DType, depth: number): Known {
    const { random } = this
    if (!this.uniform && random.chance(depth <= 0 ? 0.6 : 0.3)) {
      const found = this.pool.filter(({ v }) => v.node.dtype === dtype)
      if (found.length > 0) return random.pick(found)
    }
    if (depth <= 0) return this.#leaf(dtype)
    const made = random.chance(0.2) ? this.#shape(dtype, depth - 1) : undefined
    if (made !== undefined) return this.#tame(made)
    if (scalarOf(dtype) === 'bool') return this.#bool(dtype, depth - 1)
    return isFloat(dtype) ? this.#tame(this.#float(dtype, depth - 1)) : this.known(this.#integer(dtype, depth - 1))
  }

  /** A u32 below `count`. */
  index(count: number, depth: number): V {
    return this.op('rem', [this.value('u32', depth).v, this.number('u32', count)])
  }

  /** Keeps sizes small and gives up on values that targets may disagree about too much. */
  #tame(value: Known): Known {
    const { dtype } = value.v.node
    if (!isFloat(dtype)) return value
    const [most, limit] = scalarOf(dtype) === 'f16' ? [8, 0.02] : [64, 1e-3]
    if (value.error > limit) return this.#leaf(dtype)
    return value.bound <= most ? value : this.clamp(value, 4)
  }

  clamp({ v, bound, error, grid }: Known, to: number): Known {
    const { dtype } = v.node
    return bound <= to
      ? { v, bound, error, grid }
      : this.known(this.op('min', [this.op('max', [v, this.number(dtype, -to)]), this.number(dtype, to)]), to, error, grid)
  }

  #leaf(dtype: DType): Known {
    const { random } = this
    const scalar = scalarOf(dtype)
    const width = widthOf(dtype)
    const leaves = this.leaves.filter(({ v }) => v.node.dtype === dtype)
    if (!this.uniform && leaves.length > 0 && random.chance(0.4)) return random.pick(leaves)
    const inputs = this.inputs.filter((input) => input.scalar === scalar && (input.width === width || (input.width === 1 && width > 1)))
    if (inputs.length > 0 && random.chance(0.6)) return this.load(random.pick(inputs), width)
    if (scalar === 'bool') return this.known(this.number(dtype, random.chance(0.5)))
    if (isFloat(dtype)) return this.known(this.number(dtype, randomFloat(random, scalar)), 4, 0, gridOf(scalar))
    return this.known(this.number(dtype, scalar === 'i32' ? random.word() | 0 : random.word()))
  }

  load(input: Input, width: 1 | Width): Known {
    const wide = input.width === 1 && width > 1
    const count = wide ? input.length - width + 1 : input.length
    const at = this.uniform ? this.number('u32', this.random.below(count)) : this.index(count, 0)
    return this.known(wide ? input.load(at, width as Width) : input.at(at), 4, 0, gridOf(input.scalar))
  }

  /** Ops that change the width or the type only; undefined if none fits. */
  #shape(dtype: DType, depth: number): Known | undefined {
    const { random } = this
    const scalar = scalarOf(dtype)
    const width = widthOf(dtype)
    const like = (from: Known, v: V): Known => ({ ...from, v })
    if (random.chance(0.3)) {
      const condition = this.value(vector('bool', width), depth).v
      const [a, b] = [this.value(dtype, depth), this.value(dtype, depth)]
      return this.known(
        this.op('select', [condition, a.v, b.v]),
        Math.max(a.bound, b.bound),
        Math.max(a.error, b.error),
        Math.max(a.grid, b.grid),
      )
    }
    if (width === 1) {
      const from = this.value(vector(scalar, random.pick<Width>([2, 4, 8, 16])), depth)
      return like(from, this.op('extract', [from.v], 'void', random.below(widthOf(from.v.node.dtype))))
    }
    const way = random.below(scalar === 'bool' ? 4 : 5)
    if (way === 4) {
      const [a, b] = [this.value(dtype, depth), this.value(dtype, depth)]
      const worst = (of: (part: Known) => number): number => Math.max(of(a), of(b))
      return this.known(
        this.op('zip', [a.v, b.v], 'void', random.below(2)),
        worst(({ bound }) => bound),
        worst(({ error }) => error),
        worst(({ grid }) => grid),
      )
    }
    if (way === 0) {
      const from = this.value(scalar, depth)
      return like(from, this.op('splat', [from.v], dtype))
    }
    if (way === 1 && width < 16) {
      const from = this.value(vector(scalar, (2 * width) as Width), depth)
      return like(from, this.op('slice', [from.v], dtype, random.pick([0, 1, width])))
    }
    const parts =
      way === 2 && width > 2
        ? [0, 1].map(() => this.value(vector(scalar, (width / 2) as Width), depth))
        : Array.from({ length: width }, () => this.value(scalar, depth - 2))
    const worst = (of: (part: Known) => number): number => Math.max(...parts.map(of))
    const v =
      parts.length === 2 && width > 2
        ? this.op(
            'join',
            parts.map((part) => part.v),
          )
        : this.op(
            'vec',
            parts.map((part) => part.v),
            dtype,
          )
    return this.known(
      v,
      worst(({ bound }) => bound),
      worst(({ error }) => error),
      worst(({ grid }) => grid),
    )
  }

  #float(dtype: DType, depth: number): Known {
    const { random } = this
    const [a, b, c] = [this.value(dtype, depth), this.value(dtype, depth), this.value(dtype, depth - 1)]
    const width = widthOf(dtype)
    switch (random.below(11)) {
      case 10: {
        const base = this.clamp(this.known(this.op('max', [this.op('abs', [a.v]), this.number(dtype, 0.5)]), a.bound, a.error), 2)
        return this.#rounded(this.op('pow', [base.v, this.clamp(b, 2).v]), 4, 16 * a.error + 3 * b.error, 2 ** -11)
      }
      case 0:
        return this.#sum('add', [a.v, b.v], a.bound + b.bound, a.error + b.error, [a, b], Math.max(a.grid, b.grid))
      case 1:
        return this.#sum('sub', [a.v, b.v], a.bound + b.bound, a.error + b.error, [a, b], Math.max(a.grid, b.grid))
      case 2:
        return this.#sum('mul', [a.v, b.v], a.bound * b.bound, a.bound * b.error + b.bound * a.error, [a, b], a.grid + b.grid)
      case 3:
        return this.#sum(
          'fma',
          [a.v, b.v, c.v],
          a.bound * b.bound + c.bound,
          a.bound * b.error + b.bound * a.error + c.error,
          [a, b, c],
          Math.max(a.grid + b.grid, c.grid),
        )
      case 4:
        return this.known(
          this.op(random.pick(['min', 'max'] as const), [a.v, b.v]),
          Math.max(a.bound, b.bound),
          Math.max(a.error, b.error),
          Math.max(a.grid, b.grid),
        )
      case 5: {
        const divisor = this.op('max', [this.op('abs', [b.v]), this.number(dtype, 0.5)])
        return this.#rounded(this.op('div', [a.v, divisor]), 2 * a.bound, 2 * a.error + 4 * a.bound * b.error)
      }
      case 6:
        return this.#floatCast(dtype, depth)
      case 7: {
        if (width > 1) return a
        const wide = this.value(vector(scalarOf(dtype), random.pick<Width>([2, 4, 8])), depth)
        const count = widthOf(wide.v.node.dtype)
        return random.chance(0.5)
          ? { ...wide, v: this.op('hmax', [wide.v]) }
          : this.#sum('hsum', [wide.v], count * wide.bound, count * wide.error, [wide], wide.grid, count)
      }
      default:
        return this.#unary(random.pick(Object.keys(UNARY_FLOAT) as (keyof typeof UNARY_FLOAT)[]), this.clamp(a, 2))
    }
  }

  #eps(dtype: DType): number {
    return EPSILON[scalarOf(dtype)]!
  }
  #rounded(v: V, bound: number, error: number, extra = 0): Known {
    const { dtype } = v.node
    const own = scalarOf(dtype) === 'f64' ? Math.min(extra, DOUBLE_EXTRA) : extra
    return this.known(v, bound, error + (bound + 2 ** -4) * this.#eps(dtype) + own, 99)
  }
  /** Sums and products: exact if the operands are and the result fits the mantissa. */
  #sum(name: OpName, src: readonly V[], bound: number, error: number, from: readonly Known[], grid: number, steps = 1): Known {
    const v = this.op(name, src)
    const scalar = scalarOf(v.node.dtype)
    const fits = grid + Math.log2(bound + 1) <= MANTISSA[scalar]! && (scalar !== 'f16' || grid <= 10)
    const exact = from.every((one) => one.error === 0) && fits
    return exact ? this.known(v, bound, 0, grid) : this.#rounded(v, bound, error + (steps - 1) * bound * this.#eps(v.node.dtype))
  }

  #unary(name: keyof typeof UNARY_FLOAT, a: Known): Known {
    const { dtype } = a.v.node
    const above = (low: number): V => this.op('max', [this.op('abs', [a.v]), this.number(dtype, low)])
    switch (name) {
      case 'neg':
      case 'abs':
        return { ...a, v: this.op(name, [a.v]) }
      case 'floor':
      case 'ceil':
      case 'trunc':
      case 'rint':
        return a.error === 0 ? this.known(this.op(name, [a.v]), a.bound + 1, 0, 0) : a
      case 'sqrt':
        return this.#rounded(this.op(name, [above(0.25)]), 2, a.error)
      case 'rsqrt':
        return this.#rounded(this.op(name, [above(0.25)]), 2, 4 * a.error)
      case 'log':
      case 'log2':
        return this.#rounded(this.op(name, [above(0.5)]), 2, 3 * a.error, 2 ** -18)
      case 'exp':
      case 'exp2':
        return this.#rounded(this.op(name, [a.v]), 8, 8 * a.error, 2 ** -15)
      case 'tan':
        return this.#rounded(this.op(name, [this.clamp(a, 1).v]), 2, 4 * a.error, 2 ** -9)
      case 'asin':
      case 'acos':
        return this.#rounded(this.op(name, [this.clamp(a, 0.5).v]), 4, 2 * a.error, 2 ** -9)
      case 'sin':
      case 'cos':
      case 'tanh':
      case 'atan':
        return this.#rounded(this.op(name, [a.v]), 2, a.error, 2 ** -10)
    }
  }

  #floatCast(dtype: DType, depth: number): Known {
    const { random } = this
    const width = widthOf(dtype)
    const half = scalarOf(dtype) === 'f16'
    if (this.#double && random.chance(0.4)) return this.#doubleCast(dtype, depth)
    if (this.#half && scalarOf(dtype) !== 'f64' && random.chance(0.4)) {
      const from = this.clamp(this.value(vector(half ? 'f32' : 'f16', width), depth), 4)
      const v = this.op('cast', [from.v], dtype)
      const fits = from.error === 0 && (!half || from.grid <= 8)
      return fits ? { ...from, v } : this.#rounded(v, from.bound, from.error)
    }
    if (scalarOf(dtype) === 'f32' && random.chance(0.3)) {
      const bits = this.op('or', [
        this.op('and', [this.value(vector('u32', width), depth).v, this.number(vector('u32', width), 0x7fffff)]),
        this.number(vector('u32', width), 0x3f800000),
      ])
      return this.known(this.op('bitcast', [bits], dtype), 2, 0, 23)
    }
    if (dtype === 'f32x2' && random.chance(0.5)) {
      const halves = this.op('or', [
        this.op('and', [this.value('u32', depth).v, this.number('u32', 0x03ff03ff)]),
        this.number('u32', 0x3c00bc00),
      ])
      return this.known(this.op('unpackF16', [halves]), 2, 0, 10)
    }
    const integer = vector(random.pick(['i32', 'u32'] as const), width)
    const small = this.op('and', [this.value(integer, depth).v, this.number(integer, half ? 7 : 63)])
    return this.known(this.op('cast', [small], dtype), half ? 8 : 64, 0, 0)
  }

  /** A float to f64, or an f64 to another. */
  #doubleCast(dtype: DType, depth: number): Known {
    const { random } = this
    const [scalar, width] = [scalarOf(dtype), widthOf(dtype)]
    if (scalar === 'f64' && random.chance(0.3)) {
      const from = vector(random.pick(['i32', 'u32', 'bool'] as const), width)
      return this.known(this.op('cast', [this.value(from, depth).v], dtype), scalarOf(from) === 'bool' ? 1 : 2 ** 32, 0, 0)
    }
    const other = scalar !== 'f64' ? 'f64' : this.#half && random.chance(0.5) ? 'f16' : 'f32'
    const from = this.clamp(this.value(vector(other, width), depth), 4)
    const v = this.op('cast', [from.v], dtype)
    const fits = scalar === 'f64' || from.grid <= (scalar === 'f16' ? 8 : 20)
    return from.error === 0 && fits ? { ...from, v } : this.#rounded(v, from.bound, from.error)
  }

  /** The type of floats that decide something. */
  #deciding(): 'f32' | 'f64' {
    return this.#double && this.random.chance(0.5) ? 'f64' : 'f32'
  }

  #integer(dtype: DType, depth: number): V {
    const { random } = this
    const scalar = scalarOf(dtype) as 'i32' | 'u32'
    const width = widthOf(dtype)
    const other = vector(scalar === 'i32' ? 'u32' : 'i32', width)
    const one = (of: DType): V => this.value(of, depth).v
    const masked = (mask: number): V => this.op('and', [one(vector('u32', width)), this.number(vector('u32', width), mask)])
    switch (random.below(16)) {
      case 0:
        return this.op(random.pick(['neg', 'abs', 'not', 'popcount'] as const), [one(dtype)])
      case 1:
        return this.op(random.pick(['cast', 'bitcast'] as const), [one(other)], dtype)
      case 2:
        return this.op('cast', [one(vector('bool', width))], dtype)
      case 3: {
        const from = this.value(vector(this.#deciding(), width), depth)
        if (from.error !== 0) return one(dtype)
        const scaled = this.op('mul', [from.v, this.number(from.v.node.dtype, random.pick([1, 4, 2 ** 27, 2 ** 30]))])
        return this.op('cast', [scaled], dtype)
      }
      case 4: {
        if (width > 1) return one(dtype)
        const length = 1 + random.below(20)
        const values = Array.from({ length }, () => (scalar === 'i32' ? random.word() | 0 : random.word()))
        return this.op('table', [this.index(length, depth)], dtype, values)
      }
      case 5:
        return scalar === 'u32'
          ? this.op(
              'lookup16',
              [masked(0x0f0f0f0f)],
              'void',
              Array.from({ length: 16 }, () => random.below(256) - 128),
            )
          : one(dtype)
      case 6:
      case 7: {
        if (scalar === 'u32') {
          const kind = random.pick(['pairsU7I8', 'pairsI8', 'addPairs'] as const)
          return this.op(kind, [kind === 'addPairs' ? one(dtype) : masked(0x7f7f7f7f), one(dtype)]) // neither above 127 nor -128
        }
        const kind = random.pick(['dotI8', 'dotU8I8', 'dotU7I8', 'dotI16'] as const)
        return this.op(kind, [kind === 'dotU7I8' ? masked(0x7f7f7f7f) : masked(2 ** 32 - 1), one(vector('u32', width)), one(dtype)])
      }
      case 8: {
        if (width === 4) return this.op(scalar === 'u32' ? 'unpackU8' : 'unpackI8', [one('u32')])
        return scalar === 'u32' && width === 1 ? this.op('packI8', [one(random.pick(['u32x4', 'i32x4'] as const))]) : one(dtype)
      }
      case 9:
        return width === 1
          ? this.op(random.pick(['hsum', 'hmax'] as const), [one(vector(scalar, random.pick<Width>([2, 4, 8, 16])))])
          : one(dtype)
      case 10: {
        const pair = dtype === 'u32' ? this.clamp(this.value('f32x2', depth), 4) : undefined
        return pair !== undefined && pair.error === 0 && pair.grid <= 8
          ? // away from zero, whose sign is not the same everywhere
            this.op('packF16', [this.op('add', [this.op('abs', [pair.v]), this.number('f32x2', 1)])])
          : one(dtype)
      }
      default:
        return this.op(random.pick(INTEGER2), [one(dtype), one(dtype)])
    }
  }

  #bool(dtype: DType, depth: number): Known {
    const { random } = this
    const width = widthOf(dtype)
    const one = (of: DType): V => this.value(of, depth).v
    switch (random.below(6)) {
      case 0:
        return this.known(this.op('not', [one(dtype)]))
      case 1:
        return this.known(this.op(random.pick(['and', 'or', 'xor'] as const), [one(dtype), one(dtype)]))
      case 2:
        return this.known(this.op('cast', [this.op('and', [one(vector('u32', width)), this.number(vector('u32', width), 3)])], dtype))
      case 3: {
        const type = vector(this.#deciding(), width)
        const [a, b] = [this.value(type, depth), this.value(type, depth)]
        if (a.error === 0 && b.error === 0) {
          return this.known(random.chance(0.9) ? this.op(random.pick(COMPARE), [a.v, b.v]) : this.op('cast', [a.v], dtype))
        }
        return this.known(one(dtype))
      }
      default: {
        const type = vector(random.pick(['i32', 'u32'] as const), width)
        return this.known(this.op(random.pick(COMPARE), [one(type), one(type)]))
      }
    }
  }
}
