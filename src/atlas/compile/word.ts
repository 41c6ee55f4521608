// Integers of 64 bits as two words of 32, low word first: what takes more than a line of it. All of it is exact.

import type { Builder } from '../../ir/build.ts'
import type { Node } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'

type Words = readonly [low: Node, high: Node]

const word = (b: Builder, value: number): Node => b.constant(value, 'u32')
const apply = (b: Builder, op: OpName, ...src: readonly Node[]): Node => b.apply(op, src)

/** The low 64 bits of a product. */
export function multiplyWords(b: Builder, x: Words, y: Words): Words {
  const [low, carry] = product(b, x[0], y[0])
  const cross = apply(b, 'add', apply(b, 'mul', x[0], y[1]), apply(b, 'mul', x[1], y[0]))
  return [low, apply(b, 'add', carry, cross)]
}

/** All 64 bits of the product of two words, by halves. */
function product(b: Builder, x: Node, y: Node): Words {
  const half = word(b, 16)
  const mask = word(b, 0xffff)
  const parts = (node: Node): Words => [apply(b, 'and', node, mask), apply(b, 'shr', node, half)]
  const [xLow, xHigh] = parts(x)
  const [yLow, yHigh] = parts(y)
  const first = apply(b, 'mul', xLow, yLow)
  const second = apply(b, 'add', apply(b, 'mul', xHigh, yLow), apply(b, 'shr', first, half))
  const third = apply(b, 'add', apply(b, 'mul', xLow, yHigh), apply(b, 'and', second, mask))
  const high = apply(b, 'add', apply(b, 'mul', xHigh, yHigh), apply(b, 'add', apply(b, 'shr', second, half), apply(b, 'shr', third, half)))
  return [apply(b, 'mul', x, y), high]
}

/** By 0 to 63 places; what is above is ignored. */
export function shiftWordsLeft(b: Builder, [low, high]: Words, amount: Node): Words {
  const { by, rest, isFar } = places(b, amount)
  const near = apply(b, 'or', apply(b, 'shl', high, by), apply(b, 'shr', apply(b, 'shr', low, word(b, 1)), rest))
  const moved = apply(b, 'shl', low, by)
  return [apply(b, 'select', isFar, word(b, 0), moved), apply(b, 'select', isFar, moved, near)]
}

export function shiftWordsRight(b: Builder, [low, high]: Words, amount: Node, isSigned: boolean): Words {
  const { by, rest, isFar } = places(b, amount)
  const near = apply(b, 'or', apply(b, 'shr', low, by), apply(b, 'shl', apply(b, 'shl', high, word(b, 1)), rest))
  const down = (places: Node): Node =>
    isSigned
      ? b.apply(
          'bitcast',
          [apply(b, 'shr', b.apply('bitcast', [high], null, 'i32'), b.apply('bitcast', [places], null, 'i32'))],
          null,
          'u32',
        )
      : apply(b, 'shr', high, places)
  const moved = down(by)
  const above = isSigned ? down(word(b, 31)) : word(b, 0)
  return [apply(b, 'select', isFar, moved, near), apply(b, 'select', isFar, above, moved)]
}

/** Within a word: by how much; the other way after one step; whether it is a word further. A shift by 32 would be one by 0. */
function places(b: Builder, amount: Node): { by: Node; rest: Node; isFar: Node } {
  const by = apply(b, 'and', amount, word(b, 31))
  return {
    by,
    rest: apply(b, 'sub', word(b, 31), by),
    isFar: apply(b, 'ne', apply(b, 'and', amount, word(b, 32)), word(b, 0)),
  }
}

/** The quotient of unsigned integers, bit by bit, as on paper; by 0 it is all ones. */
export function divideWords(b: Builder, x: Words, y: Words): Words {
  const divisor: Words = [b.bind('divisor', y[0]), b.bind('divisor', y[1])]
  const names = ['low', 'high', 'restLow', 'restHigh'] as const
  const ids = names.map((name, i) => b.variable(name, i < 2 ? x[i === 0 ? 0 : 1] : word(b, 0)))
  const get = (i: number): Node => b.get(names[i] ?? '', ids[i] ?? 0, 'u32')
  const set = (i: number, value: Node): void => b.set(ids[i] ?? 0, value)
  const top = word(b, 31)
  b.for('bit', [word(b, 0), word(b, 64), word(b, 1)], () => {
    const [low, high, restLow, restHigh] = [get(0), get(1), get(2), get(3)]
    // the rest may have 65 bits: the one that falls out says that it is larger than the divisor
    const out = apply(b, 'ne', apply(b, 'shr', restHigh, top), word(b, 0))
    const double = (a: Node, below: Node): Node => apply(b, 'or', apply(b, 'shl', a, word(b, 1)), apply(b, 'shr', below, top))
    const rest: Words = [b.bind('rest', double(restLow, high)), b.bind('rest', double(restHigh, restLow))]
    const isHigher = apply(b, 'or', out, apply(b, 'gt', rest[1], divisor[1]))
    const isEqual = apply(b, 'and', apply(b, 'eq', rest[1], divisor[1]), apply(b, 'ge', rest[0], divisor[0]))
    const fits = b.bind('fits', apply(b, 'or', isHigher, isEqual))
    const borrow = apply(b, 'select', apply(b, 'lt', rest[0], divisor[0]), word(b, 1), word(b, 0))
    const less: Words = [apply(b, 'sub', rest[0], divisor[0]), apply(b, 'sub', apply(b, 'sub', rest[1], divisor[1]), borrow)]
    set(0, apply(b, 'or', apply(b, 'shl', low, word(b, 1)), apply(b, 'select', fits, word(b, 1), word(b, 0))))
    set(1, double(high, low))
    set(2, apply(b, 'select', fits, less[0], rest[0]))
    set(3, apply(b, 'select', fits, less[1], rest[1]))
  })
  return [get(0), get(1)]
}
