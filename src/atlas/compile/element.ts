// Values in the elements of a region: one element where that has the type of the value, else several, low bits first.

import { storageBytes } from '../../base/dtype.ts'
import type { Node } from '../../ir/node.ts'
import { type AtlasType, TYPES } from '../type.ts'
import type { Algebra, Lowered } from './algebra.ts'
import type { RegionPlan } from './memory.ts'

/** The value that begins at an element. */
export function loadValue(k: Algebra, { name, storage }: RegionPlan, index: Node, type: AtlasType): Lowered {
  const { builder } = k
  if (storage === type) return { type, low: builder.load(name, index, k.dtypeOf(type)) }
  const word = (value: number): Node => builder.constant(value, 'u32')
  const unit = storageBytes(storage)
  const words = new Array<Node>()
  for (let at = 0; at < TYPES[type].bytes; at += unit) {
    const element = builder.load(name, builder.apply('add', [index, word(at / unit)]), 'u32')
    const part = builder.apply('shl', [element, word(8 * (at % 4))])
    const before = words[Math.floor(at / 4)]
    words[Math.floor(at / 4)] = before === undefined ? part : builder.apply('or', [before, part])
  }
  const [low = word(0), high] = words
  return k.fromWords(type, low, high)
}

export function storeValue(k: Algebra, { name, storage }: RegionPlan, index: Node, value: Lowered): void {
  const { builder } = k
  if (storage === value.type) return builder.store(name, index, value.low)
  const word = (each: number): Node => builder.constant(each, 'u32')
  const unit = storageBytes(storage)
  const words = k.toWords(value)
  for (let at = 0; at < TYPES[value.type].bytes; at += unit) {
    const part = builder.apply('shr', [words[Math.floor(at / 4)] ?? word(0), word(8 * (at % 4))])
    const element = unit === 4 ? part : builder.apply('and', [part, word(2 ** (8 * unit) - 1)])
    builder.store(name, builder.apply('add', [index, word(at / unit)]), element)
  }
  return undefined
}
