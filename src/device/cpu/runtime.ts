// What runs the work of the cpu device: WebAssembly on worker threads (wasm-runtime.ts), or a native library with WebAssembly for
// what it lacks (native-runtime.ts). Speaks of places, which are numbers; what kind of memory they are in is its own business.

import type { Caps } from '../../base/caps.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Checked } from '../check.ts'
import type { ByteRange, Program } from '../device.ts'
import type { ProductReport } from './product-choice.ts'

/** Commands made ready to run. May run many times, but not twice at once. */
export interface Work {
  /** where the bytes of each read are after a run */
  readonly reads: readonly { readonly at: number; readonly bytes: number }[]
  readonly dispatches: number
}

export interface Runtime<W extends Work = Work> {
  readonly detail: string
  readonly caps: Caps
  /** who multiplies f32 matrices, where there is a choice */
  readonly products?: ProductReport | undefined
  /** work that was given and is not done */
  readonly pending: number
  alloc(bytes: number, op: string): number
  free(place: number): void
  read(place: number, bytes: number): Uint8Array
  write(place: number, bytes: Uint8Array): void
  /** The place of these bytes without reading them, if that can be: read-only, given back with `free`. */
  map(range: ByteRange): Promise<number | undefined>
  compile(kernel: Kernel, key: string): Promise<Program>
  encode(commands: readonly Checked<number>[]): W
  /** Resolves when it is done; work is done in the order it is given. Rejects with `device-failed`. */
  run(work: W): Promise<void>
  release(work: W): void
  /** Nothing may be pending. */
  close(): Promise<void>
}
