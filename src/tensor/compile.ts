// Functions of tensors that are planned once and replayed: `compile(f)` runs f with stand-ins for its arguments, once for each form of
// them, and makes a plan of what it did. A call then brings the arguments, runs the plan as one submission, and gives the results.
//
// What f reads beside its arguments is read where it lies: a tensor that it assigns to, a weight or a counter, is changed in place by every
// call. What f computes without tensors happens while it is traced, and never again; random numbers without a seed are drawn by every call.

import type { BufferHandle, Command, Device, Range } from '../device/device.ts'
import { slotsFor } from './arena.ts'
import { resolveDevice } from './default-device.ts'
import { realizeNode } from './evaluate.ts'
import { operandsFirst } from './graph.ts'
import { countMade, makeNode } from './make-node.ts'
import { type NodeOf, type TensorNode, bytesOf, operandsOf } from './node.ts'
import { fail } from './operand.ts'
import { type Plan, buildPlan } from './plan.ts'
import { collectGarbage } from './pressure.ts'
import { nextKey } from './random.ts'
import type { OpenStorages } from './recipe.ts'
import type { Slots } from './slots.ts'
import { Storage } from './storage.ts'
import { Tensor, commonDevice } from './tensor.ts'
import { traced } from './trace.ts'
import { flatten, mapTree } from './tree.ts'

/** A function whose plans are kept. Dispose of it to give back their memory. */
export interface Compiled<A extends readonly unknown[], R> extends Disposable {
  (...args: A): Promise<R>
  /** Bytes that calls with such arguments need beside the tensors that they read, known without planning or running one. */
  bytesFor(...args: A): Promise<number>
  /** The same in parts: what such calls have for themselves, and what functions with the same `slots` share, largest first. */
  memoryFor(...args: A): Promise<CallMemory>
}
/** Bytes that a call needs beside the tensors that it reads. */
export interface CallMemory {
  /** arguments and large results */
  readonly own: number
  /** results on the way */
  readonly slots: readonly number[]
}
export interface CompileOptions {
  /** memory of results on the way that several functions of one device share, of which no two run at the same time (default: none) */
  readonly slots?: Slots
}

/** Results up to this many bytes are brought back with the submission that computes them; larger ones stay on the device. */
const SMALL = 4096
/** Dispatches of a plan whose making left so much garbage, tens of megabytes, that it should not be there beside the results of a run. */
const LARGE = 1000

type Leaf = NodeOf<'leaf'>

/** What was on the host when it was an argument: most come once, with new numbers; what comes again stays on the device. */
const seen = new WeakSet<Storage>()

/** A plan for one form of the arguments. */
interface Entry {
  readonly device: Device
  readonly plan: Plan
  readonly inputs: readonly Leaf[]
  /** memory that each run names: of arguments, which are read where they lie, and of results, which are computed where they stay */
  readonly open: OpenStorages
  /** memory that each run changes */
  readonly changed: ReadonlySet<BufferHandle>
  /** keys of random numbers */
  readonly keys: readonly Leaf[]
  /** what the function gave, but for its tensors, and where each of those is after a run */
  readonly result: unknown
  readonly outputs: readonly { readonly leaf?: Leaf; readonly node: TensorNode }[]
  /** memory of tensors that the function read beside its arguments, with who holds it */
  readonly captured: readonly { readonly leaf: Leaf; readonly tensor: WeakRef<Tensor> | undefined }[]
}

/** A function that does what `f` does. `f` must not depend on anything but its arguments and tensors, and must not wait for values. */
export function compile<A extends readonly unknown[], R>(f: (...args: A) => R, { slots }: CompileOptions = {}): Compiled<A, R> {
  if (typeof f !== 'function') fail('compile', 'no function', typeof f, 'a function of tensors')
  const entries = new Map<string, Promise<Entry>>()
  let last: Promise<unknown> = Promise.resolve()
  const call = async (args: A): Promise<R> => {
    const { tensors, form } = flatten(args)
    const known = entries.get(form) ?? prepare(f, args, slots)
    entries.set(form, known)
    known.catch(() => entries.delete(form))
    const entry = await known
    return (await run(entry, tensors)) as R
  }
  // One call after the other: they share the memory of the plan.
  const compiled = (...args: A): Promise<R> => {
    const mine = last.then(() => call(args))
    last = mine.catch(() => {})
    return mine
  }
  return Object.assign(compiled, {
    bytesFor: async (...args: A) => {
      const { own, slots: shared } = memoryOfTrace(await trace(f, args))
      return shared.reduce((sum, bytes) => sum + bytes, own)
    },
    memoryFor: async (...args: A) => memoryOfTrace(await trace(f, args)),
    [Symbol.dispose]: () => {
      // After the calls under way. A device that was closed meanwhile has given back everything.
      last = last.then(() => releaseAll(entries)).catch(() => {})
    },
  })
}

