// The one error class of Ingot. An error says which operation failed, what it got, what it wanted and what to do.
// `code` is for programs, the message for people: names and texts from files stand in it, with control characters written out, while
// `facts` has them as they are. Knows nothing of who throws it.

import { printable } from './printable.ts'

/** What went wrong, for programs. */
export type ErrorCode =
  | 'bad-argument' // the caller passed something of the wrong kind, shape or range
  | 'bad-kernel' // a kernel breaks a rule of the kernel language
  | 'bad-file' // a file is truncated, hostile or not what its name says
  | 'unsupported' // correct input that Ingot (or this device) cannot do
  | 'unknown-name' // a name that is not in a registry; the message lists the known ones
  | 'unknown-handle' // a buffer handle that was never given out, or belongs to another device
  | 'double-free' // a buffer handle that was freed before
  | 'out-of-range' // an access past the end of a buffer
  | 'too-large' // more than a limit of the device allows
  | 'out-of-memory' // the device could not find the memory
  | 'compile-failed' // a target's compiler refused the source; the message shows the line
  | 'device-lost' // the device is gone; open a new one
  | 'device-failed' // a submission failed; the device is still usable
  | 'device-unavailable' // the device cannot be opened here; the message says why
  | 'wrong-result' // a self-test or comparison found a difference
  | 'closed' // used after close
  | 'cancelled' // stopped by its signal
  // of Atlas programs (src/atlas)
  | 'bad-program' // a program breaks a rule of the instruction set; the message lists every place
  | 'type-mismatch' // a register holds another type than the one it is read as
  | 'uninitialised' // a register or predicate is read before it is written
  | 'division-by-zero' // of integers
  | 'stack-overflow' // more calls than the call stack holds
  | 'stack-underflow' // a return without a call
  | 'bad-address' // an address that is no multiple of what is loaded or stored there
  | 'bad-class' // a class above 95
  | 'bad-coordinates' // a page or byte that the boundary pool does not have
  | 'bad-barrier' // lanes of a block wait at different barriers

/** What an error carries besides its text. */
export interface ErrorFacts {
  /** the operation: `matmul`, `gguf`, `alloc`, a kernel's name */
  readonly op?: string
  readonly got?: unknown
  readonly wanted?: unknown
  /** what the reader can do about it */
  readonly hint?: string
  readonly cause?: unknown
}

/** Every error that Ingot throws on purpose. */
export class IngotError extends Error {
  override readonly name = 'IngotError'
  readonly code: ErrorCode
  readonly facts: ErrorFacts
  readonly #what: string

  constructor(code: ErrorCode, what: string, facts: ErrorFacts = {}) {
    super(printable(sentence(what, facts)), facts.cause === undefined ? undefined : { cause: facts.cause })
    this.code = code
    this.facts = facts
    this.#what = printable(statement(what, facts))
  }

  /** the message without the operation and the hint, for those who show these apart */
  get what(): string {
    return this.#what
  }
}

/** True for errors that Ingot throws on purpose, optionally of one code. */
export function isIngotError(error: unknown, code?: ErrorCode): error is IngotError {
  return error instanceof IngotError && (code === undefined || error.code === code)
}

/** What anything that was thrown says. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/** `matmul: inner sizes differ, got [4,8] x [6,2], wanted equal; transpose the second?` */
function sentence(what: string, facts: ErrorFacts): string {
  const { op, hint } = facts
  return `${op === undefined ? '' : `${op}: `}${statement(what, facts)}${hint === undefined ? '' : `; ${hint}`}`
}

function statement(what: string, { got, wanted }: ErrorFacts): string {
  return `${what}${got === undefined ? '' : `, got ${show(got)}`}${wanted === undefined ? '' : `, wanted ${show(wanted)}`}`
}

function show(value: unknown): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return `[${value.map(show).join(',')}]`
  if (typeof value === 'object' && value !== null)
    return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `${each}n` : each))
  return String(value)
}
