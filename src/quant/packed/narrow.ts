// How blocks of 256 are multiplied where a register holds four rows (WebAssembly, NEON). Sixteen vector registers are few, and an
// engine that loads everything a stretch of code needs before it computes (V8 does) spills all that does not fit. So the steps over
// a sub-block's words are a loop with a small body, which takes a few registers of rows at a time; halves are decoded once per block.

import { item } from '../../base/list.ts'
import type { LaneScope } from '../../ir/author.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { type PackedTile, zeros } from './packed.ts'

/** widest register, in rows, that is served from here */
export const NARROW = 4
/** sums of products that fit the registers beside what is being multiplied */
const MOST_DOTS = 8

export interface NarrowBlock {
  /** steps of the loop over words, and words per step */
  readonly steps: number
  readonly words: number
  /** sub-blocks that share the words of quants */
  readonly subs: number
  /** quants stay below 128 */
  readonly small: boolean
  /** word `step * words + plus` of the quants, one vector for each sub-block */
  quants(word: Value<'u32'>, plus: number, group: number): readonly VectorOf<'u32'>[]
  /** four activations of a column for one sub-block */
  activations(column: number, sub: number, word: Value<'u32'>, plus: number): Value<'u32'>
}

/** Groups of rows that are multiplied together, from as many streams as there are. */
export function narrowGroups({ sums, streams }: PackedTile, subs: number, most = MOST_DOTS): number[][] {
  const perStream = sums.length / streams
  const places = sums.map((_, at) => (at % streams) * perStream + Math.floor(at / streams))
  const size = Math.max(1, Math.min(places.length, Math.floor(most / (subs * item(sums, 0).length))))
  return places.filter((_, at) => at % size === 0).map((_, pass) => places.slice(pass * size, (pass + 1) * size))
}

/** The products of some groups of rows with all columns: [group][column][sub]. */
export function dotNarrow(k: LaneScope, { width, sums }: PackedTile, groups: readonly number[], block: NarrowBlock): VectorOf<'i32'>[][][] {
  const { steps, words, subs, small } = block
  const columns = item(sums, 0).map((_, column) => column)
  const subBlocks = Array.from({ length: subs }, (_, sub) => sub)
  const dots = groups.map(() => columns.map(() => subBlocks.map(() => k.var('dot', zeros(k, width)))))
  k.for({ name: 'step', to: steps }, (step) => {
    const word = step.mul(words)
    const totals = dots.map((all) => all.map((each) => each.map((dot) => dot.get())))
    for (let plus = 0; plus < words; plus++) {
      const activations = columns.map((column) =>
        subBlocks.map((sub) => k.let('a', block.activations(column, sub, word, plus).splat(width))),
      )
      groups.forEach((group, g) => {
        const quants = block.quants(word, plus, group)
        for (const column of columns) {
          item(totals, g)[column] = item(item(totals, g), column).map((total, sub) => {
            const [q, a] = [item(quants, sub), item(item(activations, column), sub)]
            return small ? q.dotU7I8(a, total) : q.dotU8I8(a, total)
          })
        }
      })
    }
    dots.forEach((all, g) => all.forEach((each, column) => each.forEach((dot, sub) => dot.set(item(item(item(totals, g), column), sub)))))
  })
  return dots.map((all) => all.map((each) => each.map((dot) => dot.get())))
}
