// The serialised form: a head with the version, the names of the instructions that occur, the instructions by those names, the labels,
// and a checksum over all of it. Damaged bytes are refused, and so is a program that is not valid.

import { IngotError } from '../base/error.ts'
import { ByteReader, ByteWriter, checksum, damaged } from './byte.ts'
import { type Instruction, type InstructionName, instructionOf, isInstructionName, recordOf } from './instruction/index.ts'
import { type OperandValue, kindOf } from './operand.ts'
import { type AtlasProgram, checkProgram, operandsOf } from './program.ts'

/** "ATLS" */
const MAGIC = 0x534c5441
const VERSION = 1

/** A program as bytes. */
export function encodeProgram(program: AtlasProgram): Uint8Array<ArrayBuffer> {
  checkProgram(program, 'encodeProgram')
  const { instructions, labels } = program
  const to = new ByteWriter()
  to.u32(MAGIC)
  to.u32(VERSION)
  const names = [...new Set(instructions.map(({ op }) => op))]
  to.u32(names.length)
  for (const name of names) to.text(name)
  to.u32(instructions.length)
  for (const each of instructions) {
    to.u8(names.indexOf(each.op))
    const known = operandsOf(each)
    for (const spec of recordOf(each.op).operands) kindOf(spec).encode(to, known[spec.name] ?? null)
  }
  const places = Object.entries(labels)
  to.u32(places.length)
  for (const [name, at] of places) {
    to.text(name)
    to.u32(at)
  }
  to.u32(checksum(to.bytes()))
  return to.bytes()
}

/** The program of these bytes. */
export function decodeProgram(bytes: Uint8Array): AtlasProgram {
  const from = new ByteReader(bytes)
  if (bytes.length < 12 || from.u32() !== MAGIC) throw damaged('it does not begin as one', 0)
  const version = from.u32()
  if (new ByteReader(bytes.subarray(-4)).u32() !== checksum(bytes.subarray(0, -4)))
    throw damaged('the checksum is another', bytes.length - 4)
  if (version !== VERSION) {
    throw new IngotError('unsupported', 'an Atlas program of another version', { op: 'decodeProgram', got: version, wanted: VERSION })
  }
  const names = list(from, () => readName(from))
  const instructions = list(from, () => readInstruction(from, names))
  const labels = list(from, (): [string, number] => [from.text(), from.u32()])
  if (from.left !== 4) throw damaged('something follows it', bytes.length - from.left)
  const program: AtlasProgram = { instructions, labels: Object.fromEntries(labels) }
  checkProgram(program, 'decodeProgram')
  return program
}

function list<T>(from: ByteReader, read: () => T): T[] {
  const length = from.u32()
  if (length > from.left) throw damaged('it ends too early', 0)
  return Array.from({ length }, read)
}

function readName(from: ByteReader): InstructionName {
  const name = from.text()
  if (!isInstructionName(name)) throw damaged(`unknown instruction ${name}`, 0)
  return name
}

function readInstruction(from: ByteReader, names: readonly InstructionName[]): Instruction {
  const op = from.oneOf(names, 'instruction')
  const known: Record<string, OperandValue> = {}
  for (const spec of recordOf(op).operands) known[spec.name] = kindOf(spec).decode(from, known)
  return instructionOf(op, known)
}
