// The types a kernel's values can have. A register holds a scalar, a vector of 2, 4, 8 or 16 of them, or an 8x8 tile that
// a whole subgroup holds together. Memory may also hold 8- and 16-bit integers, which widen to 32 bits when loaded. Only CPUs have f64.

/** Scalars that arithmetic works on. */
export type Scalar = 'f32' | 'f16' | 'f64' | 'i32' | 'u32' | 'bool'
/** Integers that exist in memory only; a load widens them to `i32` or `u32`, a store keeps the low bits. */
export type Narrow = 'i8' | 'u8' | 'i16' | 'u16'
export type Width = 2 | 4 | 8 | 16
export type Vector<S extends Scalar = Scalar, W extends Width = Width> = `${S}x${W}`
/** An 8x8 matrix spread over the lanes of a subgroup. */
export type Tile = 'f32t' | 'f16t'
/** Anything a register can hold. `void` is the type of statements. */
export type DType = Scalar | Vector | Tile | 'void'
/** Anything one element of a buffer can be. */
export type Storage = Exclude<Scalar, 'bool'> | Narrow | Vector<Exclude<Scalar, 'bool'>, 2 | 4>

export const WIDTHS = [2, 4, 8, 16] as const satisfies readonly Width[]
export const SCALARS = ['f32', 'f16', 'f64', 'i32', 'u32', 'bool'] as const satisfies readonly Scalar[]

const FLOATS: readonly Scalar[] = ['f32', 'f16', 'f64']

/** Bytes of one element in memory. */
export const SCALAR_BYTES = {
  f32: 4,
  f16: 2,
  f64: 8,
  i32: 4,
  u32: 4,
  bool: 1,
  i8: 1,
  u8: 1,
  i16: 2,
  u16: 2,
} as const satisfies Record<Scalar | Narrow, number>

/** The scalar of a vector or tile type: `f32x4` -> `f32`. */
export function scalarOf(dtype: DType): Scalar {
  if (dtype === 'void') throw new TypeError('void has no scalar')
  if (isTile(dtype)) return dtype === 'f32t' ? 'f32' : 'f16'
  const cut = dtype.indexOf('x')
  return (cut < 0 ? dtype : dtype.slice(0, cut)) as Scalar
}

/** How many scalars a value holds per lane: 1 for scalars and tiles. */
export function widthOf(dtype: DType | Storage): 1 | Width {
  const cut = dtype.indexOf('x')
  return cut < 0 ? 1 : (Number(dtype.slice(cut + 1)) as Width)
}

/** A number of elements as the width of a value; throws where no vector has so many. */
export function asWidth(count: number): 1 | Width {
  const width = ([1, ...WIDTHS] as const).find((each) => each === count)
  if (width === undefined) throw new TypeError(`no vector has ${count} elements, only ${WIDTHS.join(', ')}`)
  return width
}

/** `vector('f32', 4)` -> `f32x4`; width 1 gives the scalar itself. */
export function vector(scalar: Scalar, width: 1 | Width): DType {
  return width === 1 ? scalar : `${scalar}x${width}`
}

export function isTile(dtype: DType): dtype is Tile {
  return dtype === 'f32t' || dtype === 'f16t'
}

export function isFloat(dtype: DType): boolean {
  return dtype !== 'void' && FLOATS.includes(scalarOf(dtype))
}

export function isInteger(dtype: DType): boolean {
  return dtype !== 'void' && !isTile(dtype) && (scalarOf(dtype) === 'i32' || scalarOf(dtype) === 'u32')
}

/** The scalar of a storage type: `u8` -> `u8`, `f32x4` -> `f32`. */
export function storageScalar(storage: Storage): Scalar | Narrow {
  const cut = storage.indexOf('x')
  return (cut < 0 ? storage : storage.slice(0, cut)) as Scalar | Narrow
}

/** What a register holds after loading one element: `u8` -> `u32`, `i16` -> `i32`, others unchanged. */
export function registerOf(storage: Storage): DType {
  switch (storage) {
    case 'u8':
    case 'u16':
      return 'u32'
    case 'i8':
    case 'i16':
      return 'i32'
    default:
      return storage
  }
}

/** Bytes of one element of a buffer. */
export function storageBytes(storage: Storage): number {
  return SCALAR_BYTES[storageScalar(storage)] * widthOf(storage)
}
