// The shape of an instruction's record, and the words in which records are written.

import type { Machine, Meaning } from '../machine.ts'
import type { OperandSpec, OperandValues, TypeOf } from '../operand.ts'
import type { AtlasType } from '../type.ts'

export type Group = 'data' | 'arithmetic' | 'logic' | 'control' | 'sync' | 'class' | 'reduction' | 'function' | 'pool'

/** The operands of an instruction, by name. */
export type OperandsOf<O extends readonly OperandSpec[]> = {
  readonly [S in O[number] as S['name']]: S extends { readonly kind: 'predicate'; readonly optional: true }
    ? number | null
    : S extends { readonly kind: 'predicate' }
      ? number
      : OperandValues[S['kind']]
}

/** What happens after an instruction: a jump to its label, if the condition that it gives holds (none given: always). */
export type Jump = 'branch' | 'call' | 'return' | 'exit'

export interface InstructionRecord<O extends readonly OperandSpec[] = readonly OperandSpec[]> {
  readonly group: Group
  /** what it does, for the documentation */
  readonly about: string
  /** in the order of the text; types, conditions and scopes stand by its name */
  readonly operands: O
  readonly jump?: Jump
  /** What it does; a jump gives the condition under which it happens. */
  readonly run: <V, P>(machine: Machine<V, P>, operands: OperandsOf<O>) => P | undefined
}

/** A record whose operands TypeScript knows exactly. */
export function instruction<const O extends readonly OperandSpec[]>(record: InstructionRecord<O>): InstructionRecord<O> {
  return record
}

export const type = <const N extends 'ty' | 'srcTy' | 'dstTy', const T extends AtlasType>(name: N, types: readonly T[]) =>
  ({ kind: 'type', name, types }) as const
export const input = <const N extends string, const T extends TypeOf>(name: N, type: T) =>
  ({ kind: 'register', name, role: 'in', type }) as const
export const output = <const N extends string, const T extends TypeOf>(name: N, type: T) =>
  ({ kind: 'register', name, role: 'out', type }) as const
export const number = <const N extends string>(name: N, bits: 8 | 16 | 32, least = 0) => ({ kind: 'number', name, bits, least }) as const

/** Of one value of the type, of two, of three. */
export const unary = <const T extends AtlasType>(group: Group, about: string, types: readonly T[], meaning: Meaning) =>
  instruction({
    group,
    about,
    operands: [type('ty', types), output('dst', 'ty'), input('src', 'ty')],
    run: (m, { ty, dst, src }) => {
      m.write(dst, ty, m.compute(meaning, ty, [m.read(src, ty)]))
      return undefined
    },
  })
export const binary = <const T extends AtlasType>(group: Group, about: string, types: readonly T[], meaning: Meaning) =>
  instruction({
    group,
    about,
    operands: [type('ty', types), output('dst', 'ty'), input('src1', 'ty'), input('src2', 'ty')],
    run: (m, { ty, dst, src1, src2 }) => {
      m.write(dst, ty, m.compute(meaning, ty, [m.read(src1, ty), m.read(src2, ty)]))
      return undefined
    },
  })
export const ternary = <const T extends AtlasType>(group: Group, about: string, types: readonly T[], meaning: Meaning) =>
  instruction({
    group,
    about,
    operands: [type('ty', types), output('dst', 'ty'), input('a', 'ty'), input('b', 'ty'), input('c', 'ty')],
    run: (m, { ty, dst, a, b, c }) => {
      m.write(dst, ty, m.compute(meaning, ty, [m.read(a, ty), m.read(b, ty), m.read(c, ty)]))
      return undefined
    },
  })
