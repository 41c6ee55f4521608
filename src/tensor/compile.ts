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
import { Holder } from './holder.ts'
import { countMade, makeNode } from './make-node.ts'
import { type NodeOf, type TensorNode, bytesOf, operandsOf } from './node.ts'
import { fail } from './operand.ts'
import { type Plan, buildPlan } from './plan.ts'
import { collectGarbage } from './pressure.ts'
import { nextKey } from './random.ts'
import type { Slots } from './slots.ts'
import { sameShape } from './shape.ts'
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

/** Memory of an argument or of a result. */
interface Place {
  readonly leaf: Leaf
  readonly bytes: number
  /** the number of the range that each run names: an argument is read where it lies, a result is computed where it stays */
  readonly blank?: number | undefined
}

/** A plan for one form of the arguments. */
interface Entry {
  readonly device: Device
  readonly plan: Plan
  readonly inputs: readonly Place[]
  /** memory that each run changes */
  readonly changed: ReadonlySet<BufferHandle>
  /** keys of random numbers */
  readonly keys: readonly Leaf[]
  /** what the function gave, but for its tensors, and where each of those is after a run; small ones are brought back */
  readonly result: unknown
  readonly outputs: readonly { readonly node: TensorNode; readonly place?: Place }[]
  /** memory of tensors that the function read beside its arguments */
  readonly captured: readonly Leaf[]
}

/** A function that does what `f` does. `f` must not depend on anything but its arguments and tensors, and must not wait for values. */
export function compile<A extends readonly unknown[], R>(f: (...args: A) => R, { slots }: CompileOptions = {}): Compiled<A, R> {
  if (typeof f !== 'function') fail('compile', 'no function', typeof f, 'a function of tensors')
  const entries = new Map<string, Promise<Entry>>()
  /** that of the last call, if its arguments were tensors and nothing else */
  let recent: Entry | undefined
  /** what is under way */
  let last: Promise<unknown> | undefined
  const call = async (args: A): Promise<R> => {
    const { tensors, form } = flatten(args)
    const known = entries.get(form) ?? prepare(f, args, slots)
    entries.set(form, known)
    known.catch(() => entries.delete(form))
    const entry = await known
    recent = args.every((arg) => arg instanceof Tensor) ? entry : undefined
    return (await run(entry, tensors)) as R
  }
  /** One after the other: calls share the memory of the plan. */
  const after = <T>(begin: () => Promise<T>): Promise<T> => {
    const mine = last === undefined ? begin() : last.then(begin, begin)
    last = mine
    const forget = (): void => {
      if (last === mine) last = undefined
    }
    mine.then(forget, forget)
    return mine
  }
  const compiled = (...args: A): Promise<R> =>
    after(() => (recent !== undefined && fits(recent, args) ? (run(recent, args) as Promise<R>) : call(args)))
  return Object.assign(compiled, {
    bytesFor: async (...args: A) => {
      const { own, slots: shared } = memoryOfTrace(await trace(f, args))
      return shared.reduce((sum, bytes) => sum + bytes, own)
    },
    memoryFor: async (...args: A) => memoryOfTrace(await trace(f, args)),
    [Symbol.dispose]: () => {
      // After the calls under way. A device that was closed meanwhile has given back everything.
      after(() => {
        recent = undefined
        return releaseAll(entries)
      }).catch(() => {})
    },
  })
}

async function prepare<A extends readonly unknown[], R>(f: (...args: A) => R, args: A, slots: Slots | undefined): Promise<Entry> {
  const entry = await makeEntry(await trace(f, args), slots)
  if (entry.plan.dispatches >= LARGE) await collectGarbage()
  return entry
}

/** What a function did with stand-ins for its arguments. Leaves have no memory yet. */
interface Traced extends Pick<Entry, 'device' | 'keys' | 'result'> {
  readonly inputs: readonly Leaf[]
  readonly outputs: readonly { readonly leaf?: Leaf; readonly node: TensorNode }[]
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
  const placeOf = (leaf: Leaf): Place => ({ leaf, bytes: sizeOf(leaf), blank: open.get(leaf.attrs.storage) })
  return {
    device,
    plan,
    inputs: inputs.map(placeOf),
    changed,
    keys,
    result,
    outputs: outputs.map(({ node, leaf }) => (leaf ? { node, place: placeOf(leaf) } : { node })),
    captured,
  }
}

