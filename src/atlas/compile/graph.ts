// A program as blocks of instructions that run in a row, and edges between them. Calls are written out: a block that is called from two
// places is there twice. Knows what jumps, not what instructions do.

import { IngotError } from '../../base/error.ts'
import { recordOf } from '../instruction/index.ts'
import type { FaultCode } from '../machine.ts'
import { type AtlasProgram, targetOf } from '../program.ts'
import { printInstruction } from '../text.ts'

/** What follows a block. */
export type End =
  | { readonly kind: 'go'; readonly to: number }
  /** by the condition that its last instruction gives */
  | { readonly kind: 'branch'; readonly yes: number; readonly no: number }
  | { readonly kind: 'end'; readonly fault?: { readonly instruction: number; readonly code: FaultCode } }

export interface Block {
  readonly id: number
  /** numbers of instructions, in order */
  readonly instructions: readonly number[]
  readonly end: End
}

const MOST_BLOCKS = 4096

/** The blocks that can be reached; the first is where a lane begins. */
export function buildGraph(program: AtlasProgram): Block[] {
  return new Graph(program).build()
}

export function successorsOf({ end }: Block): number[] {
  if (end.kind === 'end') return []
  return end.kind === 'go' ? [end.to] : [end.yes, end.no]
}

/** A place in the program, and where the open calls return to. */
interface Place {
  readonly at: number
  readonly calls: readonly number[]
}

class Graph {
  readonly #program: AtlasProgram
  readonly #leaders: ReadonlySet<number>
  readonly #ids = new Map<string, number>()
  readonly #waiting: Place[] = []

  constructor(program: AtlasProgram) {
    this.#program = program
    this.#leaders = new Set(Object.values(program.labels))
  }

  build(): Block[] {
    this.#idOf({ at: 0, calls: [] })
    const blocks: Block[] = []
    for (let place = this.#waiting.shift(); place !== undefined; place = this.#waiting.shift()) {
      blocks.push(this.#block(blocks.length, place))
    }
    return blocks
  }

  #idOf(place: Place): number {
    const key = `${place.at}|${place.calls.join(',')}`
    const known = this.#ids.get(key)
    if (known !== undefined) return known
    const id = this.#ids.size
    if (id === MOST_BLOCKS) throw this.#unsupported('calls make the program too long', place.at, 'write them out less often')
    this.#ids.set(key, id)
    this.#waiting.push(place)
    return id
  }

  #block(id: number, { at, calls }: Place): Block {
    const instructions: number[] = []
    const to = (next: number, open = calls): End => ({ kind: 'go', to: this.#idOf({ at: next, calls: open }) })
    for (let next = at; ; next++) {
      const instruction = this.#program.instructions[next]
      if (instruction === undefined) return { id, instructions, end: { kind: 'end' } }
      if (next > at && this.#leaders.has(next)) return { id, instructions, end: to(next) }
      const { jump } = recordOf(instruction.op)
      if (jump !== 'call' && jump !== 'return' && jump !== 'exit') instructions.push(next)
      switch (jump) {
        case undefined:
          continue
        case 'exit':
          return { id, instructions, end: { kind: 'end' } }
        case 'return': {
          const back = calls.at(-1)
          const fault = { instruction: next, code: 'stack-underflow' } as const
          return { id, instructions, end: back === undefined ? { kind: 'end', fault } : to(back, calls.slice(0, -1)) }
        }
        case 'call':
          if (calls.includes(next + 1)) throw this.#unsupported('a call that leads back to itself', next, 'use a loop')
          return { id, instructions, end: to(targetOf(this.#program, instruction), [...calls, next + 1]) }
        case 'branch': {
          const yes = this.#idOf({ at: targetOf(this.#program, instruction), calls })
          if (instruction.op === 'bra' && instruction.pred === null) return { id, instructions, end: { kind: 'go', to: yes } }
          const no = this.#idOf({ at: next + 1, calls })
          return { id, instructions, end: yes === no ? { kind: 'go', to: yes } : { kind: 'branch', yes, no } }
        }
      }
    }
  }

  #unsupported(what: string, at: number, hint: string): IngotError {
    const instruction = this.#program.instructions[at]
    const line = instruction === undefined ? '' : `: ${printInstruction(instruction)}`
    return new IngotError('unsupported', `${what} cannot be compiled`, { op: 'atlas', got: `instruction ${at}${line}`, hint })
  }
}
