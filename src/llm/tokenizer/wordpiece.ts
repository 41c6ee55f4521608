// WordPiece ('bert'): text is cleaned, cut into words and marks, and each word is covered by the longest tokens from the
// left; a word that cannot be covered is the unknown token. Inside, a token that begins a word carries a leading U+2581
// and one that continues it carries nothing; files that write '##' for continuations are converted on reading.

import { SPACE } from './spm.ts'
import { Trie } from './trie.ts'
import { isSpecialType, type Vocabulary } from './vocabulary.ts'

const CJK =
  '\\u4e00-\\u9fff\\u3400-\\u4dbf\\u{20000}-\\u{2a6df}\\u{2a700}-\\u{2b73f}\\u{2b740}-\\u{2b81f}\\u{2b920}-\\u{2ceaf}' +
  '\\uf900-\\ufaff\\u{2f800}-\\u{2fa1f}'
/** all printable ASCII that is neither letter nor digit counts as punctuation */
const MARK = `\\p{P}!-\\/:-@\\[-\`\\{-~${CJK}`
const WORD = new RegExp(`[${MARK}]|[^\\p{White_Space}${MARK}]+`, 'gu')
/** control and format characters that are not white space, and the replacement character */
const NOISE = /(?!\p{White_Space})[\p{Cc}\p{Cf}\p{Co}\p{Cn}\ufffd]/gu
const MOST_REMEMBERED = 1 << 16
const LONGEST_REMEMBERED = 32

export interface WordPieceOptions {
  /** lower-case and strip accents */
  readonly lowercase: boolean
}

export class WordPieceModel {
  readonly #begin = new Trie()
  readonly #continue = new Trie()
  readonly #unknown: number | undefined
  readonly #lowercase: boolean
  readonly #remembered = new Map<string, readonly number[]>()

  constructor({ texts, types, unknown }: Vocabulary, { lowercase }: WordPieceOptions) {
    this.#unknown = unknown
    this.#lowercase = lowercase
    texts.forEach((text, id) => {
      if (isSpecialType(types[id])) return
      if (text.startsWith(SPACE)) this.#begin.add(text.slice(SPACE.length), id)
      else this.#continue.add(text, id)
    })
  }

  encode(text: string, ids: number[]): void {
    for (const word of normalize(text, this.#lowercase).match(WORD) ?? []) {
      const known = this.#remembered.get(word)
      if (known === undefined) this.#encodeWord(word, ids)
      else for (const id of known) ids.push(id)
    }
  }

  #encodeWord(word: string, ids: number[]): void {
    const from = ids.length
    let at = 0
    while (at < word.length) {
      const trie = at === 0 ? this.#begin : this.#continue
      const id = trie.longest(word, at)
      if (id < 0) break
      ids.push(id)
      at += trie.matched
    }
    if (at < word.length) {
      ids.length = from
      if (this.#unknown !== undefined) ids.push(this.#unknown)
    }
    if (word.length > LONGEST_REMEMBERED) return
    if (this.#remembered.size >= MOST_REMEMBERED) this.#remembered.clear()
    this.#remembered.set(word, ids.slice(from))
  }
}

/** Tokens in the form with U+2581, whichever form the file has. */
export function unifyWordPieces(texts: readonly string[], isSpecial: (id: number) => boolean): readonly string[] {
  if (texts.some((text) => text.length > 1 && text.startsWith(SPACE))) return texts
  return texts.map((text, id) => {
    if (isSpecial(id)) return text
    return text.startsWith('##') && text.length > 2 ? text.slice(2) : SPACE + text
  })
}

function normalize(text: string, lowercase: boolean): string {
  const clean = text.replace(NOISE, '')
  if (!lowercase) return clean
  // a final sigma must not depend on its neighbours: characters are lowered one by one
  return clean
    .normalize('NFD')
    .replace(/\p{Mn}/gu, '')
    .replaceAll('\u03a3', '\u03c3')
    .toLowerCase()
}
