// What the spelling of an op may ask of the emitter, and how values of the kernel language lie in WebAssembly ones.
// A scalar is an f32 or an i32 (bool: 0 or 1); a vector of two or four is a v128, of which the lanes past its width hold
// anything; a bool vector is a mask of whole 32-bit lanes, 0 or -1. Knows no ops and no memory.

import { type DType, type Scalar, scalarOf, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Node } from '../../ir/node.ts'
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
  /** Leaves the address of a table of constants, and returns how far past it the table of this node begins. */
  table(node: Node): number
}
export type Spelling = (speaker: Speaker, node: Node) => void

/** `f32` for a scalar, `f32x` for vectors of any width. */
export type Shape = Exclude<Scalar, 'f16'> | `${Exclude<Scalar, 'f16'>}x`

export function shapeOf(dtype: DType): Shape {
  return `${scalarOf(dtype)}${widthOf(dtype) > 1 ? 'x' : ''}` as Shape
}

export function valueType(dtype: DType): ValType {
  const width = widthOf(dtype)
  if (width > 4 || dtype === 'void' || scalarOf(dtype) === 'f16') {
    throw new IngotError('unsupported', 'no such value in WebAssembly', { op: 'emitWasm', got: dtype, hint: 'lower the kernel first' })
  }
  return width > 1 ? 'v128' : scalarOf(dtype) === 'f32' ? 'f32' : 'i32'
}

export function operand(node: Node, index: number): Node {
  const found = node.src[index]
  if (found === undefined) throw new IngotError('bad-kernel', `${node.op} lacks an operand`, { op: 'emitWasm', got: index })
  return found
}

/** The constant that a node is, or that it spreads over all lanes of a vector. */
export function constantOf(node: Node): number | undefined {
  const inner = node.op === 'splat' ? operand(node, 0) : node
  return inner.op === 'const' ? Number(inner.arg) : undefined
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

export function refuse(node: Node): never {
  throw new IngotError('unsupported', `no spelling of ${node.op} in WebAssembly`, {
    op: 'emitWasm',
    got: `${node.src.map(({ dtype }) => dtype).join(', ')} -> ${node.dtype}`,
  })
}
