// Numbers as WebAssembly bytes: a growing byte buffer with LEB128 and little-endian floats, and its reader.
// Knows nothing of instructions or sections. Invariant: the shortest LEB128 form and one NaN, so equal input gives
// equal bytes on every engine.

const scratch = new DataView(new ArrayBuffer(8))
const utf8 = new TextEncoder()

/** A byte buffer that grows; what is written is never changed. */
export class Bytes {
  #data: Uint8Array<ArrayBuffer>
  #length = 0

  constructor(capacity = 64) {
    this.#data = new Uint8Array(capacity)
  }

  get length(): number {
    return this.#length
  }

  u8(value: number): void {
    if (this.#length === this.#data.length) this.#grow(1)
    this.#data[this.#length++] = value
  }

  /** Unsigned LEB128 of a number in 0 .. 2^32-1. */
  u32(value: number): void {
    let rest = value >>> 0
    while (rest > 0x7f) {
      this.u8((rest & 0x7f) | 0x80)
      rest >>>= 7
    }
    this.u8(rest)
  }

  /** Signed LEB128 of the low 32 bits: -1 and 2^32-1 are the same. */
  i32(value: number): void {
    let rest = value | 0
    while (rest < -0x40 || rest > 0x3f) {
      this.u8((rest & 0x7f) | 0x80)
      rest >>= 7
    }
    this.u8(rest & 0x7f)
  }

  /** Signed LEB128 of the low 64 bits. */
  i64(value: bigint): void {
    let rest = BigInt.asIntN(64, value)
    while (rest < -0x40n || rest > 0x3fn) {
      this.u8(Number(rest & 0x7fn) | 0x80)
      rest >>= 7n
    }
    this.u8(Number(rest & 0x7fn))
  }

  f32(value: number): void {
    // engines may choose the bits of a NaN; we choose for them
    if (Number.isNaN(value)) scratch.setUint32(0, 0x7fc00000, true)
    else scratch.setFloat32(0, value, true)
    this.#scratch(4)
  }

  f64(value: number): void {
    if (Number.isNaN(value)) scratch.setBigUint64(0, 0x7ff8000000000000n, true)
    else scratch.setFloat64(0, value, true)
    this.#scratch(8)
  }

  append(bytes: Uint8Array | readonly number[]): void {
    this.#grow(bytes.length)
    this.#data.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** A length, then the bytes. */
  sized(bytes: Uint8Array): void {
    this.u32(bytes.length)
    this.append(bytes)
  }

  /** A name: its length in bytes, then UTF-8. */
  name(text: string): void {
    this.sized(utf8.encode(text))
  }

  /** A copy of what was written. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#data.slice(0, this.#length)
  }

  #scratch(count: number): void {
    for (let i = 0; i < count; i++) this.u8(scratch.getUint8(i))
  }

  #grow(more: number): void {
    const needed = this.#length + more
    if (needed <= this.#data.length) return
    const data = new Uint8Array(Math.max(needed, 16, this.#data.length * 2))
    data.set(this.#data.subarray(0, this.#length))
    this.#data = data
  }
}

/** Reads back what `Bytes` wrote. Reading past the end gives zeros: it serves the printer, not foreign files. */
export class ByteReader {
  readonly #data: Uint8Array
  #at = 0

  constructor(data: Uint8Array) {
    this.#data = data
  }

  get done(): boolean {
    return this.#at >= this.#data.length
  }

  u8(): number {
    return this.#data[this.#at++] ?? 0
  }

  u32(): number {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = this.u8()
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value >>> 0
    }
  }

  i32(): number {
    return Number(this.i64())
  }

  i64(): bigint {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.u8()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return BigInt.asIntN(Number(shift) + 7, value)
    }
  }

  f32(): number {
    return this.#view(4).getFloat32(0, true)
  }

  f64(): number {
    return this.#view(8).getFloat64(0, true)
  }

  take(count: number): Uint8Array {
    const bytes = this.#data.slice(this.#at, this.#at + count)
    this.#at += count
    return bytes
  }

  #view(count: number): DataView {
    return new DataView(this.take(count).buffer)
  }
}
