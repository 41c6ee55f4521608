// The text form and the serialised form: both give back what they were given, and say what is wrong with anything else.
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeProgram, encodeProgram } from '../../src/atlas/file.ts'
import { INSTRUCTION_NAMES, type Instruction } from '../../src/atlas/instruction/index.ts'
import { type AtlasProgram, validate } from '../../src/atlas/program.ts'
import { parseProgram, printInstruction, printProgram } from '../../src/atlas/text.ts'
import { IngotError } from '../../src/base/error.ts'
import { errorOf } from '../ir/run.ts'
import { anyProgram, instruction } from './arbitrary.ts'

describe('the instructions', () => {
  it('are sixty', () => {
    expect(INSTRUCTION_NAMES).toHaveLength(60)
  })

  it.each(INSTRUCTION_NAMES)('%s is printed and parsed, encoded and decoded', (name) => {
    fc.assert(
      fc.property(instruction(name), (each) => {
        const program: AtlasProgram = { instructions: [each], labels: { start: 0, '_loop.1': 1, End: 1 } }
        expect(parseProgram(printProgram(program))).toEqual(program)
        expect(decodeProgram(encodeProgram(program))).toEqual(program)
      }),
      { numRuns: 10 },
    )
  })
})

describe('a program', () => {
  it('is the same after printing and parsing, and after encoding and decoding', () => {
    fc.assert(
      fc.property(anyProgram, (program) => {
        expect(validate(program)).toEqual([])
        expect(parseProgram(printProgram(program))).toEqual(program)
        expect(decodeProgram(encodeProgram(program))).toEqual(program)
      }),
      { numRuns: 100 },
    )
  })

  it('may be written by hand', () => {
    const { instructions, labels } = parseProgram(`
      ; comments, blank lines, any case
      LOOP:  # as in other assemblers
        LDG.F32 r1,[ buf7+0x10 ] // hexadecimal
        stg.u8 r2, [Φ(5, 12, 200)]
        movimm.i8 r3, -1
        movimm.u8 r4, -1
        movimm.bf16 r5, 0x7fc0
        SETltu.i32 p3, r1, r2
        bra p3, @LOOP`)
    expect(labels).toEqual({ LOOP: 0 })
    expect(instructions.map(printInstruction)).toEqual([
      'ldg.f32 r1, [buf7 + 16]',
      'stg.u8 r2, [phi(5, 12, 200)]',
      'movimm.i8 r3, -1',
      'movimm.u8 r4, 255',
      'movimm.bf16 r5, 0x7fc0',
      'setltu.i32 p3, r1, r2',
      'bra p3, @LOOP',
    ])
  })

  it.each([
    ['add.f32 r1, r2', 'atlas:1:15', 'something else was expected, got the end of the line, wanted ,'],
    ['\n\tadd.f99 r1, r2, r3', 'atlas:2:6', 'unknown type, got f99, wanted i8'],
    ['  bogus r1', 'atlas:1:3', 'unknown instruction, got bogus, wanted ldg'],
    ['mov.u8 r1, r256', 'atlas:1:12', 'no such register, got r256, wanted r0 to r255'],
    ['setlt.u8 p16, r1, r2', 'atlas:1:10', 'no such predicate, got p16'],
    ['setltu.f32 p1, r1, r2', 'atlas:1:1', 'ltu compares integers, not f32'],
    ['and.f32 r1, r2, r3', 'atlas:1:5', 'unknown type, got f32'],
    ['bra @nowhere', 'atlas:1:5', 'there is no such label, got nowhere'],
    ['a:\na:', 'atlas:2:1', 'a label is defined twice, got a'],
    ['exit now', 'atlas:1:6', 'the line goes on, got now'],
    ['movimm.u8 r1, 256', 'atlas:1:15', 'a number out of range, got 256'],
    ['ldg.f32 r1, [phi(96, 0, 0)]', 'atlas:1:18', 'a number out of range, got 96'],
    ['lds.f32 r1, [buf1 + 0]', 'atlas:1:1', 'shared memory has no buffer 1'],
    ['reduceadd.f32 r1, r250, 7', 'atlas:1:1', 'no 7 registers from 250'],
    ['barsync 256', 'atlas:1:9', 'a number out of range'],
  ])('%j is refused with its place', (text, place, what) => {
    const error = errorOf(() => parseProgram(text))
    expect(error.code).toBe('bad-program')
    expect(error.facts.op).toBe(place)
    expect(error.message).toContain(what)
    const [line = 0, column = 0] = place.split(':').slice(1).map(Number)
    const [shown = '', caret = ''] = error.message.split('\n').slice(-2)
    expect(shown).toBe(text.split('\n')[line - 1])
    expect(caret).toBe(`${shown.slice(0, column - 1).replaceAll(/[^\t]/g, ' ')}^`)
  })

  it('of any text is parsed or refused', () => {
    const pieces = fc.constantFrom(
      'add',
      '.f32',
      ' r1',
      ',',
      ' p0',
      '@a',
      'a:',
      '\n',
      '[',
      ']',
      '+',
      'buf',
      '1',
      '-',
      'Φ(',
      '0x',
      '.',
      '\t;',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(pieces).map((parts) => parts.join('')),
        ),
        (text) => {
          try {
            const program = parseProgram(text)
            expect(parseProgram(printProgram(program))).toEqual(program)
          } catch (error) {
            expect(error).toBeInstanceOf(IngotError)
          }
        },
      ),
      { numRuns: 300 },
    )
  })
})

