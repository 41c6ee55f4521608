// How a node knows whether somebody still wants its value. It must not keep a tensor alive, and a weak reference to each would: whatever
// one is made to stays until the program has a turn for other things. So the tensor is watched, and this says when it is gone.

import type { Handle } from './node.ts'

const gone = new FinalizationRegistry<{ letGo(): void }>((holder) => holder.letGo())

/** For one who holds a node; does not keep it alive. */
export class Holder<T extends object> implements Handle {
  #isWanted = true
  #moved: WeakRef<T> | undefined

  constructor(owner: T) {
    gone.register(owner, this)
  }

  get isWanted(): boolean {
    return this.#isWanted
  }

  /** who held the node, if it has been given another one */
  get moved(): T | undefined {
    return this.#moved?.deref()
  }

  /** Nobody wants the value any more. */
  letGo(): void {
    this.#isWanted = false
  }

  /** The owner is given another node, and will not ask for the value of this one. */
  leave(owner: T): void {
    this.#isWanted = false
    this.#moved ??= new WeakRef(owner)
  }
}
