// Where bytes go, and what a writer is given to send there. The counterpart of source.ts; knows nothing of formats.

/** Where the bytes go, in order. `finish` comes after the last, `abort` instead of it on failure. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<void>
  finish?(): Promise<void>
  abort?(): Promise<void>
}

/** The data of a tensor, whole or in pieces. A piece is written before the next is pulled, so its memory may be reused. */
export type TensorData = Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>

export function pieces(data: TensorData): Iterable<Uint8Array> | AsyncIterable<Uint8Array> {
  return data instanceof Uint8Array ? [data] : data
}

/** Runs what writes to a sink, and ends it: finished where that succeeds, aborted where it fails. */
export async function withSink<T>(sink: ByteSink, work: (write: ByteSink['write']) => Promise<T>): Promise<T> {
  try {
    const result = await work((bytes) => sink.write(bytes))
    await sink.finish?.()
    return result
  } catch (error) {
    // The first failure is the one to report; a failing clean-up must not hide it.
    await sink.abort?.().catch(() => undefined)
    throw error
  }
}
