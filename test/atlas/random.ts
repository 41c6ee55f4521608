// Random programs that run: every register is written before it is read, loops end, lanes keep to their own memory. What they leave behind
// on a device is compared with what the interpreter leaves: integers to the last bit, floats within a tolerance.
import * as fc from 'fast-check'
import { expect } from 'vitest'
import { type ProgramWriter, type Register, computedAt, program } from '../../src/atlas/build.ts'
import type { Executor } from '../../src/atlas/executor.ts'
import type { AtlasProgram } from '../../src/atlas/program.ts'
import { printProgram } from '../../src/atlas/text.ts'
import { ALL_TYPES, type AtlasType, isIntegerType, readValue } from '../../src/atlas/type.ts'
import { runCompiled, runInterpreted } from './compiled.ts'

interface RandomOptions {
  readonly programs: number
  readonly f64: boolean
}

/** A step of a program: what it does with which of the registers that there are. */
type Step =
  | { readonly kind: 'integer'; readonly op: (typeof INTEGER)[number]; readonly a: number; readonly b: number }
  | { readonly kind: 'float'; readonly op: (typeof FLOAT)[number]; readonly a: number; readonly b: number }
  | { readonly kind: 'shift'; readonly op: 'shl' | 'shr'; readonly a: number; readonly by: number }
  | { readonly kind: 'convert'; readonly to: number; readonly a: number }
  | { readonly kind: 'choose'; readonly condition: (typeof CONDITIONS)[number]; readonly a: number; readonly b: number }
  | { readonly kind: 'loop' | 'branch' | 'call' | 'skip'; readonly times: number; readonly a: number; readonly body: readonly Step[] }

const INTEGER = ['add', 'sub', 'mul', 'min', 'max', 'and', 'or', 'xor', 'div', 'abs', 'neg', 'not', 'mad'] as const
const FLOAT = ['add', 'sub', 'mul', 'min', 'max', 'abs', 'neg', 'mad'] as const
const CONDITIONS = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'ltu', 'geu'] as const
const SLOTS = 6
const LANES = 8
/** bytes of a lane in the buffer: a slot for each of the registers that are watched */
const LANE_BYTES = 8 * SLOTS

function steps(): fc.Arbitrary<readonly Step[]> {
  const which = fc.nat(SLOTS - 1)
  const { list } = fc.letrec<{ step: Step; list: readonly Step[] }>((tie) => ({
    step: fc.oneof(
      { maxDepth: 2, depthSize: 'small' },
      fc.record({ kind: fc.constant('integer'), op: fc.constantFrom(...INTEGER), a: which, b: which }),
      fc.record({ kind: fc.constant('float'), op: fc.constantFrom(...FLOAT), a: which, b: which }),
      fc.record({ kind: fc.constant('shift'), op: fc.constantFrom('shl', 'shr'), a: which, by: fc.nat(70) }),
      fc.record({ kind: fc.constant('convert'), to: which, a: which }),
      fc.record({ kind: fc.constant('choose'), condition: fc.constantFrom(...CONDITIONS), a: which, b: which }),
      fc.record({
        kind: fc.constantFrom('loop', 'branch', 'call', 'skip'),
        times: fc.nat(3),
        a: which,
        body: tie('list'),
      }),
    ),
    list: fc.array(tie('step'), { minLength: 1, maxLength: 5 }),
  }))
  return list
}

/** Registers of a type that take turns as results; the first ones are read from memory. */
class Writing {
  readonly #p: ProgramWriter
  readonly #registers: Register[]
  #next = 0
  #labels = 0
  #later: (() => void)[] = []

  constructor(p: ProgramWriter, registers: Register[]) {
    this.#p = p
    this.#registers = registers
  }

  write(list: readonly Step[]): void {
    for (const step of list) this.#step(step)
  }

  /** What calls lead to, behind the end. */
  finish(): void {
    for (let write = this.#later.shift(); write !== undefined; write = this.#later.shift()) write()
  }

  #of(type: AtlasType, at: number): Register {
    const all = this.#registers.filter((register) => register.type === type)
    const found = all[at % all.length]
    if (found === undefined) throw new Error(`no register of ${type}`)
    return found
  }

