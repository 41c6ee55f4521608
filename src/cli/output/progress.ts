// A progress bar on stderr, on terminals only: one line, redrawn in place, gone when the work is done. Quick work shows none.

import type { Stream } from './style.ts'

export interface Progress extends Disposable {
  update(done: number, total: number): void
  /** Removes the bar. */
  end(): void
}

const QUIET_MS = 200 // work that is done sooner needs no bar
const REDRAW_MS = 80
const BAR_CELLS = 24
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const

export function showProgress(label: string, stream: Stream = process.stderr): Progress {
  const begun = performance.now()
  let drawn = -Infinity
  const end = (): void => {
    if (drawn > 0) stream.write('\r\x1b[K')
    drawn = -Infinity
  }
  return {
    update(done, total) {
      const now = performance.now()
      if (stream.isTTY !== true || now - begun < QUIET_MS || now - drawn < REDRAW_MS) return
      drawn = now
      stream.write(`\r${drawBar(label, done, total, (now - begun) / 1000).slice(0, (stream.columns ?? 80) - 1)}\x1b[K`)
    },
    end,
    [Symbol.dispose]: end,
  }
}

/** `loading ████████▌                 34 %  2 s left` */
export function drawBar(label: string, done: number, total: number, seconds: number): string {
  const part = total > 0 ? Math.min(1, Math.max(0, done / total)) : 0
  const eighths = Math.round(part * BAR_CELLS * 8)
  const bar = '█'.repeat(eighths >> 3) + EIGHTHS[eighths & 7]
  const left = part > 0 && part < 1 ? `  ${Math.ceil((seconds / part) * (1 - part))} s left` : ''
  return `${label} ${bar.padEnd(BAR_CELLS)} ${String(Math.floor(part * 100)).padStart(3)} %${left}`
}
