// From a graph to an order of steps and a home for every result. Results share slots: a slot is a buffer of the plan's arena
// that serves one tensor after another, as soon as the last reader of one is done. Slots are whole buffers, since WebGPU
// does not let a dispatch read and write one buffer. Pure: decides sizes and sharing, allocates nothing.

import { type LeafAttrs, type TensorNode, bytesOf, leafOf } from './node.ts'
import { tensorOp } from './op.ts'

/** Where a tensor's bytes are: in a slot of the arena, or in the buffer of a leaf. */
export type Place = { readonly slot: number } | { readonly leaf: LeafAttrs }

export interface ScheduledNode {
  readonly node: TensorNode
  /** slots of the step's scratch buffers, by name */
  readonly scratch: Readonly<Record<string, number>>
}

export interface Schedule {
  readonly steps: readonly ScheduledNode[]
  readonly slotBytes: readonly number[]
  placeOf(node: TensorNode): Place
}

/**
 * Orders the nodes below `roots`, operands first, in the order of the roots. `assigned` results are written straight into a leaf's
 * memory. `kept` results keep their slot to the end. `scratchOf` tells what a step needs besides.
 */
export function schedule(
  roots: readonly TensorNode[],
  {
    assigned,
    scratchOf,
  }: { assigned: ReadonlyMap<TensorNode, LeafAttrs>; scratchOf: (node: TensorNode) => Readonly<Record<string, number>> },
): Schedule {
  const order = sort(roots)
  const homes = new Map<TensorNode, TensorNode>()
  for (const node of order) {
    const { inPlace } = node.op === 'leaf' ? {} : tensorOp(node.op)
    const target = inPlace === undefined ? undefined : node.src[inPlace]
    homes.set(node, target === undefined ? node : (homes.get(target) ?? target))
  }
  const home = (node: TensorNode): TensorNode => homes.get(node) ?? node
  const steps = order.filter((node) => node.op !== 'leaf' && node.op !== 'reshape')

  const lastUse = new Map<TensorNode, number>()
  steps.forEach((node, at) => {
    for (const child of node.src) lastUse.set(home(child), at)
  })
  for (const root of roots) lastUse.set(home(root), Infinity)

  const slots = new Slots()
  const slotOf = new Map<TensorNode, number>()
  const planned = steps.map((node, at): ScheduledNode => {
    const own = home(node)
    if (own === node && !assigned.has(node)) slotOf.set(node, slots.take(bytesOf(node)))
    const scratch = Object.fromEntries(Object.entries(scratchOf(node)).map(([name, bytes]) => [name, slots.take(bytes)]))
    for (const slot of Object.values(scratch)) slots.give(slot)
    for (const child of new Set([...node.src.map(home), own])) {
      const slot = slotOf.get(child)
      if (slot !== undefined && (lastUse.get(child) ?? at) <= at) slots.give(slot)
    }
    return { node, scratch }
  })

  return {
    steps: planned,
    slotBytes: slots.bytes,
    placeOf(node) {
      const own = home(node)
      const leaf = assigned.get(own) ?? leafOf(own)
      if (leaf !== undefined) return { leaf }
      const slot = slotOf.get(own)
      if (slot === undefined) throw new Error(`${node.op} has no place`)
      return { slot }
    },
  }
}

/** Operands before their users; deep graphs must not overflow the stack. */
function sort(roots: readonly TensorNode[]): TensorNode[] {
  const order: TensorNode[] = []
  const state = new Map<TensorNode, 'open' | 'done'>()
  const stack = roots.toReversed()
  while (stack.length > 0) {
    const node = stack.at(-1)
    if (node === undefined) break
    if (state.get(node) === undefined) {
      state.set(node, 'open')
      for (const child of node.src.toReversed()) if (state.get(child) === undefined) stack.push(child)
    } else {
      stack.pop()
      if (state.get(node) === 'open') {
        state.set(node, 'done')
        order.push(node)
      }
    }
  }
  return order
}

class Slots {
  readonly bytes: number[] = []
  readonly #free = new Set<number>()

  /** The free slot that fits best; else the largest free one, grown; else a new one. */
  take(bytes: number): number {
    let best = -1
    for (const slot of this.#free) {
      const [size, chosen] = [this.bytes[slot] ?? 0, this.bytes[best] ?? -1]
      const better = best < 0 || (size >= bytes ? chosen < bytes || size < chosen : chosen < bytes && size > chosen)
      if (better) best = slot
    }
    if (best < 0) return this.bytes.push(bytes) - 1
    this.#free.delete(best)
    this.bytes[best] = Math.max(this.bytes[best] ?? 0, bytes)
    return best
  }

  give(slot: number): void {
    this.#free.add(slot)
  }
}
