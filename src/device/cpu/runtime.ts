// What runs the work of the cpu device: WebAssembly on worker threads (wasm/runtime.ts), or a native library with WebAssembly for
// what it lacks (native/runtime.ts). Speaks of places, which are numbers; what kind of memory they are in is its own business.

import type { Caps } from '../../base/caps.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { BoundRange, CheckedCommand } from '../core/checked-command.ts'
import type { ByteRange, Program } from '../device.ts'
import type { ProductReport } from './blas/report.ts'

/** Where the bytes of a read-back are after a run. */
export interface ReadPlace {
  readonly at: number
  readonly bytes: number
}

/** Commands made ready for threads. May run many times, but not twice at once. */
export interface Job {
  /** in order of the commands */
  readonly reads: readonly ReadPlace[]
}

export interface Runtime<J extends Job, P extends Program> {
  readonly kind: 'native' | 'wasm'
  readonly detail: string
  readonly caps: Caps
  /** who multiplies f32 matrices, where there is a choice */
  readonly products?: ProductReport | undefined
  /** jobs that were given and are not done */
  readonly pending: number
  alloc(bytes: number, op: string): number
  free(place: number): void
  read(place: number, bytes: number): Uint8Array
  write(place: number, bytes: Uint8Array): void
  /** The place of these bytes without reading them, if that can be: read-only, given back with `free`. */
  map(range: ByteRange): Promise<number | undefined>
  compile(kernel: Kernel, key: string): Promise<P>
  encode(commands: readonly CheckedCommand<number, P>[]): J
  /** Tells a job that is not running what fills its blanks; false where its kernels do not reach that memory. */
  fill(job: J, filled: readonly BoundRange<number>[]): boolean
  /** Resolves when it is done; jobs are done in the order they are given. Rejects with `device-failed`. */
  run(job: J): Promise<void>
  /**
   * Does a job on this thread, while nothing is pending; false if it cannot be done so. `helped`: other threads may take parts of it.
   * Throws `device-failed`.
   */
  runHere(job: J, helped: boolean): boolean
  release(job: J): void
  /** Nothing may be pending. */
  close(): Promise<void>
}
