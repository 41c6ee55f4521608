// Bytes of a serialised program, one number after the other, low bytes first. A reader never goes past its end. Knows nothing of programs.

import { IngotError } from '../base/error.ts'

export class ByteWriter {
  readonly #bytes: number[] = []

  u8(value: number): void {
    this.#bytes.push(value & 255)
  }

  u32(value: number): void {
    for (let shift = 0; shift < 32; shift += 8) this.u8(value >>> shift)
  }

  u64(value: bigint): void {
    this.u32(Number(value & 0xffffffffn))
    this.u32(Number(value >> 32n))
  }

  text(value: string): void {
    const bytes = new TextEncoder().encode(value)
    this.u32(bytes.length)
    for (const byte of bytes) this.u8(byte)
  }

  bytes(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.#bytes)
  }
}

export class ByteReader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  u8(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw damaged('it ends too early', this.#at)
    this.#at++
    return byte
  }

  u32(): number {
    return (this.u8() | (this.u8() << 8) | (this.u8() << 16) | (this.u8() << 24)) >>> 0
  }

  u64(): bigint {
    const low = this.u32()
    return BigInt(low) | (BigInt(this.u32()) << 32n)
  }

  text(): string {
    const length = this.u32()
    if (length > this.left) throw damaged('it ends too early', this.#at)
    this.#at += length
    return new TextDecoder().decode(this.#bytes.subarray(this.#at - length, this.#at))
  }

  /** One of a list, by its place there. */
  oneOf<const T extends string>(names: readonly T[], what: string): T {
    const name = names[this.u8()]
    if (name === undefined) throw damaged(`unknown ${what}`, this.#at - 1)
    return name
  }
}

/** The error about bytes that are no program. */
export function damaged(what: string, at: number): IngotError {
  return new IngotError('bad-file', `no Atlas program: ${what}`, { op: 'decodeProgram', got: `byte ${at}` })
}

/** CRC-32, as in zip files: every change of up to four neighbouring bytes is seen. */
export function checksum(bytes: Uint8Array): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1))
  }
  return ~crc >>> 0
}
