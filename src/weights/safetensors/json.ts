// Reads JSON front to back, by asking for what should come next. Stricter than JSON.parse: a key that appears twice is refused, and so
// is text that is no Unicode. Keeps nothing but what is asked for, however long the text. Knows nothing of what is read.

import type { IngotError } from '../../base/error.ts'
import { quoted } from '../../base/printable.ts'

/** Makes the error: what is wrong, what stands there, what should. */
export type Complain = (what: string, got: string, wanted: string) => IngotError

/** Objects and lists in each other. */
const MOST_DEPTH = 128
/** A count as JSON writes it, at most 20 digits long. */
const WHOLE = /(?:0|[1-9]\d{0,19})(?![\d.eE])/y
const NUMBER_OR_NAME = /[^\s,\]}]*/y
const NOTHING: ReadonlySet<string> = new Set()
const SURROGATE = /\p{Surrogate}/u

export class JsonCursor {
  readonly #text: string
  readonly #complain: Complain
  #at = 0
  #depth = 0

  constructor(text: string, complain: Complain) {
    this.#text = text
    this.#complain = complain
  }

  /** An object: `visit` is called at every value, and takes it. `seen` knows the keys that were there. */
  object(what: string, seen: { has(key: string): boolean }, visit: (key: string) => void): void {
    this.#expect('{', what, 'an object')
    const ofKey = `a key of ${what}`
    this.#items('}', what, () => {
      const key = this.text(ofKey)
      if (seen.has(key)) throw this.#complain(`${what} has a key twice`, quoted(key), 'every key once')
      this.#expect(':', what, 'a colon after a key')
      visit(key)
    })
  }

  /** A list: `visit` is called at every value, and takes it. */
  list(what: string, visit: () => void): void {
    this.#expect('[', what, 'a list')
    this.#items(']', what, visit)
  }

  text(what: string): string {
    this.#skipSpaces()
    const start = this.#at
    if (this.#text[start] !== '"') throw this.#wrong(what, 'a text')
    let end = start
    do end = this.#text.indexOf('"', end + 1)
    while (end >= 0 && this.#isEscaped(end))
    if (end < 0) throw this.#wrong(what, 'a text that ends')
    let value: unknown
    try {
      value = JSON.parse(this.#text.slice(start, end + 1))
    } catch {
      value = undefined // a control character, or an escape that there is not
    }
    if (typeof value !== 'string' || SURROGATE.test(value)) throw this.#wrong(what, 'a text of Unicode')
    this.#at = end + 1
    return value
  }

  /** A whole number from 0 on that is exact. */
  whole(what: string): number {
    this.#skipSpaces()
    WHOLE.lastIndex = this.#at
    const digits = WHOLE.exec(this.#text)?.[0]
    const value = Number(digits)
    if (digits === undefined || !Number.isSafeInteger(value)) throw this.#wrong(what, 'a whole number from 0 to 2^53 - 1')
    this.#at += digits.length
    return value
  }

  /** Whether the next value is null, which is taken then. */
  takesNull(): boolean {
    this.#skipSpaces()
    const found = this.#text.startsWith('null', this.#at)
    if (found) this.#at += 4
    return found
  }

  /** Passes by a value, whatever it is. What nobody reads may have keys twice. */
  skip(what: string): void {
    this.#skipSpaces()
    const next = this.#text[this.#at]
    if (next === '{') return this.object(what, NOTHING, () => this.skip(what))
    if (next === '[') return this.list(what, () => this.skip(what))
    if (next === '"') return void this.text(what)
    NUMBER_OR_NAME.lastIndex = this.#at
    const word = NUMBER_OR_NAME.exec(this.#text)?.[0] ?? ''
    try {
      JSON.parse(word)
    } catch {
      throw this.#wrong(what, 'a value')
    }
    this.#at += word.length
  }

  /** Nothing but spaces may follow. */
  end(what: string): void {
    this.#skipSpaces()
    if (this.#at < this.#text.length) throw this.#wrong(`what follows ${what}`, 'spaces only')
  }

  #items(close: string, what: string, visit: () => void): void {
    if (++this.#depth > MOST_DEPTH) throw this.#complain(`${what} is nested too deep`, `${this.#depth} levels`, `at most ${MOST_DEPTH}`)
    if (!this.#takes(close)) {
      do visit()
      while (this.#takes(','))
      this.#expect(close, what, `a comma or ${close}`)
    }
    this.#depth--
  }

  #takes(char: string): boolean {
    this.#skipSpaces()
    if (this.#text[this.#at] !== char) return false
    this.#at++
    return true
  }

  #expect(char: string, what: string, wanted: string): void {
    if (!this.#takes(char)) throw this.#wrong(what, wanted)
  }

  #skipSpaces(): void {
    for (; ; this.#at++) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
    }
  }

  /** Whether an odd number of backslashes stands before. */
  #isEscaped(at: number): boolean {
    let count = 0
    while (this.#text[at - 1 - count] === '\\') count++
    return count % 2 === 1
  }

  #wrong(what: string, wanted: string): IngotError {
    const rest = this.#text.slice(this.#at, this.#at + 20)
    return this.#complain(`${what} is wrong at character ${this.#at} of the header`, rest === '' ? 'the end' : quoted(rest), wanted)
  }
}
