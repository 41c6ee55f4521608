// A program: instructions in order, and labels that name places among them. Plain immutable data. Here is what makes one valid; the text
// form is text.ts, the serialised form file.ts, and the typed way to write one build.ts.

import { IngotError } from '../base/error.ts'
import { type Instruction, INSTRUCTION_NAMES, isInstructionName, recordOf } from './instruction/index.ts'
import { type Known, LABEL, type OperandValue, kindOf, shown } from './operand.ts'

/** Instructions in order, and names of places among them. */
export interface AtlasProgram {
  readonly instructions: readonly Instruction[]
  /** the number of the instruction that a label stands before; the length of the list is the end */
  readonly labels: Readonly<Record<string, number>>
}

/** What is wrong with a program, and where. */
export interface Problem {
  /** number of the instruction; absent for labels */
  readonly instruction?: number
  readonly what: string
}

/** Everything that is wrong with a program; nothing if it is valid. Looks at any data, not only at what TypeScript has seen. */
export function validate(program: AtlasProgram): Problem[] {
  const { instructions, labels }: Partial<AtlasProgram> = isObject(program) ? program : {}
  if (!Array.isArray(instructions) || !isObject(labels)) return [{ what: 'a program has a list of instructions, and labels' }]
  const misplaced = Object.entries(labels).flatMap(([name, at]): Problem[] => {
    if (!LABEL.test(name)) return [{ what: `no name for a label: ${JSON.stringify(name)}` }]
    const isPlace = Number.isInteger(at) && at >= 0 && at <= instructions.length
    return isPlace ? [] : [{ what: `label ${name} is at ${shown(at)}, wanted 0 to ${instructions.length}` }]
  })
  return [
    ...misplaced,
    ...Array.from(instructions, (each: Instruction, at) => problemsOf(each, labels).map((what) => ({ instruction: at, what }))).flat(),
  ]
}

/** The operands of an instruction by name. */
export function operandsOf(instruction: Instruction): Known {
  const { op: _, ...operands } = instruction
  return operands
}

/** The number of the instruction that a jump leads to. */
export function targetOf({ labels }: AtlasProgram, instruction: Instruction): number {
  const known = operandsOf(instruction)
  const spec = recordOf(instruction.op).operands.find(({ kind }) => kind === 'label')
  return labels[String(known[spec?.name ?? ''])] ?? 0
}

function problemsOf(instruction: Instruction, labels: Readonly<Record<string, number>>): string[] {
  if (!isObject(instruction)) return [`no instruction ${shown(instruction)}`]
  const { op } = instruction
  if (!isInstructionName(op)) return [`unknown instruction ${shown(op)}, wanted ${INSTRUCTION_NAMES.join(', ')}`]
  const known = operandsOf(instruction)
  const { operands } = recordOf(op)
  const wrong = operands.flatMap((spec) => {
    const value: OperandValue | undefined = known[spec.name]
    const problem = kindOf(spec).wrong(value, spec, known)
    if (problem !== undefined) return [`${op}: ${spec.name}: ${problem}`]
    const isMissing = spec.kind === 'label' && !Object.hasOwn(labels, String(value))
    return isMissing ? [`${op}: ${spec.name}: there is no label ${String(value)}`] : []
  })
  const extra = Object.keys(known).filter((name) => !operands.some((spec) => spec.name === name))
  return [...wrong, ...extra.map((name) => `${op} has no operand ${name}`)]
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Throws one error that lists everything that is wrong. */
export function checkProgram(program: AtlasProgram, op = 'atlas'): void {
  const problems = validate(program)
  if (problems.length === 0) return
  const lines = problems.map(({ instruction, what }) => (instruction === undefined ? what : `instruction ${instruction}: ${what}`))
  throw new IngotError('bad-program', `the program is not valid:\n${lines.join('\n')}`, { op })
}
