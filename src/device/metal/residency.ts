// Keeps buffers resident: a residency set of the queue (macOS 15), so that the system does not page weights out between
// tokens and command buffers need not name every buffer again. Where there is none, Metal does as it always did.

import { type Id, type Objc, type Owned, required } from './objc.ts'

export class Residency {
  readonly #objc: Objc
  readonly #queue: Id
  readonly #set: Owned
  #changed = false

  private constructor(objc: Objc, queue: Id, set: Owned) {
    this.#objc = objc
    this.#queue = queue
    this.#set = set
  }

  /** A set that the queue uses, or nothing where the system has none. */
  static open(objc: Objc, device: Id, queue: Id): Residency | undefined {
    if (!objc.responds(device, 'newResidencySetWithDescriptor:error:')) return undefined
    const { MTLDevice, MTLResidencySetDescriptor, MTLCommandQueue } = objc.messages
    const descriptor = required(MTLResidencySetDescriptor.new(), 'a residency set descriptor')
    const set = objc.pooled(() =>
      objc.using(descriptor, 'a descriptor', () => MTLDevice['newResidencySetWithDescriptor:error:'](device, descriptor, null)),
    )
    if (set === null) return undefined
    MTLCommandQueue['addResidencySet:'](queue, set)
    return new Residency(objc, queue, set)
  }

  add(buffer: Id): void {
    this.#objc.messages.MTLResidencySet['addAllocation:'](this.#set, buffer)
    this.#changed = true
  }

  remove(buffer: Id): void {
    this.#objc.messages.MTLResidencySet['removeAllocation:'](this.#set, buffer)
    this.#changed = true
  }

  /** Makes changes known; before work that needs them. */
  settle(): void {
    if (!this.#changed) return
    const { MTLResidencySet } = this.#objc.messages
    MTLResidencySet.commit(this.#set)
    MTLResidencySet.requestResidency(this.#set)
    this.#changed = false
  }

  close(): void {
    const { MTLResidencySet, MTLCommandQueue } = this.#objc.messages
    MTLResidencySet.endResidency(this.#set)
    MTLResidencySet.removeAllAllocations(this.#set)
    MTLResidencySet.commit(this.#set)
    MTLCommandQueue['removeResidencySet:'](this.#queue, this.#set)
    this.#objc.release(this.#set)
  }
}
