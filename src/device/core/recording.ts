// A checked list of commands that is submitted many times. Checks again only what can have changed: whether its buffers are
// still alive. A backend adds what it prepares once (`X`): bind groups, an encoded job.

import { IngotError } from '../../base/error.ts'
import type { BufferHandle, Command, Program, Recording } from '../device.ts'
import type { Backend } from './backend.ts'
import { type CheckContext, checkCommands } from './check.ts'
import { type CheckedCommand, rangesOf } from './checked-command.ts'

/** A device as its recordings see it: also says whether anything was freed since. */
export interface RecordingContext<M, P extends Program> extends CheckContext<M, P> {
  /** grows with every `free` */
  readonly frees: number
}

export class CheckedRecording<M, P extends Program, X> implements Recording {
  readonly commands: readonly Command[]
  readonly checked: readonly CheckedCommand<M, P>[]
  readonly dispatches: number
  readonly prepared: X
  /** of the device that it belongs to */
  readonly context: RecordingContext<M, P>
  readonly #backend: Pick<Backend<M, P, X>, 'prepare' | 'dispose'>
  readonly #handles: readonly BufferHandle[]
  #frees: number
  #disposed = false

  constructor(commands: readonly Command[], context: RecordingContext<M, P>, backend: Pick<Backend<M, P, X>, 'prepare' | 'dispose'>) {
    // Copies: the caller may reuse its arrays, the recording must not change with them.
    this.commands = commands.map((command) => (command.kind === 'dispatch' ? { ...command, uniforms: command.uniforms.slice() } : command))
    this.checked = checkCommands(this.commands, context)
    this.dispatches = countDispatches(this.checked)
    this.context = context
    this.#backend = backend
    this.#handles = [...new Set(this.checked.flatMap((command) => rangesOf(command).map(({ buffer }) => buffer.handle)))]
    this.#frees = context.frees
    this.prepared = backend.prepare(this.checked)
  }

  /** Throws unless it can run now. */
  check(): void {
    if (this.#disposed) throw new IngotError('closed', 'the recording was disposed', { op: 'submit' })
    const { context } = this
    if (context.frees === this.#frees) return
    for (const handle of this.#handles) context.get(handle, 'submit a recording')
    this.#frees = context.frees
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return
    this.#disposed = true
    this.#backend.dispose(this.prepared)
  }
}

export function countDispatches(commands: readonly CheckedCommand<unknown>[]): number {
  return commands.reduce((count, { kind }) => (kind === 'dispatch' ? count + 1 : count), 0)
}
