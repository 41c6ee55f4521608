// Whatever is given for a program is accepted or refused with an error of Ingot: never another one, and never by running.
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checksum } from '../../src/atlas/byte.ts'
import { compileProgram } from '../../src/atlas/compile/compile.ts'
import { decodeProgram, encodeProgram } from '../../src/atlas/file.ts'
import { INSTRUCTION_NAMES } from '../../src/atlas/instruction/index.ts'
import { interpretProgram } from '../../src/atlas/interpret.ts'
import { type AtlasProgram, validate } from '../../src/atlas/program.ts'
import { IngotError } from '../../src/base/error.ts'
import { anyProgram } from './arbitrary.ts'

/** Runs it; what it throws is of Ingot. */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    expect(error).toBeInstanceOf(IngotError)
    return undefined
  }
}

describe('data that TypeScript has not seen', () => {
  const name = fc.constantFrom(...INSTRUCTION_NAMES, 'nothing', '__proto__')
  const operand = fc.constantFrom('ty', 'dst', 'src', 'src1', 'src2', 'addr', 'target', 'count', 'value', 'pool', 'offset', 'cond', 'pred')
  const value = fc.oneof(fc.anything(), fc.record({ kind: fc.constantFrom('phi', 'buffer', 'indirect', 'computed', 'x') }), fc.nat(300))
  const likely = fc.tuple(name, fc.dictionary(operand, value)).map(([op, operands]) => ({ ...operands, op }))
  const instructions = fc.oneof(fc.array(fc.oneof(likely, fc.anything()), { maxLength: 4 }), fc.anything())
  const labels = fc.oneof(fc.dictionary(fc.string(), fc.oneof(fc.nat(5), fc.anything())), fc.anything())

  it('has problems, or is a program', () => {
    fc.assert(
      fc.property(instructions, labels, (some, places) => {
        const program = { instructions: some, labels: places } as object as AtlasProgram
        const problems = validate(program)
        const made = attempt(() => compileProgram(program))
        if (problems.length > 0) expect(made).toBeUndefined()
        if (problems.length > 0) expect(attempt(() => interpretProgram(program, { buffers: new Map() }))).toBeUndefined()
      }),
      { numRuns: 500 },
    )
    for (const nothing of [undefined, null, 7, 'text', {}, []]) expect(validate(nothing as object as AtlasProgram)).not.toEqual([])
  })
})

describe('bytes with a right checksum', () => {
  const sealed = (bytes: Uint8Array): Uint8Array => {
    const whole = new Uint8Array(bytes.length + 4)
    whole.set(bytes)
    new DataView(whole.buffer).setUint32(bytes.length, checksum(bytes), true)
    return whole
  }

  it('are decoded to a valid program, or refused', () => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(anyProgram, damage, fc.nat(8), (program, changes, cut) => {
        const bytes = encodeProgram(program).slice(0, -4)
        for (const [at, byte] of changes) bytes[8 + (at % (bytes.length - 8))] = byte
        const decoded = attempt(() => decodeProgram(sealed(bytes.subarray(0, bytes.length - (cut > 4 ? 0 : cut)))))
        if (decoded !== undefined) expect(validate(decoded)).toEqual([])
      }),
      { numRuns: 500 },
    )
  })

  it('that begin as a program and go on anyhow', () => {
    const head = encodeProgram({ instructions: [], labels: {} }).slice(0, 8)
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (rest) => {
        const decoded = attempt(() => decodeProgram(sealed(Uint8Array.from([...head, ...rest]))))
        if (decoded !== undefined) expect(validate(decoded)).toEqual([])
      }),
      { numRuns: 500 },
    )
  })
})

it('a program of anything valid compiles, or is refused', () => {
  fc.assert(
    fc.property(anyProgram, fc.boolean(), (program, f64AsF32) => {
      attempt(() => compileProgram(program, { block: [2, 2, 2], sharedBytes: 64 }, { f64AsF32, handles: { buffers: [1], pools: [1] } }))
    }),
    { numRuns: 200 },
  )
})
