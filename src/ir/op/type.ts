// Type rules: which operands an op takes, and what type it gives. A rule sees types only, never values; what else a node must
// obey is the verifier's part (verify/node.ts).

import { type DType, isFloat, isInteger, isTile, scalarOf, vector, widthOf } from '../../base/dtype.ts'
import type { Arg } from './arg.ts'

/** Gives the result type, or a sentence saying what is wrong with the operands. */
export type TypeRule = (src: readonly DType[], arg: Arg, stated: DType) => DType | { readonly wrong: string }

export const wrong = (text: string): { wrong: string } => ({ wrong: text })

/** Operands of one type, which is also the result's. */
const same =
  (allowed: (dtype: DType) => boolean, name: string): TypeRule =>
  (src) => {
    const [first] = src
    if (first === undefined) return wrong('needs operands')
    for (const dtype of src) if (dtype !== first) return wrong(`operands must have one type, got ${src.join(' and ')}`)
    return allowed(first) ? first : wrong(`works on ${name}, got ${first}`)
  }
const isBool = (dtype: DType): boolean => dtype !== 'void' && !isTile(dtype) && scalarOf(dtype) === 'bool'
const isFloats = (dtype: DType): boolean => isFloat(dtype) && !isTile(dtype)
const isNumber = (dtype: DType): boolean => isFloats(dtype) || isInteger(dtype)

export const floats = same(isFloats, 'floats')
export const integers = same(isInteger, 'integers')
export const numbers = same(isNumber, 'numbers')
export const bits = same((dtype) => isInteger(dtype) || isBool(dtype), 'integers and booleans')
export const bool = same((dtype) => dtype === 'bool', 'bool')

/** Always this type. */
export const fixed =
  (dtype: DType): TypeRule =>
  () =>
    dtype
/** The result type is what the node states; `check` may refuse it. */
export const stated =
  (check: (src: readonly DType[], to: DType) => string | undefined = () => undefined): TypeRule =>
  (src, _arg, to) => {
    const problem = check(src, to)
    return problem === undefined ? to : wrong(problem)
  }
/** One operand, of one of these types. */
export const oneOf =
  (from: readonly DType[], to: DType, wants: string): TypeRule =>
  ([dtype]) =>
    dtype !== undefined && from.includes(dtype) ? to : wrong(`wants ${wants}, got ${dtype}`)

export const comparison: TypeRule = (src, arg, to) => {
  const type = numbers(src, arg, to)
  return typeof type === 'string' ? vector('bool', widthOf(type)) : type
}

export const selection: TypeRule = ([condition, yes, no]) => {
  if (yes !== no) return wrong(`branches differ: ${yes} and ${no}`)
  const isValue = yes !== undefined && yes !== 'void' && !isTile(yes)
  return isValue && condition !== undefined && isBool(condition) && widthOf(condition) === widthOf(yes)
    ? yes
    : wrong(`condition must be bool of the branches' width, got ${condition}`)
}

export const conversion = stated(([from], to) =>
  from !== undefined && widthOf(from) === widthOf(to) ? undefined : `cannot cast ${from} to ${to}`,
)
export const reinterpretation = stated(([from], to) =>
  from !== undefined && widthOf(from) === widthOf(to) && [from, to].every((dtype) => ['f32', 'i32', 'u32'].includes(scalarOf(dtype)))
    ? undefined
    : `cannot reinterpret ${from} as ${to}`,
)

export const splat = stated(([from], to) => (from === scalarOf(to) && widthOf(to) > 1 ? undefined : `cannot splat ${from} to ${to}`))
export const vec = stated((src, to) =>
  src.length === widthOf(to) && src.every((dtype) => dtype === scalarOf(to))
    ? undefined
    : `wants ${widthOf(to)} operands of ${scalarOf(to)}, got ${src.join(', ')}`,
)
export const extraction: TypeRule = ([from], lane) =>
  from !== undefined && typeof lane === 'number' && lane >= 0 && lane < widthOf(from) && widthOf(from) > 1
    ? scalarOf(from)
    : wrong(`no lane ${String(lane)} in ${from}`)
export const slice = stated(([from], to) =>
  from !== undefined && scalarOf(from) === scalarOf(to) && widthOf(from) > widthOf(to) ? undefined : `cannot take ${to} out of ${from}`,
)
export const join: TypeRule = (src) => {
  const [first, second] = src
  const width = first === undefined || first !== second ? 1 : widthOf(first)
  return first === undefined || width === 1 || width === 16
    ? wrong(`wants two vectors of one type, got ${src.join(', ')}`)
    : vector(scalarOf(first), width === 2 ? 4 : width === 4 ? 8 : 16)
}
export const zip = same((dtype) => isNumber(dtype) && widthOf(dtype) > 1, 'vectors')
/** A vector of numbers becomes one of them. */
export const reduction: TypeRule = ([from]) =>
  from !== undefined && isNumber(from) && widthOf(from) > 1 ? scalarOf(from) : wrong(`wants a vector, got ${from}`)

/** A vector of booleans becomes one of them. */
export const decision: TypeRule = ([from]) =>
  from !== undefined && isBool(from) && widthOf(from) > 1 ? 'bool' : wrong(`wants a vector of booleans, got ${from}`)

/** Two operands of packed bytes and a sum to add their products to. */
export const dot: TypeRule = (src) => {
  const [a, b, sum] = src
  const arePacked = a !== undefined && isInteger(a) && a === b
  return arePacked && sum !== undefined && scalarOf(sum) === 'i32' && widthOf(sum) === widthOf(a)
    ? sum
    : wrong(`wants two packed u32 operands and an i32 sum of one width, got ${src.join(', ')}`)
}

/** The first operand is an index. */
export const indexed = stated(([index]) => (index === 'u32' ? undefined : `index must be u32, got ${index}`))
export const shuffle: TypeRule = ([value = 'void', lane], arg, to) =>
  lane === 'u32' ? numbers([value], arg, to) : wrong(`lane must be u32, got ${lane}`)

export const tileFill: TypeRule = ([from]) => (from === 'f32' ? 'f32t' : from === 'f16' ? 'f16t' : wrong(`wants a float, got ${from}`))
export const tilePlace = stated(([index, row]) => (index === 'u32' && row === 'u32' ? undefined : 'index and row length must be u32'))
export const tileProduct: TypeRule = (src) =>
  src.length === 3 && src.every((dtype) => isTile(dtype)) && src[2] === 'f32t'
    ? 'f32t'
    : wrong(`wants tiles and an f32 accumulator, got ${src.join(', ')}`)
