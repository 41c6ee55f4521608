// Texts with choices in them. `[a|b|]` is one of its parts, which may have choices themselves; `{name}` is a value; `<name>` is one of the
// lines of a macro. Afterwards, sentences begin with capitals, and `a` is `an` before a vowel.

/** @typedef {import('./random.js').Choice} Choice */
/** @typedef {(name: string) => string} Values */
/** @typedef {ReadonlyMap<string, readonly string[]>} Macros */

/** @param {string} text @param {{ choice: Choice, values: Values, macros: Macros }} context @returns {string} */
export function spin(text, context) {
  return polish(expand(text, context))
}

/** @param {string} text @param {{ choice: Choice, values: Values, macros: Macros }} context @returns {string} */
function expand(text, context) {
  const { choice, values, macros } = context
  let out = ''
  for (let i = 0; i < text.length; i++) {
    const c = text[i]
    if (c === '[') {
      const { parts, end } = readParts(text, i)
      out += expand(choice.pick(parts), context)
      i = end
    } else if (c === '{') {
      const end = text.indexOf('}', i)
      out += values(text.slice(i + 1, end))
      i = end
    } else if (c === '<') {
      const end = text.indexOf('>', i)
      const name = text.slice(i + 1, end)
      const lines = macros.get(name)
      if (lines === undefined) throw new Error(`no macro ${name} in: ${text}`)
      out += expand(choice.pick(lines), context)
      i = end
    } else out += c
  }
  return out
}

/** The parts between a bracket and its partner. @param {string} text @param {number} from */
function readParts(text, from) {
  const parts = []
  let depth = 0
  let begin = from + 1
  for (let i = from; i < text.length; i++) {
    const c = text[i]
    if (c === '[') depth++
    else if (c === '|' && depth === 1) {
      parts.push(text.slice(begin, i))
      begin = i + 1
    } else if (c === ']' && --depth === 0) return { parts: [...parts, text.slice(begin, i)], end: i }
  }
  throw new Error(`a bracket is open in: ${text}`)
}

/** @param {string} text */
function polish(text) {
  return text
    .replace(/ +/g, ' ')
    .replace(/ ([.,!?])/g, '$1')
    .replace(/\b([Aa]) (?=[aeiou])/g, '$1n ')
    .replace(/(^|[.!?]\s+|\n)("?)([a-z])/g, (_, before, quote, letter) => `${before}${quote}${letter.toUpperCase()}`)
    .trim()
}

/**
 * Blocks of lines, apart by an empty line; a line that begins with two spaces goes on with the one before, and `#` begins a remark.
 * @param {string} text
 */
export function readBlocks(text) {
  return text
    .replace(/^#.*\n/gm, '')
    .replace(/\n {2,}/g, ' ')
    .split(/\n{2,}/)
    .map((block) => block.split('\n').filter((line) => line !== ''))
    .filter((block) => block.length > 0)
}
