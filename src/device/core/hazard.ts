// Which commands must wait for which: those that touch bytes that another one writes. Knows addresses only.

/** Bytes that a command touches: addresses from `from` on and below `to`. */
export interface Span {
  readonly from: number
  readonly to: number
  readonly written: boolean
}

/** Spans touched since the last barrier. */
export class Hazards {
  #reads: Span[] = []
  #writes: Span[] = []

  /** Adds what a command touches; true if it must wait for those before it, which are forgotten then. */
  add(spans: readonly Span[]): boolean {
    const waits = spans.some((span) => meets(span, this.#writes) || (span.written && meets(span, this.#reads)))
    if (waits) {
      this.#reads = []
      this.#writes = []
    }
    for (const span of spans) (span.written ? this.#writes : this.#reads).push(span)
    return waits
  }
}

function meets({ from, to }: Span, others: readonly Span[]): boolean {
  return others.some((other) => from < other.to && other.from < to)
}