describe('bytes', () => {
  const program = parseProgram('a: add.f32 r1, r2, r3\n ldg.f64 r9, [r1 - 8]\n bra p1, @a\n movimm.f64 r2, 0.1'.replace('a: ', 'a:\n'))
  const bytes = encodeProgram(program)

  it('that are damaged anywhere are refused', () => {
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, by) => {
        const damaged = bytes.slice()
        damaged[at] = (damaged[at] ?? 0) ^ by
        expect(errorOf(() => decodeProgram(damaged)).code).toBe('bad-file')
      }),
      { numRuns: 300 },
    )
  })

  it('that are cut, or anything else, are refused', () => {
    for (let length = 0; length < bytes.length; length++) expect(errorOf(() => decodeProgram(bytes.slice(0, length))).code).toBe('bad-file')
    fc.assert(
      fc.property(fc.uint8Array(), (any) => {
        expect(errorOf(() => decodeProgram(any)).code).toBe('bad-file')
      }),
    )
  })

  it('of a later version are refused as such', () => {
    const later = bytes.slice()
    later[4] = 2
    // its checksum is right: CRC-32 of the bytes before it, written here another way
    const table = Array.from({ length: 256 }, (_, n) => {
      let word = n
      for (let i = 0; i < 8; i++) word = word & 1 ? 0xedb88320 ^ (word >>> 1) : word >>> 1
      return word
    })
    let crc = 0xffffffff
    for (const byte of later.subarray(0, -4)) crc = (table[(crc ^ byte) & 255] ?? 0) ^ (crc >>> 8)
    new DataView(later.buffer).setUint32(later.length - 4, ~crc, true)
    expect(errorOf(() => decodeProgram(later)).code).toBe('unsupported')
  })
})

describe('validate', () => {
  it('lists everything that is wrong', () => {
    const wrong = {
      instructions: [
        { op: 'add', ty: 'f99', dst: 256, src1: -1, src2: 1.5 },
        { op: 'nothing' },
        { op: 'bra', pred: 16, target: 'nowhere' },
        { op: 'exit', extra: 1 },
        { op: 'ldg', ty: 'f32', dst: 1, addr: { kind: 'phi', class: 96, page: 0, byte: 0 } },
      ] as object[] as Instruction[],
      labels: { 'a b': 0, far: 6 },
    }
    expect(validate(wrong).map(({ instruction, what }) => `${instruction}: ${what.slice(0, 32)}`)).toEqual([
      'undefined: no name for a label: "a b"',
      'undefined: label far is at 6, wanted 0 to 5',
      '0: add: ty: no such type f99, wante',
      '0: add: dst: no register 256, wante',
      '0: add: src1: no register -1, wante',
      '0: add: src2: no register 1.5, want',
      '1: unknown instruction nothing, wan',
      '2: bra: pred: no predicate 16, want',
      '2: bra: target: there is no label n',
      '3: exit has no operand extra',
      '4: ldg: addr: no place (96, 0, 0) i',
    ])
    expect(errorOf(() => encodeProgram(wrong)).message.split('\n')).toHaveLength(12)
  })
})