async function prepare<A extends readonly unknown[], R>(f: (...args: A) => R, args: A, slots: Slots | undefined): Promise<Entry> {
  const entry = await makeEntry(await trace(f, args), slots)
  if (entry.plan.dispatches >= LARGE) await collectGarbage()
  return entry
}

/** What a function did with stand-ins for its arguments. Leaves have no memory yet. */
interface Traced extends Pick<Entry, 'device' | 'inputs' | 'keys' | 'result' | 'outputs'> {
  readonly effects: readonly TensorNode[]
  /** what it assigns to */
  readonly targets: readonly TensorNode[]
}

async function trace<A extends readonly unknown[], R>(f: (...args: A) => R, args: A): Promise<Traced> {
  const before = countMade()
  const stand: Tensor[] = []
  const own = mapTree(args, (tensor) => {
    const { shape, dtype, device } = tensor
    const leaf = new Tensor({ op: 'leaf', shape, dtype, src: [], attrs: { storage: new Storage(), layout: 'plain' } }, device)
    stand.push(leaf)
    return leaf
  })
  const { result, trace: done } = traced(() => f(...own))
  if (result instanceof Promise) {
    result.catch(() => {}) // it waits for values that there are not
    return fail('compile', 'the function is asynchronous', 'a promise', 'tensors', 'wait for values outside of it')
  }
  const { tensors: results } = flatten(result)
  // Values are the nodes that tensors have now; the tensors get back what they were.
  const values = results.map(({ node }) => node)
  const assigned = [...done.assigned].flatMap(([tensor, old]) => (tensor instanceof Tensor ? [{ tensor, old, value: tensor.node }] : []))
  for (const { tensor, old } of assigned) tensor.rebind(old)

  const inputs = stand.map(({ node }) => node).filter((node): node is TensorNode & Leaf => node.op === 'leaf')
  const device = await resolveDevice(commonDevice('compile', [...stand, ...results, ...assigned.map(({ tensor }) => tensor)]))
  await realizeOlder([...values, ...assigned.flatMap(({ old, value }) => [old, value])], before, device)
  const outputs = values.map((node) => (bytesOf(node) <= SMALL ? { node } : { node, leaf: leafLike(node) }))
  const effects = [
    ...outputs.flatMap(({ node, leaf }) => (leaf ? [makeNode('assign', [leaf, node], {})] : [])),
    ...assigned.map(({ old, value }) => makeNode('assign', [old, value], {})),
  ]
  return { device, inputs, keys: done.keys, result, outputs, effects, targets: assigned.map(({ old }) => old) }
}

/** Memory for arguments and large results, and for everything on the way. */
function memoryOfTrace({ device, inputs, keys, outputs, effects }: Traced): CallMemory {
  const own = [...inputs, ...keys, ...outputs.flatMap(({ leaf }) => leaf ?? [])]
  const reads = outputs.flatMap(({ leaf, node }) => (leaf ? [] : [node]))
  return {
    own: own.reduce((sum, leaf) => sum + sizeOf(leaf), 0),
    slots: slotsFor([...reads, ...effects], reads.length, device.caps),
  }
}

