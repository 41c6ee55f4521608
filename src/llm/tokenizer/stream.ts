// Token bytes to text. A token may end inside a character, so bytes wait until the character is whole; what can no longer
// become one is U+FFFD, as TextDecoder has it. Knows nothing of vocabularies.

/** Turns ids into text, one by one. */
export interface StreamDecoder {
  /** The text that this token completes; often empty. */
  push(id: number): string
  /** What was still incomplete, as U+FFFD. The decoder can be used again. */
  flush(): string
}

export interface DecodeRule {
  /** the bytes of a token; empty for tokens that are not shown */
  readonly bytes: (id: number) => Uint8Array
  /** whether the first shown bytes lose one leading space: the one that encoding put there */
  readonly dropFirstSpace: boolean
}

export function createStreamDecoder({ bytes, dropFirstSpace }: DecodeRule): StreamDecoder {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let first = dropFirstSpace
  return {
    push(id) {
      let piece = bytes(id)
      if (piece.length === 0) return ''
      if (first && piece[0] === 0x20) piece = piece.subarray(1)
      first = false
      return decoder.decode(piece, { stream: true })
    },
    flush() {
      first = dropFirstSpace
      return decoder.decode()
    },
  }
}