  #some(at: number, isInteger: boolean): Register {
    const all = this.#registers.filter(({ type }) => isIntegerType(type) === isInteger)
    const found = all[at % all.length]
    if (found === undefined) throw new Error('no register')
    return found
  }

  /** An instruction by name, with arguments that fit: the types are those of the registers. */
  #call(op: string, ...given: readonly unknown[]): Register {
    return Reflect.apply(Reflect.get(this.#p, op) as (...given: readonly unknown[]) => Register, this.#p, given)
  }

  #step(step: Step): void {
    const p = this.#p
    switch (step.kind) {
      case 'integer':
      case 'float': {
        const a = this.#some(step.a, step.kind === 'integer')
        const b = this.#of(a.type, step.b)
        const into = this.#of(a.type, this.#next++)
        if (step.op === 'abs' || step.op === 'neg' || step.op === 'not') this.#call(step.op, a, into)
        else if (step.op === 'mad') this.#call(step.op, a, b, a, into)
        else if (step.op === 'div') {
          // by an odd number: never zero
          const one = this.#call('movImm', a.type, 1)
          this.#call('div', a, this.#call('or', b, one, one), into)
        } else this.#call(step.op, a, b, into)
        return
      }
      case 'shift': {
        const a = this.#some(step.a, true)
        this.#call(step.op, a, p.movImm('u32', step.by), this.#of(a.type, this.#next++))
        return
      }
      case 'convert': {
        // not from floats to integers: what is a little off may be another whole number
        const { type } = this.#registers[step.to % this.#registers.length] ?? { type: 'u32' }
        const a = this.#some(step.a, true)
        this.#call('cvt', type, a, this.#of(type, this.#next++))
        return
      }
      case 'choose': {
        const a = this.#some(step.a, true)
        const b = this.#of(a.type, step.b)
        const condition = this.#call('set', step.condition, a, b, { kind: 'predicate', index: 0 })
        this.#call('sel', condition, a, b, this.#of(a.type, this.#next++))
        return
      }
      default:
        this.#control(step)
    }
  }

  #control({ kind, times, a: at, body }: Extract<Step, { body: unknown }>): void {
    const p = this.#p
    const label = `label${this.#labels++}`
    const a = this.#some(at, true)
    const predicate = { kind: 'predicate', index: 1 } as const
    if (kind === 'loop') {
      const left = p.movImm('u32', times)
      p.label(label)
      this.write(body)
      p.loop(left, label)
    } else if (kind === 'call') {
      p.call(label)
      this.#later.push(() => {
        p.label(label)
        this.write(body)
        p.ret()
      })
    } else {
      this.#call('set', 'lt', a, this.#of(a.type, at + 1), predicate)
      p.bra(predicate, label)
      this.write(body)
      // a branch has another side, which is left by a jump over it
      if (kind === 'branch') {
        p.bra(null, `${label}.end`)
        p.label(label)
        this.write(body.slice(1))
        p.label(`${label}.end`)
      } else p.label(label)
    }
  }
}

/** Loads registers of every type, works on them, and stores them again. */
function programOf(list: readonly Step[], types: readonly AtlasType[]): AtlasProgram {
  return program((p) => {
    const handle = p.movImm('u64', 1)
    const start = p.mul(p.globalLane, p.movImm('u64', LANE_BYTES))
    const registers = Array.from({ length: SLOTS }, (_, slot): Register => {
      const type = types[slot % types.length] ?? 'u32'
      const offset = p.add(start, p.movImm('u64', 8 * slot))
      const held = p.ldg('u32', computedAt(handle, offset))
      // any bits are an integer; floats are made of small ones, so that they stay finite
      if (isIntegerType(type)) return Reflect.apply(p.cvt, p, [type, held])
      const small = p.shr(p.cvt('i32', held), p.movImm('u32', 24))
      return Reflect.apply(p.cvt, p, [type, small])
    })
    const writing = new Writing(p, registers)
    writing.write(list)
    registers.forEach((register, slot) => {
      const offset = p.add(start, p.movImm('u64', 8 * slot))
      // floats as what any device can store
      const value: Register = register.type === 'f64' ? p.cvt('f32', register) : register
      const bits = isIntegerType(value.type) ? p.cvt('u64', value) : value
      if (bits.type === 'u64') {
        p.stg(p.cvt('u32', bits), computedAt(handle, offset))
        const high = p.add(offset, p.movImm('u64', 4))
        p.stg(p.cvt('u32', p.shr(bits as Register<'u64'>, p.movImm('u32', 32))), computedAt(handle, high))
      } else p.stg(p.cvt('f32', value), computedAt(p.movImm('u64', 2), offset))
    })
    p.exit()
    writing.finish()
  })
}

/** How far a float may be off, in parts of its size and of 1: the narrow ones round to few bits, and an error grows from step to step. */
const TOLERANCE: Partial<Record<AtlasType, number>> = { f32: 1e-4, f64: 1e-4, f16: 2e-2, bf16: 8e-2 }

/** Runs random programs on a device and by the interpreter. */
export async function expectSameResults(executor: Executor, { programs, f64 }: RandomOptions): Promise<void> {
  const known = ALL_TYPES.filter((type) => f64 || type !== 'f64')
  const some = fc.shuffledSubarray(known, { minLength: 2, maxLength: 4 }).map((each): AtlasType[] => ['u32', 'f32', ...each])
  const bytes = LANES * LANE_BYTES
  const data = fc.array(fc.integer(), { minLength: bytes / 4, maxLength: bytes / 4 })
  await fc.assert(
    fc.asyncProperty(some, steps(), data, fc.nat(3), async (types, list, numbers, chance) => {
      const made = programOf(list, types)
      const buffers = [new Uint8Array(Int32Array.from(numbers).buffer), new Uint8Array(bytes)]
      const launch = { grid: [2], block: [LANES / 2] } as const
      const wanted = runInterpreted(made, buffers, launch)
      const got = await runCompiled(executor, made, buffers, { ...launch, checks: chance === 0 })
      expect({ made: printProgram(made), memory: got[0] }).toEqual({ made: printProgram(made), memory: wanted[0] })
      for (let slot = 0; slot < bytes / 8; slot++) {
        const type = types[(slot % SLOTS) % types.length] ?? 'u32'
        const [a, b] = [wanted[1], got[1]].map((memory) => Number(readValue('f32', memory ?? new Uint8Array(bytes), 8 * slot)))
        if (a === undefined || b === undefined || Object.is(a, b)) continue
        if (!(Math.abs(a - b) <= (TOLERANCE[type] ?? 0) * (1 + Math.abs(a)))) {
          throw new Error(`${type}: ${b}, not ${a}\n${printProgram(made)}`)
        }
      }
    }),
    { numRuns: programs, endOnFailure: true, seed: Number(process.env.INGOT_RANDOM_SEED ?? 13) },
  )
}
