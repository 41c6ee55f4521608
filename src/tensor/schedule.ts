// A home for every result of ordered nodes. Results share slots: a slot is a buffer of the plan's arena that serves one tensor after
// another, as soon as the last reader of one is done. Slots are whole buffers, since WebGPU does not let a dispatch read and write one
// buffer. What is assigned to memory is computed right there where nothing else needs the old value any more. Pure: decides sizes and
// sharing, allocates nothing.

import { type NodeOf, type TensorNode, bytesOf, operandsOf } from './node.ts'
import { hasKernels } from './op/index.ts'
import { mapInPlace } from './op/map.ts'
import { type Order, type Value, isAlias, overwritten, valueOf } from './order.ts'
import type { Storage } from './storage.ts'

/** Where a tensor's bytes are: in a slot of the arena, or in the memory of a leaf. */
export type Place = { readonly slot: number } | { readonly leaf: NodeOf<'leaf'> }

/** Something to do: run a node's kernels, or copy the bytes of one operand. */
export interface Step {
  /** whose result it is */
  readonly result: TensorNode
  /** what gives it: the node itself, or its form that works in place */
  readonly node: TensorNode
}

export interface Schedule {
  readonly steps: readonly Step[]
  /** Slots for results and for the scratch memory of steps, given how much of it each needs. What is kept has a slot for itself. */
  allocate(scratchOf: (step: Step) => Readonly<Record<string, number>>, keep: (node: TensorNode) => boolean): Allocation
}

export interface Allocation {
  readonly slotBytes: readonly number[]
  /** slots of results that are kept */
  readonly kept: ReadonlyMap<TensorNode, number>
  /** slots of a step's scratch buffers, by name */
  scratchOf(step: Step): Readonly<Record<string, number>>
  placeOf(node: TensorNode): Place
}

/** The node whose memory a node's result is in: itself, a leaf, or another whose memory it takes over. */
type Home = TensorNode

export function schedule({ roots, nodes }: Order): Schedule {
  const direct = findDirect(nodes)
  const homes = new Map<TensorNode, Home>()
  for (const node of nodes) {
    const from = direct.get(node)?.target ?? (isAlias(node) ? operandsOf(node)[0] : overwritten(node))
    homes.set(node, from === undefined ? node : (homes.get(from) ?? from))
  }
  const home = (node: TensorNode): Home => homes.get(node) ?? node
  const assigned = new Set([...direct.values()].map(({ assign }) => assign))
  const steps = nodes.flatMap((node): Step[] => {
    const isThere = node.op === 'leaf' || isAlias(node) || assigned.has(node) || isAssignedToItself(node)
    return isThere ? [] : [{ result: node, node: direct.get(node)?.node ?? node }]
  })
  return { steps, allocate: (scratchOf, keep) => allocate(steps, roots, home, scratchOf, keep) }
}

/** Whether the memory has the value already. */
function isAssignedToItself(node: TensorNode): boolean {
  return node.op === 'assign' && valueOf(node.src[0]) === valueOf(node.src[1])
}

function allocate(
  steps: readonly Step[],
  roots: readonly TensorNode[],
  home: (node: TensorNode) => Home,
  scratchOf: (step: Step) => Readonly<Record<string, number>>,
  keep: (node: TensorNode) => boolean,
): Allocation {
  const lastUse = new Map<Home, number>()
  steps.forEach(({ node }, at) => {
    for (const operand of operandsOf(node)) lastUse.set(home(operand), at)
  })
  for (const root of roots) lastUse.set(home(root), Infinity)

  const tenants: Tenant[] = []
  const own = new Map<Home, Tenant>()
  const scratch = new Map<Step, Readonly<Record<string, Tenant>>>()
  const add = (bytes: number, from: number, to: number): Tenant => {
    const tenant: Tenant = { bytes, from, to, slot: -1 }
    tenants.push(tenant)
    return tenant
  }
  steps.forEach((step, at) => {
    const place = home(step.result)
    if (place === step.result) own.set(place, add(bytesOf(place), at, keep(place) ? Infinity : Math.max(at, lastUse.get(place) ?? at)))
    scratch.set(step, Object.fromEntries(Object.entries(scratchOf(step)).map(([name, bytes]) => [name, add(bytes, at, at)])))
  })
  const kept = [...own].filter(([node]) => keep(node))
  const slotBytes = shareSlots(tenants, new Set(kept.map(([, tenant]) => tenant)))

  return {
    slotBytes,
    kept: new Map(kept.map(([node, { slot }]) => [node, slot])),
    scratchOf: (step) => Object.fromEntries(Object.entries(scratch.get(step) ?? {}).map(([name, { slot }]) => [name, slot])),
    placeOf(node) {
      const place = home(node)
      if (place.op === 'leaf') return { leaf: place }
      const tenant = own.get(place)
      if (tenant === undefined) throw new Error(`${node.op} has no place`)
      return { slot: tenant.slot }
    },
  }
}

