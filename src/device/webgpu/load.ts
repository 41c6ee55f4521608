// Brings a range of bytes from elsewhere into a GPU buffer, piece by piece: no more of it in this process than a few pieces.

import { checkLoaded } from '../check.ts'
import type { ByteRange } from '../device.ts'

const PIECE = 16 * 2 ** 20
/** Bytes given to the queue before waiting for it: it holds copies of them until they are uploaded. */
const AHEAD = 64 * 2 ** 20

/** `proceed` is called before each piece and may throw to stop. */
export async function upload(device: GPUDevice, buffer: GPUBuffer, range: ByteRange, proceed: () => void): Promise<void> {
  let ahead = 0
  for (let at = 0; at < range.bytes; at += PIECE) {
    const length = Math.min(PIECE, range.bytes - at)
    const piece = await range.read(at, length)
    proceed()
    checkLoaded(range, at, length, piece.length)
    device.queue.writeBuffer(buffer, at, padded(piece))
    ahead += length
    if (ahead < AHEAD) continue
    await device.queue.onSubmittedWorkDone()
    ahead = 0
  }
}

/** Writes are multiples of 4; memory always reaches that far. */
function padded(piece: Uint8Array): Uint8Array<ArrayBuffer> {
  if (piece.length % 4 === 0) return piece as Uint8Array<ArrayBuffer>
  const words = new Uint8Array(Math.ceil(piece.length / 4) * 4)
  words.set(piece)
  return words
}
