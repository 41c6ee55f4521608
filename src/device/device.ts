// The one interface to hardware. A device speaks bytes and programs, never maths: buffers by handle, programs compiled from
// kernels, lists of commands submitted as one. Everything above asks `caps` and never the name.
//
// Rules that every implementation keeps (test/conformance checks them):
// - Handles count from 1. Unknown, foreign or freed handles, ranges past an end and sizes past a limit give an IngotError and
//   change nothing. A failed submission rejects its promise; the device stays usable unless it is lost.
// - Work happens in the order of the calls: a write is seen by later submissions and not by earlier ones; free is safe
//   while work that uses the buffer is still running.
// - One call of `submit` is one submission, however many commands it has.

import type { Caps } from '../base/caps.ts'
import type { Kernel } from '../ir/kernel.ts'

/** An opaque number from 1 on; belongs to the device that gave it out. */
export type BufferHandle = number & { readonly __handle: 'buffer' }

/** A compiled kernel; belongs to the device that compiled it. */
export interface Program {
  readonly kernel: Kernel
  /** content hash of what was compiled; equal programs share one pipeline */
  readonly key: string
}

/** A range of a buffer. `offset` is a multiple of `caps.alignment` where a kernel sees it. */
export interface Range {
  readonly buffer: BufferHandle
  readonly offset?: number
  /** default: to the end of the buffer */
  readonly bytes?: number
}

export interface Dispatch {
  readonly kind: 'dispatch'
  readonly program: Program
  /** one per buffer parameter of the kernel, in order */
  readonly buffers: readonly Range[]
  /** from packUniforms(kernel, values); empty if the kernel has none */
  readonly uniforms: Uint8Array
  /** workgroups per axis; an axis of 0 makes it do nothing */
  readonly grid: readonly [number, number, number]
}
export interface Copy {
  readonly kind: 'copy'
  readonly from: Range
  readonly to: Range
  readonly bytes: number
}
export interface Fill {
  readonly kind: 'fill'
  readonly to: Range
  readonly bytes: number
  readonly value: number
}
/** Brings bytes back; submit resolves with them. Offset and size are multiples of 4. */
export interface ReadBack {
  readonly kind: 'read'
  readonly from: Range
  readonly bytes: number
}
export type Command = Dispatch | Copy | Fill | ReadBack

/** Commands prepared once for many submissions. */
export interface Recording extends Disposable {
  readonly commands: readonly Command[]
}

/** Bytes that live elsewhere, usually a tensor's range of a file; devices that can will map it instead of copying. */
export interface ByteRange {
  readonly bytes: number
  /** the file and where in it, if it is one */
  readonly path?: string
  readonly offset?: number
  /** `length` bytes from `at` on, counted from the start of the range */
  read(at: number, length: number): Promise<Uint8Array>
}

/** Counters since the device was opened. */
export interface Stats {
  submissions: number
  dispatches: number
  /** live buffers and their bytes */
  buffers: number
  bytesLive: number
  bytesWritten: number
  bytesRead: number
  /** allocations served by the pool, and those that were not */
  poolHits: number
  poolMisses: number
  compiles: number
  /** compile calls answered from the cache */
  compileHits: number
  /** seconds a GPU has worked, and messages sent to its framework, where the device knows */
  gpuSeconds?: number
  messages?: number
}

export interface Device extends AsyncDisposable {
  readonly name: string
  /** what it really is: adapter, driver, threads, instruction set */
  readonly detail: string
  readonly caps: Caps
  readonly stats: Readonly<Stats>
  /** `bytes` of memory, contents undefined. */
  alloc(bytes: number): BufferHandle
  /** Memory holding these bytes, read-only for kernels: mapped where the device can, copied otherwise. */
  load(range: ByteRange): Promise<BufferHandle>
  free(buffer: BufferHandle): void
  /** Bytes are taken before the call returns. Offset and length are multiples of 4. */
  write(buffer: BufferHandle, offset: number, bytes: Uint8Array): void
  read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array>
  compile(kernel: Kernel): Promise<Program>
  record(commands: readonly Command[]): Recording
  /** Runs the commands in order; resolves, when they are done, with the bytes of each `read` among them. */
  submit(work: readonly Command[] | Recording): Promise<Uint8Array[]>
  /** Resolves when all submitted work is done. */
  sync(): Promise<void>
  close(): Promise<void>
}

export function emptyStats(): Stats {
  return {
    submissions: 0,
    dispatches: 0,
    buffers: 0,
    bytesLive: 0,
    bytesWritten: 0,
    bytesRead: 0,
    poolHits: 0,
    poolMisses: 0,
    compiles: 0,
    compileHits: 0,
  }
}