async function makeEntry(traced: Traced, slots: Slots | undefined): Promise<Entry> {
  const { device, inputs, keys, result, outputs, effects, targets } = traced
  const values = outputs.map(({ node }) => node)
  const large = outputs.flatMap(({ leaf }) => leaf ?? [])
  // An argument that the function assigns to has memory of its own here: that of the caller does not change.
  const named = [...inputs.filter((leaf) => !targets.includes(leaf)), ...large]
  const open = new Map(device.caps.blanks === true ? named.map((leaf, blank) => [leaf.attrs.storage, blank]) : [])
  for (const leaf of [...inputs, ...keys, ...large]) if (!open.has(leaf.attrs.storage)) giveMemory(leaf, device)
  const captured = operandsFirst([...values, ...effects]).flatMap((node) =>
    node.op === 'leaf' && !inputs.includes(node) && !keys.includes(node) && !outputs.some(({ leaf }) => leaf === node) ? [node] : [],
  )
  for (const leaf of captured) leaf.attrs.storage.upload(device)
  const plan = await buildPlan(device, {
    reads: outputs.filter(({ leaf }) => !leaf).map(({ node }) => new Tensor(node)),
    effects: effects.map((node) => new Tensor(node)),
    open,
    ...(slots === undefined ? {} : { slots }),
  })
  const changed = new Set(targets.flatMap((node) => (node.op === 'leaf' ? [node.attrs.storage.at('plain').buffer] : [])))
  const holders = captured.map((leaf) => ({ leaf, tensor: leaf.handle as WeakRef<Tensor> | undefined })) // only tensors hold nodes
  return { device, plan, inputs, open, changed, keys, result, outputs, captured: holders }
}

/** What was written down before the function ran is computed once, not in every run. */
async function realizeOlder(roots: readonly TensorNode[], before: number, device: Device): Promise<void> {
  const older = new Set<TensorNode>()
  const seen = new Set<TensorNode>()
  const stack = [...roots]
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (seen.has(node)) continue
    seen.add(node)
    if (node.op !== 'leaf' && node.serial !== undefined && node.serial < before) older.add(node)
    else stack.push(...operandsOf(node))
  }
  const held = [...older].map((node) => Tensor.holding(node, device)) // so that the values stay
  await Promise.all(held.map((tensor) => realizeNode(tensor.node, device)))
}

function leafLike({ shape, dtype }: TensorNode): Leaf {
  return { op: 'leaf', shape, dtype, src: [], attrs: { storage: new Storage(), layout: 'plain' } }
}

function giveMemory(leaf: Leaf, device: Device): void {
  const buffer = device.alloc(sizeOf(leaf))
  leaf.attrs.storage.put('plain', { buffer, offset: 0 })
}

function sizeOf(leaf: Leaf): number {
  return Math.max(4, Math.ceil(bytesOf(leaf) / 4) * 4)
}

async function run(entry: Entry, args: readonly Tensor[]): Promise<unknown> {
  const results: BufferHandle[] = []
  let small: Uint8Array[]
  try {
    small = await submit(entry, args, results)
  } catch (error) {
    for (const buffer of results) entry.device.free(buffer)
    throw error
  }
  const { device, result, outputs } = entry
  const tensors = outputs.map(({ node: { shape, dtype }, leaf }) => {
    const buffer = leaf && results.shift()
    const storage =
      leaf && buffer !== undefined
        ? Storage.owning(device, buffer, sizeOf(leaf))
        : Storage.onHost((small.shift() ?? new Uint8Array(0)).slice())
    return Tensor.onto(storage, shape, dtype, device)
  })
  let at = 0
  return mapTree(result, () => tensors[at++])
}

