// A checked list of commands that is submitted many times. Checks again only what can have changed: whether its buffers are
// still alive, and what fills its blanks. A backend adds what it prepares once (`X`): bind groups, an encoded job.

import { IngotError } from '../../base/error.ts'
import { type BufferHandle, type OpenCommand, type Program, type Range, type Recording, rangesOf } from '../device.ts'
import type { Backend } from './backend.ts'
import { type CheckContext, bindFilling, checkCommands } from './check.ts'
import { type BoundRange, type CheckedCommand, blankHandle, blankOf, overlap } from './checked-command.ts'

/** A device as its recordings see it: also says whether anything was freed since. */
export interface RecordingContext<M, P extends Program> extends CheckContext<M, P> {
  /** grows with every `free` */
  readonly frees: number
}

/** What a recording does with memory that it is told later. */
interface Use {
  readonly blank: number
  /** what it is called where it is refused */
  readonly op: string
  /** the most that any command sees of it */
  readonly bytes: number
  readonly written: boolean
}

type Preparing<M, P extends Program, X> = Pick<Backend<M, P, X>, 'prepare' | 'dispose' | 'blank'>

export class CheckedRecording<M, P extends Program, X> implements Recording {
  readonly commands: readonly OpenCommand[]
  readonly checked: readonly CheckedCommand<M, P>[]
  readonly dispatches: number
  readonly prepared: X
  /** of the device that it belongs to */
  readonly context: RecordingContext<M, P>
  readonly #backend: Preparing<M, P, X>
  /** buffers that it names, and whether it writes to them */
  readonly #fixed: ReadonlyMap<BufferHandle, boolean>
  readonly #blanks: readonly Use[]
  #frees: number
  #disposed = false

  constructor(commands: readonly OpenCommand[], context: RecordingContext<M, P>, backend: Preparing<M, P, X>) {
    // Copies: the caller may reuse its arrays, the recording must not change with them.
    this.commands = commands.map((command) => (command.kind === 'dispatch' ? { ...command, uniforms: command.uniforms.slice() } : command))
    this.checked = checkCommands(this.commands, withStandIns(context, backend))
    this.dispatches = countDispatches(this.checked)
    this.context = context
    this.#backend = backend
    const { fixed, blanks } = findUses(this.checked)
    this.#fixed = fixed
    this.#blanks = blanks
    this.#frees = context.frees
    this.prepared = backend.prepare(this.checked)
  }

  /** What fills the blanks. Throws unless it can run with that now. */
  check(ranges: readonly Range[]): readonly BoundRange<M>[] {
    if (this.#disposed) throw new IngotError('closed', 'the recording was disposed', { op: 'submit' })
    const { context } = this
    if (context.frees !== this.#frees) {
      for (const handle of this.#fixed.keys()) context.get(handle, 'submit a recording')
      this.#frees = context.frees
    }
    return this.#fill(ranges)
  }

  #fill(ranges: readonly Range[]): readonly BoundRange<M>[] {
    const { context } = this
    const filled: BoundRange<M>[] = []
    const seen: BoundRange<M>[] = []
    for (const use of this.#blanks) {
      const range = bindFilling(use, ranges[use.blank], context)
      const fixed = this.#fixed.get(range.buffer.handle)
      let isShared = fixed !== undefined && (fixed || use.written)
      for (const other of seen) isShared ||= (other.written || use.written) && overlap(other, range)
      if (isShared) {
        throw new IngotError('bad-argument', 'memory that is written to is seen twice', {
          op: use.op,
          got: range.buffer.handle,
          hint: 'give the result a range of its own',
        })
      }
      filled[use.blank] = range
      seen.push(range)
    }
    return filled
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return
    this.#disposed = true
    this.#backend.dispose(this.prepared)
  }
}

/** Blanks as buffers of any size that may be written to. */
function withStandIns<M, P extends Program, X>(
  context: RecordingContext<M, P>,
  { blank: memoryOf }: Preparing<M, P, X>,
): CheckContext<M, P> {
  if (memoryOf === undefined) return context
  const { caps, get, owns } = context
  return {
    caps,
    get,
    owns,
    standIn: ({ blank }) => ({
      handle: blankHandle(blank),
      memory: memoryOf(blank),
      bytes: caps.bufferBytes,
      capacity: caps.bufferBytes,
      writable: true,
      pooled: false,
    }),
  }
}

/** What commands see: buffers that they name, and blanks. */
function findUses<M>(commands: readonly CheckedCommand<M>[]): { fixed: Map<BufferHandle, boolean>; blanks: Use[] } {
  const fixed = new Map<BufferHandle, boolean>()
  const blanks: Use[] = []
  for (const { buffer, bytes, written } of commands.flatMap(rangesOf)) {
    const blank = blankOf(buffer)
    if (blank === undefined) {
      fixed.set(buffer.handle, written || fixed.get(buffer.handle) === true)
      continue
    }
    const known = blanks.find((each) => each.blank === blank)
    if (known === undefined) blanks.push({ blank, op: `blank ${blank}`, bytes, written })
    else Object.assign(known, { bytes: Math.max(known.bytes, bytes), written: known.written || written })
  }
  return { fixed, blanks }
}

export function countDispatches(commands: readonly CheckedCommand<unknown>[]): number {
  return commands.reduce((count, { kind }) => (kind === 'dispatch' ? count + 1 : count), 0)
}
