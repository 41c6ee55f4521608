// Values of tensors, when they are asked for. What is asked for in one go is computed together, as one submission; intermediate results
// that somebody still holds stay on the device, so that nothing is computed twice. Evaluations on a device take turns, but the next one is
// prepared while the last one runs.

import type { BufferHandle, Device } from '../device/device.ts'
import { type DeviceChoice, resolveDevice } from './default-device.ts'
import { operandsFirst } from './graph.ts'
import { lowerGraph } from './lowering.ts'
import { type Handle, type TensorNode, bytesOf } from './node.ts'
import { relieve } from './pressure.ts'
import type { Lowered } from './recipe.ts'
import { Storage } from './storage.ts'

/** A node whose value is wanted: as bytes, or only on its device. */
interface Wish {
  readonly node: TensorNode
  readonly choice: DeviceChoice | undefined
  readonly read: boolean
  resolve(bytes: Uint8Array): void
  reject(error: unknown): void
}

const wishes: Wish[] = []
/** The last evaluation of each device: the next one waits until it is submitted. */
const turns = new WeakMap<Device, Promise<void>>()

/** The bytes of a node's value. */
export function readNode(node: TensorNode, choice: DeviceChoice | undefined): Promise<Uint8Array> {
  return wish(node, choice, true)
}

/** Computes a node's value and leaves it on the device; its handle is told. */
export async function realizeNode(node: TensorNode, choice: DeviceChoice | undefined): Promise<void> {
  await wish(node, choice, false)
}

function wish(node: TensorNode, choice: DeviceChoice | undefined, read: boolean): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    if (wishes.push({ node, choice, read, resolve, reject }) === 1) queueMicrotask(flush)
  })
}

/** All that was asked for since the last time, by device. */
function flush(): void {
  const groups = new Map<DeviceChoice | undefined, Wish[]>()
  for (const each of wishes.splice(0)) groups.set(each.choice, [...(groups.get(each.choice) ?? []), each])
  for (const [choice, group] of groups) {
    resolveDevice(choice).then(
      (device) => takeTurn(device, group),
      (error: unknown) => group.forEach(({ reject }) => reject(error)),
    )
  }
}

function takeTurn(device: Device, group: readonly Wish[]): void {
  const before = turns.get(device) ?? Promise.resolve()
  const turn = before.then(() => evaluate(device, group)).catch((error: unknown) => group.forEach(({ reject }) => reject(error)))
  turns.set(device, turn)
}

/** Resolves when everything is submitted; the wishes are answered when it is done. */
async function evaluate(device: Device, group: readonly Wish[]): Promise<void> {
  await relieve(device)
  const roots = group.map(({ node }) => node)
  uploadLeaves(device, roots)
  const back = group.flatMap(({ read }, root) => (read ? [root] : []))
  const lowered = await lowerGraph(device, roots, { reads: roots.length, back, keep: isHeld })
  let done: Promise<Uint8Array[]>
  try {
    done = lowered.count === 0 ? Promise.resolve([]) : device.submit(lowered.work, lowered.ranges)
  } catch (error) {
    for (const buffer of new Set(lowered.values.flatMap(({ from }) => ('buffer' in from ? [from.buffer] : [])))) device.free(buffer)
    throw error
  } finally {
    for (const slot of lowered.slots) device.free(slot)
  }
  const settled = settle(device, lowered)
  done.then(
    (results) => answer(group, results),
    (error: unknown) => {
      settled.takeBack(error)
      for (const { reject } of group) reject(error)
    },
  )
}

function answer(group: readonly Wish[], results: readonly Uint8Array[]): void {
  let next = 0
  for (const { node, read, resolve } of group)
    resolve(read ? (results[next++] ?? new Uint8Array(0)).subarray(0, bytesOf(node)) : new Uint8Array(0))
}

/** What is on the host comes to the device. */
export function uploadLeaves(device: Device, roots: readonly TensorNode[]): Storage[] {
  const leaves = operandsFirst(roots).flatMap((node) => (node.op === 'leaf' ? [node.attrs.storage] : []))
  for (const storage of leaves) storage.upload(device)
  return leaves
}

/** Whether the value of a node may be asked for again. */
function isHeld(node: TensorNode): boolean {
  return handleOf(node) !== undefined
}

interface Settled {
  /** Nothing was computed: everybody has what there was before, and may ask again. */
  takeBack(error: unknown): void
}

/** Tells everybody who holds a value where it will be. */
function settle(device: Device, { values }: Lowered<unknown>): Settled {
  const made = new Map<BufferHandle, Storage>()
  const undo: (() => void)[] = []
  for (const { node, from } of values) {
    const storage = 'buffer' in from ? (made.get(from.buffer) ?? Storage.owning(device, from.buffer, from.bytes)) : storageOf(from)
    if ('buffer' in from && storage !== undefined) made.set(from.buffer, storage)
    const taken = storage === undefined ? undefined : handleOf(node)?.settle(storage)
    if (taken !== undefined) undo.push(taken)
  }
  return {
    takeBack: (error) => {
      for (const storage of made.values()) storage.fail(error)
      for (const each of undo) each()
    },
  }
}

function storageOf(leaf: TensorNode): Storage | undefined {
  return leaf.op === 'leaf' ? leaf.attrs.storage : undefined
}

function handleOf(node: TensorNode): Handle | undefined {
  const handle = node.handle?.deref()
  return handle?.isWanted === true ? handle : undefined
}
