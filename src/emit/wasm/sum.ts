// How sums of products of bytes are said where 16 bits hold several of them (pair.ts): pairs of products first, which a multiplication with a
// number, or with one, then adds up to 32 bits.

import type { Node } from '../../ir/node.ts'
import { type Dot, type Pairs, type Product, chainOf } from './pair.ts'
import type { Speaker } from './speaker.ts'
import { addPairs, sayTwice } from './spell-vector.ts'

/** Who says such sums: names of factors may stand for what is in both halves of a lane, too. */
type SumSpeaker = Speaker & { twiceOf(node: Node): number | undefined }

/** Products of one chain: runs of them are added in 16 bits, each run's sums then in 32. */
export function sayDots(speaker: Speaker, pairs: Pairs, node: Node): void {
  const { dots, sum } = chainOf(node)
  speaker.say(sum)
  for (const run of pairs.runs(dots)) {
    sayPairs(speaker, run)
    addPairs(speaker.f)
    speaker.f.emit('i32x4.add')
  }
}

/** First what is not a product, then a run of each product in turn. */
export function saySum(speaker: SumSpeaker, pairs: Pairs, node: Node): void {
  const { products, others } = pairs.termsOf(node)
  others.forEach((other, index) => {
    speaker.say(other)
    if (index > 0) speaker.f.emit('i32x4.add')
  })
  sayProducts(speaker, products, others.length > 0)
}

/**
 * Products added to what is on the stack, if there are `others`: one sum, to which run after run is added. V8 orders what does not depend on
 * each other by how far it is from the end, so that several sums side by side would have all they are made of in registers at once.
 */
export function sayProducts(speaker: SumSpeaker, products: readonly Product[], others: boolean): void {
  const longest = Math.max(...products.map(({ runs }) => runs.length))
  let isFirst = !others
  for (let at = 0; at < longest; at++) {
    for (const { runs, factor } of products) {
      const run = runs[at]
      if (run === undefined) continue
      sayPairs(speaker, run)
      const twice = speaker.twiceOf(factor)
      if (twice === undefined) sayTwice(speaker, factor)
      else speaker.f.localGet(twice)
      speaker.f.emit('i32x4.dot_i16x8_s')
      if (!isFirst) speaker.f.emit('i32x4.add')
      isFirst = false
    }
  }
}

/** Sums of two products of bytes, in 16 bits. */
function sayPairs(speaker: Speaker, dots: readonly Dot[]): void {
  dots.forEach(({ src: [quants, others] }, index) => {
    speaker.say(others)
    speaker.say(quants)
    speaker.f.emit('i16x8.relaxed_dot_i8x16_i7x16_s')
    if (index > 0) speaker.f.emit('i16x8.add')
  })
}
