// Writes GGUF files as a stream: the header, then the data of one tensor after another, pulled from producers, so that a
// model larger than memory can be converted. Does not know how the data is made. Invariants: a path gets the whole file
// or nothing (a temporary file beside it is renamed at the end, removed on failure); a tensor that yields more or fewer
// bytes than its dims say fails the write.

import { IngotError, messageOf } from '../../base/error.ts'
import { tensorBytes } from '../../quant/type.ts'
import { alignUp, encodeHeader, type TensorEntry } from './encode.ts'
import type { MetaValue } from './meta.ts'
import { type ByteSink, type TensorData, pieces, withSink } from '../sink.ts'

export interface TensorToWrite extends TensorEntry {
  /** Called once, when it is this tensor's turn. */
  data(): TensorData | Promise<TensorData>
}

export interface GgufToWrite {
  /** 3 unless said otherwise */
  readonly version?: 2 | 3
  /** in file order; `general.alignment` sets the alignment */
  readonly metadata: Iterable<readonly [string, MetaValue]>
  readonly tensors: readonly TensorToWrite[]
}

export interface WriteProgress {
  readonly written: number
  readonly total: number
  /** the tensor being written */
  readonly tensor: string
}

export interface WriteOptions {
  readonly onProgress?: (progress: WriteProgress) => void
  readonly signal?: AbortSignal
}

/** Writes a model to a path or a sink; gives the bytes written. */
export async function writeGguf(target: string | ByteSink, model: GgufToWrite, options: WriteOptions = {}): Promise<number> {
  // Encoded first: what is wrong with the header shows before a file is made.
  const header = encodeHeader(model.version ?? 3, model.metadata, model.tensors)
  const sink = typeof target === 'string' ? await openFileSink(target) : target
  return withSink(sink, async (send) => {
    let written = 0
    const write = async (bytes: Uint8Array): Promise<void> => {
      if (options.signal?.aborted) {
        throw new IngotError('cancelled', 'writing was cancelled', { op: 'writeGguf', cause: options.signal.reason })
      }
      await send(bytes)
      written += bytes.length
    }
    await write(header.bytes)
    const padding = new Uint8Array(header.alignment)
    for (const tensor of model.tensors) {
      const size = tensorBytes(tensor.type, tensor.dims)
      let done = 0
      for await (const piece of pieces(await tensor.data())) {
        done += piece.length
        if (done > size) throw wrongSize(tensor, `${done} bytes or more`, size)
        await write(piece)
        options.onProgress?.({ written, total: header.total, tensor: tensor.name })
      }
      if (done !== size) throw wrongSize(tensor, `${done} bytes`, size)
      const gap = alignUp(written, header.alignment) - written
      if (gap > 0) await write(padding.subarray(0, gap))
    }
    return written
  })
}

function wrongSize(tensor: TensorEntry, got: string, wanted: number): IngotError {
  const what = `the data of ${tensor.name} (${tensor.type} [${tensor.dims.join(',')}]) has the wrong size`
  return new IngotError('bad-argument', what, { op: 'writeGguf', got, wanted })
}

/** One write() of Node takes at most 2^31 - 1 bytes. */
const MAX_WRITE = 1 << 30

/** A sink over a file that appears under its name only when it is complete. */
export async function openFileSink(path: string): Promise<ByteSink> {
  const fs = await import('node:fs/promises')
  const temporary = `${path}.${globalThis.crypto.randomUUID().slice(0, 8)}.part`
  const fail = (what: string, cause: unknown): IngotError => {
    return new IngotError('bad-file', `cannot ${what} ${path}: ${messageOf(cause)}`, { op: 'write', cause })
  }
  const file = await fs.open(temporary, 'wx').catch((cause: unknown) => {
    throw fail('create', cause)
  })
  return {
    async write(bytes) {
      try {
        for (let done = 0; done < bytes.length;) {
          done += (await file.write(bytes, done, Math.min(bytes.length - done, MAX_WRITE))).bytesWritten
        }
      } catch (cause) {
        throw fail('write', cause)
      }
    },
    async finish() {
      try {
        await file.sync()
        await file.close()
        await fs.rename(temporary, path)
      } catch (cause) {
        throw fail('finish', cause)
      }
    },
    async abort() {
      await file.close().catch(() => undefined)
      await fs.rm(temporary, { force: true })
    },
  }
}
