// The structures of native/cpu/runtime.h as offsets in bytes, for the side that writes them. Addresses are 64 bits.

/** `ingot_task` */
export const TASK_BYTES = 128
export const TASK = { kind: 0, barrier: 4, total: 8, chunk: 16, what: 24, where: 32, uniforms: 40, grid: 48, next: 64 } as const
/** `ingot_job`, with room to the next cache line */
export const JOB_BYTES = 64
export const JOB = { tasks: 0, count: 8, cancel: 12, scratch: 16 } as const
/** How a run ends; anything else is a failure. */
export const STATUS = { ok: 0, cancelled: 1, noMemory: 2 } as const

const HALF = 2 ** 32

/** Below it a place is an offset in the heap, from it on an address of the process: nothing of a process lies so low. */
export const FIRST_ADDRESS = HALF

/** Writes 64 bits; numbers are exact to 2^53, addresses stay below. */
export function setWide(words: Int32Array, byte: number, value: number): void {
  words[byte >>> 2] = value >>> 0
  words[(byte >>> 2) + 1] = Math.floor(value / HALF)
}
