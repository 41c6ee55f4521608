// What runs jobs, one after the other: worker threads (pool.ts), or this thread in slices (inline.ts).

/** A list of entries in memory (layout.ts). While it runs, nobody else may run the same entries. */
export interface Job {
  readonly entries: number
  readonly count: number
  /** memory for the threads' own use, and how much of it each has */
  readonly scratch: number
  readonly scratchStride: number
}

export interface Executor {
  /** Jobs that were given and are not done. */
  readonly pending: number
  /** Resolves when the job is done; jobs are done in the order they are given. Rejects with `device-failed`. */
  run(job: Job): Promise<void>
  /** Stops at once; what is pending is rejected. */
  close(): Promise<void>
}
