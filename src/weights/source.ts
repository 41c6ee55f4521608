// Where bytes come from: a file, memory, or a Blob, read by range. A source knows its size and nothing of what it
// holds. Works in browsers: Node's file system is imported only when a file is opened. Invariants: a read gives exactly
// the bytes asked for or throws; what it returns belongs to the caller (or is the front of the caller's `into`).

import { checkArgument, hasMethods, isString } from '../base/argument.ts'
import { IngotError, messageOf } from '../base/error.ts'

/** Bytes that can be read by range: a file, memory, a Blob, a URL, or your own. */
export interface ByteSource {
  /** bytes in all */
  readonly size: number
  /** for messages: a path, a URL, the name of an upload */
  readonly name: string
  /** set when the bytes are a local file, so that a device can map it instead of reading it */
  readonly path?: string
  /**
   * Reads the bytes [offset, offset + length). With `into`, fills its front and returns that part; else a new array. Rejects with
   * `out-of-range` past the end, `closed` after `close`, `bad-file` where the bytes cannot be had.
   */
  read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array>
  /** Lets go of what it holds open. */
  close(): Promise<void>
}

/** One read() of Node takes at most 2^31 - 1 bytes. */
const MAX_READ = 1 << 30

/** A source over bytes in memory. They are not copied: do not change them while it is in use. `name` is for error messages. */
export function fromBytes(bytes: Uint8Array, name = 'memory'): ByteSource {
  checkArgument('fromBytes', 'bytes', bytes, 'a Uint8Array', (value) => value instanceof Uint8Array)
  let closed = false
  return {
    size: bytes.length,
    name,
    async read(offset, length, into) {
      if (closed) throw closedError(name)
      const out = prepareRead({ size: bytes.length, name }, offset, length, into)
      out.set(bytes.subarray(offset, offset + length))
      return out
    },
    async close() {
      closed = true
    },
  }
}

/** A source over a Blob or a File of a browser: only the ranges asked for are loaded. `name` is for error messages. */
export function fromBlob(blob: Blob, name?: string): ByteSource {
  checkArgument('fromBlob', 'the blob', blob, 'a Blob', (value) => hasMethods(value, ['slice', 'arrayBuffer']))
  const label = name ?? (blob as { readonly name?: string }).name ?? 'blob'
  let closed = false
  return {
    size: blob.size,
    name: label,
    async read(offset, length, into) {
      if (closed) throw closedError(label)
      const out = prepareRead({ size: blob.size, name: label }, offset, length, into)
      let bytes: ArrayBuffer
      try {
        bytes = await blob.slice(offset, offset + length).arrayBuffer()
      } catch (cause) {
        throw new IngotError('bad-file', `cannot read ${label} at byte ${offset}`, { op: 'read', cause })
      }
      if (bytes.byteLength !== length) throw shortRead(label, offset, bytes.byteLength, length)
      out.set(new Uint8Array(bytes))
      return out
    },
    async close() {
      closed = true
    },
  }
}

/** Opens a local file for reads by range. Rejects with `bad-file` where it cannot be opened or is not a regular file. */
export async function openFile(path: string): Promise<ByteSource> {
  checkArgument('openFile', 'the path', path, 'a text', isString)
  const fs = await import('node:fs/promises')
  let file: Awaited<ReturnType<typeof fs.open>>
  let size: number
  try {
    // Checked before it is opened: opening a pipe would wait for a writer for ever.
    const stat = await fs.stat(path)
    if (!stat.isFile()) throw new IngotError('bad-file', `${path} is not a regular file`, { op: 'open' })
    size = stat.size
    file = await fs.open(path, 'r')
  } catch (cause) {
    if (cause instanceof IngotError) throw cause
    throw new IngotError('bad-file', `cannot open ${path}: ${messageOf(cause)}`, { op: 'open', cause })
  }
  let closed = false
  return {
    size,
    name: path,
    path,
    async read(offset, length, into) {
      if (closed) throw closedError(path)
      const out = prepareRead({ size, name: path }, offset, length, into)
      let done = 0
      while (done < length) {
        const wanted = Math.min(length - done, MAX_READ)
        let got: number
        try {
          got = (await file.read(out, done, wanted, offset + done)).bytesRead
        } catch (cause) {
          if (closed) throw closedError(path)
          throw new IngotError('bad-file', `cannot read ${path} at byte ${offset + done}`, { op: 'read', cause })
        }
        if (got === 0) throw shortRead(path, offset, done, length)
        done += got
      }
      return out
    },
    async close() {
      if (closed) return
      closed = true
      await file.close()
    },
  }
}

/** Part of a source, usually the bytes of one tensor: what a device loads, or maps where there is a path. */
export interface SourceRange {
  /** how many there are */
  readonly bytes: number
  /** the file, if it is one */
  readonly path?: string
  /** where the range begins in the source */
  readonly offset: number
  /** Exactly `length` bytes from `at` on, counted from the start of the range; with `into`, in its front. Rejects as the source does. */
  read(at: number, length: number, into?: Uint8Array): Promise<Uint8Array>
}

/** The bytes [offset, offset + bytes) of a source. */
export function rangeOf(source: ByteSource, offset: number, bytes: number): SourceRange {
  return {
    bytes,
    ...(source.path === undefined ? {} : { path: source.path }),
    offset,
    async read(at, length, into) {
      checkRange({ size: bytes, name: `a range of ${source.name}` }, at, length)
      return source.read(offset + at, length, into)
    },
  }
}

/** Checks a range before anything is allocated, and gives the array to fill. */
export function prepareRead(source: Pick<ByteSource, 'size' | 'name'>, offset: number, length: number, into?: Uint8Array): Uint8Array {
  checkRange(source, offset, length)
  if (into === undefined) return allocate(length, source.name)
  if (into.length < length) {
    const facts = { op: 'read', got: into.length, wanted: length }
    throw new IngotError('bad-argument', 'the array to read into is too small', facts)
  }
  return into.subarray(0, length)
}

function checkRange(source: Pick<ByteSource, 'size' | 'name'>, offset: number, length: number): void {
  const whole = Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 && length >= 0
  if (!whole || offset > source.size - length) {
    throw new IngotError('out-of-range', `read past the end of ${source.name}`, {
      op: 'read',
      got: `${length} bytes at ${offset}`,
      wanted: `at most ${source.size} bytes in all`,
    })
  }
}

/** A tensor may be larger than the engine's longest array. */
function allocate(length: number, name: string): Uint8Array {
  try {
    return new Uint8Array(length)
  } catch (cause) {
    const what = `no room for ${length} bytes of ${name}`
    throw new IngotError('out-of-memory', what, { op: 'read', hint: 'read it in pieces', cause })
  }
}

export function closedError(name: string): IngotError {
  return new IngotError('closed', `${name} is closed`, { op: 'read' })
}

/** The bytes ended before the size that was announced. */
export function shortRead(name: string, offset: number, got: number, wanted: number): IngotError {
  return new IngotError('bad-file', `${name} ended early while reading at byte ${offset}`, {
    op: 'read',
    got: `${got} bytes`,
    wanted,
    hint: 'was it changed while open?',
  })
}
