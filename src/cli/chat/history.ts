// The lines typed into earlier chats, newest first, in the state folder of the user. A convenience: where it cannot be read or
// written, there is none, without a word.

import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

export const MOST_LINES = 500
const MOST_BYTES = 1 << 20 // of the file; what is larger was not written by us

export function historyPath(): string {
  const { XDG_STATE_HOME: state = '' } = process.env
  return join(state === '' ? join(homedir(), '.local', 'state') : state, 'ingot', 'chat-history')
}

export async function readHistory(path = historyPath()): Promise<string[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  if (text.length > MOST_BYTES) return []
  return text
    .split('\n')
    .filter((line) => line !== '')
    .slice(0, MOST_LINES)
}

/** Two chats at once may lose each other's lines, never the file. */
export async function writeHistory(lines: readonly string[], path = historyPath()): Promise<void> {
  const kept = lines.filter((line) => line.trim() !== '' && !line.includes('\n')).slice(0, MOST_LINES)
  const temporary = `${path}.${process.pid}.part`
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await writeFile(temporary, kept.map((line) => `${line}\n`).join(''), { mode: 0o600 })
    await rename(temporary, path)
  } catch {
    // no state folder, no history
  }
}
