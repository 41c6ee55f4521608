// Errors that a program runs into, said alike by the interpreter and by compiled kernels: what, in which lane, at which instruction.

import { IngotError } from '../base/error.ts'
import type { FaultCode } from './machine.ts'
import type { AtlasProgram } from './program.ts'
import { printInstruction } from './text.ts'

/** In words. The place in a list is the number of the fault in a kernel's report. */
export const FAULTS = {
  uninitialised: 'a register or predicate is read before it is written',
  'division-by-zero': 'an integer is divided by zero',
  'out-of-range': 'an access past the end',
  'bad-address': 'an address that is no multiple of the size of what is there',
  'bad-class': 'a class above 95',
  'bad-coordinates': 'a page that the boundary pool does not have',
  'unknown-handle': 'there is no buffer or pool of this handle',
  'stack-overflow': 'too many calls that did not return',
  'stack-underflow': 'a return without a call',
  'double-free': 'a pool is given back twice, or taken while it is in use',
} as const satisfies Record<FaultCode, string>

export interface FaultPlace {
  readonly program: AtlasProgram
  readonly instruction: number
  /** global number of the lane */
  readonly lane: number
  /** what was asked for: an offset in bytes, a register */
  readonly got?: unknown
  readonly wanted?: unknown
}

export function faultError(code: FaultCode | 'type-mismatch' | 'bad-barrier', what: string, place: FaultPlace): IngotError {
  const { program, instruction, lane, got, wanted } = place
  const line = program.instructions[instruction]
  return new IngotError(
    code,
    `${what} (lane ${lane}, instruction ${instruction}${line === undefined ? '' : `: ${printInstruction(line)}`})`,
    {
      op: 'atlas',
      ...(got === undefined ? {} : { got }),
      ...(wanted === undefined ? {} : { wanted }),
    },
  )
}
