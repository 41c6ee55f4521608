// What the main thread and the worker threads tell each other through shared memory, as addresses and offsets in bytes.
// Everything is 32-bit words. Words that threads wait on lie 64 bytes apart, so that they share no cache line.

/** Words of the control block. */
export const CONTROL = {
  /** jobs posted so far; threads sleep on it */
  posted: 1024,
  /** jobs done so far; the main thread waits for it */
  done: 1088,
  /** threads that have come to the barrier, and how often it has opened */
  arrived: 1152,
  opened: 1216,
  /** 1: a message is posted for each finished job, for engines without Atomics.waitAsync */
  notify: 1280,
  /** how often a thread looks at the barrier before it sleeps, beyond the least */
  patience: 1344,
  /** how often a thread has gone past a job of the main thread's own */
  passed: 1408,
} as const

/** Jobs lie in a ring: job n in slot n modulo `slots`. */
export const RING = { at: 2048, slots: 64, bytes: 512 } as const
/** Fields of a job. */
export const JOB = {
  tasks: 0,
  count: 4,
  scratch: 8,
  scratchStride: 12,
  failed: 16,
  textBytes: 20,
  /** not 0: the main thread does it itself, and threads that come while it is open may take parts */
  own: 24,
  /** threads that may be at work on a job of the main thread's own */
  active: 28,
  text: 64,
} as const
/** States of a job that the main thread does itself. */
export const OWN = { open: 1, closed: 2 } as const
export const MOST_TEXT = RING.bytes - JOB.text

/** A job is a list of tasks: work that threads take in chunks. */
export const TASK_BYTES = 64
export const TASK = {
  kind: 0,
  /** 1: wait until all tasks before are done */
  barrier: 4,
  /** how often threads have taken a part; must be 0 when the job is posted */
  next: 8,
  /** workgroups or bytes; what a thread takes at its first turn, and at every other */
  total: 12,
  chunk: 16,
  run: 36,
  /** dispatch: number of the program; copy: address to read; fill: the byte */
  what: 20,
  /** dispatch: address of the arguments; copy and fill: address to write */
  where: 24,
  /** dispatch: the program's module, for threads that meet it first */
  code: 28,
  codeBytes: 32,
} as const

export function slotOf(job: number): number {
  return RING.at + (job % RING.slots) * RING.bytes
}
