// What is known about registers at every place: the type of what each holds and where it was written, its value where that is a constant
// (the handles of buffers must be), and whether it may not have been written yet. Found by going round the graph until nothing changes.

import { recordOf } from '../instruction/index.ts'
import { type Address, type OperandSpec, PRESET, typeOf } from '../operand.ts'
import { laneHandle } from '../pool.ts'
import { type AtlasProgram, operandsOf } from '../program.ts'
import type { AtlasType } from '../type.ts'
import { type Block, successorsOf } from './graph.ts'

/** What a register holds. */
export interface Fact {
  readonly type: AtlasType
  /** number of the instruction that wrote it; -1 if it is preset */
  readonly writer: number
  readonly constant?: bigint
  /** true: on some way here nothing was written */
  readonly maybe?: boolean
  /** on some way here, another type was written there */
  readonly clash?: { readonly type: AtlasType; readonly writer: number }
}

/** By register: `r3`; predicates (`p3`) are there for whether they were written. */
export type Facts = Map<string, Fact>

export interface Access {
  readonly key: string
  readonly type: AtlasType
}

/** The registers and predicates that an instruction reads and writes. Predicates count as u8. */
export function accessesOf(program: AtlasProgram, at: number): { readonly reads: readonly Access[]; readonly writes: readonly Access[] } {
  const instruction = program.instructions[at]
  if (instruction === undefined) return { reads: [], writes: [] }
  const known = operandsOf(instruction)
  const reads: Access[] = []
  const writes: Access[] = []
  for (const spec of recordOf(instruction.op).operands) {
    const value = known[spec.name]
    if (spec.kind === 'address') reads.push(...registersOf(value as Address).map((index) => ({ key: `r${index}`, type: 'u64' }) as const))
    else if (spec.kind === 'registers') {
      for (let i = 0; i < Number(known['count']); i++) reads.push({ key: `r${Number(value) + i}`, type: typeOf(spec.type, known) })
    } else if (spec.kind === 'register' || (spec.kind === 'predicate' && value !== null)) {
      const access = accessOf(spec, Number(value), spec.kind === 'register' ? typeOf(spec.type, known) : 'u8')
      if (spec.role !== 'out') reads.push(access)
      if (spec.role !== 'in') writes.push(access)
    }
  }
  return { reads, writes }
}

function accessOf(spec: OperandSpec, index: number, type: AtlasType): Access {
  return { key: `${spec.kind === 'predicate' ? 'p' : 'r'}${index}`, type }
}

function registersOf(address: Address): number[] {
  if (address.kind === 'indirect') return [address.base]
  return address.kind === 'computed' ? [address.handle, address.offset] : []
}

/** What holds after an instruction; changes `facts`. */
export function step(program: AtlasProgram, at: number, facts: Facts): void {
  const instruction = program.instructions[at]
  for (const { key, type } of accessesOf(program, at).writes) {
    const source = instruction?.op === 'mov' ? facts.get(`r${instruction.src}`) : undefined
    const constant = instruction?.op === 'movImm' ? instruction.value : instruction?.op === 'poolAlloc' ? laneHandle(at) : source?.constant
    facts.set(key, { type, writer: at, ...(constant === undefined ? {} : { constant }) })
  }
}

/** By block: what is known where it begins. */
export function analyseFlow(program: AtlasProgram, blocks: readonly Block[]): readonly Facts[] {
  const preset: Facts = new Map(Object.values(PRESET).map(({ register, type }) => [`r${register}`, { type, writer: -1 }]))
  const entries: (Facts | undefined)[] = blocks.map((_, id) => (id === 0 ? preset : undefined))
  const waiting = [0]
  for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
    const block = blocks[id]
    if (block === undefined) continue
    const facts: Facts = new Map(entries[id])
    for (const at of block.instructions) step(program, at, facts)
    for (const next of successorsOf(block)) {
      const before = entries[next]
      const after = before === undefined ? new Map(facts) : join(before, facts)
      if (before !== undefined && isSame(before, after)) continue
      entries[next] = after
      waiting.push(next)
    }
  }
  return entries.map((facts) => facts ?? new Map())
}

function join(a: Facts, b: Facts): Facts {
  const keys = new Set([...a.keys(), ...b.keys()])
  return new Map(
    [...keys].flatMap((key): [string, Fact][] => {
      const [x, y] = [a.get(key), b.get(key)]
      const first = x ?? y
      if (first === undefined) return []
      if (x === undefined || y === undefined) return [[key, { ...first, maybe: true }]]
      const clash = x.clash ?? y.clash ?? (x.type === y.type ? undefined : { type: y.type, writer: y.writer })
      const constant = x.constant === y.constant ? x.constant : undefined
      return [
        [
          key,
          {
            type: x.type,
            writer: x.writer,
            ...(constant === undefined ? {} : { constant }),
            ...(x.maybe === true || y.maybe === true ? { maybe: true } : {}),
            ...(clash === undefined ? {} : { clash }),
          },
        ],
      ]
    }),
  )
}

function isSame(a: Facts, b: Facts): boolean {
  return (
    a.size === b.size &&
    [...a].every(([key, x]) => {
      const y = b.get(key)
      return y !== undefined && x.type === y.type && x.constant === y.constant && x.maybe === y.maybe && x.clash?.type === y.clash?.type
    })
  )
}
