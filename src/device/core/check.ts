// What every device refuses, in one place and with one wording: bad sizes, ranges past an end, kernels past a limit, commands
// that do not fit their program. Pure: looks at numbers and handles, changes nothing, so a refused call has no effect.
//
// Stricter than some devices need, so that what runs on one runs on all: offsets and sizes of copies are multiples of 4,
// and in one dispatch a range that is written to overlaps no other range (WebGPU forbids it, others would race).

import type { Caps } from '../../base/caps.ts'
import { storageBytes } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type BufferParam, type Kernel, buffersOf, lanesOf, sharedBytes, uniformsOf } from '../../ir/kernel.ts'
import type { Blank, BufferHandle, ByteRange, Copy, Dispatch, OpenCommand, Program, Range } from '../device.ts'
import type { LiveBuffer } from './buffer-table.ts'
import { type BoundRange, type CheckedCommand, type CheckedDispatch, type CheckedTransfer, overlap } from './checked-command.ts'

/** What checking commands needs to know of a device. */
export interface CheckContext<M, P extends Program> {
  readonly caps: Caps
  /** The buffer of a handle; throws if it is not alive. */
  get(handle: BufferHandle, op: string): LiveBuffer<M>
  /** What stands for the memory of a blank; without it, there may be none. */
  standIn?(blank: Blank): LiveBuffer<M>
  /** True for programs that this device compiled. */
  owns(program: Program): program is P
}

/** Most lanes of a workgroup on devices that turn lanes into loops. */
const MOST_LANES = 1024

export function checkSize(op: string, bytes: number, { bufferBytes }: Caps): void {
  if (!Number.isSafeInteger(bytes) || bytes <= 0) {
    throw new IngotError('bad-argument', 'bad size of a buffer', { op, got: bytes, wanted: 'a positive whole number of bytes' })
  }
  if (bytes > bufferBytes) {
    throw new IngotError('too-large', 'the buffer is larger than this device allows', {
      op,
      got: `${bytes} bytes`,
      wanted: `at most ${bufferBytes}`,
    })
  }
}

/** What a source gave for one piece of a range against what it was asked for. */
export function checkLoaded({ path }: ByteRange, at: number, wanted: number, got: number): void {
  if (got !== wanted)
    throw new IngotError('bad-file', 'the source gave another number of bytes', { op: path ?? 'load', got: `${got} at ${at}`, wanted })
}

/** A kernel against the limits of a device. Does not verify the kernel itself: authoring does. */
export function checkKernel(kernel: Kernel, caps: Caps): void {
  const limits = [
    ['lanes in a workgroup', lanesOf(kernel), caps.lanes === 1 ? MOST_LANES : caps.lanes],
    ['bytes of shared memory', sharedBytes(kernel), caps.sharedBytes],
    ['buffers', buffersOf(kernel).length, caps.bindings],
  ] as const
  for (const [what, got, most] of limits) {
    if (got > most)
      throw new IngotError('too-large', `too many ${what} for this device`, { op: kernel.name, got, wanted: `at most ${most}` })
  }
}

/** Whole words of a buffer, for the host or for a command that moves bytes. */
export function bindWords<M>(op: string, buffer: LiveBuffer<M>, offset: number, bytes: number, written: boolean): BoundRange<M> {
  const fine = (number: number): boolean => Number.isSafeInteger(number) && number >= 0 && number % 4 === 0
  if (!fine(offset) || !fine(bytes)) {
    throw new IngotError('bad-argument', 'bad range', { op, got: `${bytes} bytes at ${offset}`, wanted: 'multiples of 4' })
  }
  // A buffer of 6 bytes is written and read as two words: its memory always ends on a multiple of 16.
  if (offset + bytes > wholeWords(buffer.bytes)) throw outOfRange(op, buffer.handle, buffer.bytes, offset, bytes)
  if (written) checkWritable(op, buffer)
  return { buffer, offset, bytes, written }
}

