// Commands that were checked (check.ts): what devices encode. Handles have become buffers, ranges have all their numbers, programs
// are the device's own. Knows nothing of memory (`M`) nor of programs (`P`) beyond what the contract says.

import { type BufferHandle, type Command, type Dispatch, type Program, type Transfer, mapRanges } from '../device.ts'
import type { LiveBuffer } from './buffer-table.ts'

/** A range whose buffer is alive, with everything filled in. */
export interface BoundRange<M> {
  readonly buffer: LiveBuffer<M>
  readonly offset: number
  readonly bytes: number
  /** whether the command may write to it */
  readonly written: boolean
}

export type CheckedDispatch<M, P extends Program = Program> = Dispatch<BoundRange<M>, P>
export type CheckedTransfer<M> = Transfer<BoundRange<M>>
export type CheckedCommand<M, P extends Program = Program> = Command<BoundRange<M>, P>

export function overlap(a: BoundRange<unknown>, b: BoundRange<unknown>): boolean {
  return a.buffer.handle === b.buffer.handle && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes
}

/** Handles of what stands for blanks: no device gives out any below 1. */
export function blankHandle(blank: number): BufferHandle {
  return (-1 - blank) as BufferHandle
}

/** The number of the blank that a buffer stands for, if it does. */
export function blankOf({ handle }: LiveBuffer<unknown>): number | undefined {
  return handle < 0 ? -1 - handle : undefined
}

/** Commands with their blanks filled. */
export function fillCommands<M, P extends Program>(
  commands: readonly CheckedCommand<M, P>[],
  filled: readonly BoundRange<M>[],
): CheckedCommand<M, P>[] {
  const fill = (range: BoundRange<M>): BoundRange<M> => {
    const { buffer, offset } = filled[blankOf(range.buffer) ?? -1] ?? { buffer: range.buffer, offset: 0 }
    return { ...range, buffer, offset: range.offset + offset }
  }
  return commands.map((command) => mapRanges(command, fill))
}
