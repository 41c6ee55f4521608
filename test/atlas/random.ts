// Random programs on a device and by the interpreter: what they leave is the same, integers to the last bit, floats within a tolerance.
import * as fc from 'fast-check'
import { it } from 'vitest'
import type { Executor } from '../../src/atlas/executor.ts'
import type { AtlasProgram } from '../../src/atlas/program.ts'
import { printProgram } from '../../src/atlas/text.ts'
import { ALL_TYPES, type AtlasType, readValue } from '../../src/atlas/type.ts'
import { runCompiled, runInterpreted } from './compiled.ts'
import { BLOCK, LANES, LANE_BYTES, SLOTS, programOf, steps } from './random-program.ts'

export interface RandomOptions {
  readonly programs: number
  readonly f64: boolean
}

/** A program with all that it runs on. */
export interface RandomRun {
  readonly program: AtlasProgram
  readonly types: readonly AtlasType[]
  readonly buffers: readonly Uint8Array[]
  readonly checks: boolean
}

export const LAUNCH = { grid: [LANES / BLOCK], block: [BLOCK], sharedBytes: 4 * BLOCK } as const
const SEED = Number(process.env.INGOT_RANDOM_SEED ?? 13)
const BYTES = LANES * LANE_BYTES

function anyRun(f64: boolean): fc.Arbitrary<RandomRun> {
  const known = ALL_TYPES.filter((type) => f64 || type !== 'f64')
  const types = fc.shuffledSubarray(known, { minLength: 2, maxLength: 4 }).map((each): AtlasType[] => ['u32', 'f32', ...each])
  const data = fc.array(fc.integer(), { minLength: BYTES / 4, maxLength: BYTES / 4 })
  return fc.tuple(types, steps(), data, fc.nat(3)).map(([some, list, numbers, chance]) => {
    const words = (turn: number): Uint8Array => new Uint8Array(Int32Array.from(numbers, (each, i) => each ^ (turn * i)).buffer)
    return {
      program: programOf(list, some),
      types: some,
      buffers: [words(0), new Uint8Array(BYTES), words(1), words(3)],
      checks: chance === 0,
    }
  })
}

/** So many of them, always the same for one seed. */
export function sampleRuns({ programs, f64 }: RandomOptions): RandomRun[] {
  return fc.sample(anyRun(f64), { numRuns: programs, seed: SEED })
}

/**
 * Runs random programs on a device and by the interpreter; INGOT_RANDOM_PROGRAMS says another number of them. Nothing is shrunk: a
 * difference shows the program.
 */
export function testRandomPrograms(executorOf: () => Executor, options: RandomOptions): void {
  const programs = Number(process.env.INGOT_RANDOM_PROGRAMS ?? options.programs)
  it(`${programs} random programs agree with the interpreter`, { timeout: 60_000 + 3000 * programs }, async () => {
    for (const run of sampleRuns({ ...options, programs })) await expectSameResult(executorOf(), run)
  })
}

export async function expectSameResult(executor: Executor, { program, types, buffers, checks }: RandomRun): Promise<void> {
  const wanted = runInterpreted(program, buffers, LAUNCH)
  const got = await runCompiled(executor, program, buffers, { ...LAUNCH, checks })
  const different = differenceOf(types, wanted, got)
  if (different !== undefined) throw new Error(`${different}, checks: ${checks}\n${printProgram(program)}`)
}

/** How far a float may be off, in parts of its size and of 1: the narrow ones round to few bits, and an error grows from step to step. */
const TOLERANCE: Partial<Record<AtlasType, number>> = { f32: 1e-4, f64: 1e-4, f16: 2e-2, bf16: 8e-2 }

function differenceOf(types: readonly AtlasType[], wanted: readonly Uint8Array[], got: readonly Uint8Array[]): string | undefined {
  for (const [at, right] of wanted.entries()) {
    const left = got[at] ?? new Uint8Array()
    for (let byte = 0; byte < BYTES; byte += 4) {
      const slot = Math.floor((byte % LANE_BYTES) / 8)
      const type = slot < SLOTS ? (types[slot % types.length] ?? 'u32') : 'f32'
      const name = `buffer ${at + 1}, lane ${Math.floor(byte / LANE_BYTES)}, slot ${slot}`
      const kind = at === 1 ? 'f32' : 'u32'
      const [a, b] = [Number(readValue(kind, right, byte)), Number(readValue(kind, left, byte))]
      const isNear = Object.is(a, b) || (at === 1 && Math.abs(a - b) <= (TOLERANCE[type] ?? 0) * (1 + Math.abs(a)))
      if (!isNear) return `${name} (${at === 1 ? type : 'u32'}): ${b}, not ${a}`
    }
  }
  return undefined
}
