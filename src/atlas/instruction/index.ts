// All instructions, one record each, by name: the text form has the name in lower case. Whoever needs to know something about an
// instruction asks its record; there is no other list of them.

import { ATLAS } from './class.ts'
import { ARITHMETIC, FUNCTIONS, LOGIC, REDUCTIONS } from './compute.ts'
import { CONTROL, DATA, POOLS, SYNC } from './move.ts'
import type { Machine } from '../machine.ts'
import type { Known } from '../operand.ts'
import type { InstructionRecord, OperandsOf } from './record.ts'

/** The record of every instruction. */
export const INSTRUCTIONS = {
  ...DATA,
  ...ARITHMETIC,
  ...LOGIC,
  ...CONTROL,
  ...SYNC,
  ...ATLAS,
  ...REDUCTIONS,
  ...FUNCTIONS,
  ...POOLS,
} as const

/** The name of an instruction. */
export type InstructionName = keyof typeof INSTRUCTIONS
export const INSTRUCTION_NAMES = Object.keys(INSTRUCTIONS) as readonly InstructionName[]

/** One instruction of a program: its name, and its operands by name. */
export type InstructionOf<N extends InstructionName> = N extends InstructionName
  ? { readonly op: N } & OperandsOf<(typeof INSTRUCTIONS)[N]['operands']>
  : never
/** One instruction of a program. */
export type Instruction = InstructionOf<InstructionName>

/** A record of whatever instruction, for who has operands by name. */
export interface SomeRecord extends Omit<InstructionRecord, 'run'> {
  readonly run: <V, P>(machine: Machine<V, P>, operands: Known) => P | undefined
}

export function recordOf(op: InstructionName): SomeRecord {
  return INSTRUCTIONS[op] as SomeRecord
}

export function isInstructionName(name: unknown): name is InstructionName {
  return typeof name === 'string' && Object.hasOwn(INSTRUCTIONS, name)
}

/** An instruction of operands that its record has named; `validate` has the last word on their values. */
export function instructionOf(op: InstructionName, operands: Known): Instruction {
  return { op, ...operands } as Known as Instruction
}
