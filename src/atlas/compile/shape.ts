// The shape of a graph: in which order its blocks come, which block every path to another goes through, and which are loops.

import { type Block, successorsOf } from './graph.ts'

export interface Shape {
  /** false: a loop is entered at two places, and no nesting of loops and branches says the same */
  readonly isReducible: boolean
  isLoop(id: number): boolean
  /** True for a jump back to the start of a loop. */
  isBack(from: number, to: number): boolean
  /** Where paths come together: inside the block's part of the graph, after it. */
  joinsOf(id: number): readonly number[]
  /** What comes after a loop that begins at the block. */
  exitsOf(id: number): readonly number[]
  /** True if the block is reached by name: it is one of some block's joins or exits. */
  isNamed(id: number): boolean
}

export function shapeOf(blocks: readonly Block[]): Shape {
  const order = orderOf(blocks)
  const rank = new Map(order.map((id, at) => [id, at]))
  const rankOf = (id: number): number => rank.get(id) ?? 0
  const edges = blocks.flatMap((block) => successorsOf(block).map((to): [number, number] => [block.id, to]))
  const before = new Map<number, number[]>()
  for (const [from, to] of edges) before.set(to, [...(before.get(to) ?? []), from])
  const dominators = dominatorsOf(order, before, rankOf)
  const dominates = (a: number, b: number): boolean => {
    let at = b
    while (rankOf(at) > rankOf(a)) at = dominators.get(at) ?? 0
    return at === a
  }
  const isBack = (from: number, to: number): boolean => rankOf(to) <= rankOf(from)
  const back = edges.filter(([from, to]) => isBack(from, to))
  const loops = loopsOf(back, before)
  const joins = new Map<number, number[]>()
  const exits = new Map<number, number[]>()
  const named = new Set<number>()
  const put = (lists: Map<number, number[]>, at: number, id: number): void => {
    named.add(id)
    lists.set(at, [...(lists.get(at) ?? []), id])
  }
  for (const id of order.slice(1)) {
    const above = dominators.get(id) ?? 0
    const left = order.find((head) => loops.get(head)?.has(above) === true && loops.get(head)?.has(id) === false)
    const arrivals = new Set((before.get(id) ?? []).filter((from) => !isBack(from, id)))
    if (left !== undefined) put(exits, left, id)
    else if (arrivals.size > 1) put(joins, above, id)
  }
  return {
    isReducible: back.every(([from, to]) => dominates(to, from)),
    isLoop: (id) => loops.has(id),
    isBack,
    joinsOf: (id) => joins.get(id) ?? [],
    exitsOf: (id) => exits.get(id) ?? [],
    isNamed: (id) => named.has(id),
  }
}

/** Every block before those that it leads to, but for jumps back. */
function orderOf(blocks: readonly Block[]): number[] {
  const seen = new Set([0])
  const done: number[] = []
  const stack = [{ id: 0, left: nextOf(blocks, 0) }]
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const next = top.left.pop()
    if (next === undefined) {
      done.push(top.id)
      stack.pop()
    } else if (!seen.has(next)) {
      seen.add(next)
      stack.push({ id: next, left: nextOf(blocks, next) })
    }
  }
  return done.toReversed()
}

function nextOf(blocks: readonly Block[], id: number): number[] {
  const block = blocks[id]
  return block === undefined ? [] : successorsOf(block)
}

/** By block: the last one that every path to it goes through (Cooper, Harvey, Kennedy: "A simple, fast dominance algorithm"). */
function dominatorsOf(
  order: readonly number[],
  before: ReadonlyMap<number, number[]>,
  rankOf: (id: number) => number,
): Map<number, number> {
  const above = new Map([[0, 0]])
  const meet = (a: number, b: number): number => {
    let [x, y] = [a, b]
    while (x !== y) {
      if (rankOf(x) > rankOf(y)) x = above.get(x) ?? 0
      else y = above.get(y) ?? 0
    }
    return x
  }
  for (let changed = true; changed;) {
    changed = false
    for (const id of order.slice(1)) {
      const known = (before.get(id) ?? []).filter((from) => above.has(from))
      const found = known.reduce(meet)
      changed ||= above.get(id) !== found
      above.set(id, found)
    }
  }
  return above
}

/** By first block: all blocks of a loop. */
function loopsOf(back: readonly (readonly [from: number, to: number])[], before: ReadonlyMap<number, number[]>): Map<number, Set<number>> {
  const loops = new Map<number, Set<number>>()
  for (const [from, head] of back) {
    const loop = loops.get(head) ?? new Set([head])
    loops.set(head, loop)
    const waiting = [from]
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      if (loop.has(id)) continue
      loop.add(id)
      waiting.push(...(before.get(id) ?? []))
    }
  }
  return loops
}
