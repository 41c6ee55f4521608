// The text form: one instruction a line, labels before them, comments after `;`, `#` or `//`. What is printed parses to the same program.
//
//     loop:                         ; a label
//       ldg.f32 r1, [r0 + r5]       ; a name, its types, its operands
//       setlt.u32 p0, r2, r3        ; the condition is part of the name
//       bra p0, @loop

import { type Instruction, INSTRUCTION_NAMES, type InstructionName, instructionOf, recordOf } from './instruction/index.ts'
import { CONDITIONS, type OperandSpec, type OperandValue, kindOf } from './operand.ts'
import { type AtlasProgram, checkProgram, operandsOf } from './program.ts'
import { Cursor } from './cursor.ts'

/** Reads a program; an error says line and column. */
export function parseProgram(text: string): AtlasProgram {
  const cursor = new Cursor(text)
  const instructions: Instruction[] = []
  const labels = new Map<string, number>()
  const uses: { readonly name: string; readonly complain: () => Error }[] = []
  while (cursor.nextLine()) {
    const label = readLabel(cursor, labels)
    if (label !== undefined) labels.set(label, instructions.length)
    else {
      instructions.push(readInstruction(cursor, uses))
      cursor.endLine()
    }
  }
  const undefinedLabel = uses.find(({ name }) => !labels.has(name))
  if (undefinedLabel !== undefined) throw undefinedLabel.complain()
  const program: AtlasProgram = { instructions, labels: Object.fromEntries(labels) }
  checkProgram(program, 'parseProgram')
  return program
}

/** A label that is defined here, if one is. */
function readLabel(cursor: Cursor, labels: ReadonlyMap<string, number>): string | undefined {
  const twice = cursor.mark()
  const label = cursor.definition()
  if (label !== undefined && labels.has(label)) throw twice('a label is defined twice', label)
  return label
}

function readInstruction(cursor: Cursor, uses: { readonly name: string; readonly complain: () => Error }[]): Instruction {
  const refuse = cursor.mark()
  const word = cursor.word('an instruction')
  const { op, condition } = nameOf(word.toLowerCase()) ?? {}
  if (op === undefined) throw refuse('unknown instruction', word, INSTRUCTION_NAMES.map((name) => name.toLowerCase()).join(', '))
  const known: Record<string, OperandValue> = {}
  let isFirst = true
  for (const spec of textOrder(recordOf(op).operands)) {
    if (spec.kind === 'condition') known[spec.name] = condition ?? 'eq'
    else if (spec.kind === 'predicate' && spec.optional === true && !cursor.peek('p')) known[spec.name] = null
    else {
      if (kindOf(spec).place === 'suffix') cursor.expect('.')
      else if (!isFirst) cursor.expect(',')
      isFirst &&= kindOf(spec).place === 'suffix'
      const complain = cursor.mark()
      const value = kindOf(spec).parse(cursor, spec, known)
      if (spec.kind === 'label') uses.push({ name: String(value), complain: () => complain('there is no such label', String(value)) })
      known[spec.name] = value
    }
  }
  const wrong = recordOf(op).operands.map((spec) => kindOf(spec).wrong(known[spec.name], spec, known))
  for (const problem of wrong) if (problem !== undefined) throw refuse(problem)
  return instructionOf(op, known)
}

const BY_TEXT = new Map(INSTRUCTION_NAMES.map((name) => [name.toLowerCase(), name]))

/** `setlt` -> set with lt; `add` -> add. */
function nameOf(word: string): { readonly op: InstructionName; readonly condition?: string } | undefined {
  const op = BY_TEXT.get(word)
  if (op !== undefined && !hasCondition(op)) return { op }
  const condition = CONDITIONS.find((each) => word.endsWith(each) && BY_TEXT.has(word.slice(0, -each.length)))
  const stem = condition === undefined ? undefined : BY_TEXT.get(word.slice(0, -condition.length))
  return stem === undefined || condition === undefined || !hasCondition(stem) ? undefined : { op: stem, condition }
}

function hasCondition(op: InstructionName): boolean {
  return recordOf(op).operands.some(({ kind }) => kind === 'condition')
}

/** What stands by the name comes first. */
function textOrder(operands: readonly OperandSpec[]): readonly OperandSpec[] {
  const rank = { name: 0, suffix: 1, list: 2 }
  return operands.toSorted((a, b) => rank[kindOf(a).place] - rank[kindOf(b).place])
}

/** An instruction as one line. */
export function printInstruction(instruction: Instruction): string {
  const known = operandsOf(instruction)
  const parts = { name: instruction.op.toLowerCase(), suffix: '', list: new Array<string>() }
  for (const spec of recordOf(instruction.op).operands) {
    const value = known[spec.name]
    if (value === undefined || value === null) continue
    const { place, print } = kindOf(spec)
    if (place === 'list') parts.list.push(print(value, known))
    else if (place === 'name') parts.name += print(value, known)
    else parts.suffix += `.${print(value, known)}`
  }
  return `${parts.name}${parts.suffix} ${parts.list.join(', ')}`.trimEnd()
}

/** The text of a program. */
export function printProgram({ instructions, labels }: AtlasProgram): string {
  const labelsAt = (at: number): string[] => Object.entries(labels).flatMap(([name, place]) => (place === at ? [`${name}:`] : []))
  const lines = instructions.flatMap((each, at) => [...labelsAt(at), `  ${printInstruction(each)}`])
  return [...lines, ...labelsAt(instructions.length), ''].join('\n')
}

/**
 * What a program file calls its buffers, by name, where a comment of it says so: `; buffers: 1 x, 2 y (f32), 3 count (u64); more`. Notes in
 * brackets and what follows a semicolon do not matter.
 */
export function bufferNames(text: string): ReadonlyMap<string, number> {
  const [, list = ''] = /^[ \t]*(?:[;#]|\/\/)[ \t]*buffers:([^;\n\r]*)/m.exec(text) ?? []
  const parts = list.replaceAll(/\([^)]*\)/g, '').split(',')
  return new Map(
    parts.flatMap((part): [string, number][] => {
      const [, handle, name] = /^\s*(\d+)\s+([A-Za-z_]\w*)\s*$/.exec(part) ?? []
      return handle === undefined || name === undefined ? [] : [[name, Number(handle)]]
    }),
  )
}
