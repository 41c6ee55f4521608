// A plan: a graph made ready to run again and again on one device. Built once: fused, scheduled, compiled, its arena allocated,
// its commands recorded. A run is one submission and allocates nothing; what changes from run to run lies in leaves.

import { checkArgument, hasMethods, isObject } from '../base/argument.ts'
import { IngotError, isIngotError } from '../base/error.ts'
import type { BufferHandle, Command, Device, Dispatch, Program, Range, Recording } from '../device/device.ts'
import { packUniforms } from '../ir/kernel.ts'
import { type Work, boundBuffers } from '../kernel/family.ts'
import { DEFINITIONS, expand } from './definition.ts'
import { fuse } from './fuse.ts'
import { type LeafAttrs, type TensorNode, bytesOf, leafOf } from './node.ts'
import { show, tensorOp } from './op.ts'
import { type Schedule, type ScheduledNode, schedule } from './schedule.ts'
import type { Tensor } from './tensor.ts'

export interface PlanSpec {
  /** results that each run brings back to the caller, in this order */
  readonly reads?: readonly Tensor[]
  /** results that each run writes into the memory of a leaf, after everything else */
  readonly assigns?: readonly (readonly [leaf: Tensor, value: Tensor])[]
  /** results computed for their effect: caches written in place */
  readonly effects?: readonly Tensor[]
}

export interface Plan extends Disposable {
  readonly dispatches: number
  readonly arenaBytes: number
  /** Runs everything as one submission; gives the bytes of `reads`. */
  run(): Promise<Uint8Array[]>
}

interface Prepared {
  readonly work: Work
  readonly programs: readonly Program[]
}

/** Prepared work by operation, shapes and formats: layers of a model share it. */
const prepared = new WeakMap<Device, Map<string, Promise<Prepared>>>()

/** Fused operations that a device could not compile: there their definitions run instead. */
const replaced = new WeakMap<Device, Set<string>>()

/** Operations of this device that run as their definitions, because the fused kernel could not be had. */
export function replacedOperations(device: Device): readonly string[] {
  return [...(replaced.get(device) ?? [])]
}

export async function buildPlan(device: Device, spec: PlanSpec): Promise<Plan> {
  checkArgument('buildPlan', 'the device', device, 'a device', (value) => hasMethods(value, ['alloc', 'submit', 'compile']))
  checkArgument('buildPlan', 'the spec', spec, 'an object with reads, assigns or effects', isObject)
  for (;;) {
    const ops = replaced.get(device) ?? new Set<string>()
    try {
      return await tryPlan(device, ops.size === 0 ? spec : expandSpec(spec, ops))
    } catch (error) {
      if (!(error instanceof OperationFailure)) throw error
      if (ops.has(error.op) || DEFINITIONS[error.op] === undefined) throw error.cause
      replaced.set(device, ops.add(error.op))
    }
  }
}

/** A kernel that could not be written or compiled, with the operation it was for. */
class OperationFailure extends Error {
  readonly op: string

  constructor(op: string, cause: unknown) {
    super(`${op} failed`, { cause })
    this.op = op
  }
}

function expandSpec({ reads = [], assigns = [], effects = [] }: PlanSpec, ops: ReadonlySet<string>): PlanSpec {
  const known = expand([...reads, ...effects, ...assigns.map(([, value]) => value)], ops)
  const of = (tensor: Tensor): Tensor => known.get(tensor) ?? tensor
  return { reads: reads.map(of), effects: effects.map(of), assigns: assigns.map(([leaf, value]) => [leaf, of(value)]) }
}

async function tryPlan(device: Device, { reads = [], assigns = [], effects = [] }: PlanSpec): Promise<Plan> {
  const wanted = [...reads, ...effects, ...assigns.map(([, value]) => value)]
  const { roots, fused } = fuse(wanted)
  const of = (node: TensorNode): TensorNode => fused.get(node) ?? node
  const ready = await prepareAll(device, roots)
  const assigned = new Map(assigns.map(([leaf, value]) => [of(value), leafAttrs(leaf)] as const))
  const plan = schedule(roots, { assigned, scratchOf: (node) => ready.get(node)?.work.scratch ?? {} })
  const slots: BufferHandle[] = []
  try {
    for (const bytes of plan.slotBytes) slots.push(device.alloc(Math.max(bytes, 4)))
    const commands = plan.steps.flatMap((step) => encode(step, plan, slots, ready.get(step.node)))
    const back = reads.map((node): Command => ({ kind: 'read', from: rangeOf(of(node), plan, slots), bytes: bytesOf(node) }))
    const recording = device.record([...commands, ...back])
    return new RecordedPlan(device, recording, slots, plan.slotBytes, commands.length)
  } catch (error) {
    for (const slot of slots) device.free(slot)
    throw error
  }
}