/** Whether tensors are of the form that a plan is for, which was made for tensors and nothing else. */
function fits({ inputs }: Entry, args: readonly unknown[]): args is readonly Tensor[] {
  if (args.length !== inputs.length) return false
  for (let i = 0; i < args.length; i++) {
    const [arg, leaf] = [args[i], inputs[i]?.leaf]
    if (!(arg instanceof Tensor) || leaf === undefined || arg.dtype !== leaf.dtype) return false
    if (arg.shape !== leaf.shape && !sameShape(arg.shape, leaf.shape)) return false
  }
  return true
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

/** Begins at once where all tensors have memory. */
function run(entry: Entry, args: readonly Tensor[]): Promise<unknown> {
  try {
    const waits = realizeAll(entry, args)
    return waits === undefined ? submit(entry, args) : waits.then(() => submit(entry, args))
  } catch (error) {
    return Promise.reject(error)
  }
}

/** Computes what arguments and other tensors stand for that the function reads; undefined: all are there. */
function realizeAll({ device, inputs, captured }: Entry, args: readonly Tensor[]): Promise<unknown> | undefined {
  let waits: Promise<unknown>[] | undefined
  for (let i = 0; i < inputs.length; i++) {
    const arg = checked(device, args[i])
    if (arg.node.op !== 'leaf') (waits ??= []).push(arg.realize())
  }
  for (const leaf of captured) {
    const moved = movedFrom(leaf)
    if (moved !== undefined && checked(device, moved).node.op !== 'leaf') (waits ??= []).push(moved.realize())
  }
  return waits && Promise.all(waits)
}

/** Runs the plan; gives what the function gave, with tensors over the results. */
function submit(entry: Entry, args: readonly Tensor[]): Promise<unknown> {
  const { device, plan, inputs, keys, outputs, captured } = entry
  const moves: Command[] = []
  const copies: Command[] = []
  const ranges: Range[] = []
  const results: BufferHandle[] = []
  /** buffers that serve for this run only */
  const spare: BufferHandle[] = []
  const freeAll = (buffers: readonly BufferHandle[]): void => {
    for (const buffer of buffers) device.free(buffer)
  }
  try {
    for (let i = 0; i < inputs.length; i++) {
      const [place, arg] = [inputs[i], args[i]]
      if (place === undefined || arg === undefined) continue
      if (place.blank === undefined) bring(device, arg, place.leaf, moves)
      else ranges[place.blank] = lend(entry, arg, place.bytes, moves, spare)
    }
    for (const leaf of captured) {
      const moved = movedFrom(leaf)
      if (moved === undefined) continue
      // A tensor that was assigned to since the last call is brought back to where the plan reads it.
      bring(device, moved, leaf, moves)
      moved.rebind(leaf)
    }
    for (const leaf of keys) device.write(leaf.attrs.storage.at('plain').buffer, 0, new Uint8Array(Uint32Array.from(nextKey()).buffer))
    for (const { place } of outputs) {
      if (place === undefined) continue
      const to = { buffer: device.alloc(place.bytes) }
      results.push(to.buffer)
      if (place.blank === undefined) copies.push({ kind: 'copy', from: place.leaf.attrs.storage.at('plain'), to, bytes: place.bytes })
      else ranges[place.blank] = to
    }
    // Nothing may come between these: each sees what the one before it did.
    const brought = moves.length === 0 ? undefined : device.submit(moves)
    brought?.catch(() => {}) // the run says the same
    const running = plan.run(ranges)
    const copied = copies.length === 0 ? undefined : device.submit(copies)
    copied?.catch(() => {})
    freeAll(spare) // what was submitted may still use it
    return (copied === undefined ? running : running.then((small) => copied.then(() => small))).then(
      (small) => give(entry, results, small),
      (error: unknown) => {
        freeAll(results)
        throw error
      },
    )
  } catch (error) {
    freeAll([...results, ...spare])
    throw error
  }
}

/** What the function gave, with the results of a run. */
function give({ device, result, outputs }: Entry, results: readonly BufferHandle[], small: readonly Uint8Array[]): unknown {
  let [nextLarge, nextSmall] = [0, 0]
  const tensors = outputs.map(({ node: { shape, dtype }, place }) => {
    const buffer = place && results[nextLarge++]
    const storage =
      place && buffer !== undefined
        ? Storage.owning(device, buffer, place.bytes)
        : Storage.onHost((small[nextSmall++] ?? new Uint8Array(0)).slice())
    return Tensor.onto(storage, shape, dtype, device)
  })
  let at = 0
  return mapTree(result, () => tensors[at++])
}

function checked(device: Device, arg: Tensor | undefined): Tensor {
  if (arg === undefined) return fail('compile', 'an argument is missing', 'nothing', 'a tensor')
  if (typeof arg.device === 'object' && arg.device !== device)
    return fail('compile', 'an argument lies on another device', arg.device.name, device.name)
  return arg
}

/** The memory of an argument; a copy of it where it is on the host for the first time, or where the plan changes that memory. */
function lend({ device, changed }: Entry, arg: Tensor, bytes: number, moves: Command[], spare: BufferHandle[]): Range {
  const { storage } = leafOf(arg).attrs
  if (storage.host !== undefined && seen.has(storage)) storage.upload(device)
  const { host } = storage
  if (host !== undefined) seen.add(storage)
  const from = host === undefined ? storage.at('plain', device) : undefined
  if (from !== undefined && !changed.has(from.buffer)) return from
  const to = { buffer: device.alloc(bytes) }
  spare.push(to.buffer)
  if (from !== undefined) moves.push({ kind: 'copy', from, to, bytes })
  else if (host !== undefined) device.write(to.buffer, 0, padded(host, bytes))
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

/** The tensor of memory that a plan reads, if it was assigned to since: it is another node then. */
function movedFrom(leaf: Leaf): Tensor | undefined {
  const tensor = leaf.handle instanceof Holder ? leaf.handle.moved : undefined
  return tensor instanceof Tensor && tensor.isWanted && tensor.node !== leaf ? tensor : undefined
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

function release({ device, plan, inputs, keys, outputs }: Entry): void {
  plan[Symbol.dispose]()
  const own = [...inputs, ...outputs.flatMap(({ place }) => place ?? [])].flatMap(({ leaf, blank }) => (blank === undefined ? [leaf] : []))
  for (const leaf of [...own, ...keys]) device.free(leaf.attrs.storage.at('plain').buffer)
}
