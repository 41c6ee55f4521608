// Any valid program, by the records: every operand of every kind, whether or not it makes sense to run it.
import * as fc from 'fast-check'
import { INSTRUCTION_NAMES, type Instruction, type InstructionName, instructionOf, recordOf } from '../../src/atlas/instruction/index.ts'
import { type Address, CONDITIONS, type OperandSpec, type OperandValue, SCOPES, typeOf } from '../../src/atlas/operand.ts'
import type { AtlasProgram } from '../../src/atlas/program.ts'
import { bitsOf, isIntegerType } from '../../src/atlas/type.ts'

const LABELS = ['start', '_loop.1', 'End'] as const
const register = fc.nat(255)
const long = fc.bigInt(0n, 2n ** 64n - 1n)

function address(space: 'global' | 'shared'): fc.Arbitrary<Address> {
  const indirect = fc.record({ kind: fc.constant('indirect'), base: register, offset: fc.integer() })
  const buffer = fc.record({ kind: fc.constant('buffer'), handle: space === 'shared' ? fc.constant(0n) : long, offset: long })
  if (space === 'shared') return fc.oneof(indirect, buffer)
  const phi = fc.record({ kind: fc.constant('phi'), class: fc.nat(95), page: fc.nat(47), byte: fc.nat(255) })
  return fc.oneof(indirect, buffer, phi, fc.record({ kind: fc.constant('computed'), handle: register, offset: register }))
}

function operand(spec: OperandSpec, known: Readonly<Record<string, OperandValue>>): fc.Arbitrary<OperandValue> {
  switch (spec.kind) {
    case 'type':
      return fc.constantFrom(...spec.types)
    case 'condition': {
      const isInteger = isIntegerType(typeOf('ty', known))
      return fc.constantFrom(...CONDITIONS.filter((each) => isInteger || !each.endsWith('u')))
    }
    case 'scope':
      return fc.constantFrom(...SCOPES)
    case 'register':
      return register
    case 'registers':
      return fc.nat(200)
    case 'predicate':
      return spec.optional === true ? fc.option(fc.nat(15)) : fc.nat(15)
    case 'label':
      return fc.constantFrom(...LABELS)
    case 'address':
      return address(spec.space)
    case 'number':
      return fc.integer({ min: spec.least ?? 0, max: spec.name === 'count' ? 56 : 2 ** spec.bits - 1 })
    case 'long':
      return fc.bigInt(0n, spec.most ?? 2n ** 64n - 1n)
    case 'float':
      return fc.double({ noNaN: true, noDefaultInfinity: true })
    case 'bits':
      return fc.bigInt(0n, 2n ** BigInt(bitsOf(typeOf('ty', known))) - 1n)
  }
}

/** Any instruction of a name. */
export function instruction(op: InstructionName): fc.Arbitrary<Instruction> {
  const step = (
    specs: readonly OperandSpec[],
    known: Readonly<Record<string, OperandValue>>,
  ): fc.Arbitrary<Readonly<Record<string, OperandValue>>> => {
    const [spec, ...rest] = specs
    return spec === undefined ? fc.constant(known) : operand(spec, known).chain((value) => step(rest, { ...known, [spec.name]: value }))
  }
  return step(recordOf(op).operands, {}).map((known) => instructionOf(op, known))
}

export const anyProgram: fc.Arbitrary<AtlasProgram> = fc
  .array(fc.constantFrom(...INSTRUCTION_NAMES).chain(instruction), { maxLength: 12 })
  .chain((instructions) =>
    fc.record({
      instructions: fc.constant(instructions),
      labels: fc.record(Object.fromEntries(LABELS.map((name) => [name, fc.nat(instructions.length)]))),
    }),
  )
