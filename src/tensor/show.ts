// Tensors as text, as NumPy prints them: columns aligned, as few digits as tell the values apart up to four, and the middle of long axes
// left out.

import { isElementType } from '../base/element.ts'
import type { TensorType } from './node.ts'
import { isFloatType } from './promote.ts'

/** More elements than this are summarised: the first and last few of each axis. */
const MOST = 1000
const EDGE = 3
const DIGITS = 4

export function showValues(values: ArrayLike<number>, shape: readonly number[], dtype: TensorType): string {
  const cut = values.length > MOST ? EDGE : Infinity
  const shown = chosen(shape, cut).map((at) => values[at] ?? Number.NaN)
  const format = isElementType(dtype) && !isFloatType(dtype) ? (dtype === 'bool' ? showBool : String) : floatFormat(shown)
  const width = shown.reduce((most, value) => Math.max(most, format(value).length), 0)
  const text = (value: number): string => format(value).padStart(width)
  const write = (axis: number, first: number): string => {
    const size = shape[axis]
    if (size === undefined) return format(values[first] ?? Number.NaN)
    const step = shape.slice(axis + 1).reduce((product, each) => product * each, 1)
    const isLast = axis === shape.length - 1
    const parts = indices(size, cut).map((i) =>
      i < 0 ? '...' : isLast ? text(values[first + i] ?? Number.NaN) : write(axis + 1, first + i * step),
    )
    const separator = isLast ? ', ' : `,${'\n'.repeat(shape.length - axis - 1)}${' '.repeat(axis + 1)}`
    return `[${parts.join(separator)}]`
  }
  return write(0, 0)
}

/** The indices of an axis that are shown; -1 stands for those that are not. */
function indices(size: number, cut: number): number[] {
  if (size <= 2 * cut) return Array.from({ length: size }, (_, i) => i)
  return [...Array.from({ length: cut }, (_, i) => i), -1, ...Array.from({ length: cut }, (_, i) => size - cut + i)]
}

/** The places of all elements that are shown. */
function chosen(shape: readonly number[], cut: number): number[] {
  return shape.reduce<number[]>(
    (places, size) => places.flatMap((place) => indices(size, cut).flatMap((i) => (i < 0 ? [] : [place * size + i]))),
    [0],
  )
}

function showBool(value: number): string {
  return value === 0 ? 'false' : 'true'
}

/** One format for all: fixed, unless values differ too much in size for that. */
function floatFormat(values: readonly number[]): (value: number) => string {
  const finite = values.filter(Number.isFinite)
  const sizes = finite.map(Math.abs).filter((size) => size > 0)
  const [most, least] = [Math.max(0, ...sizes), Math.min(Infinity, ...sizes)]
  if (finite.every(Number.isInteger) && most < 1e8) return (value) => (Number.isFinite(value) ? `${value}.` : named(value))
  const isWide = most >= 1e8 || least < 1e-4 || most / least > 1e6
  const digits = isWide ? DIGITS : Math.max(1, ...finite.map((value) => decimals(value)))
  return (value) => (!Number.isFinite(value) ? named(value) : isWide ? value.toExponential(DIGITS) : value.toFixed(digits))
}

/** Digits behind the point that a value needs, at most four. */
function decimals(value: number): number {
  const text = value.toFixed(DIGITS).replace(/0+$/, '')
  return text.length - text.indexOf('.') - 1
}

function named(value: number): string {
  return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf'
}
