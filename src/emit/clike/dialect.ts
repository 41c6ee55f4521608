// What makes a C-like language: its words as data, and the few things that languages say in shapes of their own. The emitter
// (clike.ts) and the shared spellings (spelling.ts) are driven by this. Types only.

import type { DType, Scalar, Storage } from '../../base/dtype.ts'
import type { BufferParam, Kernel, SharedArray } from '../../ir/kernel.ts'
import type { NodeOf } from '../../ir/node.ts'
import type { AtomicKind, IndexName } from '../../ir/op.ts'
import type { Axis } from '../../ir/op/position.ts'
import type { Helper, Speaker, Spellings, Text } from './expression.ts'

/** One element, or `width` consecutive elements, of a buffer or a shared array. */
export interface Access {
  readonly memory: BufferParam | SharedArray
  readonly name: string
  readonly index: Text
  readonly width: number
  /** type of the value loaded or stored */
  readonly dtype: DType
  /** true if the index is certainly a multiple of the width */
  readonly aligned: boolean
  /** bytes from here to what will be loaded soon */
  readonly ahead: number | undefined
}

type Endless = readonly [plus: string, minus: string, nan: string]

/** How constants are written. Suffixes are the same in all languages. */
export interface ConstantWords {
  /** the smallest i32, whose digits alone do not fit the type */
  readonly smallest: string
  /** from here on a u32 keeps its suffix whatever stands beside it */
  readonly bareBelow: number
  /** infinity, minus infinity, no number */
  readonly endless: Readonly<Record<'f32' | 'f16', Endless>> & { readonly f64?: Endless }
  /** the function that gives an infinity or NaN, where the language has no literal: its name is in `endless` */
  readonly helper?: (what: 'inf' | 'nan') => Helper
}

/** How atomic memory is read, written and changed. */
export interface AtomicWords {
  readonly load: string
  readonly store: string
  readonly change: (kind: AtomicKind, storage: Storage) => string
  /** last argument of these functions */
  readonly order: string
  /** operations that take no order */
  readonly unordered?: ReadonlySet<AtomicKind>
}

/** An index that no kernel asks for but the emitter recognises: workgroup id * size + lane id. */
export type GlobalIndex = `global.${Axis}`

export interface Dialect {
  /** keywords, types and functions that no variable may hide */
  readonly reserved: ReadonlySet<string>
  readonly spell: Spellings
  readonly constants: ConstantWords
  readonly atomics: AtomicWords
  /** first line of an endless loop */
  readonly endless: string
  /** what stands before the name of a uniform */
  readonly uniform: string
  readonly index: (name: IndexName) => Text
  /** a global index, where the language has one */
  readonly global?: (axis: Axis) => Text
  readonly let: (dtype: DType, name: string, value: string) => string
  readonly var: (dtype: DType, name: string, value: string) => string
  /** declares the variable of a for: `uint i` */
  readonly counter: (name: string) => string
  readonly unroll: (times: number | boolean) => string | undefined
  readonly barrier: (kind: 'workgroup' | 'subgroup', kernel: Kernel) => string
  /** An access to memory that is not atomic. */
  readonly load: (access: Access) => Text
  readonly store: (access: Access, value: Text) => string
  /** Statements that put the value of a tile operation into the variable `into`. */
  readonly tile?: (node: NodeOf<'tileLoad' | 'tileMma'>, into: string, memory: string, speaker: Speaker) => string
  readonly tileStore?: (node: NodeOf<'tileStore'>, memory: string, speaker: Speaker) => string
  /** true if `(memory + base)[constant]` helps: the last addition of an index does not wrap, so the constant can be part of the address */
  readonly displaces: boolean
}

/** A constant array at program scope. */
export interface Table {
  readonly name: string
  readonly scalar: Scalar
  readonly values: readonly number[]
  /** true for the sixteen bytes of a lookup */
  readonly bytes: boolean
}

/** A kernel's body as text, with what its surroundings must declare. */
export interface Body {
  readonly lines: readonly string[]
  /** definitions of the functions it calls, in the order of their names */
  readonly helpers: readonly (readonly string[])[]
  readonly tables: readonly Table[]
  /** names of buffers and shared arrays, and of uniforms, in the text */
  readonly names: ReadonlyMap<string, string>
  readonly indices: ReadonlySet<IndexName | GlobalIndex>
  readonly uniforms: ReadonlySet<string>
  /** the buffers and shared arrays that are used */
  readonly memories: ReadonlySet<string>
}
