// What a stream can show: colours on a terminal, plain text in a pipe. Knows escape codes and NO_COLOR; nothing of commands.

import { printable } from '../../base/printable.ts'

export interface Stream {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): boolean
}

const CODES = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39], yellow: [33, 39], cyan: [36, 39] } as const

export type Style = { readonly [K in keyof typeof CODES]: (text: string) => string }

/** Functions that colour text where the stream is a terminal with colours, and return it unchanged elsewhere. */
export function styleFor(stream: Pick<Stream, 'isTTY'>): Style {
  const { NO_COLOR = '', TERM } = process.env
  const coloured = stream.isTTY === true && NO_COLOR === '' && TERM !== 'dumb'
  const paint =
    ([on, off]: readonly [number, number]) =>
    (text: string): string =>
      coloured ? `\x1b[${on}m${text}\x1b[${off}m` : text
  return Object.fromEntries(Object.entries(CODES).map(([name, codes]) => [name, paint(codes)])) as Style
}

/** What a model wrote, for this stream: as it is in a pipe or a file; a terminal must not obey it. */
export function textFor(stream: Pick<Stream, 'isTTY'>, text: string): string {
  return stream.isTTY === true ? printable(text.replaceAll('\r', '')) : text
}

/** Writes and waits until it is out: for output too large to pile up in memory. A reader that is gone ends the wait, too. */
export function writeOut(stream: NodeJS.WritableStream, bytes: Uint8Array | string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(bytes, (error) => (error == null || isBrokenPipe(error) ? resolve() : reject(error)))
  })
}

/** True when the reader of a pipe went away: `ingot run ... | head -1`. */
export function isBrokenPipe(error: unknown): boolean {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED'
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const

/** `1.6 GB`: three digits are enough for people. */
export function showBytes(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3))
  const value = bytes / 1000 ** power
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`
}
