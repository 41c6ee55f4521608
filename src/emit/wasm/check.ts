// A running check of the value stack while a function is emitted: the validation algorithm of the WebAssembly
// specification for value types, so that a wrong kernel fails where it is written and not inside the engine.
// Knows nothing of instructions: it is told what they pop and push. Invariant: the stack never drops below the
// height at which the innermost block began, except in dead code, where any operand is taken as given.

import { IngotError } from '../../base/error.ts'
import type { ValType } from './opcode.ts'

interface Frame {
  readonly height: number
  readonly results: readonly ValType[]
  /** true after br, return or unreachable: the rest of the block cannot run */
  dead: boolean
}

export class StackCheck {
  readonly #name: string
  readonly #stack: (ValType | 'any')[] = []
  readonly #frames: Frame[] = []
  #frame: Frame

  constructor(name: string, results: readonly ValType[]) {
    this.#name = name
    this.#frame = { height: 0, results, dead: false }
  }

  push(types: readonly ValType[]): void {
    for (const type of types) this.#stack.push(type)
  }

  /** Takes operands of these types, the last from the top. */
  pop(types: readonly ValType[], at: string): void {
    const stack = this.#stack
    const { height, dead } = this.#frame
    const base = stack.length - types.length
    for (let i = types.length - 1; i >= 0; i--) {
      const found = base + i < height ? (dead ? 'any' : undefined) : stack[base + i]
      if (found !== types[i] && found !== 'any') this.#fail(at, 'operands do not match', types)
    }
    stack.length = Math.max(height, base)
  }

  /** Takes one operand of whatever type, for drop. */
  popOne(at: string): ValType | 'any' {
    if (this.#stack.length > this.#frame.height) return this.#stack.pop() ?? 'any'
    if (!this.#frame.dead) this.#fail(at, 'no operand', ['a value'])
    return 'any'
  }

  /** Takes a condition and two operands of one type, gives one of them. */
  select(): void {
    this.pop(['i32'], 'select')
    const second = this.popOne('select')
    const first = this.popOne('select')
    if (first !== second && first !== 'any' && second !== 'any') {
      throw this.#error('select', 'operands differ', `${first} ${second}`, 'two of one type')
    }
    this.#stack.push(first === 'any' ? second : first)
  }

  enter(results: readonly ValType[]): void {
    this.#frames.push(this.#frame)
    this.#frame = { height: this.#stack.length, results, dead: false }
  }

  /** Ends the innermost block: exactly its results must be there; they pass to the block around it. */
  leave(at: string): void {
    const { results, height } = this.#frame
    this.end(at)
    this.#stack.length = height
    const outer = this.#frames.pop()
    if (outer === undefined) throw this.#error(at, 'no block is open', 'nothing', 'a block')
    this.#frame = outer
    this.push(results)
  }

  /** Ends the first arm of an if and begins the second. */
  turn(at: string): void {
    const { results } = this.#frame
    this.leave(at)
    this.#stack.length -= results.length
    this.enter(results)
  }

  /** Exactly the results of the innermost block must be on its stack. */
  end(at: string): void {
    const { results, height } = this.#frame
    this.pop(results, at)
    if (this.#stack.length !== height) {
      this.push(results)
      this.#fail(at, 'values are left over', results)
    }
  }

  /** What follows in this block cannot run. */
  die(): void {
    this.#stack.length = this.#frame.height
    this.#frame.dead = true
  }

  #fail(at: string, what: string, wanted: readonly string[]): never {
    const here = this.#stack.slice(this.#frame.height)
    throw this.#error(at, what, here.join(' ') || 'an empty stack', wanted.join(' ') || 'an empty stack')
  }

  #error(at: string, what: string, got: string, wanted: string): IngotError {
    return new IngotError('bad-kernel', `${at}: ${what}`, { op: this.#name, got, wanted })
  }
}
