// Writing a program in TypeScript: `program((p) => ...)` runs the function once, and every call adds an instruction. There is a method for
// every instruction, with the types of its record: inputs are arguments, the output is a new register, which knows its type; the type of
// the instruction follows from its inputs, or is the first argument where there are none.

import { IngotError } from '../base/error.ts'
import { INSTRUCTIONS, INSTRUCTION_NAMES, type Instruction, type InstructionName, instructionOf, recordOf } from './instruction/index.ts'
import {
  type Address,
  type Condition,
  type OperandSpec,
  type OperandValue,
  PREDICATES,
  PRESET,
  type Scope,
  type TypeOf,
} from './operand.ts'
import { type AtlasProgram, checkProgram } from './program.ts'
import { type AtlasType, fit, isIntegerType, toBits } from './type.ts'

/** A register, and the type of what it holds. */
export interface Register<T extends AtlasType = AtlasType> {
  readonly kind: 'register'
  readonly index: number
  readonly type: T
}

/** A predicate. */
export interface Predicate {
  readonly kind: 'predicate'
  readonly index: number
}

/** The type that a spec names, where `ty` is T. */
type Named<N extends TypeOf, T extends AtlasType> = N extends AtlasType ? N : T

/** What a caller gives for an operand: nothing for outputs, and no type where an input has it. */
type Argument<S extends OperandSpec, T extends AtlasType> = S extends { readonly kind: 'register'; readonly role: 'out' }
  ? []
  : S extends { readonly kind: 'register' | 'registers'; readonly type: infer N extends TypeOf }
    ? [N extends 'srcTy' ? Register : Register<Named<N, T>>]
    : S extends { readonly kind: 'predicate'; readonly role: 'out' }
      ? []
      : S extends { readonly kind: 'predicate'; readonly optional: true }
        ? [Predicate | null]
        : S extends { readonly kind: 'predicate' }
          ? [Predicate]
          : S extends { readonly kind: 'address' }
            ? [Address]
            : S extends { readonly kind: 'label' }
              ? [string]
              : S extends { readonly kind: 'condition' }
                ? [Condition]
                : S extends { readonly kind: 'scope' }
                  ? [Scope]
                  : S extends { readonly kind: 'long' | 'bits' }
                    ? [number | bigint]
                    : S extends { readonly kind: 'number' | 'float' }
                      ? [number]
                      : []

type HasInput<O extends readonly OperandSpec[]> =
  Extract<O[number], { readonly kind: 'register' | 'registers'; readonly role?: 'in' | 'both'; readonly type: 'ty' }> extends never
    ? false
    : true
/** A type is an argument where no input has it. */
type TypeArgument<S extends OperandSpec, O extends readonly OperandSpec[], T extends AtlasType> = S extends {
  readonly kind: 'type'
  readonly name: infer N
}
  ? N extends 'srcTy'
    ? []
    : N extends 'ty'
      ? HasInput<O> extends true
        ? []
        : [T]
      : [T]
  : Argument<S, T>

type Arguments<O extends readonly OperandSpec[], Left extends readonly OperandSpec[], T extends AtlasType> = Left extends readonly [
  infer S extends OperandSpec,
  ...infer Rest extends readonly OperandSpec[],
]
  ? [...TypeArgument<S, O, T>, ...Arguments<O, Rest, T>]
  : []

type Output<O extends readonly OperandSpec[], T extends AtlasType> =
  Extract<O[number], { readonly role: 'out' }> extends infer S
    ? [S] extends [never]
      ? void
      : S extends { readonly kind: 'register'; readonly type: infer N extends TypeOf }
        ? Register<Named<N, T>>
        : Predicate
    : never
type Into<O extends readonly OperandSpec[], T extends AtlasType> = Output<O, T> extends void ? [] : [into?: Output<O, T>]

/** The types of an instruction that has any. */
type TypesOf<O extends readonly OperandSpec[]> =
  Extract<O[number], { readonly kind: 'type'; readonly name: 'ty' | 'dstTy' }> extends infer S
    ? [S] extends [{ readonly types: readonly (infer T extends AtlasType)[] }]
      ? [S] extends [never]
        ? 'u8' // any: it has none
        : T
      : never
    : never
/** One overload for every type. */
type Overloads<F> = (F extends unknown ? (function_: F) => void : never) extends (function_: infer All) => void ? All : never
type Method<O extends readonly OperandSpec[], T = TypesOf<O>> = Overloads<
  T extends AtlasType ? (...given: [...Arguments<O, O, T>, ...Into<O, T>]) => Output<O, T> : never
>
type Methods = { readonly [N in InstructionName]: Method<(typeof INSTRUCTIONS)[N]['operands']> }

/** What a program is written with. */
export interface ProgramWriter extends Methods {
  /** Names this place. */
  label(name: string): void
  /** A register that nothing else uses, for a value that changes: give it as last argument to what sets it. */
  register<T extends AtlasType>(type: T): Register<T>
  newPredicate(): Predicate
  readonly laneX: Register<'u32'>
  readonly blockX: Register<'u32'>
  readonly blockDimX: Register<'u32'>
  readonly globalLane: Register<'u64'>
}

/** So many bytes into a buffer. */
export function bufferAt(handle: number | bigint, offset: number | bigint = 0): Address {
  return { kind: 'buffer', handle: BigInt(handle), offset: BigInt(offset) }
}

