// The methods of tensors as their source says them: name, parameters, and the comment above. Knows how the files of src/tensor/method are
// written (formatted by oxfmt, two spaces for members), not what methods do.

/** @typedef {{ name: string, parameters: string[], result: string, comment: string }} Method */

const START = /^ {2}(\w+)\((.*)$/
const KEYWORDS = new Set(['constructor', 'if', 'for', 'return', 'while', 'switch'])

/**
 * Every public method of a class in this text, in order.
 * @param {string} text
 * @returns {Method[]}
 */
export function readMethods(text) {
  const lines = text.slice(text.indexOf('abstract class')).split('\n')
  return lines.flatMap((line, at) => {
    const [, name = ''] = START.exec(line) ?? []
    if (name === '' || KEYWORDS.has(name)) return []
    const end = lines.findIndex((each, i) => i >= at && each.endsWith('{') && /^ {2}\S.*\): |^ {2}\): /.test(each))
    const head = lines
      .slice(at, end + 1)
      .map((each) => each.trim())
      .join(' ')
    const close = head.lastIndexOf('): ')
    const parameters = splitTop(head.slice(name.length + 1, close)).map((each) => shortParameter(each, text))
    return [{ name, parameters, result: plainType(head.slice(close + 3, -2)), comment: commentBefore(lines, at) }]
  })
}

/**
 * A parameter without its type: `axis = -1`, `keep?`, `...sizes`; of options their names, `{ mode, value }?`.
 * @param {string} parameter
 * @param {string} text the file, which may say what options there are
 */
function shortParameter(parameter, text) {
  const isOptional = parameter.endsWith('= {}')
  const list = optionNames(parameter.replace(/^\w+\??: /, ''), text)
  if (list.length > 0) return `{ ${list.join(', ')} }${isOptional || /^\w+\?: /.test(parameter) ? '?' : ''}`
  const [, name = parameter, optional = '', rest = ''] = /^((?:\.\.\.)?\w+)(\?)?(.*)$/s.exec(parameter) ?? []
  const value = / = ([^=>]+)$/.exec(rest)?.[1]
  if (value === undefined) return name + optional
  return isOptional ? `${name}?` : `${name} = ${value}`
}

/**
 * The names of options: of a pattern, of a type that is written out, of interfaces in the same file, or of several of these (`A & B`).
 * @param {string} type
 * @param {string} text
 * @returns {string[]}
 */
function optionNames(type, text) {
  const pattern = /^\{(.*?)\}: (.*)$/s.exec(type)
  if (pattern) return optionNames(pattern[2] ?? '', text)
  return splitTop(type.replace(/ = \{\}$/, ''), '&').flatMap((part) => {
    if (part.startsWith('{')) return memberNames(part)
    const [, name = ''] = /^(\w+Options|CellWeights)\b/.exec(part) ?? []
    const [, base = '', body = ''] = new RegExp(`interface ${name}(?:<\\w+>)?(?: extends ([\\w<>]+))? (\\{.*?^\\})`, 'ms').exec(text) ?? []
    return name === '' ? [] : [...optionNames(base, text), ...memberNames(body)]
  })
}

/**
 * @param {string} body `{ a?: number; b: string }`
 */
function memberNames(body) {
  const plain = body.replaceAll(/\/\*.*?\*\//gs, '')
  return splitTop(plain.slice(1, -1).replaceAll('\n', ';'), ';').flatMap((each) => /^(?:readonly )?(\w+)\??:/.exec(each)?.[1] ?? [])
}

/** @param {string} type */
const plainType = (type) => type.replaceAll(/\bthis\b/g, 'Tensor')

/**
 * The parts of a text between commas, or something else, that no bracket holds.
 * @param {string} text
 */
function splitTop(text, separator = ',') {
  /** @type {string[]} */
  const parts = ['']
  let depth = 0
  for (const char of text) {
    depth += '({[<'.includes(char) ? 1 : ')}]>'.includes(char) ? -1 : 0
    if (char === separator && depth === 0) parts.push('')
    else parts[parts.length - 1] += char
  }
  return parts.map((part) => part.trim()).filter((part) => part !== '')
}

/**
 * What the comment above a line says, as one line.
 * @param {readonly string[]} lines
 * @param {number} at
 */
function commentBefore(lines, at) {
  if (!lines[at - 1]?.trimEnd().endsWith('*/')) return ''
  let first = at - 1
  while (!lines[first]?.trimStart().startsWith('/**')) first--
  return lines
    .slice(first, at)
    .map((line) => line.replaceAll(/^\s*\/?\*+\/?|\*\/\s*$/g, '').trim())
    .filter((line) => line !== '')
    .join(' ')
}
