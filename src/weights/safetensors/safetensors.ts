// Opens a safetensors file: its metadata, and its tensors, whose bytes stay in the file until they are asked for. Invariant: what this
// module opened is closed again when opening fails; after success `close` closes the file, also one that was handed in.

import { checkArgument, hasMethods, isString } from '../../base/argument.ts'
import { type ByteSource, openFile } from '../source.ts'
import { type SafetensorsHeader, readHeader } from './header.ts'

/** An open safetensors file: its metadata, and where its tensors lie. */
export interface Safetensors extends SafetensorsHeader, AsyncDisposable {
  readonly file: ByteSource
  /** Closes the file, also one that was handed in. */
  close(): Promise<void>
}

/**
 * Opens a safetensors file by path, or from a source. Reads the header only; `tensor.read(0, tensor.bytes)` gives the bytes of a tensor.
 * Rejects with `bad-file` where it cannot be read or is malformed.
 */
export async function openSafetensors(from: string | ByteSource): Promise<Safetensors> {
  checkSource('openSafetensors', from)
  const file = typeof from === 'string' ? await openFile(from) : from
  try {
    const header = await readHeader(file)
    const close = (): Promise<void> => file.close()
    return { ...header, file, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    if (file !== from) await file.close().catch(() => undefined)
    throw error
  }
}

export function checkSource(op: string, from: unknown): void {
  checkArgument(op, 'the file', from, 'a path or a ByteSource', (value) => isString(value) || hasMethods(value, ['read', 'close']))
}