/** Checks commands in order; the first bad one throws, and says which it is. */
export function checkCommands<M, P extends Program>(commands: readonly OpenCommand[], context: CheckContext<M, P>): CheckedCommand<M, P>[] {
  return commands.map((command, index) => {
    const op = `command ${index} (${command.kind === 'dispatch' ? command.program.kernel.name : command.kind})`
    switch (command.kind) {
      case 'dispatch':
        return checkDispatch(op, command, context)
      case 'copy':
        return checkCopy(op, command, context)
      case 'fill': {
        const to = bindTransfer(op, command.to, command.bytes, true, context)
        if (!Number.isInteger(command.value) || command.value < 0 || command.value > 255) {
          throw new IngotError('bad-argument', 'bad value to fill with', { op, got: command.value, wanted: 'a byte' })
        }
        return { kind: 'fill', to, bytes: command.bytes, value: command.value }
      }
      case 'read':
        return { kind: 'read', from: bindTransfer(op, command.from, command.bytes, false, context), bytes: command.bytes }
      default: {
        const { kind }: { readonly kind: unknown } = command // from a caller that is not TypeScript
        throw new IngotError('bad-argument', 'unknown command', { op, got: kind, wanted: 'dispatch, copy, fill or read' })
      }
    }
  })
}

function checkDispatch<M, P extends Program>(
  op: string,
  dispatch: Dispatch<Range | Blank>,
  context: CheckContext<M, P>,
): CheckedDispatch<M, P> {
  const { program, buffers, uniforms, grid } = dispatch
  if (!context.owns(program)) {
    throw new IngotError('bad-argument', 'the program is not of this device', { op, hint: 'compile the kernel on the device that runs it' })
  }
  const params = buffersOf(program.kernel)
  if (buffers.length !== params.length) {
    throw new IngotError('bad-argument', 'wrong number of buffers', {
      op,
      got: buffers.length,
      wanted: `${params.length} (${params.map(({ name }) => name).join(', ')})`,
    })
  }
  const wanted = 4 * uniformsOf(program.kernel).length
  if (uniforms.length !== wanted)
    throw new IngotError('bad-argument', 'wrong size of uniforms', {
      op,
      got: `${uniforms.length} bytes`,
      wanted,
      hint: 'use packUniforms',
    })
  checkGrid(op, grid, context.caps)
  const bound: BoundRange<M>[] = []
  for (const [index, range] of buffers.entries()) {
    const param = params[index]
    if (param !== undefined) bound.push(bindParam(op, param, range, context))
  }
  for (const [index, range] of bound.entries()) {
    const other = range.written ? bound.findIndex((each) => each !== range && overlap(range, each)) : -1
    if (other < 0) continue
    throw new IngotError('bad-argument', `${params[index]?.name} is written to and overlaps ${params[other]?.name}`, {
      op,
      hint: 'give the result a range of its own',
    })
  }
  return { kind: 'dispatch', program, buffers: bound, uniforms, grid }
}

function checkGrid(op: string, grid: readonly number[], caps: Caps): void {
  if (grid.length !== 3 || !grid.every((count) => Number.isSafeInteger(count) && count >= 0)) {
    throw new IngotError('bad-argument', 'bad grid', { op, got: [...grid], wanted: 'three whole numbers' })
  }
  if (grid.some((count) => count > caps.grid)) {
    throw new IngotError('too-large', 'the grid is larger than this device allows', {
      op,
      got: [...grid],
      wanted: `at most ${caps.grid} per axis`,
    })
  }
}

/** A range that a kernel sees as one of its parameters. */
function bindParam<M>(op: string, param: BufferParam, given: Range | Blank, context: CheckContext<M, Program>): BoundRange<M> {
  const { caps } = context
  const what = `${op}, buffer ${param.name}`
  const range = rangeOf(what, given, context)
  const { buffer, offset = 0, bytes = buffer.bytes - offset } = range
  if (!Number.isSafeInteger(offset) || offset < 0 || !Number.isSafeInteger(bytes) || (range.bytes !== undefined && bytes <= 0)) {
    throw new IngotError('bad-argument', 'bad range', {
      op: what,
      got: `${bytes} bytes at ${offset}`,
      wanted: 'whole numbers, at least one byte',
    })
  }
  if (bytes <= 0 || offset + bytes > buffer.bytes) throw outOfRange(what, buffer.handle, buffer.bytes, offset, bytes)
  if (offset % caps.alignment !== 0) {
    throw new IngotError('bad-argument', 'the offset is not aligned', { op: what, got: offset, wanted: `a multiple of ${caps.alignment}` })
  }
  if (bytes > caps.bindingBytes) {
    throw new IngotError('too-large', 'the range is larger than a kernel of this device may see', {
      op: what,
      got: `${bytes} bytes`,
      wanted: `at most ${caps.bindingBytes}`,
    })
  }
  if (bytes < storageBytes(param.storage)) {
    throw new IngotError('out-of-range', 'the range holds no whole element', {
      op: what,
      got: `${bytes} bytes`,
      wanted: `at least ${storageBytes(param.storage)}`,
    })
  }
  const written = param.role !== 'read'
  if (written) checkWritable(what, buffer)
  return { buffer, offset, bytes, written }
}

