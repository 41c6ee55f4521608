// Small GGUF files for the tests of src/weights: built by hand, byte by byte, so that a test of the reader does not
// depend on the writer; and the folder of real files, when there is one.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { writeGguf, type GgufToWrite } from '../../src/weights/gguf/write.ts'
import { fromBytes } from '../../src/weights/source.ts'

/** Little-endian bytes of a header, piece by piece. */
export class Hand {
  readonly #bytes: number[] = []

  u32(...values: number[]): this {
    for (const value of values) this.#int(BigInt(value), 4)
    return this
  }

  u64(...values: (number | bigint)[]): this {
    for (const value of values) this.#int(BigInt(value), 8)
    return this
  }

  u8(...values: number[]): this {
    this.#bytes.push(...values)
    return this
  }

  text(text: string): this {
    const bytes = new TextEncoder().encode(text)
    return this.u64(bytes.length).u8(...bytes)
  }

  /** 'GGUF', version 3, and the counts */
  head(tensors: number | bigint, keys: number | bigint, version = 3): this {
    return this.u8(0x47, 0x47, 0x55, 0x46).u32(version).u64(tensors, keys)
  }

  tensor(name: string, dims: readonly (number | bigint)[], type: number, offset: number | bigint): this {
    return this.text(name)
      .u32(dims.length)
      .u64(...dims)
      .u32(type)
      .u64(offset)
  }

  pad(alignment: number): this {
    while (this.#bytes.length % alignment !== 0) this.#bytes.push(0)
    return this
  }

  zeros(count: number): this {
    for (let index = 0; index < count; index++) this.#bytes.push(0)
    return this
  }

  done(): Uint8Array {
    return Uint8Array.from(this.#bytes)
  }

  #int(value: bigint, bytes: number): void {
    for (let index = 0; index < bytes; index++) this.#bytes.push(Number((value >> BigInt(8 * index)) & 0xffn))
  }
}

/** A small file with every kind of thing in it: 2 tensors, several keys. */
export function smallFile(): Uint8Array {
  return new Hand()
    .head(2, 5)
    .text('general.architecture')
    .u32(8)
    .text('llama')
    .text('general.alignment')
    .u32(4)
    .u32(64)
    .text('tokens')
    .u32(9, 8)
    .u64(3)
    .text('<s>')
    .text('\u0120the')
    .text('\ufeff')
    .text('nested')
    .u32(9, 9)
    .u64(2)
    .u32(0)
    .u64(2)
    .u8(1, 2)
    .u32(7)
    .u64(1)
    .u8(1)
    .text('big')
    .u32(10)
    .u64((1n << 63n) + 1n)
    .tensor('a.weight', [32, 2], 2, 0)
    .tensor('b.weight', [3], 0, 64)
    .pad(64)
    .zeros(36)
    .pad(64)
    .u32(0x3f800000, 0x40000000, 0x40400000)
    .done()
}

export const open = (bytes: Uint8Array) => openGguf(fromBytes(bytes, 'test.gguf'))

/** What writeGguf makes, as one array. */
export async function encode(model: GgufToWrite): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  await writeGguf({ write: async (bytes) => void parts.push(bytes.slice()) }, model)
  return Buffer.concat(parts)
}

const DATA = process.env['INGOT_DATA'] ?? join(import.meta.dirname, '../../../shared/data')

/** Every real GGUF file at hand; empty when the data folder is absent. */
export function realFiles(): string[] {
  if (!existsSync(DATA)) return []
  return readdirSync(DATA, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.gguf'))
    .map((name) => join(DATA, name))
}
