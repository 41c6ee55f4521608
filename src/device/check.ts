// What every device refuses, in one place and with one wording: bad sizes, ranges past an end, kernels past a limit, commands
// that do not fit their program. Pure: looks at numbers and handles, changes nothing, so a refused call has no effect.
//
// Stricter than some devices need, so that what runs on one runs on all: offsets and sizes of copies are multiples of 4,
// and in one dispatch a range that is written to overlaps no other range (WebGPU forbids it, others would race).

import type { Caps } from '../base/caps.ts'
import { storageBytes } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import { type BufferParam, type Kernel, buffersOf, lanesOf, sharedBytes, uniformsOf } from '../ir/kernel.ts'
import type { BufferHandle, ByteRange, Command, Dispatch, Program, Range } from './device.ts'
import type { Entry } from './table.ts'

/** A range whose buffer is alive, with everything filled in. */
export interface Bound<M> {
  readonly entry: Entry<M>
  readonly offset: number
  readonly bytes: number
}

/** A command that was checked. */
export type Checked<M> =
  | {
      readonly kind: 'dispatch'
      readonly program: Program
      readonly buffers: readonly Bound<M>[]
      readonly uniforms: Uint8Array
      readonly grid: readonly [number, number, number]
    }
  | { readonly kind: 'copy'; readonly from: Bound<M>; readonly to: Bound<M> }
  | { readonly kind: 'fill'; readonly to: Bound<M>; readonly value: number }
  | { readonly kind: 'read'; readonly from: Bound<M> }

