// Long statements on several lines: broken before an operator or after a comma, where the parentheses are least deep. Knows no
// language but that text in brackets belongs together; lines that begin with `#` are left alone.

const COLUMNS = 116
/** an index is not broken if anything else can be */
const INDEX = 100
const OPERATORS = [' + ', ' - ', ' * ', ' | ', ' && ', ' || ', ' ? ', ' : ']

/** The lines of a statement, indented by `indent` columns; the second and later ones by four more. */
export function wrap(statement: string, indent: number): string[] {
  const lines: string[] = []
  let rest = statement
  let lead = ' '.repeat(indent)
  while (lead.length + rest.length > COLUMNS && !rest.startsWith('#')) {
    const at = breakOf(rest, COLUMNS - lead.length)
    if (at === undefined) break
    lines.push(lead + rest.slice(0, at).trimEnd())
    rest = rest.slice(at).trimStart()
    lead = ' '.repeat(indent + 4)
  }
  lines.push(rest === '' ? '' : lead + rest)
  return lines
}

/** The best place to break before column `most`: least deep, then latest; after an equals sign if all else is inside parentheses. */
function breakOf(text: string, most: number): number | undefined {
  let depth = 0
  let best: { at: number; depth: number } | undefined
  for (let at = 0; at < Math.min(most, text.length); at++) {
    const char = text.charAt(at)
    if (char === '(' || char === '{') depth++
    else if (char === ')' || char === '}') depth--
    else if (char === '[') depth += INDEX
    else if (char === ']') depth -= INDEX
    const comma = char === ',' && text[at + 1] === ' '
    const equals = depth === 0 && text.startsWith(' = ', at)
    if (!comma && !equals && !OPERATORS.some((operator) => text.startsWith(operator, at))) continue
    const rank = depth + (equals ? 0.5 : text.startsWith(' * ', at) ? 0.4 : 0)
    if ((equals || at > most / 3) && (best === undefined || rank <= best.depth))
      best = { at: comma ? at + 1 : equals ? at + 2 : at, depth: rank }
  }
  return best?.at
}
