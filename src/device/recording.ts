// A checked list of commands that is submitted many times. Checks again only what can have changed: whether its buffers are
// still alive. Devices add what they prepare once (`extra`): bind groups, an encoded plan.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Command, Recording } from './device.ts'
import { type Checked, type Ground, checkCommands, handlesOf } from './check.ts'

export class CheckedRecording<M, X> implements Recording {
  readonly commands: readonly Command[]
  readonly checked: readonly Checked<M>[]
  readonly extra: X
  readonly #handles: readonly BufferHandle[]
  readonly #ground: Ground<M> & { readonly frees: number }
  readonly #dispose: (extra: X) => void
  #frees: number
  #disposed = false

  constructor(
    commands: readonly Command[],
    ground: Ground<M> & { readonly frees: number },
    prepare: (checked: readonly Checked<M>[]) => X,
    dispose: (extra: X) => void,
  ) {
    // Copies: the caller may reuse its arrays, the recording must not change with them.
    this.commands = commands.map((command) => (command.kind === 'dispatch' ? { ...command, uniforms: command.uniforms.slice() } : command))
    this.checked = checkCommands(this.commands, ground)
    this.#handles = handlesOf(this.checked)
    this.#ground = ground
    this.#frees = ground.frees
    this.extra = prepare(this.checked)
    this.#dispose = dispose
  }

  /** Throws unless it can run now on the device that asks. */
  check(ground: Ground<M>): void {
    if (ground !== this.#ground) throw new IngotError('bad-argument', 'the recording is not of this device', { op: 'submit' })
    if (this.#disposed) throw new IngotError('closed', 'the recording was disposed', { op: 'submit' })
    if (this.#ground.frees === this.#frees) return
    for (const handle of this.#handles) ground.get(handle, 'submit a recording')
    this.#frees = this.#ground.frees
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return
    this.#disposed = true
    this.#dispose(this.extra)
  }
}
