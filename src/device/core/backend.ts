// What a device says of itself: how its memory is made and filled, programs are built, commands run. All that devices do alike is in
// backed-device.ts, which calls these after every check. `M` is its memory, `P` its programs, `X` what it prepares for a recording.

import type { Caps } from '../../base/caps.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { ByteRange, Program, Stats } from '../device.ts'
import type { Allocator } from './buffer-table.ts'
import type { BoundRange, CheckedCommand } from './checked-command.ts'
import type { Lifecycle } from './lifecycle.ts'

/** A program in the making; `fresh` is false where the same code was compiled before. */
export interface Compilation<P extends Program> {
  readonly program: Promise<P>
  readonly fresh: boolean
}

/** Reads a range piece by piece; `put` takes each. */
export type ReadPieces = (put: (at: number, piece: Uint8Array) => void | Promise<void>) => Promise<void>

export interface Backend<M, P extends Program, X> extends Allocator<M> {
  /** what it has under way is tracked there */
  readonly lifecycle: Lifecycle
  readonly detail: string
  readonly caps: Caps
  /** for one that counts more than others */
  readonly stats?: Stats
  /** Called with memory before it is given out, new or used. */
  poison?(memory: M): void
  /** Whether memory that is freed now may be given out again. */
  isReusable?(memory: M): boolean
  /** Memory with the bytes of a range: mapped, or filled by `readPieces`. Gives it back itself if that fails. */
  load(range: ByteRange, readPieces: ReadPieces): Promise<M>
  /** Takes the bytes before it returns. */
  write(to: BoundRange<M>, bytes: Uint8Array): void
  /** The bytes as they are when all that was run before is done. */
  read(from: BoundRange<M>): Promise<Uint8Array>
  /** `key`: the hash of the kernel. Throws or rejects if it cannot run; called again only for another kernel, or after a failure. */
  compile(kernel: Kernel, key: string): Compilation<P>
  /** What stands in recorded commands for memory that is told later; without it, recordings have no blanks. */
  blank?(number: number): M
  /** What a recording needs besides its commands, made once. */
  prepare(commands: readonly CheckedCommand<M, P>[]): X
  dispose(prepared: X): void
  /**
   * Starts before it returns, so that calls keep their order; `prepared` is there if the commands were recorded, and `filled` has a range
   * for every blank of them. Gives the bytes that were read: at once, or when they are there.
   */
  run(
    commands: readonly CheckedCommand<M, P>[],
    prepared: X | undefined,
    filled: readonly BoundRange<M>[],
  ): Uint8Array[] | Promise<Uint8Array[]>
  /** Resolves when all that was run is done. */
  sync(): Promise<void>
  /** Gives back what it has besides buffers, which are gone by then. */
  release(): void | Promise<void>
}
