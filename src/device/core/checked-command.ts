// Commands that were checked (check.ts): what devices encode. Handles have become buffers, ranges have all their numbers, programs
// are the device's own. Knows nothing of memory (`M`) nor of programs (`P`) beyond what the contract says.

import type { BufferHandle, Program } from '../device.ts'
import type { LiveBuffer } from './buffer-table.ts'

/** A range whose buffer is alive, with everything filled in. */
export interface BoundRange<M> {
  readonly buffer: LiveBuffer<M>
  readonly offset: number
  readonly bytes: number
  /** whether the command may write to it */
  readonly written: boolean
}

export interface CheckedDispatch<M, P extends Program = Program> {
  readonly kind: 'dispatch'
  readonly program: P
  /** in order of the kernel's buffer parameters */
  readonly buffers: readonly BoundRange<M>[]
  readonly uniforms: Uint8Array
  readonly grid: readonly [number, number, number]
}

/** Anything but a dispatch: moves bytes, needs no program. */
export type CheckedTransfer<M> =
  | { readonly kind: 'copy'; readonly from: BoundRange<M>; readonly to: BoundRange<M> }
  | { readonly kind: 'fill'; readonly to: BoundRange<M>; readonly value: number }
  | { readonly kind: 'read'; readonly from: BoundRange<M> }

export type CheckedCommand<M, P extends Program = Program> = CheckedDispatch<M, P> | CheckedTransfer<M>

/** Every range that a command touches. */
export function rangesOf<M>(command: CheckedCommand<M>): readonly BoundRange<M>[] {
  switch (command.kind) {
    case 'dispatch':
      return command.buffers
    case 'copy':
      return [command.from, command.to]
    case 'fill':
      return [command.to]
    case 'read':
      return [command.from]
  }
}

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
  return commands.map((command) => {
    switch (command.kind) {
      case 'dispatch':
        return { ...command, buffers: command.buffers.map(fill) }
      case 'copy':
        return { ...command, from: fill(command.from), to: fill(command.to) }
      case 'fill':
        return { ...command, to: fill(command.to) }
      case 'read':
        return { ...command, from: fill(command.from) }
    }
  })
}
