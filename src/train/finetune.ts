// A training run as users hold it: awaited whole, or iterated event by event. The work starts when somebody first asks for it; leaving the
// loop stops it after the update under way.

import type { Estimate, FinetuneResult, TrainEvent } from './event.ts'
import { type FinetuneOptions, checkFinetune, resolveSettings } from './options.ts'
import { openRun, runTraining } from './run.ts'

/**
 * Trains a model on data: adapters (LoRA) over the frozen weights of a file in any format, or all weights. Throws `bad-argument` at once
 * for options that make no sense. Awaiting the run rejects with an IngotError where something fails: `bad-file` for a model or data that
 * cannot be used, a `LossError` where the loss is no number any more.
 */
export function finetune(options: FinetuneOptions): Finetune {
  checkFinetune(options)
  if (options.resume === undefined) resolveSettings(options, 1) // at once; with a checkpoint, its settings count, too
  return new Finetune(options)
}

/**
 * What a run with these options would take: reads the data, loads the model and measures one update. Nothing is written. Rejects as the run
 * would.
 */
export async function estimateFinetune(options: FinetuneOptions): Promise<Estimate> {
  checkFinetune(options)
  const run = await openRun(options, options.signal ?? new AbortController().signal, () => {})
  try {
    return await run.estimate()
  } finally {
    await run.close()
  }
}

/**
 * A training run, from `finetune`. Awaiting it gives the result; iterating it gives events, for one loop. Both may be done, and neither
 * starts the work twice. Nothing happens before one of them is asked for.
 */
export class Finetune implements AsyncIterable<TrainEvent>, PromiseLike<FinetuneResult> {
  readonly #options: FinetuneOptions
  readonly #stop = new AbortController()
  /** that nobody has read yet */
  readonly #events: TrainEvent[] = []
  #wake: (() => void) | undefined
  #result: Promise<FinetuneResult> | undefined
  #isOver = false

  /** Use `finetune`. */
  constructor(options: FinetuneOptions) {
    this.#options = options
  }

  /** Starts the work unless it is under way; settles when the run is over. */
  // oxlint-disable-next-line unicorn/no-thenable -- awaiting it is the point
  then<A = FinetuneResult, B = never>(
    resolved?: ((value: FinetuneResult) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#start().then(resolved, rejected)
  }

  /** Events as they happen. Leaving the loop stops the run. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TrainEvent, void, void> {
    const result = this.#start()
    result.catch(() => this.#wake?.())
    try {
      for (;;) {
        const events = this.#events.splice(0)
        yield* events
        if (events.length > 0) continue
        if (this.#isOver) break
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
      await result
    } finally {
      this.stop()
      await result.catch(() => {})
    }
  }

  /** Stops after the update under way and writes the checkpoint, if the run has one; the result has the reason `stopped`. */
  stop(): void {
    this.#stop.abort()
  }

  #start(): Promise<FinetuneResult> {
    this.#result ??= runTraining(this.#options, {
      stop: this.#stop.signal,
      emit: (event) => {
        this.#events.push(event)
        this.#wake?.()
      },
    }).finally(() => {
      this.#isOver = true
      this.#wake?.()
    })
    return this.#result
  }
}
