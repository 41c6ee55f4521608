// Generated parts of a page, between two comments that nobody sees: `<!-- operations -->` and `<!-- /operations -->`.

/**
 * The text with something else between its markers.
 * @param {string} text
 * @param {string} name
 * @param {string} part
 */
export function replaceBetween(text, name, part) {
  const { from, to } = find(text, name)
  return `${text.slice(0, from)}\n\n${part}\n\n${text.slice(to)}`
}

/**
 * What stands between the markers.
 * @param {string} text
 * @param {string} name
 */
export function between(text, name) {
  const { from, to } = find(text, name)
  return text.slice(from, to).trim()
}

/**
 * @param {string} text
 * @param {string} name
 */
function find(text, name) {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const [from, to] = [text.indexOf(open), text.indexOf(close)]
  if (from < 0 || to < from) throw new Error(`no ${open} with ${close} after it`)
  return { from: from + open.length, to }
}
