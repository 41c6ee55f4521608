// Values of tensors, when they are asked for. What is asked for in one go is computed together, as one submission; intermediate results
// that somebody still holds stay on the device, so that nothing is computed twice. Evaluations on a device take turns, but the next one is
// prepared while the last one runs. What is known already, a device that is open and a graph that was seen before, is not waited for.

import type { Device } from '../device/device.ts'
import { type DeviceChoice, openDevice, resolveDevice } from './default-device.ts'
import { operandsFirst } from './graph.ts'
import { recipeFor } from './lowering.ts'
import { type TensorNode, becomeLeaf, bytesOf } from './node.ts'
import { checkDoubles } from './operand.ts'
import { relieve } from './pressure.ts'
import { type Lowered, fillIn, leafAt } from './recipe.ts'
import { numberNodes } from './signature.ts'
import { Storage } from './storage.ts'

/** A node whose value is wanted: as bytes, or only on its device. */
interface Wish {
  readonly node: TensorNode
  readonly choice: DeviceChoice | undefined
  readonly read: boolean
  resolve(bytes: Uint8Array): void
  reject(error: unknown): void
}

let wishes: Wish[] = []
/** The evaluation of each device that is not submitted yet: the next one waits until it is. */
const turns = new WeakMap<Device, Promise<void>>()

/** The bytes of a node's value. They belong to the caller. */
export function readNode(node: TensorNode, choice: DeviceChoice | undefined): Promise<Uint8Array> {
  return wish(node, choice, true)
}

/** Computes a node's value and leaves it on the device; its handle is told. */
export function realizeNode(node: TensorNode, choice: DeviceChoice | undefined): Promise<unknown> {
  return wish(node, choice, false)
}

function wish(node: TensorNode, choice: DeviceChoice | undefined, read: boolean): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    if (wishes.push({ node, choice, read, resolve, reject }) === 1) queueMicrotask(flush)
  })
}

/** All that was asked for since the last time, by device. */
function flush(): void {
  const all = wishes
  wishes = []
  const [first] = all
  if (first !== undefined && all.every(({ choice }) => choice === first.choice)) return serve(first.choice, all)
  const groups = new Map<DeviceChoice | undefined, Wish[]>()
  for (const each of all) groups.set(each.choice, [...(groups.get(each.choice) ?? []), each])
  for (const [choice, group] of groups) serve(choice, group)
}

function serve(choice: DeviceChoice | undefined, group: readonly Wish[]): void {
  const open = openDevice(choice)
  if (open !== undefined) return takeTurn(open, group)
  resolveDevice(choice).then(
    (device) => takeTurn(device, group),
    (error: unknown) => rejectAll(group, error),
  )
}

function rejectAll(group: readonly Wish[], error: unknown): void {
  for (const { reject } of group) reject(error)
}

function takeTurn(device: Device, group: readonly Wish[]): void {
  const before = turns.get(device)
  const turn = before === undefined ? begin(device, group) : before.then(() => begin(device, group))
  if (turn === undefined) return
  turns.set(device, turn)
  const forget = (): void => {
    if (turns.get(device) === turn) turns.delete(device)
  }
  void turn.then(forget)
}

/** Resolves when everything is submitted, well or badly; undefined if it is already. */
function begin(device: Device, group: readonly Wish[]): Promise<void> | undefined {
  const failed = (error: unknown): void => rejectAll(group, error)
  try {
    const relief = relieve(device)
    const turn = relief === undefined ? evaluate(device, group) : relief.then(() => evaluate(device, group))
    return turn?.catch(failed)
  } catch (error) {
    failed(error)
    return undefined
  }
}

/** The wishes are answered when the work is done. */
function evaluate(device: Device, group: readonly Wish[]): Promise<void> | undefined {
  const graph = numberNodes(group.map(({ node }) => node))
  for (const node of graph.nodes) {
    if (node.op === 'leaf') node.attrs.storage.upload(device)
    checkDoubles(node, device)
  }
  const back: number[] = []
  for (let root = 0; root < group.length; root++) if (group[root]?.read === true) back.push(root)
  const recipe = recipeFor(device, graph, { reads: group.length, back, keep: isHeld })
  if ('then' in recipe) return recipe.then((made) => submit(device, group, fillIn(device, made, graph)))
  submit(device, group, fillIn(device, recipe, graph))
  return undefined
}

function submit(device: Device, group: readonly Wish[], lowered: Lowered): void {
  const { recipe, work, ranges, buffers } = lowered
  let done: Promise<Uint8Array[]>
  try {
    done = recipe.commands.length === 0 ? Promise.resolve([]) : device.submit(work, ranges)
  } catch (error) {
    for (const buffer of buffers) device.free(buffer)
    throw error
  }
  for (let slot = 0; slot < buffers.length; slot++) {
    const buffer = buffers[slot]
    if (buffer !== undefined && !recipe.keptSlots.has(slot)) device.free(buffer)
  }
  const settled = settle(device, lowered)
  done.then(
    (results) => answer(group, results),
    (error: unknown) => {
      settled.takeBack(error)
      rejectAll(group, error)
    },
  )
}

const NOTHING = new Uint8Array(0)

function answer(group: readonly Wish[], results: readonly Uint8Array[]): void {
  let next = 0
  for (const { node, read, resolve } of group) {
    const bytes = read ? (results[next++] ?? NOTHING) : NOTHING
    resolve(bytes.length <= bytesOf(node) ? bytes : bytes.subarray(0, bytesOf(node)))
  }
}

/** What is on the host comes to the device. */
export function uploadLeaves(device: Device, roots: readonly TensorNode[]): Storage[] {
  const leaves = operandsFirst(roots).flatMap((node) => (node.op === 'leaf' ? [node.attrs.storage] : []))
  for (const storage of leaves) storage.upload(device)
  return leaves
}

/** Whether the value of a node may be asked for again. */
function isHeld({ handle }: TensorNode): boolean {
  return handle?.isWanted === true
}

interface Settled {
  /** Nothing was computed: everybody has what there was before, and may ask again. */
  takeBack(error: unknown): void
}

/** Tells everybody who holds a value where it will be. */
function settle(device: Device, { recipe: { values, slotBytes }, nodes, buffers }: Lowered): Settled {
  /** of slots; several values may be in one */
  const made: (Storage | undefined)[] = []
  const undo: (() => void)[] = []
  for (const { node, from } of values) {
    const held = nodes[node]
    const storage = 'slot' in from ? slotStorage(from.slot) : leafAt(nodes, from.leaf).attrs.storage
    if (held !== undefined && isHeld(held) && storage !== undefined) undo.push(becomeLeaf(held, storage))
  }
  function slotStorage(slot: number): Storage | undefined {
    const buffer = buffers[slot]
    if (made[slot] === undefined && buffer !== undefined) made[slot] = Storage.owning(device, buffer, slotBytes[slot] ?? 0)
    return made[slot]
  }
  return {
    takeBack: (error) => {
      for (const storage of made) storage?.fail(error)
      for (const each of undo) each()
    },
  }
}
