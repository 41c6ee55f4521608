// Which commands must wait for which: those that touch bytes that another one writes. Knows addresses only.

interface Span {
  readonly from: number
  readonly to: number
}

/** Ranges touched since the last barrier. */
export class Hazards {
  #reads: Span[] = []
  #writes: Span[] = []

  /** Adds what a command touches; true if it must wait for those before it, which are forgotten then. */
  add(reads: readonly Span[], writes: readonly Span[]): boolean {
    const waits =
      writes.some((span) => meets(span, this.#writes) || meets(span, this.#reads)) || reads.some((span) => meets(span, this.#writes))
    if (waits) {
      this.#reads = []
      this.#writes = []
    }
    this.#reads.push(...reads)
    this.#writes.push(...writes)
    return waits
  }
}

function meets({ from, to }: Span, others: readonly Span[]): boolean {
  return others.some((other) => from < other.to && other.from < to)
}
