// What an instruction can ask for: the one vocabulary in which the records say what instructions do (instruction/). Two machines speak it.
// The interpreter's values are numbers, and things happen (interpret.ts); the compiler's are nodes of a kernel, and statements are written
// (compile/). So there is one meaning, and two ways to run it.

import type { ErrorCode } from '../base/error.ts'
import type { Algebra, Lowered } from './compile/algebra.ts'
import type { Address, Condition, Scope } from './operand.ts'
import type { AtlasType, AtlasValue, FloatType, IntegerType } from './type.ts'

/** What computes a value of others of its type: on integers, on floats (who asks wraps and rounds the results), and in a kernel. */
export interface Meaning {
  readonly integer?: (type: IntegerType, a: bigint, b: bigint, c: bigint) => bigint
  readonly float?: (type: FloatType, a: number, b: number, c: number) => number
  readonly lower: (k: Algebra, a: Lowered, b: Lowered, c: Lowered) => Lowered
}

/** Errors that a program can run into. */
export type FaultCode = Extract<
  ErrorCode,
  | 'uninitialised'
  | 'division-by-zero'
  | 'out-of-range'
  | 'bad-address'
  | 'bad-class'
  | 'bad-coordinates'
  | 'unknown-handle'
  | 'stack-overflow'
  | 'stack-underflow'
  | 'double-free'
>

export type Space = 'global' | 'shared'

/** `V` is a value, `P` a condition. */
export interface Machine<V, P> {
  read(register: number, type: AtlasType): V
  write(register: number, type: AtlasType, value: V): void
  predicate(index: number): P
  setPredicate(index: number, value: P): void

  constant(type: AtlasType, value: AtlasValue): V
  compute(meaning: Meaning, type: AtlasType, operands: readonly V[]): V
  compare(condition: Condition, type: AtlasType, a: V, b: V): P
  choose(condition: P, type: AtlasType, yes: V, no: V): V
  convert(from: AtlasType, to: AtlasType, value: V): V
  /** An entry of a table of constants; `index` is a u8 below the table's length. */
  lookUp(table: readonly number[], type: 'u8' | 'u32', index: V): V
  /** It is an error of the program if this does not hold. */
  require(holds: P, fault: FaultCode): void

  load(space: Space, address: Address, type: AtlasType): V
  store(space: Space, address: Address, type: AtlasType, value: V): void
  /** At a barrier, for all lanes of the block. */
  wait(id: number): void
  fence(scope: Scope): void

  /** the class of this lane, a u8 */
  currentClass(): V
  /** the phase of this lane, a u32 */
  phase(): V
  setPhase(phase: V): void
  /** Adds an f64 to the accumulator of a class. */
  accumulate(index: V, value: V): void

  /** A pool of so many bytes of zeros for this lane; gives its handle, a u64. */
  allocatePool(bytes: bigint): V
  freePool(handle: V): void
  loadPool(type: AtlasType, handle: V, offset: V): V
  storePool(type: AtlasType, handle: V, offset: V, value: V): void
}
