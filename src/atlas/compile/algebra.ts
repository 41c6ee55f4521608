// Values of Atlas types in a kernel. Integers up to 32 bits are i32 and u32, wrapped to their width after every step; those of 64 bits are
// two u32, on every device alike, and exact; f16 and bf16 are f32, rounded after every step; f64 is itself, or f32 where there is none.
// Writes nodes; knows nothing of programs.

import type { DType } from '../../base/dtype.ts'
import type { Builder } from '../../ir/build.ts'
import type { Node } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import type { Condition } from '../operand.ts'
import { type AtlasType, type AtlasValue, TYPES, isIntegerType, rangeOf, toBits } from '../type.ts'
import { doubleOfFloat, floatOfDouble } from './double.ts'
import { divideWords, multiplyWords, shiftWordsLeft, shiftWordsRight } from './word.ts'

/** A value: one node, or for integers of 64 bits the low and the high word. */
export interface Lowered {
  readonly type: AtlasType
  readonly low: Node
  readonly high?: Node
}

/** Functions of one float that kernels have. */
export type FunctionName = Extract<OpName, 'exp' | 'log' | 'log2' | 'sqrt' | 'rsqrt' | 'sin' | 'cos' | 'tan' | 'tanh'>

const OPS = {
  eq: 'eq',
  ne: 'ne',
  lt: 'lt',
  le: 'le',
  gt: 'gt',
  ge: 'ge',
  ltu: 'lt',
  leu: 'le',
  gtu: 'gt',
  geu: 'ge',
} as const satisfies Record<Condition, OpName>

export function isLong(type: AtlasType): type is 'i64' | 'u64' {
  return type === 'i64' || type === 'u64'
}

export class Algebra {
  readonly builder: Builder
  /** false: f64 is computed as f32, and is 64 bits in memory only */
  readonly hasDoubles: boolean

  constructor(builder: Builder, hasDoubles = true) {
    this.builder = builder
    this.hasDoubles = hasDoubles
  }

  /** What holds a value of the type; integers of 64 bits are two of these. */
  dtypeOf(type: AtlasType): 'f64' | 'f32' | 'i32' | 'u32' {
    if (type === 'f64' && this.hasDoubles) return 'f64'
    if (!isIntegerType(type)) return 'f32'
    return TYPES[type].kind === 'signed' && !isLong(type) ? 'i32' : 'u32'
  }

