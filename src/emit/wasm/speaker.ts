// What the spelling of an op may ask of the emitter, and how values of the kernel language lie in WebAssembly ones.
// A scalar is an f32, an f64 or an i32 (bool: 0 or 1); a vector of two or four, or of two f64, is a v128, of which the lanes past its
// width hold anything; a bool vector is a mask of whole 32-bit lanes, 0 or -1, whatever it decides about. Knows no ops and no memory.

import { type DType, type Scalar, scalarOf, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Node, NodeOf, NodeWith, OneNode, SomeNode } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import type { FunctionBody, PlainName } from './body.ts'
import type { WasmFeatures } from './features.ts'
import type { ImmediateOf, ValType } from './opcode.ts'

/** Instructions that take nothing but their operands. */
export type Bare = { [N in PlainName]: ImmediateOf<N> extends 'none' ? N : never }[PlainName]

export interface Speaker {
  readonly f: FunctionBody
  readonly features: WasmFeatures
  /** Writes code that leaves the value of `node` on the stack. */
  say(node: Node): void
  /** Lends `use` a local that nobody else writes meanwhile. */
  lend(type: ValType, use: (local: number) => void): void
  /** True if all lanes of a vector are the same, also where it has a name. */
  isSplat(node: Node): boolean
  /** Leaves the address of a table of constants, and returns how far past it the table of this node begins. */
  table(node: NodeOf<'table'>): number
  /** Calls a function of JavaScript's Math on the f64 on the stack. */
  callMath(name: MathName): void
}
/** Functions of f64 that modules import: the engine has them, WebAssembly does not. */
export type MathName = 'exp' | 'log' | 'log2' | 'sin' | 'cos' | 'tan' | 'asin' | 'acos' | 'atan' | 'tanh' | 'pow'
/** How an op is said that has at least `N` operands. */
export type Spelling<N extends number = 1> = (speaker: Speaker, node: NodeWith<N>) => void
/** The ops that WebAssembly has, and how it says each. */
export type Spellings = { readonly [O in OpName]?: (speaker: Speaker, node: OneNode<O>) => void }

/** `f32` for a scalar, `f32x` for vectors of any width. */
export type Shape = Exclude<Scalar, 'f16'> | `${Exclude<Scalar, 'f16'>}x`

export function shapeOf(dtype: DType): Shape {
  const scalar = scalarOf(dtype)
  if (scalar === 'f16') throw noValue(dtype)
  return widthOf(dtype) > 1 ? `${scalar}x` : scalar
}

const noValue = (dtype: DType): IngotError =>
  new IngotError('unsupported', 'no such value in WebAssembly', { op: 'emitWasm', got: dtype, hint: 'lower the kernel first' })

export function valueType(dtype: DType): ValType {
  const width = widthOf(dtype)
  if (dtype === 'void' || scalarOf(dtype) === 'f16' || width > (scalarOf(dtype) === 'f64' ? 2 : 4)) {
    throw noValue(dtype)
  }
  return width > 1 ? 'v128' : dtype === 'f32' || dtype === 'f64' ? dtype : 'i32'
}

/** Four equal 32-bit lanes. */
export function splatConst(f: FunctionBody, bits: number): void {
  f.v128Const('i32x4', [bits, bits, bits, bits])
}

/** Shuffles lanes of 32 bits of the two vectors on the stack: lanes 4..7 are those of the second. */
export function shuffleWords(f: FunctionBody, words: readonly [number, number, number, number]): void {
  f.emit(
    'i8x16.shuffle',
    words.flatMap((word) => [4 * word, 4 * word + 1, 4 * word + 2, 4 * word + 3]),
  )
}

export function refuse(node: SomeNode): never {
  throw new IngotError('unsupported', `no spelling of ${node.op} in WebAssembly`, {
    op: 'emitWasm',
    got: `${node.src.map(({ dtype }) => dtype).join(', ')} -> ${node.dtype}`,
  })
}
