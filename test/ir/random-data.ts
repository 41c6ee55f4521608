// The bytes a random kernel works on, and the comparison of what two targets made of them.
import { type Storage, isFloat, registerOf, storageBytes, storageScalar, widthOf } from '../../src/base/dtype.ts'
import { IngotError } from '../../src/base/error.ts'
import { HALVES } from '../../src/base/half-table.ts'
import { encodeHalf } from '../../src/base/half.ts'
import { Random } from './random-value.ts'

export interface RandomOutput {
  readonly name: string
  readonly storage: Storage
  /** how far a float may be off, by element modulo this list's length */
  readonly tolerance: readonly number[]
}

/** Random elements: floats on the grid 1/16 within 4, integers anything. Padded to whole words. */
export function fill(storage: Storage, length: number, seed: number): Uint8Array {
  const random = new Random(seed)
  const bytes = new Uint8Array(Math.ceil((length * storageBytes(storage)) / 4) * 4)
  const scalar = storageScalar(storage)
  const float = (): number => (random.below(129) - 64) / 16
  if (scalar === 'f32')
    new Float32Array(bytes.buffer).forEach((_, at, cells) => {
      cells[at] = float()
    })
  else if (scalar === 'f16')
    new Uint16Array(bytes.buffer).forEach((_, at, cells) => {
      cells[at] = encodeHalf(float())
    })
  else
    new Uint32Array(bytes.buffer).forEach((_, at, cells) => {
      cells[at] = random.word()
    })
  return bytes
}

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
      const most = floats
        ? 1e-6 +
          2 * tolerance[Math.floor(at / width) % tolerance.length]! +
          Math.abs(a) * (storageScalar(storage) === 'f16' ? 2 ** -10 : 2 ** -21)
        : 0
      if (a === b || Math.abs(a - b) <= most || (Number.isNaN(a) && Number.isNaN(b))) continue
      throw new IngotError('wrong-result', `${name}[${Math.floor(at / width)}] differs`, {
        op: storage,
        got: b,
        wanted: `${a}${floats ? ` within ${most}` : ''}`,
      })
    }
  }
}

function numbers(storage: Storage, { buffer, byteOffset, byteLength }: Uint8Array): ArrayLike<number> {
  switch (storageScalar(storage)) {
    case 'f32':
      return new Float32Array(buffer, byteOffset, byteLength / 4)
    case 'f16':
      return Float32Array.from(new Uint16Array(buffer, byteOffset, byteLength / 2), (bits) => HALVES[bits]!)
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
