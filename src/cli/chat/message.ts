// Joins lines typed into a chat to messages: a backslash at the end of a line continues on the next one, """ opens a block that
// ends with """, and lines pasted together belong together. Pure: knows no terminal.

const FENCE = '"""'

export class MessageReader {
  #lines: string[] = []
  #inBlock = false

  /** True in the middle of a message. */
  get isOpen(): boolean {
    return this.#inBlock || this.#lines.length > 0
  }

  /** Takes a line; returns the message if it is complete now. `more` says that further lines are known to belong to it. */
  push(line: string, { more = false } = {}): string | undefined {
    if (this.#inBlock) return this.#pushBlock(line)
    if (!this.isOpen && line.trimStart().startsWith(FENCE)) {
      this.#inBlock = true
      const rest = line.trimStart().slice(FENCE.length)
      return rest === '' ? undefined : this.#pushBlock(rest)
    }
    const continues = line.endsWith('\\')
    this.#lines.push(continues ? line.slice(0, -1) : line)
    return continues || more ? undefined : this.#take()
  }

  /** Drops the message that was begun. */
  reset(): void {
    this.#lines = []
    this.#inBlock = false
  }

  /** What was begun and will not be finished: input has ended. */
  flush(): string | undefined {
    return this.isOpen ? this.#take() : undefined
  }

  #pushBlock(line: string): string | undefined {
    const end = line.trimEnd()
    if (!end.endsWith(FENCE)) {
      this.#lines.push(line)
      return undefined
    }
    const last = end.slice(0, -FENCE.length)
    if (last !== '') this.#lines.push(last)
    return this.#take()
  }

  #take(): string {
    const message = this.#lines.join('\n')
    this.reset()
    return message
  }
}
