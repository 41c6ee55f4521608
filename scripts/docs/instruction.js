// The generated parts of docs/atlas.md: every instruction as its record has it, and its first program as a kernel of Metal. Gets the
// library from its caller, built or not, and writes nothing.

const GROUPS = {
  data: 'Data',
  arithmetic: 'Arithmetic',
  logic: 'Logic',
  control: 'Control',
  sync: 'Waiting',
  class: 'Classes',
  reduction: 'Over registers',
  function: 'Functions',
  pool: 'Pools',
}

/**
 * The tables as Markdown.
 * @param {Record<string, any>} instructions the records by name
 */
export function instructionTables(instructions) {
  const parts = Object.entries(GROUPS).map(([group, title]) => {
    const rows = Object.entries(instructions)
      .filter(([, record]) => record.group === group)
      .map(([name, record]) => `| \`${textOf(name, record.operands)}\` | ${typesOf(record.operands)} | ${record.about} |`)
    return [`**${title}** (${rows.length})`, '', '| text | types | what it does |', '|---|---|---|', ...rows].join('\n')
  })
  return parts.join('\n\n')
}

/**
 * @param {string} name
 * @param {any[]} operands
 */
function textOf(name, operands) {
  const at = { name: '', suffix: '', list: /** @type {string[]} */ ([]) }
  for (const { kind, name: operand, optional } of operands) {
    if (kind === 'condition') at.name += operand
    else if (kind === 'type' || kind === 'scope') at.suffix += `.${operand}`
    else if (kind === 'address') at.list.push(`[${operand}]`)
    else if (kind === 'label') at.list.push(`@${operand}`)
    else at.list.push(optional ? `${operand}?` : operand)
  }
  return `${name.toLowerCase()}${at.name}${at.suffix} ${at.list.join(', ')}`.trim()
}

/** @param {any[]} operands */
function typesOf(operands) {
  const fixed = operands.flatMap(({ kind, name, type }) => (kind === 'register' && !/ty$/i.test(type) ? [`${name}: ${type}`] : []))
  const chosen = operands.find(({ kind }) => kind === 'type')?.types ?? []
  const short =
    chosen.length === 12
      ? 'all'
      : chosen.length === 8
        ? 'integers'
        : chosen.length === 4 && chosen[0] === 'f16'
          ? 'floats'
          : chosen.join(' ')
  return [short, ...fixed].filter((text) => text !== '').join('; ')
}

/**
 * The first program of the page, compiled without checks.
 * @param {string} page
 * @param {any} atlas what `ingot/atlas` exports
 * @param {(target: string, kernels: readonly any[]) => string} emitSource
 */
export function metalSource(page, { parseProgram, compileProgram }, emitSource) {
  const text = /parseProgram\(`(.*?)`\)/s.exec(page)?.[1] ?? ''
  const { kernel } = compileProgram(parseProgram(text), { block: [64] }, { checks: false })
  return `\`\`\`cpp\n${emitSource('msl', [kernel]).trimEnd()}\n\`\`\``
}
