// A plan: a graph made ready to run again and again on one device. Built once: lowered, its memory allocated, its commands recorded. A run
// is one submission and allocates nothing; what changes from run to run lies in leaves.

import { checkArgument, hasMethods, isObject } from '../base/argument.ts'
import { IngotError } from '../base/error.ts'
import type { BufferHandle, Device, Range, Recording } from '../device/device.ts'
import { uploadLeaves } from './evaluate.ts'
import { lowerOnce } from './lowering.ts'
import { makeNode } from './make-node.ts'
import type { OpenStorages, SlottedWork } from './recipe.ts'
import { Slots } from './slots.ts'
import type { Storage } from './storage.ts'
import { Tensor, checkTensors, commonDevice } from './tensor.ts'

/** What each run of a plan computes. */
export interface PlanSpec {
  /** results that each run brings back to the caller, in this order */
  readonly reads?: readonly Tensor[]
  /** results computed for their effect: assignments, caches written in place */
  readonly effects?: readonly Tensor[]
  /** storages whose memory every run names, by the number of its range; for devices whose recordings may have blanks */
  readonly open?: OpenStorages
  /** memory of results on the way that plans of this device share, which do not run at the same time (default: its own) */
  readonly slots?: Slots
}

/** A leaf's memory with a value in it, as an effect of a plan. What else reads the leaf there sees what was there before. */
export function assignment(leaf: Tensor, value: Tensor): Tensor {
  checkTensors('assignment', [leaf, value])
  return new Tensor(makeNode('assign', [leaf.node, value.node], {}), commonDevice('assignment', [leaf, value]))
}

/** Commands that are recorded on a device. Dispose of it to give back the memory of its results. */
export interface Plan extends Disposable {
  /** kernels that a run starts, and copies */
  readonly dispatches: number
  /** memory of results on the way */
  readonly arenaBytes: number
  /** Runs everything as one submission; gives the bytes of `reads`. `ranges`: the memory of `open` storages. */
  run(ranges?: readonly Range[]): Promise<Uint8Array[]>
}

/** Makes a plan: chooses and compiles the kernels for tensors, and records them. What changes from run to run lies in leaves. */
export async function buildPlan(device: Device, spec: PlanSpec): Promise<Plan> {
  checkArgument('buildPlan', 'the device', device, 'a device', (value) => hasMethods(value, ['alloc', 'submit', 'compile']))
  checkArgument('buildPlan', 'the spec', spec, 'an object with reads or effects', isObject)
  const { reads = [], effects = [], open = new Map(), slots = new Slots(device) } = spec
  checkTensors('buildPlan', reads)
  checkTensors('buildPlan', effects)
  const roots = [...reads, ...effects].map(({ node }) => node)
  const leaves = uploadLeaves(device, roots)
  const work = await lowerOnce(device, roots, reads.length, open)
  try {
    slots.join(work.slotBytes)
    return new RecordedPlan(device, work, slots, work.count - reads.length, leaves)
  } catch (error) {
    slots.leave()
    throw error
  }
}

class RecordedPlan implements Plan {
  readonly dispatches: number
  readonly arenaBytes: number
  readonly #device: Device
  readonly #work: SlottedWork
  readonly #slots: Slots
  /** whose memory the commands read: it stays as long as somebody holds the plan */
  readonly leaves: readonly Storage[]
  /** with the buffers that it was recorded for */
  #recorded: { readonly recording: Recording; readonly buffers: readonly BufferHandle[] } | undefined

  constructor(device: Device, work: SlottedWork, slots: Slots, dispatches: number, leaves: readonly Storage[]) {
    this.#device = device
    this.#work = work
    this.#slots = slots
    this.leaves = leaves
    this.arenaBytes = work.slotBytes.reduce((sum, bytes) => sum + bytes, 0)
    this.dispatches = dispatches
    this.#recorded = this.#record()
  }

  run(ranges: readonly Range[] = []): Promise<Uint8Array[]> {
    try {
      return this.#device.submit(this.#current(), ranges)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** The recording for the slots as they are now. */
  #current(): Recording {
    if (this.#recorded === undefined) throw new IngotError('closed', 'the plan was closed', { op: 'plan' })
    if (this.#recorded.buffers !== this.#slots.buffers) {
      this.#recorded.recording[Symbol.dispose]()
      this.#recorded = this.#record()
    }
    return this.#recorded.recording
  }

  #record(): { readonly recording: Recording; readonly buffers: readonly BufferHandle[] } {
    const { buffers } = this.#slots
    return { recording: this.#device.record(this.#work.withSlots(buffers)), buffers }
  }

  [Symbol.dispose](): void {
    if (this.#recorded === undefined) return
    this.#recorded.recording[Symbol.dispose]()
    this.#recorded = undefined
    this.#slots.leave()
  }
}
