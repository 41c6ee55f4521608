// What can be asked of a contender that runs single operations. It takes its times itself, around work that is finished.

import type { ContenderInfo } from '../contender.ts'
import type { OpWork } from './workload.ts'

/** What a device can do at most, in units per second. */
export interface Limits {
  /** bytes read from memory */
  readonly read: number
  /** f32 operations in registers */
  readonly peak: number
}

export interface OpProtocol {
  readonly open: {
    readonly request: { readonly device?: string; readonly threads?: number }
    readonly reply: { readonly info: ContenderInfo }
  }
  /** Makes the inputs of an operation, after letting go of those before, and runs it once. */
  readonly prepare: {
    readonly request: { readonly work: OpWork }
    readonly reply: {
      /** how the contender can run it; none: it cannot */
      readonly ways: readonly string[]
      /** some elements of the result, the same for all contenders */
      readonly values: readonly number[]
    }
  }
  /** Runs it so often, one after the other, each finished before the next. */
  readonly sample: {
    readonly request: { readonly way: string; readonly repeats: number }
    readonly reply: { readonly ms: number }
  }
  /** What the work ran as, once there was some: kernels and libraries that nobody knew of when the device was opened. */
  readonly ran: { readonly request: object; readonly reply: { readonly detail: string } }
  /** Of Ingot only. */
  readonly limits: { readonly request: object; readonly reply: Limits }
}

/** The name of the way that plans ahead; all others are eager. */
export const COMPILED = 'compiled'
/** Elements of a result that contenders show, evenly spaced. */
export const SHOWN_VALUES = 16
