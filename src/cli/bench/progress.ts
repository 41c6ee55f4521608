// Progress of a bench on stderr, on terminals only.

import { type Progress, showProgress } from '../output/progress.ts'

export interface BenchProgress extends Disposable {
  update(this: void, what: string, done: number, total: number): void
  /** Removes the bar until there is news. */
  pause(this: void): void
}

const REDRAW_MS = 500 // seldom: drawing takes time from what is measured

/** One bar after the other, one for each thing that is measured; drawn again while a single sample takes long. */
export function createProgress(): BenchProgress {
  let current: { readonly what: string; readonly bar: Progress; done: number; total: number } | undefined
  const draw = (): void => current?.bar.update(current.done, current.total)
  const timer = process.stderr.isTTY ? setInterval(draw, REDRAW_MS).unref() : undefined
  const update = (what: string, done: number, total: number): void => {
    if (current?.what !== what) {
      current?.bar.end()
      current = { what, bar: showProgress(what), done, total }
    }
    Object.assign(current, { done, total })
    draw()
  }
  const pause = (): void => {
    current?.bar.end()
    current = undefined
  }
  return {
    update,
    pause,
    [Symbol.dispose]() {
      clearInterval(timer)
      pause()
    },
  }
}