/** A value that is computed right in the memory that it is assigned to. */
interface Direct {
  readonly assign: TensorNode
  readonly target: TensorNode
  /** what computes it: the value's node, or its form that works in place */
  readonly node: TensorNode
}

/** By value: the assignments that need no copy. Everything that reads the old value must come before the new one is computed. */
function findDirect(nodes: readonly TensorNode[]): ReadonlyMap<TensorNode, Direct> {
  const position = new Map(nodes.map((node, at) => [node, at]))
  const readers = new Map<Value, TensorNode[]>()
  const changes = new Map<Storage, number>()
  for (const node of nodes) {
    if (isAlias(node)) continue
    for (const value of new Set(operandsOf(node).map(valueOf))) readers.set(value, [...(readers.get(value) ?? []), node])
    const storage = storageOf(node)
    if (storage !== undefined) changes.set(storage, (changes.get(storage) ?? 0) + 1)
  }
  const direct = new Map<TensorNode, Direct>()
  for (const assign of nodes) {
    if (assign.op !== 'assign') continue
    const [target, value] = assign.src
    // A leaf that changes several times is left to copies, which come in order.
    if (target.op !== 'leaf' || changes.get(target.attrs.storage) !== 1 || direct.has(value)) continue
    const node = inMemoryOf(value, target.attrs.storage)
    const made = position.get(value) ?? 0
    const others = (readers.get(target.attrs.storage) ?? []).filter((reader) => reader !== value && reader !== assign)
    const areDone = others.every((reader) => (position.get(reader) ?? 0) < made)
    if (node !== undefined && areDone) direct.set(value, { assign, target, node })
  }
  return direct
}

/** The leaf that a node changes in the end. */
function storageOf(node: TensorNode): Storage | undefined {
  let target = overwritten(node)
  for (let next = target; next !== undefined; next = isAlias(next) ? operandsOf(next)[0] : overwritten(next)) target = next
  return target?.op === 'leaf' ? target.attrs.storage : undefined
}

/** A node that gives the value in memory that holds `old` while it is computed; undefined if it cannot. */
function inMemoryOf(value: TensorNode, old: Storage): TensorNode | undefined {
  if (!hasKernels(value.op) || overwritten(value) !== undefined) return undefined
  const [inPlace, ...more] = operandsOf(value).flatMap((operand, i) => (valueOf(operand) === old ? [i] : []))
  if (inPlace === undefined) return value
  // Only a map reads each element before it is written, if it reads it where it writes.
  return value.op === 'map' && more.length === 0 ? mapInPlace(value, inPlace) : undefined
}

/** Something that needs a slot from one step to another, both included: what a step reads is not where it writes. */
interface Tenant {
  readonly bytes: number
  readonly from: number
  readonly to: number
  slot: number
}

/**
 * Gives every tenant a slot; `alone` ones share it with nobody. The largest choose first, so that no slot ever grows, and each takes the
 * smallest slot that is free all the time it is there: small results that stay long end up where large ones have been and gone.
 */
function shareSlots(tenants: readonly Tenant[], alone: ReadonlySet<Tenant>): number[] {
  const slots: { readonly bytes: number; readonly tenants: Tenant[] }[] = []
  const isFree = (slot: number, { from, to }: Tenant): boolean =>
    slots[slot]?.tenants.every((other) => other.to < from || other.from > to) ?? false
  for (const tenant of tenants.toSorted((a, b) => b.bytes - a.bytes)) {
    let slot = alone.has(tenant) ? -1 : slots.length - 1
    // The last slots are the smallest.
    while (slot >= 0 && !isFree(slot, tenant)) slot--
    if (slot < 0) slot = slots.push({ bytes: tenant.bytes, tenants: alone.has(tenant) ? [{ ...tenant, from: 0, to: Infinity }] : [] }) - 1
    slots[slot]?.tenants.push(tenant)
    tenant.slot = slot
  }
  return slots.map(({ bytes }) => bytes)
}