/** What checking needs to know of a device. */
export interface Ground<M> {
  readonly caps: Caps
  get(handle: BufferHandle, op: string): Entry<M>
  /** true for programs that this device compiled */
  owns(program: Program): boolean
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

/** A transfer between host and buffer: multiples of 4, inside. */
export function checkTransfer(op: string, { bytes: size, handle }: Entry<unknown>, offset: number, bytes: number): void {
  checkWords(op, offset, bytes)
  // A buffer of 6 bytes is written and read as two words: its memory always ends on a multiple of 16.
  const end = Math.ceil(size / 4) * 4
  if (offset + bytes > end) throw outOfRange(op, handle, size, offset, bytes)
}

/** What a source gave for one piece of a range against what it was asked for. */
export function checkLoaded({ path }: ByteRange, at: number, wanted: number, got: number): void {
  if (got !== wanted)
    throw new IngotError('bad-file', 'the source gave another number of bytes', { op: path ?? 'load', got: `${got} at ${at}`, wanted })
}

export function checkWritable(op: string, { writable, handle }: Entry<unknown>): void {
  if (!writable)
    throw new IngotError('bad-argument', 'this buffer was loaded and cannot be written to', {
      op,
      got: handle,
      hint: 'allocate a buffer and copy',
    })
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

/** Checks commands in order; the first bad one throws, and says which it is. */
export function checkCommands<M>(commands: readonly Command[], ground: Ground<M>): Checked<M>[] {
  return commands.map((command, index) => {
    const op = `command ${index} (${command.kind === 'dispatch' ? command.program.kernel.name : command.kind})`
    switch (command.kind) {
      case 'dispatch':
        return checkDispatch(op, command, ground)
      case 'copy':
        return checkCopy(op, command.from, command.to, command.bytes, ground)
      case 'fill': {
        const to = bindWords(op, command.to, command.bytes, ground)
        checkWritable(op, to.entry)
        if (!Number.isInteger(command.value) || command.value < 0 || command.value > 255) {
          throw new IngotError('bad-argument', 'bad value to fill with', { op, got: command.value, wanted: 'a byte' })
        }
        return { kind: 'fill', to, value: command.value }
      }
      case 'read':
        return { kind: 'read', from: bindWords(op, command.from, command.bytes, ground) }
      default:
        throw new IngotError('bad-argument', 'unknown command', {
          op,
          got: (command as { kind: unknown }).kind,
          wanted: 'dispatch, copy, fill or read',
        })
    }
  })
}

/** Every buffer that commands touch: a recording asks for them again after something was freed. */
export function handlesOf(commands: readonly Checked<unknown>[]): BufferHandle[] {
  const bounds = commands.flatMap((command) => {
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
  })
  return [...new Set(bounds.map(({ entry }) => entry.handle))]
}

export function overlap(a: Bound<unknown>, b: Bound<unknown>): boolean {
  return a.entry.handle === b.entry.handle && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes
}

function checkDispatch<M>(op: string, { program, buffers, uniforms, grid }: Dispatch, ground: Ground<M>): Checked<M> {
  const { caps } = ground
  if (!ground.owns(program)) {
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
  checkGrid(op, grid, caps)
  const bounds = params.map((param, index) => bindParam(op, param, buffers[index] as Range, ground))
  params.forEach((param, index) => {
    if (param.role === 'read') return
    bounds.forEach((other, at) => {
      if (at === index || !overlap(bounds[index] as Bound<M>, other)) return
      throw new IngotError('bad-argument', `${param.name} is written to and overlaps ${(params[at] as BufferParam).name}`, {
        op,
        hint: 'give the result a range of its own',
      })
    })
  })
  return { kind: 'dispatch', program, buffers: bounds, uniforms, grid }
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

function bindParam<M>(op: string, param: BufferParam, range: Range, ground: Ground<M>): Bound<M> {
  const { caps } = ground
  const what = `${op}, buffer ${param.name}`
  const bound = bind(what, range, range.bytes, ground)
  if (bound.offset % caps.alignment !== 0) {
    throw new IngotError('bad-argument', 'the offset is not aligned', {
      op: what,
      got: bound.offset,
      wanted: `a multiple of ${caps.alignment}`,
    })
  }
  if (bound.bytes > caps.bindingBytes) {
    throw new IngotError('too-large', 'the range is larger than a kernel of this device may see', {
      op: what,
      got: `${bound.bytes} bytes`,
      wanted: `at most ${caps.bindingBytes}`,
    })
  }
  if (bound.bytes < storageBytes(param.storage)) {
    throw new IngotError('out-of-range', 'the range holds no whole element', {
      op: what,
      got: `${bound.bytes} bytes`,
      wanted: `at least ${storageBytes(param.storage)}`,
    })
  }
  if (param.role !== 'read') checkWritable(what, bound.entry)
  return bound
}

function checkCopy<M>(op: string, source: Range, target: Range, bytes: number, ground: Ground<M>): Checked<M> {
  const from = bindWords(op, source, bytes, ground)
  const to = bindWords(op, target, bytes, ground)
  checkWritable(op, to.entry)
  if (overlap(from, to)) throw new IngotError('bad-argument', 'source and target overlap', { op, hint: 'copy through another buffer' })
  return { kind: 'copy', from, to }
}

function bindWords<M>(op: string, range: Range, bytes: number, ground: Ground<M>): Bound<M> {
  const entry = ground.get(range.buffer, op)
  const offset = range.offset ?? 0
  checkTransfer(op, entry, offset, bytes)
  if (range.bytes !== undefined && bytes > Math.ceil(range.bytes / 4) * 4) throw outOfRange(op, entry.handle, range.bytes, 0, bytes)
  return { entry, offset, bytes }
}

function bind<M>(op: string, range: Range, bytes: number | undefined, ground: Ground<M>): Bound<M> {
  const entry = ground.get(range.buffer, op)
  const offset = range.offset ?? 0
  const size = bytes ?? entry.bytes - offset
  if (!Number.isSafeInteger(offset) || offset < 0 || !Number.isSafeInteger(size) || (bytes !== undefined && size <= 0)) {
    throw new IngotError('bad-argument', 'bad range', { op, got: `${size} bytes at ${offset}`, wanted: 'whole numbers, at least one byte' })
  }
  if (size <= 0 || offset + size > entry.bytes) throw outOfRange(op, entry.handle, entry.bytes, offset, size)
  return { entry, offset, bytes: size }
}

function checkWords(op: string, offset: number, bytes: number): void {
  const fine = (number: number): boolean => Number.isSafeInteger(number) && number >= 0 && number % 4 === 0
  if (!fine(offset) || !fine(bytes)) {
    throw new IngotError('bad-argument', 'bad range', { op, got: `${bytes} bytes at ${offset}`, wanted: 'multiples of 4' })
  }
}

function outOfRange(op: string, handle: BufferHandle, size: number, offset: number, bytes: number): IngotError {
  return new IngotError('out-of-range', 'past the end of the buffer', {
    op,
    got: `${bytes} bytes at ${offset} of buffer ${handle}`,
    wanted: `within ${size} bytes`,
  })
}
