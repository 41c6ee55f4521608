// Brings bytes of this process into GPU buffers. Knows what the queue takes: whole words, and no memory that is shared between threads.

/** Bytes given to the queue before waiting for it: it holds copies of them until they are uploaded. */
const AHEAD = 64 * 2 ** 20

/** Puts pieces into a buffer; waits now and then, so that not all of them pile up. */
export function startUpload(queue: GPUQueue, buffer: GPUBuffer): (at: number, piece: Uint8Array) => Promise<void> {
  let ahead = 0
  return async (at, piece) => {
    writeBytes(queue, buffer, at, padded(piece))
    ahead += piece.length
    if (ahead < AHEAD) return
    await queue.onSubmittedWorkDone()
    ahead = 0
  }
}

/** The bytes are taken before it returns. */
export function writeBytes(queue: GPUQueue, buffer: GPUBuffer, offset: number, bytes: Uint8Array): void {
  queue.writeBuffer(buffer, offset, isUnshared(bytes) ? bytes : new Uint8Array(bytes))
}

function isUnshared(bytes: Uint8Array): bytes is Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer
}

/** Writes are multiples of 4; memory always reaches that far. */
function padded(piece: Uint8Array): Uint8Array {
  if (piece.length % 4 === 0) return piece
  const words = new Uint8Array(Math.ceil(piece.length / 4) * 4)
  words.set(piece)
  return words
}
