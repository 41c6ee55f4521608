// What runs jobs, one after the other: worker threads (pool.ts), or this thread in slices (inline.ts).

/** A job as threads are given it: tasks in memory (layout.ts). While it runs, nobody else may run the same tasks. */
export interface PostedJob {
  /** where they begin */
  readonly tasks: number
  readonly count: number
  /** memory for the threads' own use, and how much of it each has */
  readonly scratch: number
  readonly scratchStride: number
}

export interface Executor {
  /** Jobs that were given and are not done. */
  readonly pending: number
  /** Resolves when the job is done; jobs are done in the order they are given. Rejects with `device-failed`. */
  run(job: PostedJob): Promise<void>
  /** Stops at once; what is pending is rejected. */
  close(): Promise<void>
}
