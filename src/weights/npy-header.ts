// The header of a NumPy file: a literal of a Python dictionary, `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`. Parses just
// that and evaluates nothing. Knows nothing of what the types mean. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

import { IngotError } from '../base/error.ts'
import { quoted } from '../base/printable.ts'

export interface NpyHeader {
  /** the type of the elements and the order of their bytes, as NumPy writes it: `<f4` */
  readonly descr: string
  /** the first axis is the contiguous one */
  readonly fortranOrder: boolean
  readonly shape: readonly number[]
}

/** NumPy has no more axes. */
export const MOST_AXES = 64
const TOKEN = /[ \t\n\r\f]*([{}(),:[]|'[^'\\\n]*'|"[^"\\\n]*"|True|False|0|[1-9]\d{0,15}(?!\d))/y
const SPACES = /[ \t\n\r\f]*$/y

/** Gives the header of this text; `file` is for messages. */
export function parseNpyHeader(text: string, file: string): NpyHeader {
  const cursor = new LiteralCursor(text, file)
  const found: { descr?: string; fortran_order?: boolean; shape?: readonly number[] } = {}
  cursor.expect('{')
  while (!cursor.takes('}')) {
    const key = cursor.text('a key')
    if (key !== 'descr' && key !== 'fortran_order' && key !== 'shape') throw cursor.bad('an unknown key', quoted(key))
    if (found[key] !== undefined) throw cursor.bad('a key appears twice', key)
    cursor.expect(':')
    if (key === 'descr') found.descr = readDescr(cursor)
    else if (key === 'shape') found.shape = readShape(cursor)
    else found.fortran_order = cursor.bool()
    if (cursor.takes(',')) continue
    cursor.expect('}')
    break
  }
  cursor.end()
  const { descr, fortran_order: fortranOrder, shape } = found
  if (descr === undefined || fortranOrder === undefined || shape === undefined)
    throw cursor.bad('a key is missing', Object.keys(found), 'descr, fortran_order and shape')
  return { descr, fortranOrder, shape }
}

/** The same as a text. */
export function formatNpyHeader({ descr, fortranOrder, shape }: NpyHeader): string {
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(', ')
  return `{'descr': '${descr}', 'fortran_order': ${fortranOrder ? 'True' : 'False'}, 'shape': (${sizes}), }`
}

function readDescr(cursor: LiteralCursor): string {
  if (cursor.takes('[')) throw cursor.bad('records of several fields cannot be read', undefined, 'elements of one type', 'unsupported')
  return cursor.text('descr')
}

/** `()`, `(3,)`, `(3, 4)`; `(3)` is no tuple. */
function readShape(cursor: LiteralCursor): readonly number[] {
  const shape: number[] = []
  cursor.expect('(')
  while (!cursor.takes(')')) {
    if (shape.length === MOST_AXES) throw cursor.bad('too many axes', undefined, `at most ${MOST_AXES}`)
    shape.push(cursor.whole())
    if (cursor.takes(',')) continue
    cursor.expect(')')
    if (shape.length === 1) throw cursor.bad('the shape is no tuple', `(${shape[0]})`, `(${shape[0]},)`)
    break
  }
  return shape
}

class LiteralCursor {
  readonly #text: string
  readonly #file: string
  #at = 0

  constructor(text: string, file: string) {
    this.#text = text
    this.#file = file
  }

  /** Whether this sign is next, which is taken then. */
  takes(sign: string): boolean {
    const token = this.#peek()
    if (token?.[1] !== sign) return false
    this.#at += token[0].length
    return true
  }

  expect(sign: string): void {
    if (!this.takes(sign)) throw this.#wrong(sign)
  }

  text(what: string): string {
    const token = this.#peek()
    const word = token?.[1] ?? ''
    if (token === null || !/^['"]/.test(word)) throw this.#wrong(`${what} in quotes`)
    this.#at += token[0].length
    return word.slice(1, -1)
  }

  bool(): boolean {
    if (this.takes('True')) return true
    if (this.takes('False')) return false
    throw this.#wrong('True or False')
  }

  whole(): number {
    const token = this.#peek()
    const value = Number(token?.[1] || undefined)
    if (token === null || !Number.isSafeInteger(value)) throw this.#wrong('a whole number below 2^53')
    this.#at += token[0].length
    return value
  }

  end(): void {
    SPACES.lastIndex = this.#at
    if (!SPACES.test(this.#text)) throw this.#wrong('spaces only')
  }

  bad(what: string, got?: unknown, wanted?: unknown, code: 'bad-file' | 'unsupported' = 'bad-file'): IngotError {
    return new IngotError(code, `${what} (in the header of ${this.#file})`, { op: 'npy', got, wanted })
  }

  #peek(): RegExpExecArray | null {
    TOKEN.lastIndex = this.#at
    return TOKEN.exec(this.#text)
  }

  #wrong(wanted: string): IngotError {
    return this.bad(`wrong at character ${this.#at}`, quoted(this.#text.slice(this.#at, this.#at + 20)), wanted)
  }
}