class RecordedPlan implements Plan {
  readonly dispatches: number
  readonly arenaBytes: number
  readonly #device: Device
  readonly #slots: readonly BufferHandle[]
  #recording: Recording | undefined

  constructor(device: Device, recording: Recording, slots: readonly BufferHandle[], slotBytes: readonly number[], dispatches: number) {
    this.#device = device
    this.#recording = recording
    this.#slots = slots
    this.arenaBytes = slotBytes.reduce((sum, bytes) => sum + bytes, 0)
    this.dispatches = dispatches
  }

  run(): Promise<Uint8Array[]> {
    if (this.#recording === undefined) return Promise.reject(new IngotError('closed', 'the plan was closed', { op: 'plan' }))
    return this.#device.submit(this.#recording)
  }

  [Symbol.dispose](): void {
    if (this.#recording === undefined) return
    this.#recording[Symbol.dispose]()
    this.#recording = undefined
    for (const slot of this.#slots) this.#device.free(slot)
  }
}

/** Lowers and compiles the work of every node, once per distinct operation. */
async function prepareAll(device: Device, roots: readonly TensorNode[]): Promise<Map<TensorNode, Prepared>> {
  const known = prepared.get(device) ?? new Map<string, Promise<Prepared>>()
  prepared.set(device, known)
  const pending = new Map<TensorNode, Promise<Prepared>>()
  const visit = (node: TensorNode): void => {
    if (pending.has(node) || node.op === 'leaf') return
    const key = keyOf(node)
    let work = known.get(key)
    if (work === undefined) {
      work = prepare(device, node)
      known.set(key, work)
      work.catch(() => known.delete(key)) // a failed compile may be tried again
    }
    pending.set(node, work)
    node.src.forEach(visit)
  }
  roots.forEach(visit)
  const entries = await Promise.all([...pending].map(async ([node, work]) => [node, await work] as const))
  return new Map(entries)
}

async function prepare(device: Device, node: TensorNode): Promise<Prepared> {
  try {
    const work = tensorOp(node.op).lower(node, node.src, node.attrs, device.caps)
    const programs = await Promise.all(work.launches.map((launch) => device.compile(launch.kernel)))
    return { work, programs }
  } catch (error) {
    const refused = isIngotError(error, 'unsupported') || isIngotError(error, 'compile-failed') || isIngotError(error, 'bad-kernel')
    throw refused ? new OperationFailure(node.op, error) : error
  }
}

function keyOf(node: TensorNode): string {
  const operand = (child: TensorNode): string =>
    `${child.type}/${leafOf(child)?.format ?? ''}/${leafOf(child)?.layout ?? ''}[${child.shape.join()}]`
  // JSON has no Infinity
  const attrs = JSON.stringify(node.attrs, (_, value: unknown) => (typeof value === 'number' ? String(value) : value))
  return `${node.op} ${attrs} ${node.type}[${node.shape.join()}] ${node.src.map(operand).join(' ')}`
}

function encode({ node, scratch }: ScheduledNode, plan: Schedule, slots: readonly BufferHandle[], ready: Prepared | undefined): Dispatch[] {
  if (ready === undefined) throw new IngotError('bad-argument', `${show(node)} was not prepared`, { op: 'plan' })
  // Which tensor each buffer is depends on the node; the work itself is shared between nodes.
  const bind = tensorOp(node.op).bind(node, node.src, node.attrs)
  return ready.work.launches.map((launch, i): Dispatch => ({
    kind: 'dispatch',
    program: ready.programs[i] as Program,
    buffers: boundBuffers(launch).map((name): Range => {
      const slot = scratch[name]
      if (slot !== undefined) return { buffer: slots[slot] as BufferHandle, bytes: ready.work.scratch?.[name] ?? 4 }
      const tensor = bind[name]
      if (tensor === undefined) throw new IngotError('bad-argument', `kernel ${launch.kernel.name} wants a buffer ${name}`, { op: node.op })
      return rangeOf(tensor, plan, slots)
    }),
    uniforms: packUniforms(launch.kernel, launch.uniforms),
    grid: launch.grid,
  }))
}

function rangeOf(node: TensorNode, plan: Schedule, slots: readonly BufferHandle[]): Range {
  const place = plan.placeOf(node)
  if ('leaf' in place) return { buffer: place.leaf.buffer, offset: place.leaf.offset }
  return { buffer: slots[place.slot] as BufferHandle, bytes: bytesOf(node) }
}

function leafAttrs(node: TensorNode): LeafAttrs {
  const leaf = leafOf(node)
  if (leaf === undefined) throw new IngotError('bad-argument', 'only a leaf can be assigned to', { op: 'plan', got: show(node) })
  return leaf
}