/** A place of the boundary pool. */
export function boundaryAt(index: number, page: number, byte: number): Address {
  return { kind: 'phi', class: index, page, byte }
}

/** The buffer whose handle is in a register (in shared memory: the offset), and bytes added to it. */
export function indirectAt(base: Register<'u64'>, offset = 0): Address {
  return { kind: 'indirect', base: base.index, offset }
}

/** Handle and offset in registers. */
export function computedAt(handle: Register<'u64'>, offset: Register<'u64'>): Address {
  return { kind: 'computed', handle: handle.index, offset: offset.index }
}

/** Writes a program by running `write` once, and validates it. */
export function program(write: (p: ProgramWriter) => void): AtlasProgram {
  const draft = new Draft()
  const methods = Object.fromEntries(INSTRUCTION_NAMES.map((name) => [name, (...given: unknown[]) => draft.add(name, given)]))
  const preset = Object.fromEntries(
    Object.entries(PRESET).map(([name, { register, type }]) => [name, { kind: 'register', index: register, type }]),
  )
  // one method for every record, with the arguments that its type says
  write({
    ...methods,
    ...preset,
    label: (name: string) => draft.label(name),
    register: (type: AtlasType) => draft.register(type),
    newPredicate: () => draft.predicate(),
  } as object as ProgramWriter)
  return draft.finish()
}

/** The first of the registers that are preset. */
const FREE_REGISTERS = 252

class Draft {
  readonly #instructions: Instruction[] = []
  readonly #labels = new Map<string, number>()
  #registers = 0
  #predicates = 0

  label(name: string): void {
    if (this.#labels.has(name)) throw new IngotError('bad-program', 'a label is defined twice', { op: 'program', got: name })
    this.#labels.set(name, this.#instructions.length)
  }

  register(type: AtlasType): Register {
    if (this.#registers === FREE_REGISTERS) throw full('registers', FREE_REGISTERS)
    return { kind: 'register', index: this.#registers++, type }
  }

  predicate(): Predicate {
    if (this.#predicates === PREDICATES) throw full('predicates', PREDICATES)
    return { kind: 'predicate', index: this.#predicates++ }
  }

  /** Adds an instruction; gives its output. */
  add(op: InstructionName, given: unknown[]): Register | Predicate | undefined {
    const { operands } = recordOf(op)
    const left = [...given]
    const known: Record<string, OperandValue> = {}
    const hasInput = operands.some((spec) => (spec.kind === 'registers' || isInput(spec)) && 'type' in spec && spec.type === 'ty')
    for (const spec of operands) {
      if (isOutput(spec) || (spec.kind === 'type' && (spec.name === 'srcTy' || (spec.name === 'ty' && hasInput)))) continue
      const value = left.shift()
      if (isRegister(value) && 'type' in spec && (spec.type === 'ty' || spec.type === 'srcTy')) known[spec.type] = value.type
      known[spec.name] = operandOf(spec, value, known)
    }
    const output = operands.find(isOutput)
    const made = output === undefined ? undefined : (asOutput(left.shift()) ?? this.#fresh(output, known))
    if (output !== undefined && made !== undefined) known[output.name] = made.index
    this.#instructions.push(instructionOf(op, known))
    return made
  }

  #fresh(spec: OperandSpec, known: Readonly<Record<string, OperandValue>>): Register | Predicate {
    if (spec.kind !== 'register') return this.predicate()
    const named = spec.type === 'ty' || spec.type === 'dstTy' || spec.type === 'srcTy' ? known[spec.type] : spec.type
    return this.register(named as AtlasType)
  }

  finish(): AtlasProgram {
    const made: AtlasProgram = { instructions: this.#instructions, labels: Object.fromEntries(this.#labels) }
    checkProgram(made, 'program')
    return made
  }
}

function isOutput(spec: OperandSpec): boolean {
  return 'role' in spec && spec.role === 'out'
}

function isInput(spec: OperandSpec): boolean {
  return spec.kind === 'register' && spec.role !== 'out'
}

function isRegister(value: unknown): value is Register {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'register'
}

function asOutput(value: unknown): Register | Predicate | undefined {
  const isPlace = typeof value === 'object' && value !== null && 'index' in value
  return isPlace ? (value as Register | Predicate) : undefined
}

/** An argument as an instruction has it; `validate` sees what is wrong with it. */
function operandOf(spec: OperandSpec, value: unknown, known: Readonly<Record<string, OperandValue>>): OperandValue {
  if (spec.kind === 'bits' && (typeof value === 'number' || typeof value === 'bigint')) {
    const type = known['ty'] as AtlasType
    const isWrong = isIntegerType(type) && typeof value === 'number' && !Number.isInteger(value)
    if (isWrong) throw new IngotError('bad-argument', 'no whole number', { op: 'movImm', got: value, wanted: type })
    return toBits(type, fit(type, value))
  }
  if (spec.kind === 'long' && typeof value === 'number') return BigInt(value)
  if (typeof value === 'object' && value !== null && 'index' in value) return value.index as number
  return value as OperandValue
}

function full(what: string, most: number): IngotError {
  return new IngotError('too-large', `a program has no more ${what}`, {
    op: 'program',
    wanted: `at most ${most}`,
    hint: 'give a register that is free again as last argument',
  })
}