/** Runs the plan; adds buffers with the large results to `results`, and gives the bytes of the small ones. */
async function submit(entry: Entry, args: readonly Tensor[], results: BufferHandle[]): Promise<Uint8Array[]> {
  const { device, plan, inputs, open, keys, outputs, captured } = entry
  const moves: Command[] = []
  const copies: Command[] = []
  const ranges: Range[] = []
  /** buffers that serve for this run only */
  const spare: BufferHandle[] = []
  for (const [i, leaf] of inputs.entries()) {
    const arg = checked(device, args[i])
    if (arg.node.op !== 'leaf') await arg.realize()
    const blank = open.get(leaf.attrs.storage)
    if (blank === undefined) bring(device, arg, leaf, moves)
    else ranges[blank] = lend(entry, arg, moves, spare)
  }
  for (const { leaf, tensor } of captured) await follow(device, tensor?.deref(), leaf, moves)
  for (const leaf of keys) device.write(leaf.attrs.storage.at('plain').buffer, 0, new Uint8Array(Uint32Array.from(nextKey()).buffer))
  for (const { leaf } of outputs) {
    if (leaf === undefined) continue
    const to = { buffer: device.alloc(sizeOf(leaf)) }
    results.push(to.buffer)
    const blank = open.get(leaf.attrs.storage)
    if (blank === undefined) copies.push({ kind: 'copy', from: leaf.attrs.storage.at('plain'), to, bytes: sizeOf(leaf) })
    else ranges[blank] = to
  }
  try {
    // Nothing may come between these: each sees what the one before it did.
    const brought = moves.length === 0 ? undefined : device.submit(moves)
    brought?.catch(() => {}) // the run says the same
    const running = plan.run(ranges)
    const copied = copies.length === 0 ? undefined : device.submit(copies)
    copied?.catch(() => {})
    const small = await running
    await copied
    return small
  } finally {
    for (const buffer of spare) device.free(buffer)
  }
}

function checked(device: Device, arg: Tensor | undefined): Tensor {
  if (arg === undefined) return fail('compile', 'an argument is missing', 'nothing', 'a tensor')
  if (typeof arg.device === 'object' && arg.device !== device)
    return fail('compile', 'an argument lies on another device', arg.device.name, device.name)
  return arg
}

/** The memory of an argument; a copy of it where it is on the host for the first time, or where the plan changes that memory. */
function lend({ device, changed }: Entry, arg: Tensor, moves: Command[], spare: BufferHandle[]): Range {
  const leaf = leafOf(arg)
  const { storage } = leaf.attrs
  if (seen.has(storage)) storage.upload(device)
  const { host } = storage
  if (host !== undefined) seen.add(storage)
  const from = host === undefined ? storage.at('plain', device) : undefined
  if (from !== undefined && !changed.has(from.buffer)) return from
  const to = { buffer: device.alloc(sizeOf(leaf)) }
  spare.push(to.buffer)
  if (from !== undefined) moves.push({ kind: 'copy', from, to, bytes: sizeOf(leaf) })
  else if (host !== undefined) device.write(to.buffer, 0, padded(host, sizeOf(leaf)))
  return to
}

/** Puts the value of an argument into the memory that the plan reads. */
function bring(device: Device, arg: Tensor, leaf: Leaf, moves: Command[]): void {
  const { storage } = leafOf(arg).attrs
  const { host } = storage
  const to = leaf.attrs.storage.at('plain')
  if (host === undefined) moves.push({ kind: 'copy', from: storage.at('plain', device), to, bytes: sizeOf(leaf) })
  else device.write(to.buffer, to.offset, padded(host, sizeOf(leaf)))
}

function leafOf({ node }: Tensor): Leaf {
  return node.op === 'leaf' ? node : fail('compile', 'an argument has no memory', node.op)
}

/** A tensor that was assigned to since the last call is brought back to where the plan reads it. */
async function follow(device: Device, tensor: Tensor | undefined, leaf: Leaf, moves: Command[]): Promise<void> {
  if (tensor === undefined || !tensor.isWanted || tensor.node === leaf) return
  if (checked(device, tensor).node.op !== 'leaf') await tensor.realize()
  bring(device, tensor, leaf, moves)
  tensor.rebind(leaf)
}

function padded(bytes: Uint8Array, size: number): Uint8Array {
  if (bytes.length === size) return bytes
  const whole = new Uint8Array(size)
  whole.set(bytes)
  return whole
}

async function releaseAll(entries: Map<string, Promise<Entry>>): Promise<void> {
  const all = [...entries.values()]
  entries.clear()
  for (const entry of await Promise.all(all)) release(entry)
}

function release({ device, plan, inputs, open, keys, outputs }: Entry): void {
  plan[Symbol.dispose]()
  for (const leaf of [...inputs, ...keys, ...outputs.flatMap((output) => output.leaf ?? [])])
    if (!open.has(leaf.attrs.storage)) device.free(leaf.attrs.storage.at('plain').buffer)
}