function checkCopy<M>(op: string, { from, to, bytes }: Copy<Range | Blank>, context: CheckContext<M, Program>): CheckedTransfer<M> {
  const source = bindTransfer(op, from, bytes, false, context)
  const target = bindTransfer(op, to, bytes, true, context)
  if (overlap(source, target))
    throw new IngotError('bad-argument', 'source and target overlap', { op, hint: 'copy through another buffer' })
  return { kind: 'copy', from: source, to: target, bytes }
}

function bindTransfer<M>(
  op: string,
  given: Range | Blank,
  bytes: number,
  written: boolean,
  context: CheckContext<M, Program>,
): BoundRange<M> {
  const range = rangeOf(op, given, context)
  const { buffer } = range
  const bound = bindWords(op, buffer, range.offset ?? 0, bytes, written)
  if (range.bytes !== undefined && bytes > wholeWords(range.bytes)) throw outOfRange(op, buffer.handle, range.bytes, 0, bytes)
  return bound
}

/** A range with the buffer of its handle, or with what stands for it. */
function rangeOf<M>(
  op: string,
  range: Range | Blank,
  { caps, get, standIn }: CheckContext<M, Program>,
): { readonly buffer: LiveBuffer<M>; readonly offset?: number; readonly bytes?: number } {
  if ('buffer' in range) return { ...range, buffer: get(range.buffer, op) }
  const { blank, bytes } = range
  if (standIn === undefined)
    throw new IngotError('unsupported', 'a blank where there can be none', { op, hint: 'record it where caps.blanks' })
  if (!Number.isSafeInteger(blank) || blank < 0) throw new IngotError('bad-argument', 'bad number of a blank', { op, got: blank })
  checkSize(op, bytes, caps)
  return { buffer: standIn(range), bytes }
}

/** What fills a blank, held against what a recording does with it. */
export function bindFilling<M>(
  { op, bytes, written }: { readonly op: string; readonly bytes: number; readonly written: boolean },
  range: Range | undefined,
  { caps, get }: CheckContext<M, Program>,
): BoundRange<M> {
  if (range === undefined) throw new IngotError('bad-argument', 'nothing fills it', { op, wanted: 'a range for every blank' })
  const buffer = get(range.buffer, op)
  const { offset = 0 } = range
  if (!Number.isSafeInteger(offset) || offset < 0 || offset % caps.alignment !== 0)
    throw new IngotError('bad-argument', 'the offset is not aligned', { op, got: offset, wanted: `a multiple of ${caps.alignment}` })
  const there = Math.min(range.bytes ?? Infinity, buffer.bytes - offset)
  if (!(wholeWords(there) >= bytes)) throw outOfRange(op, buffer.handle, offset + there, offset, bytes)
  if (written) checkWritable(op, buffer)
  return { buffer, offset, bytes, written }
}

function checkWritable(op: string, { writable, handle }: LiveBuffer<unknown>): void {
  if (!writable)
    throw new IngotError('bad-argument', 'this buffer was loaded and cannot be written to', {
      op,
      got: handle,
      hint: 'allocate a buffer and copy',
    })
}

function wholeWords(bytes: number): number {
  return Math.ceil(bytes / 4) * 4
}

function outOfRange(op: string, handle: BufferHandle, size: number, offset: number, bytes: number): IngotError {
  return new IngotError('out-of-range', 'past the end of the buffer', {
    op,
    got: `${bytes} bytes at ${offset} of buffer ${handle}`,
    wanted: `within ${size} bytes`,
  })
}