  constant(type: AtlasType, value: AtlasValue): Lowered {
    const dtype = this.dtypeOf(type)
    if (!isLong(type)) return { type, low: this.builder.constant(Number(value), dtype) }
    const bits = toBits(type, value)
    return { type, low: this.#word(Number(bits & 0xffffffffn)), high: this.#word(Number(bits >> 32n)) }
  }

  // ---- arithmetic

  add(a: Lowered, b: Lowered): Lowered {
    if (!isLong(a.type)) return this.#plain('add', a, b)
    const low = this.#apply('add', a.low, b.low)
    const carry = this.#apply('select', this.#apply('lt', low, a.low), this.#word(1), this.#word(0))
    return { type: a.type, low, high: this.#apply('add', this.#apply('add', highOf(a), highOf(b)), carry) }
  }

  subtract(a: Lowered, b: Lowered): Lowered {
    if (!isLong(a.type)) return this.#plain('sub', a, b)
    const borrow = this.#apply('select', this.#apply('lt', a.low, b.low), this.#word(1), this.#word(0))
    const high = this.#apply('sub', this.#apply('sub', highOf(a), highOf(b)), borrow)
    return { type: a.type, low: this.#apply('sub', a.low, b.low), high }
  }

  multiply(a: Lowered, b: Lowered): Lowered {
    if (!isLong(a.type)) return this.#plain('mul', a, b)
    const [low, high] = multiplyWords(this.builder, wordsOf(a), wordsOf(b))
    return { type: a.type, low, high }
  }

  divide(a: Lowered, b: Lowered): Lowered {
    if (!isLong(a.type)) return this.#plain('div', a, b)
    const [x, y] = [this.absolute(a), this.absolute(b)]
    const [low, high] = divideWords(this.builder, wordsOf(x), wordsOf(y))
    const size: Lowered = { type: a.type, low, high }
    if (TYPES[a.type].kind === 'unsigned') return size
    return this.choose(this.#apply('xor', this.#isNegative(a), this.#isNegative(b)), this.negate(size), size)
  }

  minimum(a: Lowered, b: Lowered): Lowered {
    return isLong(a.type) ? this.choose(this.compare('lt', b, a), b, a) : this.#plain('min', a, b)
  }

  maximum(a: Lowered, b: Lowered): Lowered {
    return isLong(a.type) ? this.choose(this.compare('gt', b, a), b, a) : this.#plain('max', a, b)
  }

  fuse(a: Lowered, b: Lowered, c: Lowered): Lowered {
    return this.#rounded(a.type, this.#apply('fma', a.low, b.low, c.low))
  }

  absolute(a: Lowered): Lowered {
    if (isLong(a.type)) return TYPES[a.type].kind === 'unsigned' ? a : this.choose(this.#isNegative(a), this.negate(a), a)
    return this.dtypeOf(a.type) === 'u32' ? a : this.#rounded(a.type, this.#apply('abs', a.low))
  }

  negate(a: Lowered): Lowered {
    return isIntegerType(a.type) ? this.subtract(this.constant(a.type, 0n), a) : this.#rounded(a.type, this.#apply('neg', a.low))
  }

  call(name: FunctionName, a: Lowered): Lowered {
    return this.#rounded(a.type, this.#apply(name, a.low))
  }

  // ---- bits

  bitwise(op: 'and' | 'or' | 'xor', a: Lowered, b: Lowered): Lowered {
    if (!isLong(a.type)) return this.#plain(op, a, b)
    return { type: a.type, low: this.#apply(op, a.low, b.low), high: this.#apply(op, highOf(a), highOf(b)) }
  }

  not(a: Lowered): Lowered {
    if (!isLong(a.type)) return this.#rounded(a.type, this.#apply('not', a.low))
    return { type: a.type, low: this.#apply('not', a.low), high: this.#apply('not', highOf(a)) }
  }

  /** The amount is a u32, taken modulo the width of the type. */
  shiftLeft(a: Lowered, { low: amount }: Lowered): Lowered {
    if (!isLong(a.type)) return this.#shift('shl', a, amount)
    const [low, high] = shiftWordsLeft(this.builder, wordsOf(a), amount)
    return { type: a.type, low, high }
  }

  shiftRight(a: Lowered, { low: amount }: Lowered): Lowered {
    if (!isLong(a.type)) return this.#shift('shr', a, amount)
    const [low, high] = shiftWordsRight(this.builder, wordsOf(a), amount, TYPES[a.type].kind === 'signed')
    return { type: a.type, low, high }
  }

  #shift(op: 'shl' | 'shr', a: Lowered, amount: Node): Lowered {
    const within = this.#apply('and', amount, this.#word(8 * TYPES[a.type].bytes - 1))
    return this.#rounded(a.type, this.#apply(op, a.low, this.#as(within, a.low.dtype)))
  }

  // ---- conditions

  compare(condition: Condition, a: Lowered, b: Lowered): Node {
    const isUnsigned = condition.endsWith('u') || TYPES[a.type].kind === 'unsigned'
    const op = OPS[condition]
    if (!isLong(a.type)) return this.#apply(op, this.#comparable(a, isUnsigned), this.#comparable(b, isUnsigned))
    const [x, y] = [highOf(a), highOf(b)]
    const low = this.#apply(op, a.low, b.low)
    const isSame = this.#apply('eq', x, y)
    if (op === 'eq') return this.#apply('and', isSame, low)
    if (op === 'ne') return this.#apply('or', this.#apply('ne', x, y), low)
    const high = isUnsigned ? this.#apply(op, x, y) : this.#apply(op, this.#as(x, 'i32'), this.#as(y, 'i32'))
    return this.#apply('select', isSame, low, high)
  }

  /** The bits of a narrow negative integer as an unsigned one are those of its width. */
  #comparable(a: Lowered, isUnsigned: boolean): Node {
    if (!isUnsigned || a.low.dtype !== 'i32') return a.low
    const word = this.#as(a.low, 'u32')
    const { bytes } = TYPES[a.type]
    return bytes === 4 ? word : this.#apply('and', word, this.#word(2 ** (8 * bytes) - 1))
  }

  choose(condition: Node, yes: Lowered, no: Lowered): Lowered {
    const low = this.#apply('select', condition, yes.low, no.low)
    return isLong(yes.type)
      ? { type: yes.type, low, high: this.#apply('select', condition, highOf(yes), highOf(no)) }
      : { type: yes.type, low }
  }

  #isNegative(a: Lowered): Node {
    return this.#apply('lt', this.#as(highOf(a), 'i32'), this.builder.constant(0, 'i32'))
  }

  // ---- between types

  convert(to: AtlasType, a: Lowered): Lowered {
    if (to === a.type) return a
    if (isIntegerType(a.type)) return isIntegerType(to) ? this.#extend(to, a) : this.#toFloat(to, a)
    if (isIntegerType(to)) return isLong(to) ? this.#toLong(to, a) : this.#toInteger(to, a)
    return this.#rounded(to, this.#cast(a.low, this.dtypeOf(to)))
  }

  /** The low bits, or more of them: zeros, or copies of the sign. */
  #extend(to: AtlasType, a: Lowered): Lowered {
    const low = this.#as(a.low, this.dtypeOf(to))
    if (!isLong(to)) return this.#rounded(to, low)
    const isSigned = a.low.dtype === 'i32'
    const sign = isSigned ? this.#as(this.#apply('shr', a.low, this.builder.constant(31, 'i32')), 'u32') : this.#word(0)
    return { type: to, low, high: a.high ?? sign }
  }

  #toFloat(to: AtlasType, a: Lowered): Lowered {
    const dtype = this.dtypeOf(to)
    if (!isLong(a.type)) return this.#rounded(to, this.#cast(a.low, dtype))
    const size = this.absolute(a)
    const high = this.#apply('mul', this.#cast(highOf(size), dtype), this.builder.constant(2 ** 32, dtype))
    const sum = this.#apply('add', high, this.#cast(size.low, dtype))
    const isNegative = this.#isNegative(a)
    return this.#rounded(to, TYPES[a.type].kind === 'unsigned' ? sum : this.#apply('select', isNegative, this.#apply('neg', sum), sum))
  }

  #toInteger(to: AtlasType, a: Lowered): Lowered {
    const whole = this.#cast(a.low, this.dtypeOf(to))
    if (!isIntegerType(to) || TYPES[to].bytes === 4) return { type: to, low: whole }
    const [low, high] = rangeOf(to)
    const least = this.builder.constant(Number(low), whole.dtype)
    const most = this.builder.constant(Number(high), whole.dtype)
    return { type: to, low: this.#apply('max', this.#apply('min', whole, most), least) }
  }

  #toLong(to: 'i64' | 'u64', a: Lowered): Lowered {
    const { dtype } = a.low
    const isSigned = to === 'i64'
    const number = (value: number): Node => this.builder.constant(value, dtype)
    const size = this.#apply('abs', a.low)
    const upper = this.#apply('trunc', this.#apply('mul', size, number(2 ** -32)))
    const lower = this.#apply('sub', size, this.#apply('mul', upper, number(2 ** 32)))
    const positive: Lowered = { type: to, low: this.#cast(lower, 'u32'), high: this.#cast(upper, 'u32') }
    const isNegative = this.#apply('lt', a.low, number(0))
    const [low, high] = rangeOf(to)
    const signed = this.choose(isNegative, isSigned ? this.negate(positive) : this.constant(to, 0n), positive)
    const isLarge = this.#apply('ge', a.low, number(isSigned ? 2 ** 63 : 2 ** 64))
    const isSmall = this.#apply('le', a.low, number(isSigned ? -(2 ** 63) : 0))
    return this.choose(isLarge, this.constant(to, high), this.choose(isSmall, this.constant(to, low), signed))
  }

  // ---- bits in memory

  /** A value of the type from its words: one of the low bits, or two. */
  fromWords(type: AtlasType, low: Node, high?: Node): Lowered {
    if (isLong(type)) return { type, low, high: high ?? this.#word(0) }
    if (type === 'f16') return { type, low: this.builder.apply('extract', [this.builder.apply('unpackF16', [low])], 0) }
    if (type === 'bf16') return { type, low: this.#as(this.#apply('shl', low, this.#word(16)), 'f32') }
    if (type === 'f64') return { type, low: floatOfDouble(this.builder, low, high ?? this.#word(0)) }
    return this.#rounded(type, this.#as(low, this.dtypeOf(type)))
  }

  /** The bits of a value; above its width they are zero. */
  toWords(a: Lowered): readonly [low: Node, high?: Node] {
    if (isLong(a.type)) return wordsOf(a)
    if (a.type === 'f64') return doubleOfFloat(this.builder, a.low)
    if (a.type === 'f16') return [this.builder.apply('packF16', [this.builder.vec([a.low, this.builder.constant(0, 'f32')])])]
    const word = this.#as(a.low, 'u32')
    if (a.type === 'bf16') return [this.#apply('shr', word, this.#word(16))]
    const { bytes } = TYPES[a.type]
    return [bytes === 4 ? word : this.#apply('and', word, this.#word(2 ** (8 * bytes) - 1))]
  }

  // ----

  /** An op of one node each, and what the type keeps of the result. */
  #plain(op: OpName, a: Lowered, b: Lowered): Lowered {
    return this.#rounded(a.type, this.#apply(op, a.low, b.low))
  }

  /** A result as the type holds it. */
  #rounded(type: AtlasType, node: Node): Lowered {
    switch (type) {
      case 'u8':
      case 'u16':
        return { type, low: this.#apply('and', node, this.#word(type === 'u8' ? 0xff : 0xffff)) }
      case 'i8':
      case 'i16': {
        const room = this.builder.constant(type === 'i8' ? 24 : 16, 'i32')
        return { type, low: this.#apply('shr', this.#apply('shl', node, room), room) }
      }
      case 'f16': {
        const packed = this.builder.apply('packF16', [this.builder.vec([node, this.builder.constant(0, 'f32')])])
        return this.fromWords('f16', packed)
      }
      case 'bf16': {
        const word = this.#as(node, 'u32')
        const odd = this.#apply('and', this.#apply('shr', word, this.#word(16)), this.#word(1))
        const up = this.#apply('add', this.#apply('add', word, this.#word(0x7fff)), odd)
        const cut = this.#as(this.#apply('and', up, this.#word(0xffff0000)), 'f32')
        return { type, low: this.#apply('select', this.#apply('eq', node, node), cut, node) }
      }
      default:
        return { type, low: node }
    }
  }

  #word(value: number): Node {
    return this.builder.constant(value, 'u32')
  }

  /** The same bits as another type of 32. */
  #as(node: Node, dtype: DType): Node {
    return node.dtype === dtype ? node : this.builder.apply('bitcast', [node], null, dtype)
  }

  #cast(node: Node, dtype: DType): Node {
    return node.dtype === dtype ? node : this.builder.apply('cast', [node], null, dtype)
  }

  #apply(op: OpName, ...src: readonly Node[]): Node {
    return this.builder.apply(op, src)
  }
}

export function highOf({ low, high }: Lowered): Node {
  return high ?? low
}

function wordsOf(a: Lowered): readonly [low: Node, high: Node] {
  return [a.low, highOf(a)]
}
