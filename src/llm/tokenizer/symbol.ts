// Numbers for spellings: tokens have their ids, others get the numbers after the last token, in the order in which they come.

import type { Vocabulary } from './vocabulary.ts'

export class Symbols {
  readonly #vocabulary: Vocabulary
  /** spellings that are no token */
  readonly #others: string[] = []
  readonly #numbers = new Map<string, number>()

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary
  }

  /** The number of a spelling: always the same for the same one. */
  of(text: string): number {
    let symbol = this.#vocabulary.ids.get(text) ?? this.#numbers.get(text)
    if (symbol === undefined) {
      symbol = this.#vocabulary.texts.length + this.#others.push(text) - 1
      this.#numbers.set(text, symbol)
    }
    return symbol
  }

  /** The spelling of a number that `of` gave. */
  textOf(symbol: number): string {
    const { texts } = this.#vocabulary
    return texts[symbol] ?? this.#others[symbol - texts.length] ?? ''
  }
}
