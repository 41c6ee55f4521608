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
  /** what was compiled */
  readonly kernel: Kernel
  /** content hash of what was compiled; equal programs share one pipeline */
  readonly key: string
  /** what it was compiled to, where a device has several ways to run a kernel: native code, WebAssembly */
  readonly form?: string
}

/** A range of a buffer. `offset` is a multiple of `caps.alignment` where a kernel sees it. */
export interface Range {
  readonly buffer: BufferHandle
  /** in bytes; default: 0 */
  readonly offset?: number
  /** default: to the end of the buffer */
  readonly bytes?: number
}

/** Memory that a recording is told with every submission: range number `blank` of those given then, of which it sees so many bytes. */
export interface Blank {
  readonly blank: number
  readonly bytes: number
}

/** Runs a program over a grid of workgroups. In one dispatch, a range that is written to overlaps no other. */
export interface Dispatch<R = Range, P extends Program = Program> {
  readonly kind: 'dispatch'
  /** compiled by the device that runs it */
  readonly program: P
  /** one per buffer parameter of the kernel, in order */
  readonly buffers: readonly R[]
  /** from packUniforms(kernel, values); empty if the kernel has none */
  readonly uniforms: Uint8Array
  /** workgroups per axis; an axis of 0 makes it do nothing */
  readonly grid: readonly [number, number, number]
}

/** Copies bytes on the device. Offsets and size are multiples of 4; the two ranges do not overlap. */
export interface Copy<R = Range> {
  readonly kind: 'copy'
  readonly from: R
  readonly to: R
  readonly bytes: number
}

/** Sets every byte of a range to `value`, 0 to 255. Offset and size are multiples of 4. */
export interface Fill<R = Range> {
  readonly kind: 'fill'
  readonly to: R
  readonly bytes: number
  readonly value: number
}

/** Brings bytes back; submit resolves with them. Offset and size are multiples of 4. */
export interface ReadBack<R = Range> {
  readonly kind: 'read'
  readonly from: R
  readonly bytes: number
}

/** Anything but a dispatch: moves bytes, needs no program. */
export type Transfer<R = Range> = Copy<R> | Fill<R> | ReadBack<R>

/** What a device does, one after the other, in a submission. `R` is how memory is named. */
export type Command<R = Range, P extends Program = Program> = Dispatch<R, P> | Transfer<R>

/** A command of a recording, which may have blanks where `caps.blanks` says so. */
export type OpenCommand = Command<Range | Blank>

/** Commands that were checked and prepared once, for many submissions. Dispose of it before or after its buffers are freed. */
export interface Recording extends Disposable {
  /** a copy: what is recorded does not change with the caller's arrays */
  readonly commands: readonly OpenCommand[]
}

/** Bytes that live elsewhere, usually a tensor's range of a file; devices that can will map it instead of copying. */
export interface ByteRange {
  /** how many there are */
  readonly bytes: number
  /** the file, if it is one */
  readonly path?: string
  /** where the range begins in that file */
  readonly offset?: number
  /** Exactly `length` bytes from `at` on, counted from the start of the range. */
  read(at: number, length: number): Promise<Uint8Array>
}

/** Counters since the device was opened. */
export interface Stats {
  /** calls of `submit` that were accepted */
  submissions: number
  /** dispatches in them */
  dispatches: number
  /** live buffers */
  buffers: number
  /** the sum of the sizes that live buffers were asked for with */
  bytesLive: number
  /** bytes that crossed from the host to the device; a mapped file does not */
  bytesWritten: number
  /** bytes that crossed from the device to the host */
  bytesRead: number
  /** allocations served by the pool of freed memory */
  poolHits: number
  /** allocations for which new memory was made */
  poolMisses: number
  /** kernels compiled */
  compiles: number
  /** compile calls answered from the cache */
  compileHits: number
  /** seconds a GPU has worked, where the device knows */
  gpuSeconds?: number
  /** what else this device counts, by a name for people; another object each time, so that a copy of the stats keeps its numbers */
  readonly extras: Readonly<Record<string, number>>
}

/** Hardware that runs programs on buffers. The rules are at the head of this file. */
export interface Device extends AsyncDisposable {
  /** of the kind of device: `cpu`. For people; nothing above decides by it */
  readonly name: string
  /** what it really is: adapter, driver, threads, instruction set */
  readonly detail: string
  /** what it can do and its limits: all that callers may decide by */
  readonly caps: Caps
  /** live counters: copy them to compare */
  readonly stats: Readonly<Stats>
  /** `bytes` of memory, contents undefined. */
  alloc(bytes: number): BufferHandle
  /** Memory holding these bytes, read-only for kernels: mapped where the device can, copied otherwise. */
  load(range: ByteRange): Promise<BufferHandle>
  /** Ends a handle. Work that was submitted before may still use its memory. */
  free(buffer: BufferHandle): void
  /** Bytes are taken before the call returns. Offset and length are multiples of 4. */
  write(buffer: BufferHandle, offset: number, bytes: Uint8Array): void
  /** The bytes as they are after all work that was submitted before. Offset and length are multiples of 4. */
  read(buffer: BufferHandle, offset: number, bytes: number): Promise<Uint8Array>
  /** The program of a kernel; the same content is compiled once. Rejects with `compile-failed`, or `too-large` past a limit. */
  compile(kernel: Kernel): Promise<Program>
  /** Checks commands and prepares them to be submitted many times. */
  record(commands: readonly OpenCommand[]): Recording
  /**
   * Runs the commands in order; resolves, when they are done, with the bytes of each `read` among them. `ranges` fill the blanks of a
   * recording; one that is written to overlaps nothing else that it sees.
   */
  submit(work: readonly Command[] | Recording, ranges?: readonly Range[]): Promise<Uint8Array[]>
  /** Resolves when all submitted work is done. */
  sync(): Promise<void>
  /** Waits for what is under way and gives everything back. Every call resolves when that is done, also a second one. */
  close(): Promise<void>
}

/** All memory that a command touches. */
export function rangesOf<R>(command: Command<R>): readonly R[] {
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

/** The same command with its memory named another way. */
export function mapRanges<R, S, P extends Program>(command: Command<R, P>, map: (range: R) => S): Command<S, P> {
  switch (command.kind) {
    case 'dispatch':
      return { ...command, buffers: command.buffers.map(map) }
    case 'copy':
      return { ...command, from: map(command.from), to: map(command.to) }
    case 'fill':
      return { ...command, to: map(command.to) }
    case 'read':
      return { ...command, from: map(command.from) }
  }
}

/** Counters that have counted nothing. */
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
    extras: {},
  }
}
