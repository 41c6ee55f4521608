// Commands as a job in the heap: tasks, the arguments of each dispatch, and room for the bytes that are to be read back. One allocation
// holds it all. The same job can run many times, but not twice at once. How a task looks is the runtime's own (`JobWriter`).

import { IngotError } from '../../base/error.ts'
import type { BoundRange, CheckedCommand, CheckedDispatch } from '../core/checked-command.ts'
import { Hazards, type Span } from '../core/hazard.ts'
import type { Program } from '../device.ts'
import type { Heap } from './heap.ts'
import type { Opening } from './opening.ts'
import type { Job, ReadPlace } from './runtime.ts'

/** Kinds of tasks; native/cpu/runtime.h has the same numbers. */
export const KIND = { dispatch: 0, copy: 1, fill: 2 } as const

/** A task that copies bytes from the address `what`, or fills with the byte `what`. */
export interface Move {
  readonly kind: typeof KIND.copy | typeof KIND.fill
  readonly what: number
  /** the address to write to */
  readonly where: number
  readonly bytes: number
}

/** Writes the tasks of one job. Tasks and arguments are given as places in the heap. */
export interface JobWriter<P extends Program> {
  /** bytes before the first task */
  readonly headBytes: number
  readonly taskBytes: number
  /** most bytes that one task moves */
  readonly mostMoved: number
  /** what it wrote that stands for blanks */
  readonly openings: readonly Opening[]
  /** what tasks say for a place: its address */
  addressOf(place: number): number
  /** bytes that the arguments of a dispatch take */
  argsBytes(dispatch: CheckedDispatch<number, P>): number
  /** `groups`: all workgroups, at least one; `waits`: for all tasks before it. */
  writeDispatch(task: number, dispatch: CheckedDispatch<number, P>, args: number, groups: number, waits: boolean): void
  writeMove(task: number, move: Move, waits: boolean): void
}

export interface EncodedJob extends Job {
  /** where it lies; to be given back to the heap */
  readonly block: number
  /** how many tasks it has */
  readonly count: number
  /** addresses in it that it is told before it runs */
  readonly openings: readonly Opening[]
}

const MOST_GROUPS = 2 ** 31 - 1

/** What lies side by side in a job shares no cache line. */
export function alignLine(bytes: number): number {
  return Math.ceil(bytes / 64) * 64
}

export function encodeJob<P extends Program>(heap: Heap, commands: readonly CheckedCommand<number, P>[], writer: JobWriter<P>): EncodedJob {
  let [tasks, rest] = [0, 0]
  for (const command of commands) {
    tasks += countTasks(command, writer.mostMoved)
    if (command.kind === 'dispatch') rest += alignLine(writer.argsBytes(command))
    if (command.kind === 'read') rest += alignLine(command.from.bytes)
  }
  const head = writer.headBytes + tasks * writer.taskBytes
  const encoder = new Encoder(writer, heap.alloc(head + rest, 'submit'), head)
  for (const command of commands) encoder.add(command)
  return encoder.finish()
}

/** Most tasks that a command takes; a dispatch that does nothing takes none. Throws `too-large` where no job could hold it. */
function countTasks(command: CheckedCommand<number>, mostMoved: number): number {
  if (command.kind !== 'dispatch') return Math.ceil((command.kind === 'fill' ? command.to : command.from).bytes / mostMoved)
  if (countGroups(command) <= MOST_GROUPS) return 1
  throw new IngotError('too-large', 'too many workgroups for this device', {
    op: command.program.kernel.name,
    got: [...command.grid],
    wanted: `at most ${MOST_GROUPS} in all`,
  })
}

function countGroups({ grid: [x, y, z] }: CheckedDispatch<number>): number {
  return x * y * z
}

class Encoder<P extends Program> {
  readonly #writer: JobWriter<P>
  readonly #block: number
  readonly #hazards = new Hazards()
  readonly #reads: ReadPlace[] = []
  /** where the next arguments or bytes to read go */
  #top: number
  #count = 0

  constructor(writer: JobWriter<P>, block: number, head: number) {
    this.#writer = writer
    this.#block = block
    this.#top = block + head
  }

  add(command: CheckedCommand<number, P>): void {
    switch (command.kind) {
      case 'dispatch':
        return this.#dispatch(command)
      case 'fill':
        return this.#move(KIND.fill, command.value, this.#address(command.to), command.to.bytes)
      case 'copy':
        return this.#move(KIND.copy, this.#address(command.from), this.#address(command.to), command.to.bytes)
      case 'read': {
        const { bytes } = command.from
        const at = this.#take(bytes)
        this.#reads.push({ at, bytes })
        return this.#move(KIND.copy, this.#address(command.from), this.#writer.addressOf(at), bytes)
      }
    }
  }

  finish(): EncodedJob {
    return { block: this.#block, count: this.#count, reads: this.#reads, openings: this.#writer.openings }
  }

  #dispatch(dispatch: CheckedDispatch<number, P>): void {
    const groups = countGroups(dispatch)
    if (groups === 0) return
    const waits = this.#hazards.add(dispatch.buffers.map((range) => this.#span(range)))
    this.#writer.writeDispatch(this.#task(), dispatch, this.#take(this.#writer.argsBytes(dispatch)), groups, waits)
  }

  #move(kind: Move['kind'], what: number, where: number, bytes: number): void {
    for (let done = 0; done < bytes; done += this.#writer.mostMoved) {
      const size = Math.min(bytes - done, this.#writer.mostMoved)
      const move = { kind, what: kind === KIND.copy ? what + done : what, where: where + done, bytes: size }
      const spans: Span[] = [{ from: move.where, to: move.where + size, written: true }]
      if (kind === KIND.copy) spans.push({ from: move.what, to: move.what + size, written: false })
      this.#writer.writeMove(this.#task(), move, this.#hazards.add(spans))
    }
  }

  #address({ buffer, offset }: BoundRange<number>): number {
    return this.#writer.addressOf(buffer.memory) + offset
  }

  #span(range: BoundRange<number>): Span {
    const from = this.#address(range)
    return { from, to: from + range.bytes, written: range.written }
  }

  #task(): number {
    return this.#block + this.#writer.headBytes + this.#count++ * this.#writer.taskBytes
  }

  #take(bytes: number): number {
    const at = this.#top
    this.#top += alignLine(bytes)
    return at
  }
}
