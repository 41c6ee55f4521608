// Every operation of integers on the values where they go wrong, on a device and by the interpreter, to the last bit.
import { expect, it } from 'vitest'
import type { Executor } from '../../src/atlas/executor.ts'
import { parseProgram } from '../../src/atlas/text.ts'
import { type IntegerType, rangeOf, writeValue } from '../../src/atlas/type.ts'
import { runCompiled, runInterpreted } from './compiled.ts'

const BINARY = ['add', 'sub', 'mul', 'div', 'min', 'max', 'and', 'or', 'xor'] as const
const CONDITIONS = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'ltu', 'leu', 'gtu', 'geu'] as const
const OTHERS: readonly IntegerType[] = ['i8', 'u16', 'i32', 'u32', 'i64', 'u64']

/** Each lane has two values and leaves a result for every operation; comparisons are bits of one. */
function programOf(type: IntegerType): string {
  const results = BINARY.length + 5 + OTHERS.length
  const bytes = type.endsWith('64') ? 8 : 4
  const held = bytes === 8 ? type : type.startsWith('i') ? 'i32' : 'u32'
  const lines = [
    `movimm.u64 r0, 1\n movimm.u64 r1, 2\n movimm.u64 r2, ${2 * bytes}\n movimm.u64 r3, ${bytes}\n movimm.u64 r9, 8`,
    `mul.u64 r4, r255, r2\n ldg.${held} r5, [r0 + r4]\n add.u64 r4, r4, r3\n ldg.${held} r6, [r0 + r4]`,
    `cvt.${type}.${held} r5, r5\n cvt.${type}.${held} r6, r6\n cvt.u32.${type} r12, r6`,
    `movimm.u64 r7, ${8 * results}\n mul.u64 r8, r255, r7\n movimm.${type} r10, 1\n movimm.${type} r11, 0`,
  ]
  const leave = (from: string, register: number): void => {
    lines.push(`cvt.u64.${from} r20, r${register}\n stg.u64 r20, [r1 + r8]\n add.u64 r8, r8, r9`)
  }
  const result = (line: string): void => {
    lines.push(line)
    leave(type, 19)
  }
  for (const op of BINARY) {
    // what is divided by is never zero
    if (op === 'div') lines.push(`seteq.${type} p0, r6, r11\n sel.${type} r13, p0, r10, r6`)
    result(`${op}.${type} r19, r5, ${op === 'div' ? 'r13' : 'r6'}`)
  }
  for (const op of ['shl', 'shr']) result(`${op}.${type} r19, r5, r12`)
  for (const op of ['abs', 'neg', 'not']) result(`${op}.${type} r19, r5`)
  for (const other of OTHERS) {
    lines.push(`cvt.${other}.${type} r18, r5`)
    leave(other, 18)
  }
  lines.push(`movimm.u32 r14, 0\n movimm.u32 r15, 1\n movimm.u32 r16, 2`)
  for (const condition of CONDITIONS) {
    lines.push(`set${condition}.${type} p1, r5, r6\n mul.u32 r14, r14, r16\n add.u32 r17, r14, r15\n sel.u32 r14, p1, r17, r14`)
  }
  lines.push('movimm.u64 r21, 3\n movimm.u32 r22, 2\n shl.u64 r23, r255, r22\n stg.u32 r14, [r21 + r23]')
  return lines.join('\n')
}

export function testIntegers(executorOf: () => Executor, types: readonly IntegerType[]): void {
  it.each(types)('%s is exact', async (type) => {
    const [low, high] = rangeOf(type)
    const long = type.endsWith('64')
    const values = [0n, 1n, 2n, 3n, low, high, high / 3n, high - 1n, -1n, long ? 0x1_2345_6789n : 100n, 33n, long ? 0xffff_ffffn : 7n]
    const fitting = values.map((value) => (value < low ? high : value))
    const bytes = long ? 8 : 4
    const held = long ? type : type.startsWith('i') ? 'i32' : 'u32'
    const pairs = new Uint8Array(2 * bytes * fitting.length ** 2)
    fitting.forEach((a, i) =>
      fitting.forEach((b, j) => {
        const at = 2 * bytes * (i * fitting.length + j)
        writeValue(held, pairs, at, a)
        writeValue(held, pairs, at + bytes, b)
      }),
    )
    const lanes = fitting.length ** 2
    const program = parseProgram(programOf(type))
    const buffers = [pairs, new Uint8Array(8 * (BINARY.length + 5 + OTHERS.length) * lanes), new Uint8Array(4 * lanes)]
    const launch = { grid: [fitting.length], block: [fitting.length] } as const
    const [, wanted, conditions] = runInterpreted(program, buffers, launch)
    const [, got, gotConditions] = await runCompiled(executorOf(), program, buffers, { ...launch, checks: false })
    expect(new BigUint64Array((got ?? pairs).slice().buffer)).toEqual(new BigUint64Array((wanted ?? pairs).slice().buffer))
    expect(gotConditions).toEqual(conditions)
  })
}
