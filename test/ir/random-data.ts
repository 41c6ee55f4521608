// The bytes a random kernel works on, and the comparison of what two targets made of them.
import { SCALAR_BYTES, type Storage, isFloat, registerOf, storageBytes, storageScalar, widthOf } from '../../src/base/dtype.ts'
import { decodeElements, encodeElements } from '../../src/base/element.ts'
import { IngotError } from '../../src/base/error.ts'
import { Random, randomFloat } from './random-number.ts'

export interface RandomOutput {
  readonly name: string
  readonly storage: Storage
  /** how far a float may be off, by element modulo this list's length */
  readonly tolerance: readonly number[]
}

/** Random elements: floats on the grid of their type within 4, integers anything. Padded to whole words. */
export function fill(storage: Storage, length: number, seed: number): Uint8Array {
  const random = new Random(seed)
  const bytes = new Uint8Array(Math.ceil((length * storageBytes(storage)) / 4) * 4)
  const scalar = storageScalar(storage)
  if (scalar === 'f32' || scalar === 'f16' || scalar === 'f64') {
    const values = Array.from({ length: bytes.length / SCALAR_BYTES[scalar] }, () => randomFloat(random, scalar))
    bytes.set(encodeElements(scalar, values))
  } else
    new Uint32Array(bytes.buffer).forEach((_, at, cells) => {
      cells[at] = random.word()
    })
  return bytes
}

/** By how much any float may be off: at all, and in parts of its size. */
const LEAST: Readonly<Record<string, readonly [number, number]>> = { f16: [1e-6, 2 ** -10], f32: [1e-6, 2 ** -21], f64: [1e-14, 2 ** -48] }

/** Throws `wrong-result` at the first element that differs: integers by any bit, floats by more than the output's tolerance. */
export function compareOutputs(
  expected: Readonly<Record<string, Uint8Array>>,
  actual: Readonly<Record<string, Uint8Array>>,
  outputs: readonly RandomOutput[],
): void {
  for (const { name, storage, tolerance } of outputs) {
    const [want, got] = [numbers(storage, expected[name]!), numbers(storage, actual[name]!)]
    const width = widthOf(storage)
    const floats = isFloat(registerOf(storage))
    for (let at = 0; at < want.length; at++) {
      const [a, b] = [want[at]!, got[at]!]
      const [least, part] = LEAST[storageScalar(storage)] ?? [0, 0]
      const most = floats ? least + 2 * tolerance[Math.floor(at / width) % tolerance.length]! + Math.abs(a) * part : 0
      if (a === b || Math.abs(a - b) <= most || (Number.isNaN(a) && Number.isNaN(b))) continue
      throw new IngotError('wrong-result', `${name}[${Math.floor(at / width)}] differs`, {
        op: storage,
        got: b,
        wanted: `${a}${floats ? ` within ${most}` : ''}`,
      })
    }
  }
}

function numbers(storage: Storage, bytes: Uint8Array): ArrayLike<number> {
  const { buffer, byteOffset, byteLength } = bytes
  switch (storageScalar(storage)) {
    case 'f32':
      return new Float32Array(buffer, byteOffset, byteLength / 4)
    case 'f16':
      return decodeElements('f16', bytes, byteLength / 2)
    case 'f64':
      return new Float64Array(buffer, byteOffset, byteLength / 8)
    case 'u8':
    case 'i8':
      return new Uint8Array(buffer, byteOffset, byteLength)
    case 'u16':
    case 'i16':
      return new Uint16Array(buffer, byteOffset, byteLength / 2)
    default:
      return new Uint32Array(buffer, byteOffset, byteLength / 4)
  }
}
