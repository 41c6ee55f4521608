// A place in a text that is being read, and what can be read there. Errors have line, column and a caret. Knows nothing of instructions.

import { IngotError } from '../base/error.ts'

export class Cursor {
  readonly #lines: readonly string[]
  #line = 0
  #column = 0

  constructor(text: string) {
    this.#lines = text.split(/\r\n|\r|\n/)
  }

  /** Goes to the next line that has more than a comment; false at the end. */
  nextLine(): boolean {
    for (; this.#line < this.#lines.length; this.#line++, this.#column = 0) {
      if (!this.isLineEnd()) return true
    }
    return false
  }

  /** Refuses what is left of the line, and goes past it. */
  endLine(): void {
    if (!this.isLineEnd()) throw this.mark()('the line goes on', this.#rest())
    this.#line++
    this.#column = 0
  }

  isLineEnd(): boolean {
    return /^([;#]|\/\/|$)/.test(this.#rest())
  }

  /** True if the text goes on so. */
  peek(text: string): boolean {
    return this.#rest().startsWith(text)
  }

  /** The same, and goes past it. */
  accept(text: string): boolean {
    if (!this.peek(text)) return false
    this.#column += text.length
    return true
  }

  expect(text: string): void {
    if (!this.accept(text)) throw this.mark()('something else was expected', this.#rest(), text)
  }

  /** A name. */
  word(what: string): string {
    return this.#match(/^[A-Za-z_][A-Za-z0-9_]*/, what)
  }

  /** A name that ends in a colon, if there is one. */
  definition(): string | undefined {
    const found = /^([A-Za-z_][A-Za-z0-9_.]*)[ \t]*:/.exec(this.#rest())
    if (found === null) return undefined
    this.#column += found[0].length
    return found[1]
  }

  label(): string {
    this.expect('@')
    return this.#match(/^[A-Za-z_][A-Za-z0-9_.]*/, 'a label')
  }

  oneOf<const T extends string>(names: readonly T[], what: string): T {
    const complain = this.mark()
    const word = this.word(`a ${what}`).toLowerCase()
    const name = names.find((each) => each === word)
    if (name === undefined) throw complain(`unknown ${what}`, word, names.join(', '))
    return name
  }

  /** `r12` -> 12 */
  numbered(letter: string, most: number, what: string): number {
    const complain = this.mark()
    const text = this.#match(new RegExp(`^${letter}[0-9]+(?![A-Za-z0-9_])`), `a ${what}`)
    const number = Number(text.slice(letter.length))
    if (number > most) throw complain(`no such ${what}`, text, `${letter}0 to ${letter}${most}`)
    return number
  }

  isHexadecimal(): boolean {
    return /^0x/i.test(this.#rest())
  }

  integer(low: bigint, high: bigint): bigint {
    const complain = this.mark()
    const text = this.#match(/^(0[xX][0-9a-fA-F]+|-?[0-9]+)(?![A-Za-z0-9_.])/, 'a whole number')
    const value = BigInt(text)
    if (value < low || value > high) throw complain('a number out of range', text, `${low} to ${high}`)
    return value
  }

  float(): number {
    return Number(this.#match(/^(-?Infinity|NaN|-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?)(?![A-Za-z0-9_.])/, 'a number'))
  }

  #error(what: string, got: string | undefined, wanted: string | undefined, at: number, column: number): IngotError {
    const line = this.#lines[at] ?? ''
    const caret = `${line.slice(0, column).replaceAll(/[^\t]/g, ' ')}^`
    return new IngotError('bad-program', what, {
      op: `atlas:${at + 1}:${column + 1}`,
      ...(got === undefined ? {} : { got: got === '' ? 'the end of the line' : got.trim() }),
      ...(wanted === undefined ? {} : { wanted }),
      hint: `\n${line}\n${caret}`,
    })
  }

  /** Makes errors about this place, also when the cursor is further on. */
  mark(): (what: string, got?: string, wanted?: string) => IngotError {
    const [line, column] = [this.#line, this.#start()]
    return (what, got, wanted) => this.#error(what, got, wanted, line, column)
  }

  #match(pattern: RegExp, what: string): string {
    const found = pattern.exec(this.#rest())
    if (found === null) throw this.mark()(`${what} was expected`, this.#rest())
    this.#column += found[0].length
    return found[0]
  }

  /** What is left of the line, without leading blanks. */
  #rest(): string {
    const column = this.#start()
    return (this.#lines[this.#line] ?? '').slice(column)
  }

  /** The column of what comes next. */
  #start(): number {
    const line = this.#lines[this.#line] ?? ''
    while (line[this.#column] === ' ' || line[this.#column] === '\t') this.#column++
    return this.#column
  }
}
